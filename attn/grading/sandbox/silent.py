"""Stand for what only shows something: a logger, a plot, a progress bar.

Its calls change no result, and do nothing where an answer is graded.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

#: Modules that only show something, or measure: their calls do nothing.
SHOWING = frozenset(
    str.split(
        """
    IPython colorama comet_ml gc icecream ipdb ipywidgets line_profiler logging
    loguru marimo matplotlib memory_profiler mlflow neptune pdb plotly pprint
    prettytable rich seaborn tabulate tensorboard tensorboardX termcolor
    torchinfo torchviz tqdm traceback tracemalloc wandb
        """
    )
)
_BARS = ("progress_bar", "tqdm", "track")


class Silent:
    """Stand for a logger, a plot or a progress bar: it does nothing.

    Args:
        name: of the module, or of what is in it.
        over: what a progress bar goes through.
    """

    def __init__(self, name: str, over: Any = ()) -> None:
        self._name, self._over = name, over

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Silent(name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._name == "trange":
            return Silent("", range(*args))
        if self._name == "ic":
            return args[0] if len(args) == 1 else args or None
        if args and self._name in _BARS:
            return Silent("", args[0])
        is_decorator = len(args) == 1 and not kwargs
        if is_decorator and isinstance(args[0], types.FunctionType | type):
            return args[0]
        return Silent("")

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return ()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._over)

    def __len__(self) -> int:
        return len(self._over)

    def __getitem__(self, key: Any) -> Any:
        return Silent("")

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def _is_less(self, _other: Any) -> bool:
        return False

    __lt__ = __le__ = __gt__ = __ge__ = _is_less
