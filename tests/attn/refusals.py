"""Tests of calls that must be refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

BOTH = (TypeError, ValueError)


def refused(
    calls: Mapping[str, Any],
    error: type[Exception] | tuple[type[Exception], ...] = BOTH,
    function: Callable[..., Any] | None = None,
) -> Callable[[str], None]:
    """Return a test that every call raises the error that it is under.

    Args:
        calls: by a pattern for the message, functions without arguments; with
            a ``function``, its keyword arguments.
        error: the class, or classes, of their errors.
        function: what is called with them.
    """

    @pytest.mark.parametrize("message", calls)
    def test(message: str) -> None:
        with pytest.raises(error, match=message):
            if function is None:
                calls[message]()
            else:
                function(**calls[message])

    return test
