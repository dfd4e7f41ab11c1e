"""What is judged of decisions beside their balance: the batches that decided, what a proxy leaves, and its sums."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import xarray as xr

from pymc_austerity.acceptance import Reads
from pymc_austerity.diagnostics.balance import Spot
from pymc_austerity.diagnostics.decision_verdicts import (
    judge_all_rows,
    judge_batch,
    judge_bounds,
    judge_edgeworth,
    judge_no_decision,
    judge_proxy,
    judge_sums,
    judge_wrong_decisions,
)
from pymc_austerity.diagnostics.drawn_states import DrawnStates, state_of_chain
from pymc_austerity.diagnostics.remedies import batch_remedy, decision_remedy
from pymc_austerity.diagnostics.row_shape import RowShape, batch_shape
from pymc_austerity.diagnostics.spot_check import against_rows, evaluate_pair, moments_of, pair_shape
from pymc_austerity.diagnostics.stopping import wrong_decisions
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
        by_rows = against_rows(self.decider, self.pairs)
        self.passes += len(self.pairs)
        return [judge_proxy(by_rows.variance_left), *judge_sums(by_rows.sum_error)]


def judge_exact_decisions(stats: dict[str, np.ndarray]) -> list[Finding]:
    """Judge decisions that bounds or all rows make exact."""
    partial = stats["n_rows"][~stats["full_data"].astype(bool)]
    return [judge_bounds(float(partial.mean()))] if partial.size else [judge_all_rows()]


def judge_batches(
    decider: Decider, stats: dict[str, np.ndarray], batches: list[tuple[RowShape, float]], n_total: int
) -> list[Finding]:
    """Judge the batches that decided, and the error that follows from where decisions stopped or from their shape.

    Each batch is the shape of the row terms of a proposal, `n_total` rows, with the rows that decided on it.
    """
    if not batches:
        return [judge_all_rows()]
    if decider.test.reads is Reads.BY_BOUNDS:
        return [judge_bounds(float(np.mean([n for _, n in batches])))]
    if not any(n for _, n in batches):
        return [judge_no_decision()]
    batch = batch_shape(batches, n_total, float(decider.parts.temperature.final))
    found = [judge_batch(batch, batch_remedy(decider))]
    if decider.test.corrects_noise:
        found.append(judge_edgeworth(batch, batch_remedy(decider)))
    elif np.isfinite(stats["threshold"]).any():
        rate = float(stats["accepted"].mean())
        wrong = wrong_decisions(stats["log_ratio"], stats["log_ratio_sd"], stats["threshold"], rate)
        found.append(judge_wrong_decisions(float(wrong.mean()), decision_remedy(decider)))
    return found


def batches_of(spots: list[Spot]) -> list[tuple[RowShape, float]]:
    """Return the shapes of the rows of proposals, with the rows that decided on them before all."""
    return [(s.shape, s.repeats.partial_rows / s.repeats.partial) for s in spots if s.repeats and s.repeats.partial]
