"""Names that reach outside are refused, before or while an answer runs."""

import sys

import pytest
import torch

from attn.grading.sandbox.guarded import Absent, guarded_builtins
from attn.grading.sandbox.policy import Reaches, is_open, look

REFUSED = {
    "a module that torch holds": "torch.os.listdir('/')",
    "sys, through a function's module": "F.torch.sys.modules",
    "the classes of everything": "().__class__.__base__.__subclasses__()",
    "a function's globals": "def f(): pass\nf.__globals__",
    "a generator's frame": "(x for x in [1]).gi_frame.f_back\n__builtins__",
    "the builtins": "__builtins__['open']",
    "an importer": "__import__('os').system('true')",
    "torch's inside": "torch._C._nn",
    "torch's inside, imported": "from torch import _C",
    "torch's inside, by a variable of that name": "_C = 1\ntorch._C",
    "a function of torch, replaced": "torch.equal = lambda *a: True",
    "a method of torch, replaced": "torch.Tensor.equal = None",
    "a module's function, by another name": "import math as m\nm.exp = abs",
    "a function of torch, deleted": "del torch.allclose",
    "replaced in a loop": "for F.softmax in [1]: pass",
    "a mode that sees all": "torch.overrides.TorchFunctionMode",
    "attribute getters": "import operator\noperator.attrgetter('a')",
    "a pattern's attributes": "match torch:\n    case object(_C=c): pass",
    "a special method, defined": "class A:\n    def __reduce__(self): pass",
    "a special name, made one's own": "def __globals__(): pass",
    "annotations, written by hand": "class A: __annotations__ = {'a b': 1}",
    "setattr, as a method": "object.__setattr__(torch, 'equal', abs)",
    "getattr, as a method": "torch.__getattr__('onnx')",
    "a module in a variable called self": (
        "sys = 0\ndef f(self): return self.sys\nf(torch)"
    ),
    "builtins by another name": "import enum\nenum.bltns",
    "sys, in a module that is open": "import datetime\ndatetime.sys.modules",
    "files, in a module that is open": "import json\njson.codecs.open('x')",
    "a pickler's table": "import re\nre.copyreg.dispatch_table",
    "another's special method": "f = print\nf.__need__",
    "getattr in other hands": "import string\nstring.Formatter()",
    "a special method": "def f(x):\n    return x.__reduce__()",
}
ALLOWED = {
    "a class with methods of its own": (
        "class A(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self._scale = 1\n"
        "    def _scores(self): return self._scale\n"
        "    def forward(self, x): return self._scores() * x"
    ),
    "super's __setattr__": (
        "class A(nn.Module):\n    def __setattr__(self, name, value):\n"
        "        super().__setattr__(name, value)"
    ),
    "a private helper": "def _half(x): return x\ndef f(x): return _half(x)",
    "common imports": "import math\nfrom collections import deque\nimport os",
    "the future": "from __future__ import annotations",
    "a mask's attribute": "def f(x):\n    x.requires_grad = False",
    "a config's attribute": "def f(m):\n    m.config.is_causal = False",
    "a callable class": "class A:\n    def __call__(self): return 1",
    "attributes with names of modules": (
        "class A:\n    def __init__(self):\n        self.queue = [1]\n"
        "    def next(self): return self.queue.pop()\nassert A().next() == 1"
    ),
    "a method with a name of torch's": (
        "class A(nn.Module):\n    def _softmax(self, x): return x\n"
        "    def forward(self, x): return self._softmax(x)\n"
        "assert A()(3) == 3"
    ),
    "two underscores": (
        "class _A:\n    __n = 1\n    def __init__(self): self.__x = 2\n"
        "    def __sum(self): return self.__n + self.__x\n"
        "    def sum(self): return self.__sum()\nassert _A().sum() == 3"
    ),
    "a version": "assert torch.__version__ >= '1'",
    "TorchScript's constants": "class A:\n    __constants__ = ['n']",
    "its own name": "def f(): return f.__name__ + type(f).__name__",
}


@pytest.mark.parametrize("source", REFUSED.values(), ids=REFUSED)
def test_source_that_reaches_outside_is_refused(source):
    with pytest.raises(Reaches, match=r"\(line \d+\)"):
        look(source, "<answer>")


@pytest.mark.parametrize("source", ALLOWED.values(), ids=ALLOWED)
def test_source_that_an_answer_needs_is_allowed(source):
    space = {"torch": torch, "nn": torch.nn, "__name__": "answer"}
    space["__builtins__"] = guarded_builtins(space, "answer")
    exec(compile(look(source, "<answer>"), "<answer>", "exec"), space)


BY_PIECES = {
    "a name put together": "getattr(torch, 'o' + 's')",
    "torch's inside": "getattr(torch, '_' + 'C')",
    "a special name": "getattr((), '__cl' + 'ass__').mro()\n"
    "getattr(int, '__subcl' + 'asses__')",
    "replaced by setattr": "setattr(torch, 'equal', abs)",
    "deleted by delattr": "delattr(torch.Tensor, 'equal')",
    "a module's table": "vars(torch)",
    "a private name of its own, of something else": (
        "class A:\n    def f(self): return self._dynamo\n    _dynamo = 1\n"
        "A.f(torch)"
    ),
    "the importer": "vars()['__builtins__']",
    "its own globals": "globals()['__builtins__']",
    "eval": "eval('1')",
    "exec": "exec('x = 1')",
    "open": "open('/etc/passwd')",
    "compile": "compile('1', 'x', 'eval')",
    "a closed module is used": "import os\nos.getcwd()",
    "a closed module's function": "from os import system\nsystem('')",
    "a closed part of torch": "import torch.hub as hub\nhub.load()",
    "a module, by the name of an attribute": (
        "class A:\n    def __init__(self): self.os = 1\n"
        "    def f(self): return self.os\nA.f(torch)"
    ),
    "a private method of a tensor's, by one's own name": (
        "class A(torch.Tensor):\n    def f(self): return self._values\n"
        "class B:\n    def _values(self): pass\nA.f(A())"
    ),
    "torch's inside, mangled": (
        "class _:\n    def __C(self): pass\n"
        "    def f(self): return self.__C\n_.f(torch)"
    ),
    "sys, put together": "import datetime\ngetattr(datetime, 'sy' + 's')",
    "the inside of what does nothing": "import logging\nlogging._over",
    "the inside of a namespace": (
        "from types import SimpleNamespace\n"
        "getattr(SimpleNamespace(), '__di' + 'ct__')"
    ),
    "code, built": "from types import CodeType\nCodeType()",
    "a part of torch, by name": "getattr(torch, 'f' + 'x')",
}


@pytest.mark.parametrize("source", BY_PIECES.values(), ids=BY_PIECES)
def test_names_put_together_at_run_time_are_refused(source):
    space = {"torch": torch, "__name__": "answer"}
    space["__builtins__"] = guarded_builtins({}, "answer")
    with pytest.raises(Reaches):
        exec(compile(look(source, "<answer>"), "<answer>", "exec"), space)


def test_an_unused_import_is_allowed():
    space = {"__builtins__": guarded_builtins({"apply_rope": abs}, "answer")}
    exec("import os\nimport matplotlib.pyplot as plt", space)
    assert isinstance(space["os"], Absent)
    exec("from attn import apply_rope", space)
    assert space["apply_rope"] is abs, "the task gives it"


def test_numbers_outside_tensors_are_refused_where_memory_is_measured():
    for source in ("import numpy as np", "def f(x): return x.numpy()"):
        look(source, "<answer>")
        with pytest.raises(Reaches, match="memory is measured"):
            look(source, "<answer>", tensors_only=True)


def test_a_library_is_open_only_if_the_chapter_imports_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", torch)
    assert is_open("transformers")
    monkeypatch.delitem(sys.modules, "transformers")
    assert not is_open("transformers.models.llama")
