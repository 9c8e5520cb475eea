"""Run first by each kernel of ``attn lab``, in its notebook's namespace.

PYTHONSTARTUP names this file; one that it named before runs too.
"""


def _start() -> None:
    import os
    import sys
    from collections.abc import Callable
    from contextlib import suppress
    from pathlib import Path

    def stand_in(name: str) -> Callable[..., object]:
        """Return a function of attn that is imported, with torch, when called.

        Its globals are the notebook's: there ``check`` looks for an answer.
        """

        def function(*args: object, **kwargs: object) -> object:
            return getattr(grading, name)(*args, **kwargs)

        function.__module__ = grading.__name__  # not the learner's
        return function

    # The second is inherited by what a cell starts, the first is not.
    if "ipykernel" in sys.modules and "JPY_SESSION_NAME" in os.environ:
        with suppress(ImportError):  # the kernel of another Python
            from attn import grading
            from attn.exercises import first_cell

            first_cell.prepare(Path(os.environ["JPY_SESSION_NAME"]))
            first_cell.keep({x: stand_in(x) for x in grading.__all__})
    if own := os.environ.get("ATTN_PYTHONSTARTUP"):
        exec(compile(Path(own).read_text("utf-8"), own, "exec"), globals())


_start()
del _start
