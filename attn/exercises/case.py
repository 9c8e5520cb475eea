"""Define a case: the inputs of one call, raw data without a right answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

IN_DTYPE = "the same inputs are in"
"""The beginning of a condition that differs in the dtype alone."""

LONGER = "it is called again, with a longer input"
"""The condition of a case after a shorter one."""


@dataclass(frozen=True)
class Case:
    """One call of the learner's function, or one use of the learner's class.

    Args:
        condition: the condition that this case isolates, as the learner reads
            it after "wrong when": ``"there is one key, so only the values
            count"``. Cases of one condition share the text.
        args, kwargs: the inputs of the function, or of the module's
            ``forward``: tensors, numbers, strings, a ``torch.Generator``,
            an ``attn.Mask``, and tuples, lists and dicts of them.
        init: of a class, the keywords of its constructor.
        state: of a class, the state dict that is loaded before the call.
            None: the task has no weights, and the object has nothing that
            can be learned.
        initial: names in the state of what is not loaded: it keeps the values
            that the constructor gave it.
        train: of a class, whether the module is in training mode; of a
            function, whether it may draw from PyTorch's global random
            generator, which is seeded before the call.
        grad: also compare the gradients of every floating input (and of
            every parameter) for one fixed cotangent; or of the inputs with
            these paths, ``("args.0",)``.
        max_live: limit, in elements, on the memory that the answer holds at
            its peak beyond its inputs: every result that is still referred
            to counts, the returned one too, and views of it do not count
            again. An answer's variables live until they are assigned again,
            so that two tiles of each kind are held in a loop. None for no
            limit.
        max_kept: of a class, limit, in elements, on the memory that the
            object holds after the call: all that its attributes refer to,
            its parameters too. It must be where it was before the call.
        once: paths of lists, ``("args.0", "args.1")``, that are handed over
            as iterators: each entry is read once, in order. An index may
            go forwards, never back. With ``max_live`` an entry counts from
            the moment it is read for as long as the answer keeps it.
            Entries get no gradient.
        rtol: tolerance for a randomly drawn result, relative to the largest
            element of the reference's.
        largest_over: axis along which the largest element of each result is
            taken before it is compared: of a randomly drawn result, what
            does not depend on the coins.
        shares: ``(N, V)`` of a result that is ids drawn from V, for N groups
            of rows one after the other, with equal inputs in each: how often
            each id was drawn, as a share of its group, is compared instead.
        one_tensor: two paths of the result, which must be one tensor and
            not a copy: a view shares the memory.
        before: cases whose inputs the same function, or the same module, is
            called with before this one; their results do not count. The
            engine adds such cases to every exercise (more_cases.py).
        another: of a case in ``before``, that it calls another object of the
            class, which is made when the first such case comes.
        may_raise: that an error does not count: of a case in ``before``, whose
            arguments no case of the exercise has, and of one in bfloat16.
    """

    condition: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    init: Mapping[str, Any] | None = None
    state: Mapping[str, Tensor] | None = None
    initial: tuple[str, ...] = ()
    train: bool = False
    grad: bool | tuple[str, ...] = False
    max_live: int | None = None
    max_kept: int | None = None
    once: tuple[str, ...] = ()
    rtol: float = 0.0
    largest_over: int | None = None
    shares: tuple[int, int] | None = None
    one_tensor: tuple[str, str] | None = None
    before: tuple[Case, ...] = ()
    another: bool = False
    may_raise: bool = False

    @property
    def is_repeated(self) -> bool:
        """True after another call, and of the same case in another dtype."""
        return bool(self.before) or self.condition.startswith(IN_DTYPE)
