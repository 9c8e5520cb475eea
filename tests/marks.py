"""What is for `make test`, and what is for `make test-all`."""

import pytest


def exhaustive_but(quick, values):
    """Return the values as parameters; `make test` runs the quick ones."""
    assert all(x in values for x in quick)
    rest = pytest.mark.exhaustive
    return [x if x in quick else pytest.param(x, marks=rest) for x in values]
