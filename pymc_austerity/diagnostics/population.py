"""The rows that decisions are judged on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.kernel import Decider
from pymc_austerity.rows import Rows, Uniform
from pymc_austerity.rows.pool import PooledRows


def as_population(decider: Decider, at_most: int | None = None) -> Decider:
    """Return the decider for rows that can all be read, to judge decisions by: itself, unless there is a pool.

    The slots of a pool then stand for all rows, or the first `at_most` of them, which are as good a sample. What it
    draws is the same, in another order; not for sampling.
    """
    if decider.row_source.complete:
        return decider
    k = min(len(decider.parts.stored), at_most or len(decider.parts.stored))
    parts = replace(decider.parts, rows=Rows(tuple(a[:k] for a in decider.parts.stored.arrays)))
    return replace(decider, parts=parts, row_source=decider.row_source.population(k))


@dataclass(frozen=True, eq=False)
class SampleInPlaceOfRows(Uniform):
    """A sample of the rows as all rows, each standing for as many."""

    each: np.ndarray

    @property
    def counts(self) -> np.ndarray:
        """How many of all rows each row of the sample stands for."""
        return self.each


def sample_of_rows(decider: Decider, k: int, rng: np.random.Generator) -> Decider:
    """Return the decider for a sample of `k` rows that stands for all, as a pool would: drawn as the test draws them.

    A test that reads far fewer than `k` rows decides on the sample as it does on all rows.  Not for sampling.
    """
    source, n = decider.row_source, len(decider.parts.stored)
    if source.weighted:
        numbers = uninterrupted(source.draw, rng, source.state(n), 0, k)
        assert source.weights is not None
        population = PooledRows(source.weights[numbers], n, 1).population(k)
    else:
        numbers, population = rng.choice(n, k, replace=False), SampleInPlaceOfRows(np.full(k, n / k))
    parts = replace(decider.parts, rows=Rows(tuple(a[numbers] for a in decider.parts.stored.arrays)))
    return replace(decider, parts=parts, row_source=population)
