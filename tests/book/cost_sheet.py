"""The tables of the cost sheet, and what their formulas are worth."""

import re
from fractions import Fraction
from types import SimpleNamespace

from torch.utils.flop_counter import flop_registry

from attn.profiling.live_memory import Mode
from tests.book.pages import ROOT

SIZES = {  # no two products that the page has are alike
    "B": 2, "L": 5, "S": 11, "H": 6, "Hkv": 2, "D": 8, "E": 40, "F": 84,
    "V": 97, "N": 3, "W": 4, "M": 7, "R": 26, "n": 10, "r": 9, "v": 14,
}  # fmt: skip
x = SimpleNamespace(**SIZES)


def sections():
    """The rows of each heading's tables, cells stripped; heads are left."""
    page = (ROOT / "book" / "costs.md").read_text("utf-8")
    rows_of = {}
    for section in page.split("\n## ")[1:]:
        heading, _, body = section.partition("\n")
        for table in re.findall(r"(?:^\|.*\n)+", body, re.M):
            _, rule, *rows = table.strip().split("\n")
            assert set(rule) <= set("|-")
            for row in rows:
                label, *cells = (c.strip() for c in row.strip("|").split("|"))
                assert label not in rows_of.setdefault(heading, {})
                rows_of[heading][label] = cells
    return rows_of


PAGE = sections()


def formulas(heading, start):
    """The formulas of the line that begins so, the label's left out."""
    (cells,) = (y for label, y in PAGE[heading].items() if start in label)
    return [tex for c in cells for tex in re.findall(r"\$(.+?)\$", c)]


def value(tex, **sizes):
    """The value of a formula; letters side by side are multiplied."""
    code = tex.replace("H_{kv}", "K").replace(r"\min", "@").replace(" ", "")
    code = re.sub(r"\^\{([^{}]*)\}", r"^(\1)", code)
    code = re.sub(r"\\frac\{([^{}]*)\}\{([^{}]*)\}", r"((\1)/(\2))", code)
    code = re.sub(r"(?<=[\w)])(?=[A-Za-z(@])", "*", code)
    code = code.replace("^", "**").replace("@", "min")
    sizes = SIZES | {"b": 2} | sizes
    sizes |= {"K": sizes["Hkv"], "G": Fraction(sizes["H"], sizes["Hkv"])}
    names = {k: Fraction(v) for k, v in sizes.items()}
    return eval(code, {"__builtins__": {"min": min}}, names)


def values(heading, start, **sizes):
    return [value(tex, **sizes) for tex in formulas(heading, start)]


class Products(Mode):
    """Count matrix products by PyTorch's own formulas."""

    total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if formula := flop_registry.get(func._overloadpacket):
            self.total += formula(*args, out_val=out)
        return out
