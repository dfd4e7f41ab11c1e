"""The rows that decisions are judged on."""

from __future__ import annotations

from dataclasses import replace

from pymc_austerity.kernel import Decider
from pymc_austerity.rows import Rows


def as_population(decider: Decider, at_most: int | None = None) -> Decider:
    """Return the decider for rows that can all be read, to judge decisions by: itself, unless there is a pool.

    The slots of a pool then stand for all rows, or the first `at_most` of them, which are as good a sample.  What it
    draws is the same, in another order; not for sampling.
    """
    if decider.row_source.complete:
        return decider
    k = min(len(decider.rows), at_most or len(decider.rows))
    parts = replace(decider.parts, rows=Rows(tuple(a[:k] for a in decider.rows.arrays)))
    return replace(decider, parts=parts, row_source=decider.row_source.population(k))
