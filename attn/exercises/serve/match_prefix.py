"""Cases and properties of ``serve-match_prefix``."""

from collections.abc import Iterator
from typing import Any

import torch

from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property

Cached = list[tuple[list[int], list[int]]]


def match_prefix(
    cached: Cached, ids: list[int], page_size: int
) -> tuple[list[int], int]:
    """Find each page by all tokens up to its end: the reference."""
    known = {
        tuple(old[: (n + 1) * page_size]): page
        for old, pages in cached
        for n, page in enumerate(pages[: len(old) // page_size])
    }
    pages = []
    for end in range(page_size, len(ids), page_size):
        page = known.get(tuple(ids[:end]))
        if page is None:
            break
        pages.append(page)
    return pages, len(pages) * page_size


# Tokens are letters here: "the cat" shares its first pages with "the dog".
TEXTS = {  # page_size, the new prompt, and earlier ones
    "nothing is cached": [(2, "abcde"), (3, "ab")],
    "nothing fits": [(2, "abcde", "xycde"), (3, "abcdefg", "abxdefg", "q")],
    "the same tokens come in another order": [
        (2, "abcdefg", "bacdefg"),
        (3, "abcdefgh", "abcedfgh"),
    ],
    "one earlier prompt begins like this one": [
        (2, "abcdefg", "abcdxyz"),
        (3, "abcdefghij", "abcdefxy"),
        (1, "abcd", "abxy"),
    ],
    "the first difference is inside a page": [
        (3, "abcdefgh", "abcdxfgh"),
        (4, "abcdefghijk", "abcdefgxijk"),
    ],
    "a page of the earlier prompt is not full": [
        (2, "abcd", "abc"),
        (4, "abcdefghi", "abcdefg"),
        (3, "abcdefghijk", "abcdefgh"),
    ],
    "the prompt is cached whole": [
        (2, "abcd", "abcd"),
        (2, "abcde", "abcde"),
        (3, "abcdef", "abcdefgh"),
        (3, "abc", "abc"),
        (1, "abcdefg", "abcdefg"),
    ],
    "a page has the same tokens after another beginning": [
        (2, "abcdef", "xycdef"),
        (2, "abcdefgh", "abxyefgh"),
        (3, "abcdefghi", "xyzdefuvw", "defabcghi"),
    ],
    "several earlier prompts fit": [
        (2, "abcdefghi", "abx", "abcdefx", "abcdyz"),
        (2, "abcdefghi", "abcdefx", "abcdyz", "uvwx"),
        (3, "abcdefghijkl", "abcxyz", "uvwxyz", "abcdefghi"),
        (2, "abcdefgh", "xy", "abcd", "abcdefgh"),
    ],
    "one prompt goes on where another ended": [
        (2, "abcdefghij", "abcd", "abcdefgh"),
        (3, "abcdefghijk", "abcdefghijklmn", "abc"),
    ],
    "a token occurs again and again": [
        (2, "aaaaaaa", "aaaa", "baaaaa"),
        (3, "aaaaaaaa", "aabaaaaa", "aaaa"),
        (2, "abababab", "ababab"),
    ],
}


def _cases(g: Draw) -> Iterator[Case]:
    def case(when: str, size: int, *texts: list[int]) -> Case:
        """Give the same page to the same beginning, in any order of pages."""
        fresh = torch.randperm(400, generator=g).tolist()
        known: dict[tuple[int, ...], int] = {}
        cached = []
        for old in texts[1:]:
            pages = []
            for end in range(size, len(old) + size, size):
                if end > len(old):  # not full, so it is its own
                    pages.append(fresh.pop())
                    continue
                beginning = tuple(old[:end])
                if beginning not in known:
                    known[beginning] = fresh.pop()
                pages.append(known[beginning])
            cached.append((old, pages))
        return Case(when, (cached, texts[0], size))

    for when, (size, *texts) in entries(TEXTS):
        names = torch.randperm(100, generator=g).tolist()
        numbers = [[names[ord(x) - 97] for x in text] for text in texts]
        yield case(when, size, *numbers)

    when = "many prompts begin with one of two long ones"
    for size in (4, 7):
        heads = torch.randint(0, 50, (2, 60), generator=g).tolist()
        texts = [
            heads[g.between(0, 1)][: g.between(20, 60)]
            + torch.randint(0, 50, (9,), generator=g).tolist()
            for _ in range(9)
        ]
        yield case(when, size, *texts)


def _of_ids(case: Case, out: Any) -> bool:
    return out[1] < len(case.args[1])


def _whole(case: Case, out: Any) -> bool:
    return out[1] % case.args[2] == 0


def _as_many(case: Case, out: Any) -> bool:
    return len(out[0]) * case.args[2] == out[1]


exercise = Exercise(
    id="serve-match_prefix",
    points=2,
    reference=match_prefix,
    cases=_cases,
    returns=("the list of shared pages", "how many tokens they hold"),
    properties=(
        Property(
            "At least the last token of the prompt must be left: something "
            "has to be computed for its logits.",
            _of_ids,
        ),
        Property(
            "Only full pages are shared, so the number of tokens is a "
            "multiple of page_size.",
            _whole,
        ),
        Property(
            "The shared pages hold page_size tokens each, and this is "
            "another number.",
            _as_many,
        ),
    ),
)
