"""What is kept of a model with groups and its data: rows in the order of their groups, and what was learnt of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pymc_austerity.acceptance import AcceptanceTest, Reads, ScalableSubsampling
from pymc_austerity.groups.by_group_bounds import RowsByGroupBounds, draws_nothing
from pymc_austerity.groups.group_bounds import GroupBounds
from pymc_austerity.groups.group_costs import GroupCosts, rows_by_test
from pymc_austerity.groups.group_expansion import GroupExpansion
from pymc_austerity.groups.group_search import whole_numbers
from pymc_austerity.groups.group_shifts import Nested
from pymc_austerity.groups.group_tails import GroupTails
from pymc_austerity.groups.grouping import Groups
from pymc_austerity.groups.membership import Membership
from pymc_austerity.groups.shared_steps import SharedSteps
from pymc_austerity.rows import Rows, RowSource
from pymc_austerity.rows.weighted import AliasTable, WeightedRows


class Turns(NamedTuple):
    """Sets of groups that are refreshed together, as they are independent given all others: arrays for compiled code.

    Those of a factor are, unless rows read several of them, as in ``rating[i] - rating[j]``.  Then groups with rows in
    common have different turns, as neighbours of a Markov field do (a colouring of its graph; Gonzalez, Low, Gretton
    and Guestrin, AISTATS 2011).
    """

    start: np.ndarray  # int64 (T + 1,): the groups of turn t are ``groups[start[t]]`` to ``groups[start[t + 1] - 1]``
    groups: np.ndarray  # int64


class PreparedGroups(NamedTuple):
    """What a step keeps of its preparation: arrays only, so that it travels to other processes."""

    rows: Rows  # a copy of the data, sorted by the groups of the first factor
    order: np.ndarray  # uint32 or int64 (N,): what these rows are numbered in the model
    #: int64 (G + 1,): where the rows of each group begin, and N times the number of factors.  Where rows read several
    #: groups of a factor it begins with N.
    start: np.ndarray
    #: uint32 or int64 ((F - 1) N,): the rows in the order of the groups of all other factors, one factor after the
    #: other: row number n of those that `start` counts is n where that is below N, and ``places[n - N]`` beyond.
    places: np.ndarray
    expansion: GroupExpansion  # what the test leaves out of the rows
    steering: GroupExpansion  # what proposals take the rows for
    #: (P,) and (P, P): normal approximation of the marginal of φ.
    mean: np.ndarray
    factor: np.ndarray
    table: AliasTable | None  # row weights of the carried move, where its test reads a part of the rows
    shifts: np.ndarray  # (S, D): directions along which no row changes
    nested: Nested  # effects that are moved against those nested in them
    turns: Turns  # which groups are refreshed together
    steps: SharedSteps  # how φ moves on the surrogate
    tails: GroupTails  # how groups are proposed that are far from normal given φ
    #: On what the expansion leaves of the rows; None where none are known, or too many rows would be read by them.
    bounds: GroupBounds | None
    costs: GroupCosts | None  # rows that the moves read; None where the rows are not expanded
    without_bounds: str  # why there are none
    passes: float  # passes over all rows, a derivative of each counted as one
    #: Whether the quadratic that steers leaves so much of all rows that the law of φ has to be learnt while tuning.
    rough: bool = False
    #: Names of bounded variables of which the rows are far from their expansion where the posterior lies.
    far_from_quadratic: tuple[str, ...] = ()

    @property
    def nothing_left(self) -> bool:
        """Whether sums over the rows of groups say all that the rows do, so that there is none to draw."""
        return self.bounds is not None and draws_nothing(self.bounds.table)

    def number_in_table(self, row: int) -> int:
        """Return the number in the user's table of a row that chains read; one that is negative is none."""
        return int(self.order[row]) if row >= 0 else row

    def drawn_rows(self, test: AcceptanceTest) -> tuple[AcceptanceTest, RowSource]:
        """Return the test of the carried move and the rows that it draws: by bounds or by weights, where it does.

        Where nothing is left of any row, all tests decide alike, and none has a row to read.
        """
        if test.reads is Reads.BY_BOUNDS or self.nothing_left:
            assert self.bounds is not None
            return ScalableSubsampling() if self.nothing_left else test, RowsByGroupBounds(self.bounds.table)
        if self.table is None:
            return test, test.rows
        return test.with_replacement(), WeightedRows(self.table)

    def rows_refreshed(self, test: AcceptanceTest, few: int) -> float:
        """Return the rows that a refresh of all groups reads, where those of at most `few` rows decide on all."""
        if self.bounds is not None and self.costs is not None:
            return self.costs.refreshed
        return rows_by_test(test, np.diff(self.start), few)

    def draw_shared(self, rng: np.random.Generator, width: float = 1.0) -> np.ndarray:
        """Return a draw of φ from the normal approximation, or one from a wider one."""
        return self.mean + width * self.factor @ rng.standard_normal(self.mean.size)

    def rows_of(self, g: int) -> np.ndarray:
        """Return the numbers of the rows of a group."""
        places, n_rows = slice(self.start[g], self.start[g + 1]), len(self.rows)
        if places.start < n_rows:
            return np.arange(places.start, places.stop)
        return self.places[places.start - n_rows : places.stop - n_rows]


def rows_of_groups(member: Membership, groups: Groups) -> tuple[np.ndarray, np.ndarray]:
    """Return `start` and `places`, see `PreparedGroups`."""
    of_rows, n_groups = member.of_rows, len(groups.own)
    n_rows = of_rows.shape[1]
    if len(of_rows) > len(groups.tied):  # rows of some groups do not lie together: all of them are numbered by places
        of_groups, numbers = np.divmod(np.unique(of_rows * n_rows + np.arange(n_rows)), n_rows)
        start = n_rows + np.concatenate([[0], np.cumsum(np.bincount(of_groups, minlength=n_groups))])
        return start, numbers.astype(whole_numbers(n_rows))
    start = np.concatenate([[0], np.cumsum(np.bincount(of_rows.ravel(), minlength=n_groups))])
    orders = [np.argsort(of, kind="stable") for of in of_rows[1:]]
    return start, np.concatenate([np.empty(0), *orders]).astype(whole_numbers(n_rows))


def find_turns(e: GroupExpansion, tied: Iterable[bool]) -> Turns:
    """Return the turns of the groups of all factors but those that are `tied`, which move together."""
    turns = [np.empty(0, np.int64)]
    for (first, end), together in zip(pairwise(e.first.tolist()), tied, strict=True):
        if not together:
            colours = _colours(first, end, e.cell_start, e.cell_with.astype(np.int64))
            turns.extend(first + np.flatnonzero(colours == colour) for colour in range(colours.max(initial=-1) + 1))
    return Turns(np.cumsum([0, *map(len, turns[1:])]), np.concatenate(turns))


def _colours(first: int, end: int, cell_start: np.ndarray, cell_with: np.ndarray) -> np.ndarray:
    """Give groups of a factor that have rows in common different numbers, those with the most neighbours first."""
    colours = np.full(end - first, -1)
    degrees = np.diff(cell_start[first : end + 1])
    for i in np.argsort(-degrees, kind="stable").tolist():
        others = cell_with[cell_start[first + i] : cell_start[first + i + 1]]
        taken = colours[others[(others >= first) & (others < end)] - first]
        free = np.ones(taken.size + 1, bool)
        free[taken[(taken >= 0) & (taken <= taken.size)]] = False
        colours[i] = free.argmax()
    return colours
