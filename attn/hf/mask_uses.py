"""Find what a function of transformers does with the masks of attention."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import Any

from attn.hf.attention_interface import attn_forward
from attn.hf.call_checks import IGNORED

#: What code does with a dictionary of masks, one for each kind of layer.
_OF_DICTIONARIES = {"copy", "get", "items", "keys", "pop", "update", "values"}
_KEYWORDS = IGNORED | set(inspect.signature(attn_forward).parameters)
#: Functions whose masks come from the caller, (B, S), or are ours to replace.
_NOT_FOLLOWED = {"apply_mask_to_padding_states", "eager_attention_forward"}


def names_in(node: ast.AST) -> set[str]:
    return {
        x.attr if isinstance(x, ast.Attribute) else x.id
        for x in ast.walk(node)
        if isinstance(x, (ast.Attribute, ast.Name))
    }


def mask_parameters(function: ast.FunctionDef) -> list[str]:
    """Return the parameters that are masks, by their names."""
    args = function.args
    names = (x.arg for x in [*args.args, *args.kwonlyargs])
    return [x for x in names if "mask" in x]


class MaskUses(ast.NodeVisitor):
    """Find what a function does with the masks of attention, in words.

    ``masks`` are its variables that hold one: parameters, and what the
    ``create_…_mask`` functions of transformers return.
    """

    def __init__(
        self,
        helpers: dict[str, ast.stmt],
        methods: dict[str, ast.FunctionDef],
        masks: list[str],
    ) -> None:
        self.helpers, self.methods = helpers, methods
        self.masks = set(masks)
        self.interfaces = {"attention_interface"}
        self.uses: list[str] = []
        self.receivers: set[str] = set()

    def is_mask(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Subscript):  # of a dictionary of masks
            return self.is_mask(node.value)
        return isinstance(node, ast.Name) and node.id in self.masks

    def note(self, node: ast.AST, use: str) -> None:
        self.uses.append(f"{use} (line {getattr(node, 'lineno', '?')})")

    def visit(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                self._visit_assignment(targets, value)
            case ast.AnnAssign(target=target, value=value):
                self._visit_assignment([target], value)
            case ast.Attribute(value=x, attr=name) if self.is_mask(x):
                if name not in _OF_DICTIONARIES:
                    self.note(node, f"reads .{name} of its mask")
            case ast.Subscript(value=x, slice=key) if self.is_mask(x):
                if isinstance(key, (ast.Slice, ast.Tuple, ast.UnaryOp)):
                    self.note(node, "indexes its mask")
            case ast.BinOp(left=a, right=b):
                if self.is_mask(a) or self.is_mask(b):
                    self.note(node, "does arithmetic on its mask")
            case ast.UnaryOp(operand=x, op=ast.Invert()) if self.is_mask(x):
                self.note(node, "negates its mask")
            case ast.Compare(left=x, ops=[op, *_]) if self.is_mask(x):
                if not isinstance(op, (ast.Is, ast.IsNot, ast.In)):
                    self.note(node, "compares its mask")
            case ast.Call():
                if _called(node) in self.interfaces:
                    self._visit_interface(node)
                if any(map(self.is_mask, _arguments(node))):
                    self._visit_receiver(node, _called(node))
        self.generic_visit(node)

    def _visit_assignment(self, targets: list[ast.expr], value: Any) -> None:
        names = {x.id for x in targets if isinstance(x, ast.Name)}
        if value is not None and (_makes_mask(value) or self.is_mask(value)):
            self.masks |= names
        if isinstance(value, ast.Call) and _called(value) == "get_interface":
            self.interfaces |= names

    def _visit_interface(self, node: ast.Call) -> None:
        for keyword in node.keywords:
            name, value = keyword.arg, keyword.value
            plain: tuple[type, ...] = (ast.expr,)
            if name in ("is_causal", "sinks", "s_aux"):
                plain = (ast.Attribute, ast.Constant)
            is_known = name is None or name in _KEYWORDS
            if not (is_known and isinstance(value, plain)):
                self.note(node, f"passes {name}= to the attention function")

    def _visit_receiver(self, node: ast.Call, name: str) -> None:
        """Follow a mask into what is called with it."""
        root = node.func
        while isinstance(root, ast.Attribute):
            root = root.value
        owner = root.id if isinstance(root, ast.Name) else ""
        if name == "isinstance" and names_in(node.args[1]) - {"dict"}:
            self.note(node, "checks the type of its mask")
        if owner in ("torch", "F", "nn"):
            self.note(node, f"calls {name} with its mask")
        if owner == "self":
            self.receivers.add(name)
        called = (self.helpers if owner == name else self.methods).get(name)
        is_followed = isinstance(called, ast.FunctionDef) and (
            owner == name or owner == "self"
        )
        if is_followed and name not in _NOT_FOLLOWED:
            assert isinstance(called, ast.FunctionDef)
            inner = MaskUses({}, {}, mask_parameters(called))  # one level
            inner.visit(called)
            self.uses += [f"calls {name}, which {use}" for use in inner.uses]


def _called(node: ast.expr) -> str:
    function = getattr(node, "func", None)
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _makes_mask(node: ast.AST) -> bool:
    return any(
        _called(x).startswith("create_") and "mask" in _called(x)
        for x in ast.walk(node)
        if isinstance(x, ast.Call)
    )


def _arguments(node: ast.Call) -> Iterator[ast.expr]:
    for x in [*node.args, *(k.value for k in node.keywords)]:
        yield from x.elts if isinstance(x, (ast.List, ast.Tuple)) else [x]
