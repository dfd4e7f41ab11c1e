"""Rows drawn with replacement in one pass over data that do not fit in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pymc_austerity.rows.pool import Pool
from pymc_austerity.rows.storage import Rows

#: Added to every size, so that rows which all have none are drawn uniformly.  It changes no size that is not zero.
_TINY = np.finfo(np.float64).tiny


class Reservoir:
    """K slots, each a reservoir of one row: row i ends up in a slot with probability p_i, whatever is in the others.

    p_i = (1 − floor) s_i/S + floor/N, with s_i ≥ 0 the size of row i and S the sum of all.  Neither S nor N is known
    while rows are read, so each slot is one from the start on that draws in proportion to size, or, with probability
    `floor`, one that draws uniformly.

    Parameters
    ----------
    n_slots : int
    floor : float
    random_seed : int
        For which slots draw uniformly; reservoirs that are merged have the same.

    Attributes
    ----------
    n_rows : int
        Rows seen.

    Notes
    -----
    A reservoir of one slot takes an item of weight w with probability w over the sum of all weights so far (Chao 1982,
    A general purpose unequal probability sampling plan, Biometrika 69, 653).  For K of them and a block of weight W_b
    after W, the number refilled is Binomial(K, W_b/(W + W_b)), they are chosen uniformly, and each is filled in
    proportion to weight within the block.
    """

    def __init__(self, n_slots: int, floor: float, random_seed: int):
        uniform = np.random.default_rng(random_seed).random(n_slots) < floor
        self._slots = np.flatnonzero(~uniform), np.flatnonzero(uniform)
        self._weight = [0.0, 0.0]
        self._floor = floor
        self._arrays: tuple[np.ndarray, ...] | None = None
        self._sizes = np.zeros(n_slots)
        self.n_rows = 0

    def take(self, rows: Rows, sizes: np.ndarray, rng: np.random.Generator) -> None:
        """Let a block of rows with these sizes into the slots."""
        if self._arrays is None:
            self._arrays = tuple(np.zeros((self._sizes.size, *a.shape[1:]), a.dtype) for a in rows.arrays)
        sizes = np.asarray(sizes, np.float64) + _TINY
        cumulative = np.cumsum(sizes)
        for kind, added in enumerate((float(cumulative[-1]), float(len(rows)))):
            slots, before = self._slots[kind], self._weight[kind]
            refilled = slots[_some(rng, slots.size, added / (before + added))]
            if kind == 0:
                picked = np.searchsorted(cumulative, rng.random(refilled.size) * added, side="right")
                picked = np.minimum(picked, len(rows) - 1)
            else:
                picked = rng.integers(0, len(rows), refilled.size)
            for stored, new in zip(self._arrays, rows.arrays, strict=True):
                stored[refilled] = new[picked]
            self._sizes[refilled] = sizes[picked]
            self._weight[kind] = before + added
        self.n_rows += len(rows)

    def merge(self, other: Reservoir, rng: np.random.Generator) -> None:
        """Let in all rows that another reservoir has seen: slot by slot its row, with the probability of its weight."""
        if other._arrays is None:
            return
        if self._arrays is None:
            self._arrays = tuple(np.zeros_like(a) for a in other._arrays)
        for kind, slots in enumerate(self._slots):
            before, added = self._weight[kind], other._weight[kind]
            taken = slots[rng.random(slots.size) * (before + added) < added]
            for mine, theirs in zip(self._arrays, other._arrays, strict=True):
                mine[taken] = theirs[taken]
            self._sizes[taken] = other._sizes[taken]
            self._weight[kind] = before + added
        self.n_rows += other.n_rows

    def pool(self, shares: int) -> Pool:
        """Return the rows in the slots, with what each counts for, to be divided among some chains."""
        assert self._arrays is not None
        probability = (1 - self._floor) * self._sizes / self._weight[0] + self._floor / self.n_rows
        return Pool(Rows(self._arrays), (1 / (self.n_rows * probability)).astype(np.float32), self.n_rows, shares)


def _some(rng: np.random.Generator, n: int, probability: float) -> np.ndarray:
    """Return numbers below n, each there with some probability and independently of the others."""
    return rng.choice(n, rng.binomial(n, min(probability, 1.0)), replace=False, shuffle=False)


def merged(reservoirs: Sequence[Reservoir], rng: np.random.Generator) -> Reservoir:
    """Return what one reservoir would be after all rows of several; the first of them is changed."""
    first, *rest = reservoirs
    for other in rest:
        first.merge(other, rng)
    return first
