"""The rules that turn what a run recorded, and where its draws lie, into verdicts.

`reliability` and the messages at the end of sampling apply the same rules to what each of them knows.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from pymc_austerity.diagnostics.measured_error import MeanShift

TRUST, NOT_KNOWN, CARE, DO_NOT_TRUST = "trust", "not known", "trust with care", "do not trust"
_SEVERITY = (TRUST, NOT_KNOWN, CARE, DO_NOT_TRUST)

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
#: An interval of either that reaches further says nothing.
WIDEST = 10.0
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
_LONGER = "Sample longer: the draws that are effective are too few to tell."


class Finding(NamedTuple):
    """One check of a run: its verdict, one of those above, the number judged, and sentences for the user.

    The remedy is empty where nothing is wrong.
    """

    check: str
    verdict: str
    value: float
    reason: str
    remedy: str


def overall(findings: Iterable[Finding]) -> str:
    """Return the worst verdict: what is shown to be wrong before what is not known."""
    return worst(*(f.verdict for f in findings))


def worst(*verdicts: str) -> str:
    """Return the worst of some verdicts."""
    return max(verdicts, key=_SEVERITY.index, default=TRUST)


def grade(value: float, limits: tuple[float, float]) -> str:
    """Judge a number by the limits of care and of distrust; of what is no number nothing is known."""
    care, distrust = limits
    if np.isnan(value):
        return NOT_KNOWN
    sign = 1 if distrust > care else -1
    return DO_NOT_TRUST if sign * value > sign * distrust else CARE if sign * value > sign * care else TRUST


def finding(check: str, verdict: str, value: float, reason: str, remedy: str) -> Finding:
    """Return a finding, with a remedy where something is wrong."""
    return Finding(check, verdict, float(value), reason, "" if verdict == TRUST else remedy)


def not_looked_at(check: str, why: str) -> Finding:
    """Say that nothing is known, because nobody looked."""
    return Finding(check, NOT_KNOWN, np.nan, why, "")


def judge_acceptance(rate: float) -> Finding:
    """Judge whether the chain moves at all."""
    reason = f"{rate:.1%} of the proposals were accepted."
    remedy = (
        "The chain hardly moves: tune longer, propose smaller steps, or, where a proxy steers the proposals, see "
        "whether it is centred where the posterior is."
    )
    return finding("acceptance", grade(rate, ACCEPTANCE_RATE), rate, reason, remedy)


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
    return finding("movement", verdict, change, reason, remedy)


def judge_other_mode(where: str) -> Finding:
    """Say that the draws are of one of two modes."""
    remedy = (
        "These draws are of one mode. Use them where both are one model with its components exchanged; otherwise "
        "compare with a run that starts from the other, by initial_point=, or use pm.sample_smc."
    )
    return Finding("modes", CARE, 2.0, where, remedy)


def judge_location(shift: MeanShift, known_by: str) -> Finding:
    """Judge how far the draws lie from where the posterior is: as far as that is shown."""
    reason = (
        f"The draws of '{shift.name}' lie {shift.value:+.2f} standard deviations ({shift.low:+.2f} to "
        f"{shift.high:+.2f}) from the mean of the posterior, by {known_by}."
    )
    verdict = _unless_wide(grade(shift.shown, LOCATION), shift)
    return finding("location", verdict, abs(shift.value), reason, _LONGER if verdict == NOT_KNOWN else _ELSEWHERE)


def _unless_wide(verdict: str, shift: MeanShift) -> str:
    """Return a verdict, or that nothing is known where trust would rest on an interval that rules nothing out."""
    return NOT_KNOWN if verdict == TRUST and max(abs(shift.low), abs(shift.high)) > WIDEST else verdict


def judge_scale(entry: MeanShift, average: MeanShift) -> Finding:
    """Judge how wide the draws are beside the posterior: as far as that is shown."""
    verdict = _unless_wide(worst(*(grade(of.shown, SCALE) for of in (entry, average))), average)
    reason = (
        f"The variance of the draws is off from that of the posterior by {average.value:+.0%} on average "
        f"({average.low:+.0%} to {average.high:+.0%}) and by {entry.value:+.0%} in '{entry.name}' ({entry.low:+.0%} to "
        f"{entry.high:+.0%}), by the gradient of the log posterior."
    )
    remedy = "The draws are spread as those of another posterior, or a parameter stands still. " + _ELSEWHERE
    return finding("scale", verdict, abs(average.value), reason, _LONGER if verdict == NOT_KNOWN else remedy)


def judge_level(below: float, dimension: int) -> Finding:
    """Judge how far the log posterior of the draws lies below that of the mode."""
    multiple = max(below, 0.0) / (dimension / 2 + 3)
    reason = f"The log posterior of the draws lies {below:.3g} below that of the mode; {dimension / 2:.3g} is typical."
    return finding("log posterior", grade(multiple, LEVEL), below, reason, _ELSEWHERE)


def judge_record(share: tuple[float, float, float], rows: tuple[float, float, float]) -> Finding:
    """Judge whether a run read what its spot check reads: each triple is of the run, of the check, and its error."""
    (full, full_again, full_se), (log_rows, log_again, log_se) = share, rows
    of_share = grade(max(0.0, abs(full - full_again) - 4 * full_se), RECORD_SHARE)
    of_rows = grade(max(0.0, np.nan_to_num(abs(log_rows - log_again) - 4 * log_se)), RECORD_ROWS)
    reason = f"The run decided {full:.0%} of its proposals on all rows, and the spot check {full_again:.0%}"
    if not np.isnan(log_rows):
        reason += f"; the others on about {np.expm1(log_rows):,.3g} and {np.expm1(log_again):,.3g} rows"
    return finding("record", worst(of_share, of_rows), full - full_again, f"{reason}.", _ELSEWHERE)


def judge_chains(r_hat: float, ess: float, n_chains: int) -> Finding:
    """Judge whether the chains agree and are long enough to tell."""
    remedy = (
        "Chains that disagree have not reached the same distribution: look at their traces, sample longer, start from "
        "other points; where there are several modes, use a sampler for them."
    )
    if n_chains == 1:
        reason = "One chain cannot show that another would end elsewhere."
        return Finding("chains", NOT_KNOWN, np.nan, reason, "Run at least four chains.")
    if np.isnan(r_hat):
        reason = "R-hat is not defined: a parameter never changed, in one chain or in all."
        return Finding("chains", DO_NOT_TRUST, np.nan, reason, remedy)
    reason = f"R-hat is {r_hat:.3f} at most, and {ess:,.0f} draws of {n_chains} chains are effective at least."
    verdict = grade(r_hat, R_HAT)
    if verdict != DO_NOT_TRUST and ess < ESS_PER_CHAIN * n_chains:  # R-hat itself is noise then
        longer = f"Sample longer, for {ESS_PER_CHAIN} effective draws a chain: so few do not tell."
        return Finding("chains", NOT_KNOWN, r_hat, reason, longer)
    return finding("chains", verdict, r_hat, reason, remedy)
