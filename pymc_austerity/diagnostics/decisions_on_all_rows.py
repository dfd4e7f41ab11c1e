"""What a proxy leaves of the row terms, and its sums over the data, beside all rows at some proposals."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import xarray as xr

from pymc_austerity.diagnostics.balance import Spot
from pymc_austerity.diagnostics.decision_verdicts import judge_proxy, judge_sums
from pymc_austerity.diagnostics.drawn_states import DrawnStates, state_of_chain
from pymc_austerity.diagnostics.row_shape import RowShape
from pymc_austerity.diagnostics.spot_check import against_rows, evaluate_pair, moments_of, pair_shape
from pymc_austerity.diagnostics.verdicts import Finding
from pymc_austerity.kernel import Decider, Proposed

#: Proposals at most at which all rows are evaluated beside what a proxy leaves of them, within so many row terms.
_MOST_PAIRS, _ROW_BUDGET = 20, 2_000_000


@dataclass
class OnAllRows:
    """Some proposals, with the sum, the variance and the shape of the terms of all rows."""

    decider: Decider
    pairs: list[tuple[Proposed, tuple[float, float]]] = field(default_factory=list)
    shapes: list[RowShape] = field(default_factory=list)
    passes: int = 0

    @property
    def n_pairs(self) -> int:
        """How many proposals are looked at."""
        return int(np.clip(_ROW_BUDGET // len(self.decider.rows), 2, _MOST_PAIRS))

    def take(self, spots: list[Spot]) -> None:
        """Take proposals from a spot check that evaluated all rows at them."""
        some = spots[:: -(-len(spots) // self.n_pairs)] if spots else []
        self.pairs = [(s.proposed, s.left) for s in some]

    def propose(self, states: DrawnStates, own: xr.Dataset, rng: np.random.Generator) -> None:
        """Propose from drawn states as the chain did, and evaluate all rows there."""
        for k in np.linspace(0, len(states.theta) - 1, self.n_pairs).astype(int):
            state = state_of_chain(self.decider, own, int(states.chain[k]))
            proposed = self.decider.propose(states.theta[k], states.others[k], state, rng)
            if (pair := evaluate_pair(self.decider, proposed)) is not None:
                self.passes += 1
                self.pairs.append((proposed, moments_of(pair)))
                self.shapes.append(pair_shape(self.decider, pair))

    def judge_proxy(self) -> list[Finding]:
        """Judge what the proxy leaves, and its sums over the data."""
        if not (self.decider.density.expands and self.pairs):
            return []
        variance_left, sum_error = against_rows(self.decider, self.pairs)
        self.passes += len(self.pairs)
        return [judge_proxy(variance_left), *judge_sums(sum_error)]
