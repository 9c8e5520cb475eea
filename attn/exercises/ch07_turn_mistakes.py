"""What goes wrong in either layout of RoPE."""

from __future__ import annotations

import torch

from attn.exercises.ch07_turn import (
    coarse_angles,
    degrees_for_radians,
    positions_of_first_row,
    tokens_counted,
    turn,
)
from attn.exercises.spec import Exercise


def register(exercise: Exercise, interleaved: bool) -> None:
    """Record the mistakes that do not depend on which numbers are a pair."""

    @exercise.misconception("nothing turns", exposed_by="position 1")
    def identity(x, positions, inv_freq):
        """The result is x, at every position. Attention would go on not
        knowing any order; with one token, or at position 0, nobody would
        notice. Which of your lines uses the angle?"""
        return x.clone()

    @exercise.misconception(
        "it turns the other way round", exposed_by="position 1"
    )
    def backwards(x, positions, inv_freq):
        """The angle has the wrong sign. If queries and keys both turn this
        way, scores are the same, and a model trained like this is as good: a
        dialect (one well-known project speaks it). Only weights that were
        trained the other way tell. What are the two signs in the task's
        formula?"""
        return turn(interleaved)(x, -positions, inv_freq)

    @exercise.misconception(
        "cosine and sine are swapped", exposed_by="position 0"
    )
    def swapped(x, positions, inv_freq):
        """At position 0 every pair is turned by a quarter, instead of staying
        as it is. What are cos 0 and sin 0?"""

        def rotate(a, b, c, s):
            return a * s - b * c, a * c + b * s

        return turn(interleaved, rotate=rotate)(x, positions, inv_freq)

    @exercise.misconception("the minus is missing", exposed_by="position 1")
    def no_minus(x, positions, inv_freq):
        """(a cos t + b sin t, a sin t + b cos t) is no rotation: it stretches.
        The lengths of queries and keys now depend on their positions. In which
        of the four products is the minus?"""

        def rotate(a, b, c, s):
            return a * c + b * s, a * s + b * c

        return turn(interleaved, rotate=rotate)(x, positions, inv_freq)

    @exercise.misconception(
        "both halves have a minus", exposed_by="position 1"
    )
    def two_minuses(x, positions, inv_freq):
        """(a cos t - b sin t, b cos t - a sin t) is no rotation: it stretches.
        What does the second number of the pair become in the formula?"""

        def rotate(a, b, c, s):
            return a * c - b * s, b * c - a * s

        return turn(interleaved, rotate=rotate)(x, positions, inv_freq)

    @exercise.misconception(
        "the second number is turned with the new first one",
        exposed_by="position 1",
    )
    def in_sequence(x, positions, inv_freq):
        """The first number of the pair is overwritten before the second has
        read it. Both must come from the old ones. Which line should be
        last?"""

        def rotate(a, b, c, s):
            a = a * c - b * s
            return a, a * s + b * c

        return turn(interleaved, rotate=rotate)(x, positions, inv_freq)

    @exercise.misconception(
        "only the first number of a pair turns", exposed_by="position 1"
    )
    def half_turned(x, positions, inv_freq):
        """The second number is left as it was. A rotation moves both, or the
        length is lost. What does b become?"""
        return turn(interleaved, rotate=lambda a, b, c, s: (a * c - b * s, b))(
            x, positions, inv_freq
        )

    @exercise.misconception("only the cosine is used", exposed_by="position 1")
    def only_cosine(x, positions, inv_freq):
        """x * cos makes numbers smaller and turns nothing. Where do the two
        numbers of a pair meet?"""
        return turn(interleaved, rotate=lambda a, b, c, s: (a * c, b * c))(
            x, positions, inv_freq
        )

    @exercise.misconception(
        "the positions are added, not turned", exposed_by="position 0"
    )
    def added(x, positions, inv_freq):
        """cos and sin on top of x are sinusoidal positions, from chapter 6:
        the sum mixes what a token is with where it stands. What happens to x
        at position 0?"""
        return turn(interleaved, rotate=lambda a, b, c, s: (a + c, b + s))(
            x, positions, inv_freq
        )

    @exercise.misconception(
        "the tokens are counted, whatever positions says",
        exposed_by="positions that do not start at 0",
    )
    def counted(x, positions, inv_freq):
        """arange(L) is right for a whole text. A token that is decoded alone
        would always stand at position 0: the first is right, and the answer
        falls apart. Where does your code read positions?"""
        return turn(interleaved, angles=tokens_counted)(x, positions, inv_freq)

    @exercise.misconception(
        "the positions are taken for heads", exposed_by="positions (B, L)"
    )
    def no_head_axis(x, positions, inv_freq):
        """Angles (B, L, R / 2) meet x (B, H, L, R / 2) from the right, so the
        batch of the one stands at the heads of the other. It raises an error,
        or, with B = H, gives each head the positions of a sequence. Which axis
        is missing?"""
        return turn(interleaved, heads=lambda angle, x: angle)(
            x, positions, inv_freq
        )

    @exercise.misconception(
        "every sequence gets the positions of the first",
        exposed_by="positions (B, L)",
    )
    def first_row(x, positions, inv_freq):
        """positions[0] for all: with padding on the left, each sequence starts
        elsewhere. How many rows does positions have?"""
        return turn(interleaved, angles=positions_of_first_row)(
            x, positions, inv_freq
        )

    @exercise.misconception(
        "the angles are bfloat16", exposed_by="bfloat16, positions beyond 256"
    )
    def coarse(x, positions, inv_freq):
        """bfloat16 has eight significant bits: 256 and 257 are one position,
        and angles are off by whole radians soon after. It works in every short
        test. Which dtype should the product of position and frequency have?"""
        return turn(interleaved, angles=coarse_angles)(x, positions, inv_freq)

    @exercise.misconception(
        "bfloat16 comes back as float32", exposed_by="bfloat16 inputs"
    )
    def stays_float(x, positions, inv_freq):
        """bfloat16 times a float32 table is float32. The cache becomes twice
        as large, or the next product fails because the values are still
        bfloat16. What was x.dtype?"""
        out = turn(
            interleaved,
            narrow=False,
            rest=lambda t, x: torch.cat(
                [t, x[..., t.shape[-1] :].float()], -1
            ),
        )(x, positions, inv_freq)
        return out.to(torch.promote_types(x.dtype, torch.float32))

    @exercise.misconception(
        "what does not turn is cut off", exposed_by="R below D"
    )
    def cut_off(x, positions, inv_freq):
        """Only the R features that turn come back. The others carry content
        without position, and the head needs all of them. What shape does the
        Returns line ask for?"""
        return turn(interleaved, rest=lambda turned, x: turned)(
            x, positions, inv_freq
        )

    @exercise.misconception(
        "what does not turn becomes 0", exposed_by="R below D"
    )
    def zeroed(x, positions, inv_freq):
        """Features from R on are lost. They should stay as they are: content
        without position. What is in the rest of your result?"""

        def rest(turned, x):
            return torch.cat([turned, 0 * x[..., turned.shape[-1] :]], -1)

        return turn(interleaved, rest=rest)(x, positions, inv_freq)

    @exercise.misconception(
        "the angles are in degrees", exposed_by="position 1"
    )
    def degrees(x, positions, inv_freq):
        """inv_freq is in radians already, and so is what cos wants: nothing
        has to be converted. By how much does a pair with frequency 1 turn at
        position 1?"""
        return turn(interleaved, angles=degrees_for_radians)(
            x, positions, inv_freq
        )

    @exercise.misconception(
        "the result is cut off from the gradient",
        exposed_by="inputs that ask for their gradient",
    )
    def detached(x, positions, inv_freq):
        """The numbers are right and autograd knows nothing of them: .detach(),
        .data, .numpy(), torch.tensor(...) or no_grad cut the thread. Nothing
        before this layer would learn. Which line leaves torch?"""
        return turn(interleaved)(x.detach(), positions, inv_freq)
