"""Which derivatives of rows are multiples of each other, as they are where rows read parameters by one predictor.

Where ℓ_i depends on some parameters by Σ_j x_ij t_j alone, its derivatives by them are ℓ′x_ij and ℓ″x_ij x_ik: those
along all of them at once, times numbers that no θ changes.  Of M parameters one pair of derivatives is worked out
instead of M(M + 1)/2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

#: Numbers that are kept at most, of all rows; and directions from which on these are looked for.
_MOST, _LEAST = 50_000_000, 3
#: What may differ of what is equal: relative to it, and to the largest of some rows.
_RELATIVE_ERROR, _ROUNDING = 1e-10, 1e-13


class Multiples(NamedTuple):
    """The directions along which derivatives are taken, and what those along all others are in terms of them."""

    directions: list[np.ndarray]
    of: list[int]  # for each of all M: its number among these
    #: For those that are multiples: their number among the M, and by how much, shape (N,).
    times: dict[int, np.ndarray]

    @property
    def n_pairs(self) -> int:
        """How many pairs of directions there are: the rows are passed over once for each."""
        return len(self.directions) * (len(self.directions) + 1) // 2


@np.errstate(over="ignore", invalid="ignore")  # of slopes beyond floats nothing is said
def find_multiples(
    moves: list[np.ndarray], slopes: Callable[[], Iterator[tuple[list[np.ndarray], list[np.ndarray]]]], n_rows: int
) -> Multiples:
    """Return which of some directions have derivatives that are multiples of those along a weighted sum of them.

    `slopes` yields the slopes of all rows along each direction at two points, for some rows at a time: where those
    along two directions have the same ratio at both, the rows are taken to read them by one predictor.
    """
    alone = no_multiples(moves)
    if len(moves) < _LEAST or len(moves) * n_rows > _MOST:
        return alone
    here, there = next(slopes())
    numbers = [i for i in range(len(moves)) if _equal(here[i] * there[0], there[i] * here[0])]
    # No sum that is zero, as that of two players' ratings in a game would be.
    weights = np.random.default_rng(2027).uniform(1, 2, len(moves))
    times: dict[int, list[np.ndarray]] = {i: [] for i in numbers}
    for here, there in slopes():
        sums = [sum(weights[i] * of[i] for i in numbers) for of in (here, there)]
        if len(numbers) < 2 or not np.all(sums[0]):
            return alone
        for i in numbers:
            times[i].append(here[i] / sums[0])
            if not _equal(times[i][-1] * sums[1], there[i]):
                return alone
    others = [i for i in range(len(moves)) if i not in times]
    of = [0 if i in times else 1 + others.index(i) for i in range(len(moves))]
    whole = np.sum([weights[i] * moves[i] for i in numbers], axis=0)
    return Multiples([whole, *(moves[i] for i in others)], of, {i: np.concatenate(times[i]) for i in numbers})


def no_multiples(moves: list[np.ndarray]) -> Multiples:
    """Return that each derivative is to be taken by itself."""
    return Multiples(moves, list(range(len(moves))), {})


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether all numbers are finite and equal, up to the rounding of rows whose slope is a small difference."""
    size = np.abs(one) + np.abs(other)
    return bool((np.abs(one - other) <= _RELATIVE_ERROR * size + _ROUNDING * size.max(initial=0.0)).all())
