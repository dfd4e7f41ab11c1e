"""Rows drawn with replacement in one pass over data that do not fit in memory, by whoever reads a part of them."""

from __future__ import annotations

from math import fsum
from typing import Any, NamedTuple

import numpy as np

from pymc_austerity.rows.pool import Pool
from pymc_austerity.rows.storage import Rows

#: Added to every size, so that rows which all have none are drawn uniformly.  It changes no size that is not zero.
_TINY = 1e-290
#: Slots that no clock fills before the cut-off where it was set by an average that is right: K^-2 of them.
_CUT = 3.0


class Offer(NamedTuple):
    """What a part of the rows offers to the slots.

    Attributes
    ----------
    slots : numpy.ndarray of int64, shape (m,)
        Those that the part may win.
    clocks, sizes : numpy.ndarray, shape (m,)
        When its clock rings in these slots, and the size of the row that it puts there.
    arrays : tuple of numpy.ndarray
        These rows.
    weights : tuple of float
        The sum of all its sizes, and the number of its rows.
    """

    slots: np.ndarray
    clocks: np.ndarray
    sizes: np.ndarray
    arrays: tuple[np.ndarray, ...]
    weights: tuple[float, float]


class Slots(NamedTuple):
    """K slots and how rows get into them; small, for it travels to whoever reads rows.

    Attributes
    ----------
    n : int
        K.
    floor : float
        Share of the slots that draw uniformly.
    random_seed : int
        Of which slots draw uniformly, and, with the number of a part, of all that the part draws.

    Notes
    -----
    Every part b of the rows, of weight W_b, has a clock in every slot that rings after an exponential time with rate
    W_b, and the first to ring has the slot: part b with probability W_b over the sum of all, as it should be.  Within
    it rows are in proportion to size.  This is the key of Efraimidis and Spirakis (2006, Weighted random sampling with
    a reservoir, Information Processing Letters 97, 181), for parts.  The minimum of clocks does not depend on the order
    in which they are compared, and what a part draws depends on nothing but its number, so the pool is the same
    whoever reads which part, and when.
    """

    n: int
    floor: float
    random_seed: int

    @property
    def uniform(self) -> np.ndarray:
        """Which slots draw uniformly."""
        return np.random.default_rng(self.random_seed).random(self.n) < self.floor

    def offer(self, rows: Rows, sizes: np.ndarray, number: int, limits: Any) -> Offer:
        """Return what part `number` offers.

        Parameters
        ----------
        rows : Rows
        sizes : numpy.ndarray
            Numbers ≥ 0, of each row.
        number : int
        limits : numpy.ndarray, shape (K,), or tuple of float
            Times after which a clock loses: of each slot, or of those that draw by size and of those that draw
            uniformly.  They save the offers that would lose, and change nothing.
        """
        if not len(rows):
            none = np.empty(0)
            return Offer(none.astype(np.int64), none, none, rows.arrays, (0.0, 0.0))
        rng, uniform = np.random.default_rng([self.random_seed, number]), self.uniform
        cumulative = np.cumsum(np.asarray(sizes, np.float64) + _TINY)
        weights = float(cumulative[-1]), float(len(rows))
        clocks, places = rng.standard_exponential(self.n), rng.random(self.n)
        clocks /= np.where(uniform, weights[1], weights[0])
        if isinstance(limits, tuple):
            limits = np.where(uniform, limits[1], limits[0])
        slots = np.flatnonzero(clocks < limits)
        places, by_size = places[slots], ~uniform[slots]
        picked = (places * len(rows)).astype(np.int64)
        picked[by_size] = np.searchsorted(cumulative, places[by_size] * cumulative[-1], side="right")
        picked = np.minimum(picked, len(rows) - 1)
        return Offer(slots, clocks[slots], np.diff(cumulative, prepend=0.0)[picked], rows.take(picked).arrays, weights)


class Reservoir:
    """K slots, each a reservoir of one row: row i ends up in a slot with probability p_i, whatever is in the others.

    p_i = (1 − floor) s_i/S + floor/N, with s_i ≥ 0 the size of row i and S the sum of all.  Neither S nor N is known
    while rows are read, so each slot is one from the start on that draws in proportion to size, or, with probability
    `floor`, one that draws uniformly.

    Parameters
    ----------
    slots : Slots
    average : float, optional
        About the size of an average row, and
    n_rows : int, optional
        the number of all rows: what parts offer is then cut off from the start, at times by which other parts have
        almost surely won.

    Attributes
    ----------
    clocks : numpy.ndarray, shape (K,)
        Times of the rows in the slots.
    """

    def __init__(self, slots: Slots, average: float = 0.0, n_rows: int = 0):
        self._slots, self._uniform = slots, slots.uniform
        late = _CUT * np.log(slots.n + 1)
        cuts = [late / weight if weight > 0 else np.inf for weight in (average * n_rows, n_rows)]
        self.clocks = np.where(self._uniform, cuts[1], cuts[0])
        self._filled = np.zeros(slots.n, bool)
        self._sizes = np.zeros(slots.n)
        self._arrays: tuple[np.ndarray, ...] | None = None
        self._weights: list[tuple[float, float]] = []

    @property
    def limits(self) -> tuple[float, float]:
        """Times after which a clock loses in every slot that draws by size, and in every one that draws uniformly."""
        kinds = self.clocks[~self._uniform], self.clocks[self._uniform]
        return float(kinds[0].max(initial=0.0)), float(kinds[1].max(initial=0.0))

    @property
    def is_full(self) -> bool:
        """Whether every slot has a row."""
        return bool(self._filled.all())

    def let_in(self, offer: Offer) -> None:
        """Give the slots to the part that offers, where its clocks are first."""
        if self._arrays is None:
            self._arrays = tuple(np.zeros((self._slots.n, *a.shape[1:]), a.dtype) for a in offer.arrays)
        won = offer.clocks < self.clocks[offer.slots]
        slots = offer.slots[won]
        self.clocks[slots], self._sizes[slots], self._filled[slots] = offer.clocks[won], offer.sizes[won], True
        for stored, new in zip(self._arrays, offer.arrays, strict=True):
            stored[slots] = new[won]
        self._weights.append(offer.weights)

    def pool(self, shares: int) -> Pool:
        """Return the rows in the slots, with what each counts for, to be divided among some chains."""
        assert self._arrays is not None
        floor, (total, n_rows) = self._slots.floor, (fsum(of_kind) for of_kind in zip(*self._weights, strict=True))
        probability = (1 - floor) * self._sizes / total + floor / n_rows
        return Pool(Rows(self._arrays), (1 / (n_rows * probability)).astype(np.float32), round(n_rows), shares)

    def by_size(self) -> tuple[tuple[np.ndarray, ...], np.ndarray, float]:
        """Return the rows in the slots, the size that each was drawn by, and the sum of all sizes."""
        assert self._arrays is not None
        return self._arrays, self._sizes, fsum(by_size for by_size, _ in self._weights)
