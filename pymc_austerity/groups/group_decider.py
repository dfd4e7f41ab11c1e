"""The `GroupDecider`: everything that the moves of a model with groups need, compiled; and what rows its draws read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import typeof
from numba.typed import Dict

from pymc_austerity.acceptance import AcceptanceTest, Reads
from pymc_austerity.compile.addresses import Addresses
from pymc_austerity.compile.by_address import Reached
from pymc_austerity.compile.by_reference import Reference, by_reference
from pymc_austerity.groups.group_bounds import no_bounds
from pymc_austerity.groups.group_conditional import compile_condition, compile_surrogate
from pymc_austerity.groups.group_model import GroupLinks, GroupModel
from pymc_austerity.groups.group_moves import GroupTransition, build_group_transition
from pymc_austerity.groups.group_parts import (
    GroupData,
    GroupParts,
    GroupState,
    RefreshOutcome,
    data_by_reference,
    reach_by_group,
    without_reach,
)
from pymc_austerity.groups.group_search import GroupSurrogate
from pymc_austerity.groups.moves_on_all_rows import tied_state
from pymc_austerity.groups.prepared_groups import PreparedGroups
from pymc_austerity.groups.shared_move import shared_state
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.kernel import Outcome, pack_generators
from pymc_austerity.kernel.chain import NEARER, further_start, largest_fall
from pymc_austerity.kernel.reported import GROUPS, Reported

_BROKEN_BOUND = "No draw so far is then exact: sample with ExactMH(), and report the model."


@dataclass(frozen=True, eq=False)
class GroupDecider:
    """The moves of a model with groups, compiled for its data: what a `Decider` is to one decision over everything.

    Pickled by what it was made of; another process compiles for itself.
    """

    model: GroupModel
    test: AcceptanceTest
    few: int  # rows up to which a group decides on all of them
    n_refreshed: np.ndarray  # int64 (T,): groups of each turn refreshed a draw; those tied to each other move together
    theta0: np.ndarray  # the model's initial point
    #: Values of the variables of other steps, of which there are none, and of data that are not indexed by row.
    others: np.ndarray
    fixed: tuple[np.ndarray, ...]
    prepared: PreparedGroups

    @cached_property
    def parts(self) -> GroupParts:
        """The compiled parts of the moves."""
        model, found, e = self.model, self.prepared, self.prepared.expansion
        drawn, source = found.drawn_rows(self.test)
        return GroupParts(
            model.linked, model.linked_seen, compile_condition(model.links, e), compile_surrogate(model.links, e),
            len(e.zero_sums) > 0, self.test, drawn, source,
            reach_by_group if drawn.reads is Reads.BY_BOUNDS else without_reach, found.bounds is not None,
            found.steps.normal.size > 0, bool(model.groups.moves_together.any()),
        )  # fmt: skip

    @property
    def n_rows(self) -> int:
        """N; those of the user's data are as many."""
        return len(self.prepared.rows)

    @property
    def reported(self) -> Reported:
        """What a step reports of it."""
        found = self.prepared
        error = "" if self.parts.drawn.reads is Reads.BY_BOUNDS and self.parts.bounded else self.test.error
        return Reported(self.n_rows, found.passes, error, "row", found.number_in_table, GROUPS, _BROKEN_BOUND)

    @cached_property
    def prior_slope(self) -> Reached | None:
        """The log prior and its gradient, where something is normal given all else that is shared."""
        normal = self.prepared.steps.normal
        return self.model.prior_slope(normal) if normal.size else None

    @property
    def surrogate(self) -> GroupSurrogate:
        """What the expansion that proposals read and the prior say."""
        return GroupSurrogate(self.model, self.others, self.fixed)

    @property
    def links(self) -> GroupLinks:
        """Where the model's functions lie in this process."""
        links, slope = self.model.links, self.prior_slope
        return links if slope is None else links._replace(rows=links.rows._replace(prior_slope=slope.address))

    @cached_property
    def data_at(self) -> tuple[Addresses, Addresses]:
        """Where data that are not indexed by row lie in this process, and the rows."""
        return self.model.likelihood.fixed_at(self.fixed), self.model.likelihood.rows_at(self.prepared.rows.arrays)

    def data(self) -> GroupData:
        """Return what the compiled moves read."""
        found, n_rows = self.prepared, len(self.prepared.rows)
        return GroupData(
            self.links, self.others, *self.data_at, found.start, found.places, found.expansion, found.steering,
            found.bounds or no_bounds(*found.expansion.cross.shape), found.shifts, found.nested, found.steps,
            found.tails, self.parts.source.state(n_rows), self.parts.drawn.looks(n_rows), self.few, found.turns,
            self.n_refreshed,
        )  # fmt: skip

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

    def new_state(self) -> GroupState:
        """Return the state at the start of a chain."""
        found, (n_groups, size) = self.prepared, self.model.groups.own.shape
        largest, n_left = int(np.diff(found.start).max()), found.expansion.left[-1]
        return GroupState(
            shared_state(found.mean, found.factor, found.steps.sliced.size),
            np.full(found.mean.size, np.nan),
            np.empty((n_groups, size)),
            np.empty((n_groups, size)),
            np.empty((n_groups, size, size)),
            np.full(1, np.nan),
            np.zeros((n_left, n_left)),
            np.zeros((len(self.model.groups.zero_sums), n_groups, size)),
            np.zeros(found.turns.start.size - 1, np.int64),
            np.arange(largest, dtype=np.uint32),
            tied_state(),
        )

    @cached_property
    def transition(self) -> GroupTransition:
        """What makes one draw, compiled."""
        generators = pack_generators(*np.random.default_rng(0).spawn(3))
        read = data_by_reference(self.data()), by_reference(self.new_state()), self.looks_of_large(), generators
        return build_group_transition(self.parts, *map(typeof, read))

    def move(
        self, theta: np.ndarray, data: GroupData | Reference, state: GroupState, looks_of_large: Any, generators: Any
    ) -> tuple[Outcome, RefreshOutcome, bool]:
        """Make one carried move and one refresh from θ, and say whether φ′ was proposed about the centre."""
        read = data_by_reference(data), by_reference(state), looks_of_large, generators
        first, second, about_centre = uninterrupted(self.transition, theta, *read)
        return Outcome(*first), RefreshOutcome(*second), about_centre

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """Draw a start, φ further from its centre than a draw would be."""
        found, e, surrogate = self.prepared, self.prepared.steering, self.surrogate
        width, z = further_start(found.mean.size), rng.standard_normal(self.model.groups.own.shape)
        lowest = surrogate.marginal(found.mean, e)[0] - largest_fall(found.mean.size, width)
        for _ in range(NEARER):
            phi = found.draw_shared(rng, width)
            theta = surrogate.theta(phi, z, e)
            log_prior = uninterrupted(self.model.density.log_prior, theta, self.others, *self.fixed)[0]
            if np.isfinite(log_prior) and surrogate.marginal(phi, e)[0] > lowest:
                return theta
            # Where groups say little of a scale it may have no density at the ends of the normal approximation.
            width /= 2
        return surrogate.theta(found.mean, z, e)

    def __reduce__(self) -> Any:
        how = self.few, self.n_refreshed
        return GroupDecider, (self.model, self.test, *how, self.theta0, self.others, self.fixed, self.prepared)


def predicted_rows(decider: GroupDecider) -> float:
    """Return the rows that a draw reads where all moves draw them by bounds and stay where these hold."""
    found = decider.prepared
    if found.bounds is None or found.costs is None:
        return float(decider.n_rows)
    refreshed = decider.n_refreshed.sum() / len(decider.model.groups.own) * found.costs.refreshed
    return min(decider.n_rows, found.bounds.widening * found.costs.drawn_within) + float(refreshed)


def expected_rows(decider: GroupDecider) -> tuple[float, bool]:
    """Return the rows that a draw reads, of batches those of the first look, and whether some draws read all."""
    if decider.parts.drawn.reads is Reads.BY_BOUNDS:
        costs = decider.prepared.costs
        return predicted_rows(decider), costs is not None and costs.drawn_within < costs.drawn == np.inf
    share, test = decider.n_refreshed.sum() / len(decider.model.groups.own), decider.test
    refreshed = share * decider.prepared.rows_refreshed(test, decider.few)
    return float(test.looks(decider.n_rows).sizes[0] + refreshed), False


def described(decider: GroupDecider) -> str:
    """Say how groups and what they share are decided, in a sentence or two."""
    found = decider.prepared
    if not found.nothing_left and all(decider.model.groups.tied):
        return "Their prior ties the groups to each other: they move together, and one decision is made for all."
    if not found.nothing_left and decider.model.groups.moves_together.all():
        return "The effects sum to zero: they move together, and one decision is made for all."
    if found.bounds is None or found.costs is None:
        few = "all of their rows" if decider.few >= len(found.rows) else "all of their rows, or a batch of many"
        return f"Groups read {few}: {found.without_bounds}."
    if found.nothing_left:
        return "Sums over the rows of each group determine the likelihood: no row is read, and draws are exact."
    rows = f"A move of all groups takes about {found.costs.refreshed:,.0f} evaluations of {len(found.rows):,} rows"
    if decider.parts.drawn.reads is Reads.BY_BOUNDS:
        return f"{rows} and is exact, as is that of the shared parameters."
    return f"{rows} and is exact; the shared parameters are moved by decisions on a batch of rows."
