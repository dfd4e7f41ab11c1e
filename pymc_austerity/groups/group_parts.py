"""What the moves for groups are made of, what they read, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pymc_austerity.acceptance import AcceptanceTest, Conclude, RowReader, Terms
from pymc_austerity.compile.addresses import Addresses, n_rows_at
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.by_group_bounds import draws_nothing
from pymc_austerity.groups.group_bounds import GroupBounds, spans_of_groups
from pymc_austerity.groups.group_conditional import Condition, Conditional
from pymc_austerity.groups.group_density import LinkedGroupTerms
from pymc_austerity.groups.group_expansion import GroupExpansion
from pymc_austerity.groups.group_model import GroupLinks
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
    """What the moves read: data sorted by group, and what was learnt of them.

    Attributes
    ----------
    links : GroupLinks
        Where the model's own functions lie.
    others : numpy.ndarray
    fixed, arrays : Addresses
        Of data that are not indexed by row, and of the rows.
    start : numpy.ndarray of int64, shape (G + 1,)
        The rows of group g are ``start[g]`` to ``start[g + 1] - 1`` in the order of its factor.
    places : numpy.ndarray
        See `PreparedGroups`.
    expansion : GroupExpansion
        What the test leaves out of the rows.
    steering : GroupExpansion
        What proposals take the rows for.
    bounds : GroupBounds
        What no group reads where no bounds are known.
    shifts : numpy.ndarray, shape (S, D)
        Directions along which no row changes.
    steps : SharedSteps
    unread : numpy.ndarray of int64
        The numbers, among what is shared, of parameters that no row reads.
    row_state : Any
        Of the row source of the carried move.
    looks : Any
        Looks at all rows.
    few : int
        A group without bounds and with no more rows than this decides on all of them.
    n_refreshed : numpy.ndarray of int64, shape (F,)
        Groups of each factor refreshed a draw.
    """

    links: GroupLinks
    others: np.ndarray
    fixed: Addresses
    arrays: Addresses
    start: np.ndarray
    places: np.ndarray
    expansion: GroupExpansion
    steering: GroupExpansion
    bounds: GroupBounds
    shifts: np.ndarray
    steps: SharedSteps
    unread: np.ndarray
    row_state: Any
    looks: Any
    few: int
    n_refreshed: np.ndarray


class GroupState(NamedTuple):
    """What a chain carries from draw to draw.

    Attributes
    ----------
    shared : SharedState
        Moves of φ.
    phi : numpy.ndarray, shape (P,)
        The φ at which `mean`, `factor` and `log_det` hold; not numbers before the first draw.
    mean, alone, factor, log_det, left
        The `Conditional` at `phi`; `log_det` of shape (1,).
    next : numpy.ndarray of int64, shape (F,)
        The group of each factor to be refreshed next.
    order : numpy.ndarray of uint32
        Row numbers for drawing some of the rows of a large group.
    tied : numpy.ndarray, shape (3,)
        See `tied_state`.
    """

    shared: SharedState
    phi: np.ndarray
    mean: np.ndarray
    alone: np.ndarray
    factor: np.ndarray
    log_det: np.ndarray
    left: np.ndarray
    next: np.ndarray
    order: np.ndarray
    tied: np.ndarray


@njit
def conditional_of(state: GroupState) -> Conditional:
    """Return the `Conditional` that a chain carries."""
    return Conditional(state.mean, state.alone, state.factor, state.log_det[0], state.left)


class RefreshOutcome(NamedTuple):
    """What became of a refresh.

    Attributes
    ----------
    theta : numpy.ndarray
    status, row : int
        As in `Outcome`.
    n_groups, n_accepted : int
        Groups that decided, and those that moved.
    n_rows : int
        Rows read.
    n_stages : int
        Looks at the rows of groups with many.
    n_shifted : int
        Shifts that were accepted.
    """

    theta: np.ndarray
    status: int
    row: int
    n_groups: int
    n_accepted: int
    n_rows: int
    n_stages: int
    n_shifted: int


class GroupParts(NamedTuple):
    """The compiled parts that the moves are made of: nothing of a model.

    Attributes
    ----------
    density : LinkedDensity
        Of the rows as they are.
    seen : LinkedDensity
        As the test sees it: remainders, with their known sum, or the rows as they are.
    prior_terms : LinkedGroupTerms
    condition : Condition
    test, drawn : AcceptanceTest
        For rows of equal weight, and for rows as `source` draws them.
    source : RowSource
        Of the carried move.
    reach : callable
        Compiled: how far the bounds let rows change in a carried move.
    bounded : bool
        Whether the groups that are refreshed read rows by their bounds.
    normal : bool
        Whether some of φ is normal given the rest.
    tied : bool
        Whether some groups are tied to each other by their prior.
    """

    density: LinkedDensity
    seen: LinkedDensity
    prior_terms: LinkedGroupTerms
    condition: Condition
    test: AcceptanceTest
    drawn: AcceptanceTest
    source: RowSource
    reach: Callable[..., Any]
    bounded: bool
    normal: bool
    tied: bool


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
def row_numbers(numbers, places, n_rows):  # type: ignore[no-untyped-def]
    """Return row numbers, for numbers in the order of one factor."""
    return row_numbers_from(np.int64(0), numbers, places, n_rows)


@njit
def row_numbers_from(first, numbers, places, n_rows):  # type: ignore[no-untyped-def]
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
        return terms_of_rows(row_numbers_from(at.first, numbers, at.places, n_rows_at(at.proposed.arrays)), at.proposed)

    return terms
