"""Rows drawn in proportion to bounds c_i M_g that rise and fall by cones: c_i is the row's, M_g that of its cone."""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pymc_austerity.compile.bounded_integers import integer_below
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.rows.by_bounds import BoundedSource, bound_table
from pymc_austerity.rows.sources import RowSource, Share, draw_in_order


class BoundCones(NamedTuple):
    """An alias table for the rows of each cone, one behind the other."""

    keep: np.ndarray  # (N,): probability that a column stands for its own row
    #: int64 (N,): that row, and the one that the column stands for otherwise.
    own: np.ndarray
    alias: np.ndarray
    size: np.ndarray  # (N,): c_i, by row
    cone: np.ndarray  # int64 (N,): g, by row
    first: np.ndarray  # int64 (G + 1,): columns of each cone
    totals: np.ndarray  # (G,): C_g = Σ c_i over the rows of a cone
    always: np.ndarray  # int64 (m,): rows that are read at every decision, and never drawn: their c_i are 0 here

    def source(self) -> RowSource:
        """Return the row source of chains."""
        return RowsByCones(self)


def cone_table(bounds: np.ndarray, cone: np.ndarray, always: np.ndarray) -> BoundCones:
    """Make the tables of all cones.

    `bounds`, shape (N,), are the c_i ≥ 0; `cone`, shape (N,), the cones 0 … G − 1, each of at least one row; `always`
    are rows that are read without being drawn.
    """
    own = np.argsort(cone, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(cone))])
    bounds = bounds.copy()
    bounds[always] = 0.0
    keep, alias, size, totals = np.ones(own.size), own.copy(), np.zeros(own.size), np.zeros(first.size - 1)
    for g, (start, stop) in enumerate(pairwise(first)):
        rows = own[start:stop]
        table = bound_table(bounds[rows], np.flatnonzero(bounds[rows] == 0))
        keep[start:stop], alias[start:stop] = table.keep, rows[table.alias]
        size[rows], totals[g] = table.size, table.total
    return BoundCones(keep, own, alias, size, cone.astype(np.int64), first, totals, always.astype(np.int64))


@njit
def rate_of_cones(state: BoundCones, spans: np.ndarray) -> float:
    """Return Σ_g C_g M_g, infinite where the M_g are."""
    total = 0.0
    for g in range(spans.size):
        if not spans[g] < np.inf:
            return np.inf
        total += state.totals[g] * spans[g]
    return total


@njit
def choose_by_cones(
    rng: np.random.Generator, state: BoundCones, spans: np.ndarray, start: int, stop: int
) -> np.ndarray:
    """Draw row numbers with replacement: a cone in proportion to C_g M_g, and in it a row in proportion to c_i."""
    reached = np.cumsum(state.totals * spans)
    numbers = np.empty(stop - start, np.int64)
    for k in range(numbers.size):
        # Rounded up to the end, u times the sum may lie behind the last cone that has any weight.
        g = np.searchsorted(reached, min(rng.random() * reached[-1], np.nextafter(reached[-1], 0.0)), side="right")
        column = state.first[g] + integer_below(rng, state.first[g + 1] - state.first[g])
        numbers[k] = state.own[column] if rng.random() < state.keep[column] else state.alias[column]
    return numbers


@njit
def limits_by_cones(state: BoundCones, spans: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return c_i M_g of some rows."""
    return state.size[numbers] * spans[state.cone[numbers]]


@dataclass(frozen=True, eq=False)
class RowsByCones(BoundedSource):
    """The row source of tables by cones.  Rows are drawn with replacement, and the test thins them itself."""

    table: BoundCones

    draw = staticmethod(draw_in_order)  # without an M
    rate = staticmethod(rate_of_cones)
    choose = staticmethod(choose_by_cones)
    limits = staticmethod(limits_by_cones)

    def state(self, n_rows: int, share: Share | None = None) -> BoundCones:
        """Return the tables; for the fewer rows of the warm-up, some of the same types that draw none."""
        table = self.table
        if n_rows >= table.keep.size:
            return table
        numbers = np.arange(n_rows)
        return BoundCones(
            np.ones(n_rows), numbers, numbers, np.zeros(n_rows), np.zeros(n_rows, np.int64), table.first,
            np.zeros_like(table.totals), np.empty(0, np.int64),
        )  # fmt: skip
