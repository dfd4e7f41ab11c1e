"""What the moves for groups are made of, what they read, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pymc_austerity.acceptance import DECIDED, AcceptanceTest, Conclude, RowReader, Terms
from pymc_austerity.compile.addresses import Addresses, n_rows_at
from pymc_austerity.compile.by_reference import Reference, by_reference
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.by_group_bounds import draws_nothing
from pymc_austerity.groups.group_bounds import GroupBounds, spans_of_groups
from pymc_austerity.groups.group_conditional import Condition, Conditional, OnSurrogate
from pymc_austerity.groups.group_expansion import GroupExpansion
from pymc_austerity.groups.group_model import GroupLinks
from pymc_austerity.groups.group_shifts import Nested
from pymc_austerity.groups.group_tails import GroupTails
from pymc_austerity.groups.prepared_groups import Turns
from pymc_austerity.groups.shared_move import SharedState
from pymc_austerity.groups.shared_steps import SharedSteps
from pymc_austerity.kernel import build_terms
from pymc_austerity.likelihood import LinkedDensity, Place
from pymc_austerity.rows import RowSource


class GroupPlace(NamedTuple):
    """A proposal with what its rows are evaluated with, and where the first row there is stands in the order."""

    proposed: Place
    places: np.ndarray
    first: int


class GroupData(NamedTuple):
    """What the moves read: data sorted by group, and what was learnt of them."""

    links: GroupLinks  # where the model's own functions lie
    others: np.ndarray
    #: Of data that are not indexed by row, and of the rows.
    fixed: Addresses
    arrays: Addresses
    #: int64 (G + 1,): the rows of group g are ``start[g]`` to ``start[g + 1] - 1`` in the order of its factor.
    start: np.ndarray
    places: np.ndarray  # see `PreparedGroups`
    expansion: GroupExpansion  # what the test leaves out of the rows
    steering: GroupExpansion  # what proposals take the rows for
    bounds: GroupBounds  # what no group reads where no bounds are known
    shifts: np.ndarray  # (S, D): directions along which no row changes
    nested: Nested
    steps: SharedSteps
    tails: GroupTails
    row_state: Any  # of the row source of the carried move
    looks: Any  # looks at all rows
    few: int  # a group without bounds and with no more rows than this decides on all of them
    turns: Turns
    n_refreshed: np.ndarray  # int64 (T,): groups of each turn refreshed a draw


def data_by_reference(data: GroupData | Reference) -> Reference:
    """Return what the moves read as they are handed it, and what is so already as it is."""
    if isinstance(data, GroupData):
        data = data._replace(expansion=by_reference(data.expansion), steering=by_reference(data.steering))
    return by_reference(data)


class GroupState(NamedTuple):
    """What a chain carries from draw to draw."""

    shared: SharedState  # moves of φ
    phi: np.ndarray  # (P,): the φ at which `mean`, `factor` and `log_det` hold; not numbers before the first draw
    #: The `Conditional` at `phi`; `log_det` of shape (1,).
    mean: np.ndarray
    alone: np.ndarray
    factor: np.ndarray
    log_det: np.ndarray
    left: np.ndarray
    normals: np.ndarray
    next: np.ndarray  # int64 (T,): the place among the groups of each turn of the one to be refreshed next
    order: np.ndarray  # uint32: row numbers for drawing some of the rows of a large group
    tied: np.ndarray  # (3,): see `tied_state`


@njit
def conditional_of(state: GroupState) -> Conditional:
    """Return the `Conditional` that a chain carries."""
    return Conditional(state.mean, state.alone, state.factor, state.log_det[0], state.left, state.normals)


class RefreshOutcome(NamedTuple):
    """What became of a refresh."""

    theta: np.ndarray
    #: As in `Outcome`.
    status: int
    row: int
    #: Groups that decided, and those that moved.
    n_groups: int
    n_accepted: int
    n_rows: int  # rows read
    n_stages: int  # looks at the rows of groups with many
    n_shifted: int  # shifts that were accepted


@njit
def stayed(theta: np.ndarray) -> RefreshOutcome:
    """Return the outcome of a refresh of no group."""
    return RefreshOutcome(theta, DECIDED, -1, 0, 0, 0, 0, 0)


@njit
def followed_by(first: RefreshOutcome, then: RefreshOutcome) -> RefreshOutcome:
    """Return the outcome of two refreshes, one after the other."""
    return RefreshOutcome(
        then.theta, then.status, then.row, first.n_groups + then.n_groups, first.n_accepted + then.n_accepted,
        first.n_rows + then.n_rows, first.n_stages + then.n_stages, first.n_shifted + then.n_shifted,
    )  # fmt: skip


class GroupParts(NamedTuple):
    """The compiled parts that the moves are made of: nothing of a model."""

    density: LinkedDensity  # of the rows as they are
    seen: LinkedDensity  # as the test sees it: remainders, with their known sum, or the rows as they are
    condition: Condition
    surrogate: Callable[..., OnSurrogate]  # of `build_surrogate`
    sums: bool  # whether some sums of effects are zero
    #: For rows of equal weight, and for rows as `source` draws them.
    test: AcceptanceTest
    drawn: AcceptanceTest
    source: RowSource  # of the carried move
    reach: Callable[..., Any]  # compiled: how far the bounds let rows change in a carried move
    bounded: bool  # whether the groups that are refreshed read rows by their bounds
    normal: bool  # whether some of φ is normal given the rest
    tied: bool  # whether some groups move together


@njit
def without_reach(theta_new, theta, data):  # type: ignore[no-untyped-def]
    """Return no bound, where the test asks for none."""
    return np.inf


@njit
def reach_by_group(theta_new, theta, data):  # type: ignore[no-untyped-def]
    """Return M_g of all groups, raised."""
    if draws_nothing(data.bounds.table):
        return np.zeros(data.bounds.table.n_first)
    spans = spans_of_groups(theta_new, theta, data.bounds.table.n_first, data.expansion, data.bounds)
    for g in range(spans.size):
        spans[g] *= data.bounds.widening
    return spans


@njit
def row_numbers(first, numbers, places, n_rows):  # type: ignore[no-untyped-def]
    """Return row numbers, for numbers in the order of one factor that are counted from the first of a group."""
    found = np.empty(numbers.size, np.int64)
    further = numbers.size > 0 and first + numbers[0] >= n_rows
    for i in range(numbers.size):
        number = first + np.int64(numbers[i])
        found[i] = places[number - n_rows] if further else number
    return found


def build_conclude(parts: GroupParts, test: AcceptanceTest, source: RowSource) -> Conclude:
    """Compile the way of a test to a decision on the rows of a `GroupPlace`."""
    return test.for_rows(RowReader(_terms_of_groups(build_terms(parts.seen.both_sides)), source))


@built_once
def _terms_of_groups(terms_of_rows: Terms) -> Terms:
    @njit
    def terms(numbers, at):  # type: ignore[no-untyped-def]
        return terms_of_rows(row_numbers(at.first, numbers, at.places, n_rows_at(at.proposed.arrays)), at.proposed)

    return terms
