"""What is judged of decisions beside their balance: batches and where they stopped, what a proxy leaves, remedies."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import xarray as xr
from scipy.special import ndtr, ndtri

from pymc_austerity.acceptance import Reads
from pymc_austerity.diagnostics.decision_verdicts import (
    judge_batch,
    judge_bounds,
    judge_edgeworth,
    judge_proxy,
    judge_sums,
    judge_wrong_decisions,
)
from pymc_austerity.diagnostics.drawn_states import DrawnStates, state_of_chain
from pymc_austerity.diagnostics.row_shape import RowShape, batch_shape
from pymc_austerity.diagnostics.spot_check import against_rows, evaluate_pair, moments_of, pair_shape
from pymc_austerity.diagnostics.verdicts import CARE, TRUST, Finding
from pymc_austerity.kernel import Decider, Proposed

_ON_ALL_ROWS = Finding("batch means", TRUST, 0.0, "Every decision was made on all rows and is exact.", "")
_NO_DECISION = Finding(
    "batch means",
    CARE,
    np.nan,
    "Every proposal is taken, without a decision: nothing corrects the error of the moves.",
    "Decide on the same proposals: ApproxMH(proposal=Langevin()).",
)
#: Proposals at most at which all rows are evaluated beside what a proxy leaves of them, within so many row terms.
_MOST_PAIRS, _ROW_BUDGET = 20, 2_000_000


def judge_batches(
    decider: Decider, stats: dict[str, np.ndarray], batches: Sequence[tuple[RowShape, float]], n_total: int
) -> list[Finding]:
    """Judge the batches that decided, and the error that follows from where decisions stopped or from their shape.

    Each batch is the shape of the row terms of a proposal, `n_total` rows, with the rows that decided on it.
    """
    if not batches:
        return [_ON_ALL_ROWS]
    if decider.test.reads is Reads.BY_BOUNDS:
        return [judge_bounds(float(np.mean([n for _, n in batches])))]
    if not any(n for _, n in batches):
        return [_NO_DECISION]
    return [*judge_shapes(decider, batches, n_total), *judge_stops(decider, stats)]


def judge_exact_decisions(stats: dict[str, np.ndarray]) -> list[Finding]:
    """Judge decisions that bounds or all rows make exact."""
    full = stats["full_data"].astype(bool)
    partial = stats["n_rows"][~full]  # none where a proposal was impossible by the prior
    on_all_rows = not partial.size or (full.any() and not partial.any())
    return [_ON_ALL_ROWS if on_all_rows else judge_bounds(float(partial.mean()))]


def judge_shapes(decider: Decider, batches: Sequence[tuple[RowShape, float]], n_total: int) -> list[Finding]:
    """Judge the means of batches, and the error of a test that takes their noise for normal."""
    batch, remedy = batch_shape(batches, n_total, float(decider.parts.temperature.final)), batch_remedy(decider)
    of_error = [judge_edgeworth(batch, remedy)] if decider.test.corrects_noise else []
    return [judge_batch(batch, remedy), *of_error]


def judge_stops(decider: Decider, stats: dict[str, np.ndarray]) -> list[Finding]:
    """Judge where decisions against a threshold stopped; nothing where there was none."""
    if decider.test.corrects_noise or not np.isfinite(stats["threshold"]).any():
        return []
    rate = float(stats["accepted"].mean())
    wrong = wrong_decisions(stats["log_ratio"], stats["log_ratio_sd"], stats["threshold"], rate)
    return [judge_wrong_decisions(float(wrong.mean()), decision_remedy(decider))]


def wrong_decisions(
    log_ratio: np.ndarray, log_ratio_sd: np.ndarray, threshold: np.ndarray, acceptance_rate: float
) -> np.ndarray:
    r"""Return the probability that each decision differs from that of all rows.

    When a test stops at an estimate :math:`\Delta^* \sim N(\Delta, s^2)`, the rule by which it stopped carries no
    information about :math:`\Delta` beyond the rows read (likelihood principle), so the probability that :math:`\Delta`
    lies on the other side of the threshold follows from a prior for :math:`\Delta` alone. Between a draw and a proposal
    at stationarity the density of :math:`\Delta` obeys :math:`p(-x) = e^x p(x)`, whose normal member is
    :math:`N(-\tau^2/2, \tau^2)`, with acceptance rate :math:`2\Phi(-\tau/2)`: that rate gives :math:`\tau` (Roberts,
    Gelman and Gilks 1997 have the same law as a limit in many dimensions).
    """
    certain = ~(log_ratio_sd > 0) | ~np.isfinite(log_ratio) | ~np.isfinite(threshold)
    sd = np.where(certain, 1.0, log_ratio_sd)
    estimate, needed = np.where(certain, 0.0, log_ratio), np.where(certain, 0.0, threshold)
    tau = -2 * ndtri(np.clip(acceptance_rate, 1e-3, 0.999) / 2)
    variance = 1 / (1 / tau**2 + 1 / sd**2)
    mean = variance * (-0.5 + estimate / sd**2)
    wrong = ndtr(-np.sign(estimate - needed) * (mean - needed) / np.sqrt(variance))
    return np.where(certain, 0.0, wrong)


def decision_remedy(decider: Decider) -> str:
    """Say how the test of a step can be made to decide better."""
    proxy = " Or leave out proxy=None." if decider.parts.could_have_proxy else ""
    return f"{decider.test.remedy()}{proxy}"


def batch_remedy(decider: Decider) -> str:
    """Say how the mean of a batch can be made closer to normal."""
    if decider.row_source.weighted:
        return "Raise batch_size, or let Weighted draw more rows uniformly with a larger floor."
    advice = "Raise batch_size"
    if decider.density.expands:
        advice += ", draw rows with rows=pymc_austerity.Weighted()"
    elif decider.parts.could_have_proxy:
        advice += ", leave out proxy=None, so that rows are drawn by what a proxy leaves of them"
    return f"{advice}, use a likelihood with lighter tails, or decide on all rows with ExactMH."


def balance_remedy(decider: Decider) -> str:
    """Say how a move and its reverse can be brought into balance."""
    by_batch = decider.test.corrects_noise and decider.test.reads is Reads.BATCHES
    return batch_remedy(decider) if by_batch else decision_remedy(decider)


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
        return int(np.clip(_ROW_BUDGET // len(self.decider.parts.stored), 2, _MOST_PAIRS))

    def take(self, pairs: list[tuple[Proposed, tuple[float, float]]]) -> None:
        """Take some proposals of a spot check that evaluated all rows at them."""
        self.pairs = pairs[:: -(-len(pairs) // self.n_pairs)] if pairs else []

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
