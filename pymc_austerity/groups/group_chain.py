"""One chain of a `GroupDecider`: its generators, what it learns while tuning, and how far it has come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_austerity.acceptance import DECIDED
from pymc_austerity.groups.group_decider import GroupDecider
from pymc_austerity.groups.group_parts import data_by_reference
from pymc_austerity.groups.moves_on_all_rows import adapt_tied
from pymc_austerity.groups.prior_moves import MOST_SHIFTS
from pymc_austerity.groups.shared_move import adapt_shared, learn_shared
from pymc_austerity.kernel.chain import AnyChain, Draw

#: Statistics that are added up over the transitions of a draw; the others are averaged.
_COUNTS = ("n_rows_carried", "n_rows_refreshed", "n_refreshed")


class GroupChain(AnyChain):
    """Everything that changes while a chain of a model with groups runs."""

    decider: GroupDecider
    runs_ahead = False

    def __init__(self, decider: GroupDecider, rng: np.random.Generator):
        super().__init__(decider, rng)
        self.start = decider.start(self._rng_start)
        self._read: Any = None

    def stop_tuning(self) -> None:
        """Learn from the draws of the window that tuning ends in."""
        learn_shared(self.state.shared)

    def tuning_draw(self, theta: np.ndarray, others: np.ndarray, temperature: float, adapts: bool) -> Draw:
        """Make one transition, and learn from it if the chain `adapts`."""
        return self._transition(theta, adapts)

    def draws(
        self, n_draws: int, n_transitions: int, theta: np.ndarray, others: np.ndarray, temperature: float
    ) -> list[Draw]:
        """Make draws of so many transitions each; fewer where the last could not be made."""
        made: list[Draw] = []
        while len(made) < n_draws and (not made or made[-1].outcome.status == DECIDED):
            made.append(self._draw(n_transitions, made[-1].outcome.theta if made else theta))
        return made

    def _draw(self, n_transitions: int, theta: np.ndarray) -> Draw:
        made = [self._transition(theta)]
        while len(made) < n_transitions and made[-1].outcome.status == DECIDED:
            made.append(self._transition(made[-1].outcome.theta))
        return _together(made)

    def _transition(self, theta: np.ndarray, adapts: bool = False) -> Draw:
        """Move what is shared with the groups carried along, and then some of the groups."""
        decider, shared = self.decider, self.state.shared
        if self._read is None:
            self._read = data_by_reference(decider.data()), decider.looks_of_large()
        read, looks_of_large = self._read
        carried, refresh, about_centre = decider.move(theta, read, self.state, looks_of_large, self._generators())
        if carried.status != DECIDED:
            return Draw(carried._replace(theta=theta), shared.log_angle[0])
        if refresh.status != DECIDED:
            return Draw(carried._replace(theta=theta, status=refresh.status, row=refresh.row), shared.log_angle[0])
        if adapts:
            phi, dearer = carried.theta[decider.model.groups.shared], decider.prepared.steps.dearer
            adapt_shared(phi, bool(carried.accepted), about_centre, shared, dearer)
            adapt_tied(self.state)
        n_shifts = min(len(decider.prepared.shifts), MOST_SHIFTS)
        more = {
            "about_centre": about_centre,
            "n_rows_carried": carried.n_rows,
            "n_rows_refreshed": refresh.n_rows,
            "n_refreshed": refresh.n_groups,
            "refresh_accept": refresh.n_accepted / refresh.n_groups,
            "shift_accept": refresh.n_shifted / n_shifts if n_shifts else np.nan,
        }
        n_rows, n_stages = carried.n_rows + refresh.n_rows, carried.n_stages + refresh.n_stages
        outcome = carried._replace(
            theta=refresh.theta, accepted=float(carried.accepted), n_rows=n_rows, n_stages=n_stages
        )
        return Draw(outcome, shared.log_angle[0], more)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_read": None}


def _together(made: Sequence[Draw]) -> Draw:
    """Return several transitions as one draw: rows and looks of all, shares that are averages, the rest of the last."""
    last = made[-1]
    if len(made) == 1 or last.outcome.status != DECIDED:
        return last
    outcomes = [draw.outcome for draw in made]
    outcome = last.outcome._replace(
        accepted=float(np.mean([o.accepted for o in outcomes])),
        n_rows=sum(o.n_rows for o in outcomes),
        n_stages=sum(o.n_stages for o in outcomes),
    )
    more = {name: sum(draw.more[name] for draw in made) for name in _COUNTS}
    shares = {name: float(np.mean([draw.more[name] for draw in made])) for name in ("refresh_accept", "shift_accept")}
    return Draw(outcome, last.log_scale, {**last.more, **more, **shares})
