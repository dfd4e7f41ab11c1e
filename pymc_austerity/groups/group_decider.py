"""Everything that moves for groups need, compiled: made by `GroupAssembly`, frozen, without PyMC's step contract."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba.typed import Dict

from pymc_austerity.acceptance import AcceptanceTest, Reads, ScalableSubsampling
from pymc_austerity.compile.addresses import Addresses
from pymc_austerity.compile.by_address import Reached
from pymc_austerity.compile.cache import cached
from pymc_austerity.groups.by_group_bounds import RowsByGroupBounds
from pymc_austerity.groups.group_bounds import GroupBounds, no_bounds
from pymc_austerity.groups.group_conditional import build_condition
from pymc_austerity.groups.group_model import GroupLinks, GroupModel
from pymc_austerity.groups.group_moves import GroupTransition, build_group_transition
from pymc_austerity.groups.group_parts import (
    GroupData,
    GroupParts,
    GroupState,
    RefreshOutcome,
    reach_by_group,
    without_reach,
)
from pymc_austerity.groups.group_preparation import PreparedGroups
from pymc_austerity.groups.group_shift import MOST_SHIFTS
from pymc_austerity.groups.grouping import Groups
from pymc_austerity.groups.shared_move import shared_state
from pymc_austerity.groups.tied_move import tied_state
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.kernel import Outcome, largest_fall, pack_generators
from pymc_austerity.likelihood import RowLikelihood
from pymc_austerity.rows import Rows, RowSource
from pymc_austerity.rows.weighted import WeightedRows

#: A group with so many rows, or fewer, decides on all of them: more than that a test may save.
_FEW_ROWS = 600
#: A carried move costs about as much as the refresh of so many rows, by itself, for each group and for each cell.
_CARRIED_ROWS, _ROWS_PER_GROUP, _ROWS_PER_CELL = 4_000, 3, 0.25
#: Shares of the groups between which effects keep step with what they share: of a draw's worth of the slowest shared
#: parameter, a fifth to a third, effects make as much where a fifth of them is refreshed.  More where it costs no more
#: than so many times the carried move.
_LEAST_REFRESHED, _MOST_REFRESHED, _REFRESH_TO_CARRIED = 0.2, 0.7, 1.5
#: Starts that are tried, each nearer to the centre, before it is the centre itself.
_NEARER = 5


@dataclass(frozen=True, eq=False)
class GroupDecider:
    """The moves of a model with groups, compiled for its data.

    Pickled by what it was made of; another process compiles for itself.
    """

    model: GroupModel
    test: AcceptanceTest
    share: float | None  # of the groups that are refreshed a draw; None for what pays
    theta0: np.ndarray  # the model's initial point
    #: Values of the variables of other steps, of which there are none, and of data that are not indexed by row.
    others: np.ndarray
    fixed: tuple[np.ndarray, ...]
    prepared: PreparedGroups
    parts: GroupParts
    transition: GroupTransition

    @property
    def likelihood(self) -> RowLikelihood:
        """Of the model."""
        return self.model.likelihood

    @property
    def groups(self) -> Groups:
        """Of the model."""
        return self.model.groups

    @property
    def rows(self) -> Rows:
        """The data, sorted by group."""
        return self.prepared.rows

    @property
    def n_rows(self) -> int:
        """N."""
        return len(self.rows)

    @property
    def n_table(self) -> int:
        """Rows of the user's data."""
        return len(self.rows)

    @property
    def setup_passes(self) -> float:
        """Passes over all rows before the first draw."""
        return self.prepared.passes

    def number_in_table(self, row: int) -> int:
        """Return the number in the user's table of a row that chains read; one that is negative is none."""
        return int(self.prepared.order[row]) if row >= 0 else row

    @property
    def row_called(self) -> str:
        """What a row is called in messages."""
        return "row"

    @property
    def broken_bound(self) -> str:
        """What it means that a row changed by more than its bound."""
        return "No draw so far is then exact: sample with ExactMH(), and report the model."

    @property
    def predicted_rows(self) -> float:
        """Rows that a draw reads where all moves draw them by bounds."""
        found = self.prepared
        if found.bounds is None or found.costs is None:
            return float(len(self.rows))
        refreshed = self.n_refreshed.sum() / len(self.groups.own) * found.costs.refreshed
        return min(self.n_rows, found.bounds.widening * found.costs.drawn) + float(refreshed)

    @property
    def expected_rows(self) -> float:
        """Rows that a draw reads: those of the first look, where the test of the carried move reads batches."""
        found = self.prepared
        if self.parts.drawn.reads is Reads.BY_BOUNDS:
            return self.predicted_rows
        share = self.n_refreshed.sum() / len(self.groups.own)
        return float(self.test.looks(self.n_rows).sizes[0] + share * _rows_of_refresh(self.test, found, self.few))

    @property
    def error(self) -> str:
        """How the chain errs, in a few words; empty where it leaves the posterior as it is."""
        return "" if self.parts.drawn.reads is Reads.BY_BOUNDS and self.parts.bounded else self.test.error

    @property
    def links(self) -> GroupLinks:
        """Where the model's functions lie in this process."""
        links = self.model.links
        if self.prior_slope is None:
            return links
        return links._replace(rows=links.rows._replace(prior_slope=self.prior_slope.address))

    @cached_property
    def prior_slope(self) -> Reached | None:
        """The log prior and its gradient, where something is normal given all else that is shared."""
        normal = self.prepared.steps.normal
        return self.model.prior_slope(normal) if normal.size else None

    @cached_property
    def data_at(self) -> tuple[Addresses, Addresses]:
        """Where data that are not indexed by row lie in this process, and the rows."""
        return self.likelihood.fixed_at(self.fixed), self.likelihood.rows_at(self.prepared.rows.arrays)

    def data(self) -> GroupData:
        """Return what the compiled moves read."""
        found, n_rows = self.prepared, len(self.prepared.rows)
        return GroupData(
            self.links, self.others, *self.data_at, found.start, found.places, found.expansion, found.steering,
            _bounds_of(found), found.shifts, found.steps,
            np.flatnonzero(~np.isin(self.groups.shared, self.groups.read)),
            self.parts.source.state(n_rows), self.parts.drawn.looks(n_rows), self.few, self.n_refreshed,
        )  # fmt: skip

    @property
    def described(self) -> str:
        """How groups and what they share are decided, in a sentence or two."""
        found = self.prepared
        if not found.nothing_left and all(self.groups.tied):
            return "Their prior ties the groups to each other: they move together, and one decision is made for all."
        if found.bounds is None or found.costs is None:
            few = "all of their rows" if self.few >= len(found.rows) else "all of their rows, or a batch of many"
            return f"Groups read {few}: {found.without_bounds}."
        if found.nothing_left:
            return "Sums over the rows of groups say all that they do: no row is read, and everything is exact."
        rows = f"A move of all groups reads about {found.costs.refreshed:,.3g} of {len(found.rows):,} rows"
        all_exact = ", as all is" if self.parts.drawn.reads is Reads.BY_BOUNDS else ""
        return f"{rows}, and every group decides exactly{all_exact}."

    @property
    def few(self) -> int:
        """Rows up to which a group decides on all of them."""
        return max(_FEW_ROWS, len(self.prepared.rows) if not self.test.reads.a_part else 0)

    def looks_of_large(self) -> Any:
        """Return a typed dict from the numbers of groups with more rows to the looks at them; nothing with bounds."""
        if self.parts.bounded:  # no group looks, and a dict takes numba more than a second to compile in every process
            return ()
        # Not among what the moves read: numba takes half a millisecond to look at a tuple that holds one.
        found = Dict()
        found[-1] = self.test.looks(2**10)
        del found[-1]
        sizes = np.diff(self.prepared.start)
        for g in np.flatnonzero(sizes > self.few):
            found[int(g)] = self.test.looks(int(sizes[g]))
        return found

    @property
    def n_refreshed(self) -> np.ndarray:
        """Groups of each factor refreshed a draw; those that are tied to each other move together."""
        share = self.share
        if share is None:
            carried = rest_of_draw(self.prepared) + (0 if self.test.reads.a_part else len(self.prepared.rows))
            share = share_refreshed(_rows_of_refresh(self.test, self.prepared, self.few), carried)
        numbers = np.maximum(1, np.round(share * np.diff(self.groups.first)).astype(np.int64))
        return np.where(self.groups.tied, 0, numbers)

    @property
    def n_shifts(self) -> int:
        """Shifts tried in a draw."""
        return min(len(self.prepared.shifts), MOST_SHIFTS)

    def new_state(self) -> GroupState:
        """Return the state at the start of a chain."""
        found, (n_groups, size) = self.prepared, self.groups.own.shape
        largest, n_left = int(np.diff(found.start).max()), found.expansion.left[-1]
        return GroupState(
            shared_state(found.mean, found.factor),
            np.full(found.mean.size, np.nan),
            np.empty((n_groups, size)),
            np.empty((n_groups, size)),
            np.empty((n_groups, size, size)),
            np.zeros(1),
            np.zeros((n_left, n_left)),
            np.zeros(len(self.groups.tied), np.int64),
            np.arange(largest, dtype=np.uint32),
            tied_state(),
        )

    def move(
        self, theta: np.ndarray, data: GroupData, state: GroupState, looks_of_large: Any, generators: Any
    ) -> tuple[Outcome, RefreshOutcome, bool]:
        """Make one carried move and one refresh from θ, and say whether φ′ was proposed about the centre.

        The generators are those for proposals, decisions and rows.
        """
        packed = pack_generators(*generators) if isinstance(generators, list) else generators
        first, second, about_centre = uninterrupted(self.transition, theta, data, state, looks_of_large, packed)
        return Outcome(*first), RefreshOutcome(*second), about_centre

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """Draw a start, φ further from its centre than a draw would be."""
        found, at = self.prepared, (self.others, self.fixed)
        width = np.sqrt(1 + 3 * np.sqrt(10 / max(10, found.mean.size)))
        z = rng.standard_normal(self.groups.own.shape)
        e = found.steering
        centre = e.centre.copy()
        centre[e.shared] = found.mean
        highest = uninterrupted(self.model.marginal, centre, *at, e)[0]
        lowest = highest - largest_fall(found.mean.size, width)
        for _ in range(_NEARER):
            theta = found.theta(found.draw_shared(rng, width), z, self.model.condition, at)
            log_prior = uninterrupted(self.model.density.log_prior, theta, self.others, *self.fixed)[0]
            if np.isfinite(log_prior) and uninterrupted(self.model.marginal, theta, *at, e)[0] > lowest:
                return theta
            # Where groups say little of a scale it may have no density at the ends of the normal approximation.
            width /= 2
        return found.theta(found.mean, z, self.model.condition, at)

    def __reduce__(self) -> Any:
        # The graphs of the prior are among the groups.
        model = self.model
        given = (model.likelihood, model.groups, model.expands, model.compile_kwargs)
        return _assemble_again, (given, self.test, self.share, self.theta0, self.others, self.fixed, self.prepared)


def rest_of_draw(found: PreparedGroups) -> float:
    """Return how many rows cost as much as a carried move does beside its own rows."""
    n_groups = found.expansion.own.shape[0]
    return _CARRIED_ROWS + _ROWS_PER_GROUP * n_groups + _ROWS_PER_CELL * found.expansion.cell_with.size


def _rows_of_refresh(test: AcceptanceTest, found: PreparedGroups, few: int) -> float:
    """Return how many rows a refresh of all groups reads."""
    if found.bounds is not None and found.costs is not None:
        return found.costs.refreshed
    sizes = np.diff(found.start)
    # Large groups read a batch, and few of them more than one.
    batches = {n: test.looks(n).sizes[0] for n in np.unique(sizes[sizes > few]).tolist()}
    return float(sum(batches.get(n, n) for n in sizes.tolist()))


def share_refreshed(n_rows: float, carried: float) -> float:
    """Return the share of the groups that is refreshed a draw.

    `n_rows`: that the refresh of all groups would read; `carried`: what the carried move costs, in rows of a refresh.
    """
    return float(np.clip(_REFRESH_TO_CARRIED * carried / max(1, n_rows), _LEAST_REFRESHED, _MOST_REFRESHED))


def drawn_rows(test: AcceptanceTest, prepared: PreparedGroups) -> tuple[AcceptanceTest, RowSource]:
    """Return the test of the carried move and the rows that it draws: by bounds or by weights, where it does.

    Where nothing is left of any row, all tests decide alike, and none has a row to read.
    """
    if test.reads is Reads.BY_BOUNDS or prepared.nothing_left:
        assert prepared.bounds is not None
        return ScalableSubsampling() if prepared.nothing_left else test, RowsByGroupBounds(prepared.bounds.table)
    if prepared.table is None:
        return test, test.rows
    return test.with_replacement(), WeightedRows(prepared.table)


def _bounds_of(found: PreparedGroups) -> GroupBounds:
    """Return the bounds, or what stands for them."""
    return found.bounds if found.bounds is not None else no_bounds(*found.expansion.cross.shape)


def _assemble_again(model: tuple[Any, ...], *given: Any) -> GroupDecider:
    """Assemble a decider in another process, from what has been learnt already."""
    return complete_decider(GroupModel(*model), *given)


def complete_decider(
    model: GroupModel,
    test: AcceptanceTest,
    share: float | None,
    theta0: np.ndarray,
    others: np.ndarray,
    fixed: tuple[np.ndarray, ...],
    prepared: PreparedGroups,
) -> GroupDecider:
    """Compile the moves and put the decider together, from what has been learnt."""
    drawn, source = drawn_rows(test, prepared)
    prior = model.linked_prior
    parts = GroupParts(
        model.linked, model.linked_seen, prior.terms, build_condition(prior.derivatives), test, drawn, source,
        reach_by_group if drawn.reads is Reads.BY_BOUNDS else without_reach, prepared.bounds is not None,
        prepared.steps.normal.size > 0, any(model.groups.tied),
    )  # fmt: skip
    transition = cached(build_group_transition(parts))
    decider = GroupDecider(model, test, share, theta0, others, fixed, prepared, parts, transition)
    rng = np.random.default_rng(0)  # once, so that forked chains inherit the code
    decider.move(decider.start(rng), decider.data(), decider.new_state(), decider.looks_of_large(), rng.spawn(3))
    return decider
