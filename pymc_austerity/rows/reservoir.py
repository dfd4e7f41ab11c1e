"""Rows drawn with replacement in one pass over data on disk, by processes that each read a part."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import lru_cache
from math import fsum
from typing import Any, NamedTuple

import numpy as np

from pymc_austerity.rows.pool import Pool
from pymc_austerity.rows.storage import Rows

#: Added to every size, so that rows which all have none are drawn uniformly.  It changes no size that is not zero.
_TINY = 1e-290
#: Keys are cut off where a share K^-2 of the slots would stay empty.
_CUT = 3.0


class Offer(NamedTuple):
    """What a part of the rows offers to the slots."""

    slots: np.ndarray  # int64 (m,): those that the part may win
    #: (m,): the exponential keys of the part in these slots, and the size of the row that it puts there.
    keys: np.ndarray
    sizes: np.ndarray
    arrays: tuple[np.ndarray, ...]  # these rows
    weights: tuple[float, float]  # the sum of all its sizes, and the number of its rows

    def among(self, chosen: np.ndarray) -> Offer:
        """Return what is offered to some of the slots."""
        arrays = tuple(array[chosen] for array in self.arrays)
        return Offer(self.slots[chosen], self.keys[chosen], self.sizes[chosen], arrays, self.weights)


class Slots(NamedTuple):
    """K slots and the rule by which rows win them; sent to the processes that read rows.

    Every part b of the rows, of weight W_b, has in every slot a key that is exponential with rate W_b, and the smallest
    wins (Efraimidis and Spirakis 2006, Information Processing Letters 97, 181); within a part rows are in proportion to
    size.  What a part draws depends on its number alone, so the pool is the same whoever reads a part, and when.  Its
    numbers are those of two SplitMix64 generators (Steele, Lea and Flood 2014), whose k-th is a function of k: what
    slots need that the part cannot win is never worked out.
    """

    n: int  # K
    floor: float  # share of the slots that draw uniformly
    random_seed: int  # of which slots draw uniformly, and, with the number of a part, of all that the part draws

    @property
    def uniform(self) -> np.ndarray:
        """Which slots draw uniformly."""
        return _uniform(self.n, self.floor, self.random_seed)

    def offer(self, rows: Rows, sizes: np.ndarray, number: int, limits: Any) -> Offer:
        """Return what part `number` offers.

        `sizes`: numbers ≥ 0, of each row; `limits`, shape (K,), or tuple of float: numbers above which a key loses: of
        each slot, or of those that draw by size and of those that draw uniformly.  They save the offers that would
        lose, and change nothing.
        """
        if not len(rows):
            none = np.empty(0)
            return Offer(none.astype(np.int64), none, none, rows.arrays, (0.0, 0.0))
        seeds = np.random.SeedSequence([self.random_seed, number]).generate_state(2, np.uint64)
        cumulative = np.cumsum(np.asarray(sizes, np.float64) + _TINY)
        if isinstance(limits, tuple):
            limits = np.where(self.uniform, limits[1], limits[0])
        slots, keys = _early(seeds[0], cumulative[-1], float(len(rows)), self.uniform, limits)
        picked, drawn_by = _picked(seeds[1], slots, self.uniform, cumulative)
        weights = float(cumulative[-1]), float(len(rows))
        return Offer(slots, keys, drawn_by, rows.take(picked).arrays, weights)


@lru_cache(maxsize=4)
def _uniform(n: int, floor: float, random_seed: int) -> np.ndarray:
    return np.random.default_rng(random_seed).random(n) < floor


def _numbers(seed: np.uint64, places: np.ndarray) -> np.ndarray:
    """Return the numbers at some places, uniform on [0, 1), of the SplitMix64 generator that starts from `seed`."""
    z = seed + (places.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


def _early(
    seed: np.uint64, weight: float, n_rows: float, uniform: np.ndarray, limits: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the slots in which the key of a part is below its limit, in order, and the keys."""
    rate, u = np.where(uniform, n_rows, weight), _numbers(seed, np.arange(limits.size))
    slots = np.flatnonzero(u < rate * limits)  # −log(1 − u) ≥ u: most keys that lose need no logarithm
    keys = -np.log1p(-u[slots]) / rate[slots]
    early = keys < limits[slots]
    return slots[early], keys[early]


def _picked(
    seed: np.uint64, slots: np.ndarray, uniform: np.ndarray, cumulative: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the row of each slot, and its size, by the cumulative sizes."""
    u, n_rows = _numbers(seed, slots), cumulative.size
    by_size = np.searchsorted(cumulative, u * cumulative[-1], side="right")
    picked = np.minimum(np.where(uniform[slots], (u * n_rows).astype(np.int64), by_size), n_rows - 1)
    return picked, np.diff(cumulative, prepend=0.0)[picked]


class Reservoir:
    """K slots, each a reservoir of one row: row i ends up in a slot with probability p_i, whatever is in the others.

    p_i = (1 − floor) s_i/S + floor/N, with s_i ≥ 0 the size of row i and S the sum of all.  Neither S nor N is known
    while rows are read, so each slot is one from the start on that draws in proportion to size, or, with probability
    `floor`, one that draws uniformly.

    With `average`, about the size of an average row, and `n_rows`, the number of all rows, what parts offer is cut off
    from the start, at times by which other parts have almost surely won. `keys`, shape (K,), are those of the rows in
    the slots.
    """

    def __init__(self, slots: Slots, average: float = 0.0, n_rows: int = 0):
        self.slots, self._uniform = slots, slots.uniform
        late = _CUT * np.log(slots.n + 1)
        cuts = [late / weight if weight > 0 else np.inf for weight in (average * n_rows, n_rows)]
        self.keys = np.where(self._uniform, cuts[1], cuts[0])
        self._filled = np.zeros(slots.n, bool)
        self._sizes = np.zeros(slots.n)
        self._arrays: tuple[np.ndarray, ...] | None = None
        self._weights: list[tuple[float, float]] = []

    @property
    def limits(self) -> tuple[float, float]:
        """Numbers above which a key loses in every slot that draws by size, and in every one that draws uniformly."""
        kinds = self.keys[~self._uniform], self.keys[self._uniform]
        return float(kinds[0].max(initial=0.0)), float(kinds[1].max(initial=0.0))

    @property
    def is_full(self) -> bool:
        """Whether every slot has a row."""
        return bool(self._filled.all())

    def let_in(self, offer: Offer) -> None:
        """Give the slots to the part that offers, where its keys are smaller."""
        if self._arrays is None:
            self._arrays = tuple(np.zeros((self.slots.n, *a.shape[1:]), a.dtype) for a in offer.arrays)
        won = offer.keys < self.keys[offer.slots]
        offer = offer if won.all() else offer.among(won)
        self.keys[offer.slots], self._sizes[offer.slots], self._filled[offer.slots] = offer.keys, offer.sizes, True
        for stored, new in zip(self._arrays, offer.arrays, strict=True):
            stored[offer.slots] = new
        self._weights.append(offer.weights)

    def copy(self) -> Reservoir:
        """Return slots with the same rows, into which others may be let."""
        other = copy(self)
        assert self._arrays is not None
        other.keys, other._sizes, other._filled = self.keys.copy(), self._sizes.copy(), self._filled.copy()
        other._arrays, other._weights = tuple(a.copy() for a in self._arrays), list(self._weights)
        return other

    def pool(self, shares: int) -> Pool:
        """Return the rows in the slots, with what each counts for, to be divided among some chains."""
        assert self._arrays is not None
        floor, (total, n_rows) = self.slots.floor, (fsum(of_kind) for of_kind in zip(*self._weights, strict=True))
        probability = (1 - floor) * self._sizes / total + floor / n_rows
        return Pool(Rows(self._arrays), (1 / (n_rows * probability)).astype(np.float32), round(n_rows), shares)

    def bounded(self, always: Sequence[np.ndarray]) -> list[Any]:
        """Return the size that each row was drawn by, the sum of all, and arrays of the rows: those `always` first."""
        assert self._arrays is not None
        arrays = [np.concatenate([first, in_slots]) for first, in_slots in zip(always, self._arrays, strict=True)]
        sizes = np.concatenate([np.zeros(len(always[0])), self._sizes])
        return [sizes, fsum(by_size for by_size, _ in self._weights), *arrays]
