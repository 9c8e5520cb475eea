"""Break a text into lines, as they are printed, and mark the code in it."""

import re
import textwrap

CODE = re.compile(
    r"""(?<![\w.&#'’`])(?!(?:e\.g|i\.e)\b)(?:
        [A-Za-z_][\w.]*\((?!s\))(?:[^()`\n]|\([^()`\n]*\))*\)  # exp(a - m)
      | \w+(?:\.[A-Za-z_]\w*)+(?<!\d)(?<!\.com)  # x.shape
      | [A-Za-z]\w*_\w*
      | [A-Za-z]\w*=[-.'"\w]*\w
      | (?<!\w\()[b-zB-HJ-Z](?![-.]?\w|['’+#])
      | (?:amax|amin|argmax|cumsum|dim|dtype|einsum|exp|keepdim|logsumexp
        |sqrt|tanh|tril|triu|unsqueeze)\b
    )""",
    re.X,
)
"""Code in a sentence, which needs no marks: calls, and names of variables."""
WIDTH = 79  # columns of a line that is printed
_JOINED = "\N{NO-BREAK SPACE}"  # in code, where no line ends


def marked(text: str) -> str:
    """Put the marks of Markdown around the code in a sentence."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [CODE.sub(r"`\g<0>`", x) for x in parts[::2]]
    return "".join(parts)


def wrapped(text: str, margin: str = "") -> list[str]:
    """Return the lines of a text as they are printed, in 79 columns.

    Args:
        text: lines, each with a margin of its own, which its parts keep.
        margin: of all lines, in addition.
    """
    lines = []

    def joined(code: re.Match[str]) -> str:
        return code[0].replace(" ", _JOINED) if len(code[0]) < 33 else code[0]

    for line in CODE.sub(joined, text).splitlines():
        own = margin + line[: len(line) - len(line.lstrip())]
        lines += textwrap.wrap(
            line.strip(),
            WIDTH,
            initial_indent=own,
            subsequent_indent=own,
            break_on_hyphens=False,
        ) or [""]
    return [x.replace(_JOINED, " ") for x in lines]
