"""Read the paths of an SVG, and write them short: in tenths of a point."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: Letters of a path, each with its points.
Commands = list[tuple[str, list[tuple[float, float]]]]
Box = tuple[float, float, float, float]  # left, top, right, bottom
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


def read(d: str, dx: float = 0, dy: float = 0) -> Commands:
    """Return the commands of a path, moved by ``dx`` and ``dy``."""
    found = []
    for letter, rest in re.findall(r"([MLCQz])([^MLCQz]*)", d):
        each = floats(rest)
        points = zip(each[::2], each[1::2], strict=True)
        found.append((letter, [(x + dx, y + dy) for x, y in points]))
    return found


def write(commands: Commands) -> str:
    """Return a path in its shortest form; cells side by side become one."""
    letters = "".join(letter for letter, _ in commands)
    if letters == "M" + "C" * 8 + "z":  # matplotlib's circle
        return _circle(*_extent(commands))
    text, before = "", None
    for part in re.findall(r"M[^M]*", letters):
        here, commands = commands[: len(part)], commands[len(part) :]
        box = _rectangle(here)
        if box and before and (box[0], box[1::2]) == (before[2], before[1::2]):
            before = (*before[:2], *box[2:])
            continue
        text += sides(before) if before else ""
        text += "" if box else _lines(here)
        before = box
    return text + (sides(before) if before else "")


def _lines(commands: Commands) -> str:
    text, before = "", ""
    for letter, points in commands:
        same = letter == before or before + letter == "ML"
        each = numbers(x for point in points for x in point)
        blank = " " if same and not each.startswith("-") else ""
        text += ("" if same else letter) + blank + each
        before = letter
    return text


def leaves(commands: Commands, box: Box) -> bool:
    """Return whether a path leaves a box by more than its own width."""
    left, top, right, bottom = _extent(commands)
    inside = left >= box[0] - 1 and top >= box[1] - 1
    return not (inside and right <= box[2] + 1 and bottom <= box[3] + 1)


def cut(commands: Commands, box: Box) -> str:
    """Return the part of a rectangle inside a box; nothing for other paths."""
    found = _rectangle(commands)
    if not found:
        return ""
    left, top = max(found[0], box[0]), max(found[1], box[1])
    return sides((left, top, min(found[2], box[2]), min(found[3], box[3])))


def _rectangle(commands: Commands) -> Box | None:
    """Return the sides of a path that is an upright rectangle."""
    letters = "".join(letter for letter, _ in commands)
    points = [point for _, each in commands for point in each]
    if not re.fullmatch("MLLLL?z", letters) or len(set(points)) != 4:
        return None
    xs, ys = ({round(point[i], 2) for point in points} for i in (0, 1))
    if len(xs) != 2 or len(ys) != 2:
        return None
    return min(xs), min(ys), max(xs), max(ys)


def sides(box: Box) -> str:
    """Return the path of a rectangle."""
    left, top, right, bottom = map(short, box)
    return f"M{left} {top}H{right}V{bottom}H{left}z".replace(" -", "-")


def _circle(left: float, top: float, right: float, bottom: float) -> str:
    across = round(right - left, 1)  # the radius is half of it, exactly
    start = numbers([left, (top + bottom) / 2])
    arc = f"a{short(across / 2, 2)} {short(across / 2, 2)} 0 0 1"
    return f"M{start}{arc} {short(across)} 0{arc}-{short(across)} 0z"


def _extent(commands: Commands) -> Box:
    xs, ys = zip(
        *(point for _, each in commands for point in each), strict=True
    )
    return min(xs), min(ys), max(xs), max(ys)


def floats(text: str) -> list[float]:
    """Return the numbers of a text."""
    return [float(number) for number in NUMBER.findall(text)]


def numbers(values: Iterable[float]) -> str:
    """Return numbers as one text."""
    return " ".join(map(short, values)).replace(" -", "-")


def short(x: float, digits: int = 1) -> str:
    """Return a number in few characters: ``.5``, ``-12``."""
    text = f"{x:.{digits}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return re.sub(r"^(-?)0\.", r"\1.", "0" if text == "-0" else text)
