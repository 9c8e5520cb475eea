"""Say matplotlib's SVG in a fifth of the length, in the book's colours.

Text stays text, in the font of the page. Each colour becomes a CSS variable
of ``book/_static/figures.css``, so that both themes have their own value; the
cells of a heat map are a share of one colour.
"""

from __future__ import annotations

import re
from itertools import groupby
from operator import itemgetter
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from matplotlib.colors import to_hex

from attn.plot import looks, paths
from attn.plot.looks import GREY, INK, LEVELS, MAP

_NAMES = ("blue", "orange", "green", "purple", "gold", "grey", "ink", "paper")
#: The CSS variables, by the colour in the PNG.
VARIABLES = {
    getattr(looks, name.upper()): f"var(--figure-{name})" for name in _NAMES
}
SHARES = {to_hex(MAP(n)): n / (LEVELS - 1) for n in range(1, LEVELS)}
PIXELS = 100 / 72  # on the page, for a point
_LINES = {"stroke-width": "1", "stroke-dasharray": "none"}
_ALPHAS = dict.fromkeys(("opacity", "fill-opacity", "stroke-opacity"), "1")
_HATCH = (
    '<pattern id="hatch" patternUnits="userSpaceOnUse" width="3.4" '
    'height="3.4" patternTransform="rotate(45)"><path d="M1 0V4" '
    f'stroke="{VARIABLES[GREY]}" stroke-width=".7"/></pattern>'
)


def rewritten(source: str) -> str:
    """Return a figure that matplotlib saved as SVG as one short element.

    Raises:
        ValueError: a colour is none of ``attn.plot``, or a text is a formula.
    """
    source = re.sub(r"<metadata>.*?</metadata>", "", source, flags=re.S)
    source = re.sub(r' xmlns(:xlink)?="[^"]*"|xlink:', "", source)
    return _Rewriter(ElementTree.fromstring(source)).text()


class _Rewriter:
    """Collect what a walk over the elements of a figure finds."""

    def __init__(self, root: ElementTree.Element) -> None:
        self.root = root
        self.markers = {
            path.get("id"): path.get("d", "")
            for path in root.iterfind(".//defs/path")
        }
        self.clips = {
            f"url(#{clip.get('id')})": _box(clip[0])
            for clip in root.iterfind(".//clipPath")
            if clip[0].tag == "rect"
        }
        self.definitions: dict[str, str] = {}
        self.images: list[str] = []
        self.shapes: list[tuple[str, str, str]] = []  # attributes, share, path
        self.words: list[tuple[str, str]] = []  # attributes, element

    def text(self) -> str:
        """Return the whole figure, one SVG element a line."""
        self._walk(self.root, "")
        box = paths.floats(self.root.get("viewBox", ""))
        width, height = (round(x * PIXELS) for x in box[2:])
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
            f'height="{height}" viewBox="{paths.numbers(box)}" fill="none" '
            'font-size="10" stroke-linejoin="round">'
        ]
        if self.definitions:
            lines += ["<defs>", *self.definitions.values(), "</defs>"]
        lines += self.images
        for attributes, group in groupby(self.shapes, itemgetter(0)):
            lines.append(f"<g{attributes}>")
            for share, same in groupby(group, itemgetter(1)):
                path = "".join(path for *_, path in same)
                lines.append(f'<path{share} d="{path}"/>')
            lines.append("</g>")
        for attributes, texts in groupby(sorted(self.words), itemgetter(0)):
            words = (element for _, element in texts)
            lines += [f"<g{attributes}>", *words, "</g>"]
        return "\n".join([*lines, "</svg>"]) + "\n"

    def _walk(self, node: ElementTree.Element, clip: str) -> None:
        for child in node:
            inside = child.get("clip-path", clip)
            if child.tag == "path":
                self._shape(child, paths.read(child.get("d", "")), inside)
            elif child.tag == "use":
                at = float(child.get("x", 0)), float(child.get("y", 0))
                marker = self.markers[child.get("href", "")[1:]]
                self._shape(child, paths.read(marker, *at), inside)
            elif child.tag == "text":
                self._word(child)
            elif child.tag == "image":
                self.images.append(ElementTree.tostring(child, "unicode"))
            elif child.tag != "defs":
                self._walk(child, inside)

    def _shape(self, node: Any, commands: paths.Commands, clip: str) -> None:
        look = {"fill": INK, **_declarations(node)}
        wanted: dict[str, str] = {}
        share = ""
        for side in ("fill", "stroke"):
            color = look.get(side, "none")
            if color.startswith("url("):
                self.definitions["hatch"] = _HATCH
                wanted[side] = "url(#hatch)"
            elif side == "fill" and color in SHARES:
                wanted[side] = "var(--figure-heat)"
                share = f' opacity="{paths.short(SHARES[color], 2)}"'
                wanted["shape-rendering"] = "crispEdges"
            elif color != "none":
                wanted[side] = _variable(color)
        if not {"fill", "stroke"} & set(wanted):
            return
        for name, default in (_LINES if "stroke" in wanted else {}).items():
            if look.get(name, default) != default:
                wanted[name] = paths.numbers(paths.floats(look[name]))
        for name, default in _ALPHAS.items():
            if look.get(name, default) != default:
                wanted[name] = look[name]
        path = paths.write(commands)
        if clip in self.clips and paths.leaves(commands, self.clips[clip]):
            cut = paths.cut(commands, self.clips[clip])
            path = cut or path
            if not cut:
                wanted["clip-path"] = self._clip(clip)
        self.shapes.append((_attributes(wanted), share, path))

    def _clip(self, clip: str) -> str:
        name = f"clip{list(self.clips).index(clip)}"
        path = f'<path d="{paths.sides(self.clips[clip])}"/>'
        self.definitions[name] = f'<clipPath id="{name}">{path}</clipPath>'
        return f"url(#{name})"

    def _word(self, node: ElementTree.Element) -> None:
        if node.find("tspan") is not None:
            words = "".join(node.itertext()).split()
            raise ValueError(
                f"text must be no formula; got {' '.join(words)}: write it in "
                "Unicode"
            )
        look = {"fill": INK, **_declarations(node)}
        grey = look["fill"] == GREY  # in the colour of the page's text
        wanted = {"fill": "currentColor" if grey else _variable(look["fill"])}
        size = paths.floats(look.get("font-size", "10"))[0]
        if size != 10:
            wanted["font-size"] = paths.short(size)
        if look.get("font-weight", "400") not in ("400", "normal"):
            wanted["font-weight"] = "bold"
        if look.get("text-anchor", "start") != "start":
            wanted["text-anchor"] = look["text-anchor"]
        place = {k: node.get(k) for k in ("x", "y") if node.get(k)}
        at = {k: paths.short(float(v or 0)) for k, v in place.items()}
        turn = node.get("transform", "")
        if turn and not re.match(r"rotate\(-?0 ", turn):
            at["transform"] = paths.NUMBER.sub(
                lambda n: paths.short(float(n[0])), turn
            )
        text = re.sub(r"^ +| +$", _kept, node.text or "")
        element = f"<text{_attributes(at)}>{escape(text)}</text>"
        self.words.append((_attributes(wanted), element))


def _kept(blanks: re.Match[str]) -> str:
    """Return blanks that HTML keeps at the edge of a text."""
    return "\N{NO-BREAK SPACE}" * len(blanks[0])


def _box(rect: ElementTree.Element) -> paths.Box:
    x, y = float(rect.get("x", 0)), float(rect.get("y", 0))
    right = x + float(rect.get("width", 0))
    return x, y, right, y + float(rect.get("height", 0))


def _variable(color: str) -> str:
    if color not in VARIABLES:
        raise ValueError(
            f"colors of a figure must be those of attn.plot; got {color!r}: "
            "use BLUE, ORANGE, GREEN, PURPLE, GOLD or GREY, and PAPER or INK "
            "on top of them"
        )
    return VARIABLES[color]


def _declarations(node: ElementTree.Element) -> dict[str, str]:
    pairs = (x.partition(":") for x in node.get("style", "").split(";") if x)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _attributes(values: dict[str, str]) -> str:
    return "".join(f' {name}="{value}"' for name, value in values.items())
