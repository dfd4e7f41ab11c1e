"""Rows of groups drawn in proportion to their bounds c_i M_g, of which the M_g change from move to move.

Running sums of c_i within each group stay: a group is chosen by C_g M_g, and a row of it by bisection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.rows import OUTWARDS, BoundedSource, Share

#: Added to every bound, by itself and as a share of those of the group: rounding of remainders and of running sums is
#: no evidence against a bound, and rows are drawn once in 10⁹ moves for it.
_ROUNDING, _ROUNDING_OF_SUMS = 1e-10, 1e-12


class GroupBoundTable(NamedTuple):
    """Running sums of the bounds within each group."""

    #: (F N,): Σ c_i over the rows of a group from its first one on, in the order of `start`; infinite where no bound is
    #: known for a row of the group.
    sums: np.ndarray
    start: np.ndarray  # int64 (G + 1,): the rows of group g are at the places ``start[g]`` to ``start[g + 1] - 1``
    n_first: int  # groups of the first factor, in whose order rows are numbered
    always: np.ndarray  # int64 (0,): rows that are read at every decision: none

    def totals(self) -> np.ndarray:
        """Return C_g = Σ c_i of all groups, shape (G,)."""
        sizes = np.diff(self.start)
        return np.where(sizes > 0, self.sums[np.maximum(self.start[1:] - 1, 0)], 0.0)


def group_bound_table(bounds: np.ndarray, start: np.ndarray, places: np.ndarray, n_first: int) -> GroupBoundTable:
    """Sum the bounds of each group.

    `bounds`, shape (N,), are the c_i ≥ 0 in the order of the groups of the first factor, infinite where none is known;
    `start` and `places` are those of `PreparedGroups`.
    """
    ordered = np.concatenate([bounds, bounds[places]])
    of_group = pd.Series(np.repeat(np.arange(start.size - 1), np.diff(start)))
    by_group = pd.Series(np.where(np.isfinite(ordered), ordered, 0.0)).groupby(of_group, sort=False)
    raised = pd.Series(ordered * (1 + OUTWARDS) + _ROUNDING + _ROUNDING_OF_SUMS * by_group.transform("sum"))
    unknown = pd.Series(~np.isfinite(ordered)).groupby(of_group, sort=False).transform("any")
    sums = raised.where(~unknown, 0.0).groupby(of_group, sort=False).cumsum().where(~unknown, np.inf)
    # A copy: pandas gives arrays that cannot be written to, which numba takes for another type than what was pickled.
    return GroupBoundTable(np.array(sums, dtype=float), start, n_first, np.empty(0, np.int64))


@njit
def draws_nothing(table: GroupBoundTable) -> bool:
    """Return whether nothing is left of any row: there are no sums."""
    return table.sums.size == 0


@njit
def total_of_group(table: GroupBoundTable, g: int) -> float:
    """Return C_g."""
    return table.sums[table.start[g + 1] - 1] if table.start[g + 1] > table.start[g] else 0.0


@njit
def draw_of_group(rng: np.random.Generator, table: GroupBoundTable, g: int) -> int:
    """Draw the place of a row of a group, in proportion to the bounds."""
    first, last = table.start[g], table.start[g + 1] - 1
    at = rng.random() * table.sums[last]
    while first < last:
        middle = (first + last) // 2
        if table.sums[middle] > at:
            last = middle
        else:
            first = middle + 1
    return first


@njit
def bound_at(table: GroupBoundTable, g: int, place: int) -> float:
    """Return c_i of the row of group g at this place: the probability with which it is drawn, times C_g."""
    return table.sums[place] - (table.sums[place - 1] if place > table.start[g] else 0.0)


@njit
def rate_of_groups(table: GroupBoundTable, spans: np.ndarray) -> float:
    """Return Σ C_g M_g over the groups of the first factor, infinite where one of these is."""
    total = 0.0
    for g in range(table.n_first):
        if table.start[g + 1] > table.start[g]:
            total += total_of_group(table, g) * spans[g]
    return total


@njit
def choose_by_group(
    rng: np.random.Generator, table: GroupBoundTable, spans: np.ndarray, start: int, stop: int
) -> np.ndarray:
    """Draw row numbers with replacement, in proportion to c_i M_g, in the order of their groups.

    Sums of exponential numbers, divided by one sum more, are uniform numbers in ascending order: groups are found by
    going through all of them once.
    """
    numbers, places = np.empty(stop - start, np.int64), rng.standard_exponential(stop - start + 1)
    for k in range(1, places.size):
        places[k] += places[k - 1]
    unit = rate_of_groups(table, spans) / places[-1]
    g, found, above = 0, 0, 0.0
    for k in range(numbers.size):
        while not places[k] * unit < above and g < table.n_first:
            if table.start[g + 1] > table.start[g]:
                above += total_of_group(table, g) * spans[g]
                found = g  # rounding may lead beyond the last group that has rows
            g += 1
        numbers[k] = draw_of_group(rng, table, found)
    return numbers


@njit
def limits_by_group(table: GroupBoundTable, spans: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return c_i M_g of rows in the order of their groups."""
    limits, g = np.empty(numbers.size), 0
    for k in range(numbers.size):
        while table.start[g + 1] <= numbers[k]:
            g += 1
        limits[k] = bound_at(table, g, numbers[k]) * spans[g]
    return limits


@dataclass(frozen=True, eq=False)
class RowsByGroupBounds(BoundedSource):
    """The row source of such a table; the M of a decision are those of all groups, an array."""

    table: GroupBoundTable

    draw = staticmethod(choose_by_group)
    rate = staticmethod(rate_of_groups)
    choose = staticmethod(choose_by_group)
    limits = staticmethod(limits_by_group)

    def state(self, n_rows: int, share: Share | None = None) -> GroupBoundTable:
        """Return the table."""
        return self.table
