"""The rules that turn numbers into verdicts: one for each way in which a run can go wrong.

`reliability` and the messages at the end of sampling apply the same rules to what each of them knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from pymc_austerity.diagnostics.mean_shift import MeanShift
from pymc_austerity.diagnostics.row_shape import BatchShape

TRUST, CARE, DO_NOT_TRUST = "trust", "trust with care", "do not trust"
_SEVERITY = (TRUST, CARE, DO_NOT_TRUST)

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
#: Share of proposals accepted; below, R-hat and effective sizes rest on a handful of moves.
ACCEPTANCE_RATE = (0.05, 0.01)
#: Change of the log posterior between draws far apart, over √D; for a normal posterior 1 is typical.
MOVEMENT = (0.002, 0.001)
#: The same, where it is too large for draws of one posterior: it is 15 at one in a thousand draws of a Cauchy variable.
LARGEST_MOVEMENT = (15.0, 30.0)
#: Distance of the draws from the mean of the posterior, in standard deviations, that its gradient shows.
LOCATION = (0.05, 0.1)
#: Variance of the draws over that of the posterior, minus one, that its gradient shows.
SCALE = (0.1, 0.2)
#: How far below the centre of the proxy the log posterior of draws may lie, in multiples of D/2, which is typical.
LEVEL = (5.0, 10.0)
#: Share of decisions on all rows in the run and in its spot check, and ratio of the rows of the others.
RECORD_SHARE, RECORD_ROWS = (0.1, 0.25), (np.log(3), np.log(10))
#: Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021) for the first.
R_HAT = (1.01, 1.05)
#: Effective draws a chain, which R-hat and Monte Carlo errors rest on (the same authors).
ESS_PER_CHAIN = 100


_ELSEWHERE = (
    "Look whether these draws were made with this model, these data and this step, and whether the chains had arrived "
    "when tuning ended."
)


class Finding(NamedTuple):
    """One check of a run.

    Attributes
    ----------
    check : str
    verdict : str
        ``"trust"``, ``"trust with care"`` or ``"do not trust"``.
    value : float
        The number judged.
    reason, remedy : str
        Sentences for the user; the remedy is empty where nothing is wrong.
    """

    check: str
    verdict: str
    value: float
    reason: str
    remedy: str


def overall(findings: Iterable[Finding]) -> str:
    """Return the worst verdict."""
    return max((f.verdict for f in findings), key=_SEVERITY.index, default=TRUST)


def grade(value: float, limits: tuple[float, float]) -> str:
    """Judge a number by the limits of care and of distrust; NaN is no reason to trust."""
    care, distrust = limits
    if np.isnan(value):
        return CARE
    sign = 1 if distrust > care else -1
    return DO_NOT_TRUST if sign * value > sign * distrust else CARE if sign * value > sign * care else TRUST


def _finding(check: str, verdict: str, value: float, reason: str, remedy: str) -> Finding:
    return Finding(check, verdict, float(value), reason, "" if verdict == TRUST else remedy)


def judge_wrong_decisions(share: float, remedy: str) -> Finding:
    """Judge the share of decisions that all rows would have made otherwise, estimated from where they stopped."""
    reason = (
        f"About {share:.1%} of the decisions would have been otherwise on all rows, estimated from where they stopped; "
        "errors in both directions partly cancel in the acceptance probability."
    )
    return _finding("estimated error", grade(share, WRONG_DECISIONS), share, reason, remedy)


def judge_edgeworth(batch: BatchShape, remedy: str) -> Finding:
    """Judge the error of a test that makes the noise of a batch part of its decision and takes it for normal."""
    error = EDGEWORTH * batch.skewness * min(batch.noise, 1.0)
    reason = (
        f"The acceptance probability is off by up to {error:.3f}, estimated from the skewness of batch means with a "
        f"standard error of {batch.noise:.2g}."
    )
    return _finding("estimated error", grade(error, ACCEPTANCE_ERROR), error, reason, remedy)


def judge_batch(batch: BatchShape, remedy: str) -> Finding:
    """Judge whether the mean of a batch is normal and whether the batch can estimate its own variance.

    Noise far below one does not change a decision, whatever its shape.
    """
    matters = min(batch.noise, 1.0)
    verdict = max(
        grade(matters * batch.skewness, BATCH_SKEWNESS),
        grade(matters * batch.variance_spread, VARIANCE_SPREAD),
        key=_SEVERITY.index,
    )
    reason = (
        f"Batches of {batch.rows:,.0f} rows that decide have means of skewness {batch.skewness:.2f} and estimate "
        f"their own variance to within {batch.variance_spread:.0%}; the largest row carries {batch.largest:.1%} of it, "
        f"and the standard error of the log ratio is {batch.noise:.2g}."
    )
    return _finding("batch means", verdict, max(batch.skewness, batch.variance_spread), reason, remedy)


def judge_all_rows() -> Finding:
    """Say that decisions on all rows need no batch mean."""
    return Finding("batch means", TRUST, 0.0, "Every decision was made on all rows and is exact.", "")


def judge_no_decision() -> Finding:
    """Say that proposals which are all taken leave their error to the size of the step."""
    reason = "Every proposal is taken, without a decision: nothing corrects the error of the moves."
    return Finding("batch means", CARE, np.nan, reason, "Decide on the same proposals: ApproxMH(proposal=Langevin()).")


def judge_bounds(rows: float) -> Finding:
    """Say that decisions on rows drawn by their bounds take nothing for normal."""
    reason = (
        f"Decisions rest on bounds of every row, with {rows:,.2g} rows each in the spot check, and no row that the run "
        "read broke its own: they are exact."
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
    return _finding("proxy", verdict, ratio, reason, remedy)


def judge_sums(error: float) -> list[Finding]:
    """Judge what the proxy knows of the sum over all rows, where these could be evaluated beside it."""
    if np.isnan(error):
        return []
    reason = f"The sums over the data that decisions rest on give log ratios within {error:.1g} of those of the rows."
    remedy = (
        "The sums are not those of the rows as the model evaluates them. Build the step again if data were changed in "
        "place; centre columns whose mean is millions of standard deviations from zero; or use proxy=None."
    )
    return [_finding("sums", grade(error, SUM_ERROR), error, reason, remedy)]


def judge_spot_check(
    typical: tuple[float, float, float], mean: tuple[float, float, float], worst: tuple[float, float, float],
    n_states: int, remedy: str,
) -> Finding:  # fmt: skip
    """Judge the measured error: each triple is an estimate with its confidence interval."""
    verdict = TRUST
    for (_, low, high), limits in ((typical, BALANCE_ERROR), (worst, WORST_ERROR)):
        # Distrust has to be shown; so has trust, for the typical error.
        shown = grade(low, limits)
        possible = CARE if limits is BALANCE_ERROR and grade(high, limits) != TRUST else TRUST
        verdict = max(verdict, shown, possible, key=_SEVERITY.index)
    reason = (
        f"At {n_states} proposals from drawn states the test moves there and back with probabilities out of balance by "
        f"{typical[0]:.3f} (root mean square, 95% interval {typical[1]:.3f} to {typical[2]:.3f}), by {mean[0]:+.3f} on "
        f"average ({mean[1]:+.3f} to {mean[2]:+.3f}) and by {worst[0]:.3f} at worst ({worst[1]:.3f} to {worst[2]:.3f})."
    )
    return _finding("spot check", verdict, typical[0], reason, remedy)


def _judge_shift(
    check: str, shift: MeanShift, limits: tuple[float, float], largest: float, reason: str, remedy: str
) -> Finding:
    """Judge an estimated shift: distrust has to be shown, and so has trust."""
    possible = TRUST if max(abs(shift.low), abs(shift.high)) <= largest else CARE  # also of what is no number
    verdict = max(grade(shift.shown, limits), possible, key=_SEVERITY.index)
    remedy = f"{remedy} A proposal that moves further also helps: tune longer, or leave out scale=."
    return _finding(check, verdict, abs(shift.value), f"{reason}, the more the slower the chain forgets.", remedy)


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


def judge_acceptance(rate: float) -> Finding:
    """Judge whether the chain moves at all."""
    reason = f"{rate:.1%} of the proposals were accepted."
    remedy = (
        "The chain hardly moves: tune longer, propose smaller steps, or, where a proxy steers the proposals, see "
        "whether it is centred where the posterior is."
    )
    return _finding("acceptance", grade(rate, ACCEPTANCE_RATE), rate, reason, remedy)


def judge_movement(change: float) -> Finding:
    """Judge whether a chain goes anywhere, from what the log posterior changes between draws far apart, over √D."""
    reason = f"Between draws far apart the log posterior changes by {change:.1g} per root of a dimension; 1 is typical."
    if np.isinf(change):
        reason = "The chain moved, or holds a discrete variable, which may stay where it is."
    remedy = (
        "The step size has collapsed, so that nearly everything is accepted and nothing explored. Look for a parameter "
        "that neither rows nor prior inform and move it by a step of its own with vars=; tune longer, without scale=."
    )
    verdict = grade(change, MOVEMENT)
    if np.isfinite(change) and (far := grade(change, LARGEST_MOVEMENT)) != TRUST:
        verdict, remedy = far, _ELSEWHERE
    return _finding("movement", verdict, change, reason, remedy)


def judge_location(shift: MeanShift, known_by: str) -> Finding:
    """Judge how far the draws lie from where the posterior is: as far as that is shown."""
    reason = (
        f"The draws of '{shift.name}' lie {shift.value:+.2f} standard deviations ({shift.low:+.2f} to "
        f"{shift.high:+.2f}) from the mean of the posterior, by {known_by}."
    )
    return _finding("location", grade(shift.shown, LOCATION), abs(shift.value), reason, _ELSEWHERE)


def judge_scale(entry: MeanShift, average: MeanShift) -> Finding:
    """Judge how wide the draws are beside the posterior: as far as that is shown."""
    verdict = max((grade(of.shown, SCALE) for of in (entry, average)), key=_SEVERITY.index)
    reason = (
        f"The variance of the draws is off from that of the posterior by {average.value:+.0%} on average "
        f"({average.low:+.0%} to {average.high:+.0%}) and by {entry.value:+.0%} in '{entry.name}' ({entry.low:+.0%} to "
        f"{entry.high:+.0%}), by the gradient of the log posterior."
    )
    remedy = "The draws are spread as those of another posterior, or a parameter stands still. " + _ELSEWHERE
    return _finding("scale", verdict, abs(average.value), reason, remedy)


def judge_level(below: float, dimension: int) -> Finding:
    """Judge how far the log posterior of the draws lies below that of the mode."""
    multiple = max(below, 0.0) / (dimension / 2 + 3)
    reason = f"The log posterior of the draws lies {below:.3g} below that of the mode; {dimension / 2:.3g} is typical."
    return _finding("log posterior", grade(multiple, LEVEL), below, reason, _ELSEWHERE)


def judge_record(share: tuple[float, float, float], rows: tuple[float, float, float]) -> Finding:
    """Judge whether a run read what its spot check reads: each triple is of the run, of the check, and its error."""
    (full, full_again, full_se), (log_rows, log_again, log_se) = share, rows
    of_share = grade(max(0.0, abs(full - full_again) - 4 * full_se), RECORD_SHARE)
    of_rows = grade(max(0.0, np.nan_to_num(abs(log_rows - log_again) - 4 * log_se)), RECORD_ROWS)
    reason = f"The run decided {full:.0%} of its proposals on all rows, and the spot check {full_again:.0%}"
    if not np.isnan(log_rows):
        reason += f"; the others on about {np.expm1(log_rows):,.3g} and {np.expm1(log_again):,.3g} rows"
    return _finding("record", max(of_share, of_rows, key=_SEVERITY.index), full - full_again, f"{reason}.", _ELSEWHERE)


def judge_chains(r_hat: float, ess: float, n_chains: int) -> Finding:
    """Judge whether the chains agree and are long enough to tell."""
    remedy = (
        "Chains that disagree have not reached the same distribution: look at their traces, sample longer, start from "
        "other points; where there are several modes, use a sampler for them."
    )
    if n_chains == 1:
        return Finding(
            "chains",
            CARE,
            np.nan,
            "One chain cannot show that another would end elsewhere.",
            "Run at least four chains.",
        )
    if np.isnan(r_hat):
        reason = "R-hat is not defined: a parameter never changed, in one chain or in all."
        return Finding("chains", DO_NOT_TRUST, np.nan, reason, remedy)
    reason = f"R-hat is {r_hat:.3f} at most, and {ess:,.0f} draws of {n_chains} chains are effective at least."
    verdict = grade(r_hat, R_HAT)
    if verdict == TRUST and ess < ESS_PER_CHAIN * n_chains:
        return Finding("chains", CARE, r_hat, reason, f"Sample longer, for {ESS_PER_CHAIN} effective draws a chain.")
    return _finding("chains", verdict, r_hat, reason, remedy)
