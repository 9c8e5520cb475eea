"""Tests of calls that must be refused."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

BOTH = (TypeError, ValueError)


def type_error(message: str) -> Any:
    """Expect a TypeError whose message has this pattern."""
    return pytest.raises(TypeError, match=message)


def value_error(message: str) -> Any:
    """Expect a ValueError whose message has this pattern."""
    return pytest.raises(ValueError, match=message)


def refused(
    calls: Mapping[str, Any] | Sequence[tuple[str, Any]],
    error: type[Exception] | tuple[type[Exception], ...] = BOTH,
    function: Callable[..., Any] | None = None,
) -> Callable[[str], None]:
    """Return a test that every call raises the error that it is under.

    Args:
        calls: by a pattern for the message, or in pairs with it, functions
            without arguments; with a ``function``, its keyword arguments.
        error: the class, or classes, of their errors.
        function: what is called with them.
    """
    pairs = calls.items() if isinstance(calls, Mapping) else calls

    @pytest.mark.parametrize("message,call", pairs, ids=[x for x, _ in pairs])
    def test(message: str, call: Any) -> None:
        with pytest.raises(error, match=message):
            if function is None:
                call()
            else:
                function(**call)

    return test
