"""The rules that turn what was measured of decisions into verdicts: batches, the proxy, and moves out of balance."""

import numpy as np

from pymc_austerity.diagnostics.measured_error import Estimate, MeanShift
from pymc_austerity.diagnostics.row_shape import BatchShape
from pymc_austerity.diagnostics.verdicts import CARE, DO_NOT_TRUST, NOT_KNOWN, TRUST, Finding, finding, grade, worst

#: Estimated error of an acceptance probability.
ACCEPTANCE_ERROR = (0.02, 0.06)
#: Share of decisions that differ from those of all rows; about half of it cancels.
WRONG_DECISIONS = (0.04, 0.12)
#: Measured imbalance of a move and its reverse: up to the first, standard deviations of a posterior came out 0 to 5%
#: too large, at the second 15%, at .07 31% (see the page "Can I trust it?").
BALANCE_ERROR = (0.02, 0.04)
#: Imbalance at a single proposal.
WORST_ERROR = (0.15, 0.4)
#: Shift of a posterior mean, in posterior standard deviations, that is shown by what was measured.
MEAN_SHIFT = (0.01, 0.02)
#: Average error of the posterior standard deviations, relative, that is shown by what was measured.
SPREAD_SHIFT = (0.02, 0.03)
#: What must be ruled out of either for trust; a spread of .06 moves the quantiles of 5 and 95% by .1.
LARGEST_MEAN_SHIFT, LARGEST_SPREAD_SHIFT = 0.1, 0.06
#: Skewness of a batch mean; the normal approximation of its tail probabilities is off by a fifth of it at most.
BATCH_SKEWNESS = (0.3, 1.0)
#: Largest error of an acceptance probability for each unit of skewness of the batch mean: the term (2x² + 1)φ(x)/6 of
#: the Edgeworth expansion of a studentised mean, and half as much again for stopping when the variance looks small.
EDGEWORTH = 0.2
#: Standard deviation of a batch's estimate of its own variance, relative to that variance; √(2/n) for normal rows.
VARIANCE_SPREAD = (0.5, 1.0)
#: Remainder variance over raw variance of the row terms.
PROXY_RATIO = (0.25, 1.0)
#: Error of a log ratio by what a proxy knows of the sum over all rows: no acceptance probability is off by more.
SUM_ERROR = (0.01, 0.05)

_MORE_TIME = "Give it more time, as reliability(idata, model, seconds=60), to tell."


def judge_wrong_decisions(share: float, remedy: str) -> Finding:
    """Judge the share of decisions that all rows would have made otherwise, estimated from where they stopped."""
    reason = (
        f"About {share:.1%} of the decisions would have been otherwise on all rows, estimated from where they stopped; "
        "errors in both directions partly cancel in the acceptance probability."
    )
    return finding("estimated error", grade(share, WRONG_DECISIONS), share, reason, remedy)


def judge_edgeworth(batch: BatchShape, remedy: str) -> Finding:
    """Judge the error of a test that makes the noise of a batch part of its decision and takes it for normal."""
    error = EDGEWORTH * batch.skewness * min(batch.noise, 1.0)
    reason = (
        f"The acceptance probability is off by up to {error:.3f}, estimated from the skewness of batch means with a "
        f"standard error of {batch.noise:.2g}."
    )
    return finding("estimated error", grade(error, ACCEPTANCE_ERROR), error, reason, remedy)


def judge_batch(batch: BatchShape, remedy: str) -> Finding:
    """Judge whether the mean of a batch is normal and whether the batch can estimate its own variance.

    Noise far below one does not change a decision, whatever its shape.
    """
    matters = min(batch.noise, 1.0)
    verdict = worst(
        grade(matters * batch.skewness, BATCH_SKEWNESS), grade(matters * batch.variance_spread, VARIANCE_SPREAD)
    )
    reason = (
        f"Batches of {batch.rows:,.0f} rows that decide have means of skewness {batch.skewness:.2f} and estimate "
        f"their own variance to within {batch.variance_spread:.0%}; the largest row carries {batch.largest:.1%} of it, "
        f"and the standard error of the log ratio is {batch.noise:.2g}."
    )
    return finding("batch means", verdict, max(batch.skewness, batch.variance_spread), reason, remedy)


def judge_bounds(rows: float) -> Finding:
    """Say that decisions on rows drawn by their bounds take nothing for normal."""
    reason = (
        f"Decisions rest on bounds of every row, with {rows:,.2g} rows each, and no row that the run read broke its "
        "own, or it would have ended: they are exact."
    )
    return Finding("batch means", TRUST, rows, reason, "")


def judge_proxy(ratio: float) -> Finding:
    """Judge what the proxy leaves of the row terms."""
    verdict = grade(ratio, PROXY_RATIO)
    reason = f"The proxy leaves {ratio:.2g} of the variance of the row terms."
    remedy = (
        "The expansion does not describe the posterior that the chain visits: take centre= out of Taylor or move it "
        "there, reparameterise so that the posterior is closer to normal, or sample with proxy=None."
    )
    return finding("proxy", verdict, ratio, reason, remedy)


def judge_sums(error: float) -> list[Finding]:
    """Judge what the proxy knows of the sum over all rows, where these could be evaluated beside it."""
    if np.isnan(error):
        return []
    reason = f"The sums over the data that decisions rest on give log ratios within {error:.1g} of those of the rows."
    remedy = (
        "The sums are not those of the rows as the model evaluates them. Build the step again if data were changed in "
        "place; centre columns whose mean is millions of standard deviations from zero; or use proxy=None."
    )
    return [finding("sums", grade(error, SUM_ERROR), error, reason, remedy)]


def judge_spot_check(
    typical: Estimate, mean: Estimate, worst_of_all: Estimate | None, n_states: int, remedy: str
) -> Finding:
    """Judge the measured error: an estimate each, with its confidence interval; the worst may not be known."""
    # Distrust has to be shown; so has trust, for the typical error.
    shown = grade(typical[1], BALANCE_ERROR)
    verdict = NOT_KNOWN if shown == TRUST != grade(typical[2], BALANCE_ERROR) else shown
    reason = (
        f"At {n_states} proposals from drawn states the test moves there and back with probabilities out of balance by "
        f"{typical[0]:.3f} (root mean square, 95% interval {typical[1]:.3f} to {typical[2]:.3f}) and by {mean[0]:+.3f} "
        f"on average ({mean[1]:+.3f} to {mean[2]:+.3f})"
    )
    if worst_of_all is not None:
        verdict = worst(verdict, grade(worst_of_all[1], WORST_ERROR))
        reason += f", by {worst_of_all[0]:.3f} at worst ({worst_of_all[1]:.3f} to {worst_of_all[2]:.3f})"
    remedy = f"{_MORE_TIME} {remedy}" if verdict == NOT_KNOWN else remedy
    return finding("spot check", verdict, typical[0], f"{reason}.", remedy)


def _judge_shift(
    check: str, shift: MeanShift, limits: tuple[float, float], largest: float, reason: str, remedy: str
) -> Finding:
    """Judge an estimated shift: distrust has to be shown, and so has trust."""
    ruled_out = max(abs(shift.low), abs(shift.high)) <= largest  # what is no number is not
    shown = grade(shift.shown, limits)
    verdict = shown if ruled_out or shown in (CARE, DO_NOT_TRUST) else NOT_KNOWN
    remedy = f"{remedy} A proposal that moves further also helps: tune longer, or leave out scale=."
    remedy = f"{_MORE_TIME} {remedy}" if verdict == NOT_KNOWN else remedy
    return finding(check, verdict, abs(shift.value), f"{reason}, the more the slower the chain forgets.", remedy)


def judge_means(shift: MeanShift, remedy: str) -> Finding:
    """Judge how far the means are shifted by what is out of balance: as far as that is shown."""
    reason = (
        f"What is out of balance shifts the mean of '{shift.name}' by {shift.value:+.3f} posterior standard deviations "
        f"({shift.low:+.3f} to {shift.high:+.3f})"
    )
    return _judge_shift("means", shift, MEAN_SHIFT, LARGEST_MEAN_SHIFT, reason, remedy)


def judge_spread(shift: MeanShift, remedy: str) -> Finding:
    """Judge how far standard deviations are off by what is out of balance: as far as that is shown."""
    reason = (
        f"What is out of balance makes standard deviations wrong by {shift.value:+.1%} on average over the parameters "
        f"({shift.low:+.1%} to {shift.high:+.1%})"
    )
    return _judge_shift("spread", shift, SPREAD_SHIFT, LARGEST_SPREAD_SHIFT, reason, remedy)
