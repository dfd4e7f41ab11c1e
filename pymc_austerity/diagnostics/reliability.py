"""Whether the draws of a run can be trusted: what it recorded, and a look at rows from some of its states."""

from __future__ import annotations

import numpy as np
import pandas as pd
from pymc.model import Model

from pymc_austerity.diagnostics.built_steps import Deciding, data_of_step, decider_of, find_decider
from pymc_austerity.diagnostics.checks_of_decisions import ChecksOfDecisions
from pymc_austerity.diagnostics.convergence import Mixing, chains_of, entries_of_theta
from pymc_austerity.diagnostics.density_on_rows import DensityOnRows, density_of
from pymc_austerity.diagnostics.drawn_states import check_has_variables, drawn_states
from pymc_austerity.diagnostics.place_of_draws import judge_place, states_of_place
from pymc_austerity.diagnostics.reliability_report import Reliability, report_of
from pymc_austerity.diagnostics.results import SamplingResult, group
from pymc_austerity.diagnostics.same_data import check_draws_of, check_step_of
from pymc_austerity.diagnostics.statistics_of_step import require_statistics
from pymc_austerity.diagnostics.time_allowance import Allowance, seconds_of_verdict
from pymc_austerity.diagnostics.verdicts import (
    CARE,
    DO_NOT_TRUST,
    ESS_PER_CHAIN,
    NOT_KNOWN,
    TRUST,
    Finding,
    finding,
    judge_acceptance,
)
from pymc_austerity.likelihood import read_model
from pymc_austerity.user_input import check_seed, model_of, takes

#: Share of refreshed groups that moved; below, effects follow their law at a slower pace than they are refreshed.
_REFRESH_RATE = 0.3
#: Parameters that are named.
_NAMED = 3


@takes()
def reliability(
    idata: SamplingResult,
    model: Model | None = None,
    *,
    step: Deciding | None = None,
    n_states: int | None = None,
    seconds: float | None = None,
    random_seed: int = 0,
    progressbar: bool = True,
) -> Reliability:
    r"""Judge how far the draws of a run can be trusted, with the reason and the remedy.

    From what the run recorded follow the agreement of the chains, the acceptance rate and, for tests that decide
    against a threshold, the probability that decisions were wrong.  A spot check adds what no record holds: from some
    drawn states proposals are made as the chain made them, all rows are evaluated there, and the test runs many times
    on each and on its reverse.  A chain that keeps the posterior moves as often there as back (detailed balance); what
    it accepts of its proposals is no matter, and a test that pays for its noise accepts fewer.  The gradient of the log
    posterior says whether the draws lie where the posterior is.

    `MHSS` and `ExactMH` are exact, and have no spot check: they are judged by what could break them, which are bounds
    that rows break (a run ends there), data that have changed, sums over the data that are wrong, chains that disagree
    or stand still, and draws that lie elsewhere.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What ``pm.sample`` returned for a step of this package, in however many processes.
    model : pymc.Model, optional
        The model of the run; that of the context by default.
    step : step method of this package, optional
        The step that ran.  By default the one that was built for the model in this session, if there is no other; in
        a new session build it again with the same settings.
    n_states : int, optional
        States of the spot check, a pass over the data each; there is one for exact steps too then, and no limit of time
        without `seconds`.  By default up to 1,000 within the time, each looked at for longer while they do not tell;
        above 200,000 rows on a sample of them, where decisions read far fewer.
    seconds : float, optional
        Seconds of processor time after which no check goes on.  By default half of what the run took, set-up included,
        or 2 if that is more.
    random_seed : int, default 0
    progressbar : bool, default True
        Show in a terminal or a notebook what is looked at.

    Returns
    -------
    Reliability
        Prints as advice and a table; ``.verdict``, ``.checks`` and ``.states`` hold the parts.  After Ctrl-C it has
        what is known so far, and ``"not known"`` for the checks that did not run.

    Raises
    ------
    TypeError
        For what is no run, no model or no step, or for these in another order.
    ValueError
        If it is unclear which step ran, `step` is not the one that made `idata`, draws are missing, or `idata` was made
        with other data than the model has now, or with another model.

    See Also
    --------
    data_usage : How much was read.
    compare : Differences from a reference run, where there is one.

    Notes
    -----
    With π the posterior, a the acceptance probability of the test averaged over its random numbers, and Δ the log
    acceptance ratio on all rows, the error at a proposal is a(θ→θ′) min(1, e^−Δ) − a(θ′→θ) min(1, e^Δ): zero in
    detailed balance, positive where the chain moves to θ′ too often.  Where a decision is compared with a threshold,
    the same threshold decides on all rows as well, which takes most of the Monte Carlo error out (control variate).
    The typical error is the root mean square over states without the part that Monte Carlo error adds, its interval a
    bootstrap over states.  The states with the largest errors are measured anew before one is called the worst, or the
    maximum of many noisy numbers would be taken for an error.  A check whose interval lies across a limit says "not
    known".

    Of a run that moved groups by themselves the record alone is judged: both moves, parameters that never moved, and
    the slowest.

    A verdict is about decisions, and about chains that disagree.  Chains that all miss the same mode agree: start them
    far apart.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> rows = np.random.default_rng(1).normal(size=2_000)
    >>> with pm.Model() as model:
    ...     _ = pm.Normal("y", pm.Normal("mean"), 1, observed=rows)
    ...     idata = pm.sample(1000, tune=500, chains=4, cores=1, step=pma.ExactMH(), random_seed=1, progressbar=False)
    >>> report = pma.reliability(idata, model)
    >>> report.verdict
    'trust'
    >>> print(report.advice)
    Use these draws: no check speaks against them.
    """
    model = model_of(model, "reliability")
    check_seed(random_seed, "reliability", "random_seed")
    if n_states is not None and n_states < 2:
        raise ValueError(f"n_states={n_states}: at least 2 are needed for an interval; some tens for a useful one.")
    if seconds is not None and not seconds > 0:
        raise ValueError(f"reliability: seconds={seconds} must be above 0, or None for half of what the run took.")
    check_draws_of(model, idata, data_of_step(step, model))
    check_step_of(step, model)
    if seconds is None:
        seconds = seconds_of_verdict(idata) if n_states is None else np.inf
    of_rows = np.random.default_rng((random_seed, 1))  # draws of their own, so that n_states= draws the same states
    with Allowance(seconds, progressbar) as allowance:
        if "refresh_accept" in group(idata, "sample_stats"):
            check_has_variables(idata, model)
            return _report_of_groups(idata, model, allowance, of_rows)
        require_statistics(idata)
        decider = find_decider(model) if step is None else decider_of(step, "reliability judges the decisions of one")
        return ChecksOfDecisions(idata, model, decider, allowance, n_states, random_seed, of_rows).report()


def _report_of_groups(
    idata: SamplingResult, model: Model, allowance: Allowance, rng: np.random.Generator
) -> Reliability:
    """Judge a run that moved groups by themselves, from what it recorded and where its draws lie.

    Decisions of single groups are not looked at again: those of all but large groups without bounds are exact.
    """
    mixing = Mixing(idata, model)
    density: list[DensityOnRows] = []

    def place() -> list[Finding]:
        data = read_model(model, model.value_vars, None, None, number_rows=True, join=True)
        n_states = states_of_place(len(data.rows), data.theta0.size)
        states = drawn_states(idata, model, data, n_states)
        found = density_of(data, 1.0, states, rng)
        if found is None:
            return []
        density.append(found)
        return judge_place(found, states, entries_of_theta(mixing, model, data)[1], None)

    findings = allowance.check(["chains"], lambda: [chains_of(mixing)])
    names = ["acceptance", "refresh", "groups", "slowest"]
    findings += allowance.check(names, lambda: _of_record(idata, mixing))
    findings += allowance.check(["location", "scale"], place)
    return report_of(findings, sum(d.passes for d in density), pd.DataFrame())


def _of_record(idata: SamplingResult, mixing: Mixing) -> list[Finding]:
    """Judge the moves of shared parameters and of groups, from what a run recorded."""
    stats, slowest = group(idata, "sample_stats"), np.nan_to_num(mixing.bulk, nan=0.0)
    return [
        judge_acceptance(float(stats["accepted"].mean())),
        _judge_refresh(float(stats["refresh_accept"].mean())),
        _judge_still([mixing.labels[k] for k in mixing.never_moved]),
        _judge_slowest({mixing.labels[k]: ess for k, ess in zip(mixing.slowest, slowest)}, mixing.values.shape[0]),
    ]


def _judge_refresh(rate: float) -> Finding:
    reason = f"Of the groups that were refreshed {rate:.1%} moved."
    remedy = "Effects go at a slower pace than they are refreshed: sample longer, or raise refreshed=."
    return finding("refresh", TRUST if rate >= _REFRESH_RATE else CARE, rate, reason, remedy)


def _judge_still(still: list[str]) -> Finding:
    if not still:
        return finding("groups", TRUST, 0.0, "Every parameter moved in every chain.", "")
    such = ", ".join(still[:_NAMED])
    reason = f"In a chain or more, {len(still):,} parameters stayed where they began, such as {such}."
    remedy = "Sample longer, or raise refreshed=, until every group had its turn several times."
    return finding("groups", DO_NOT_TRUST, len(still), reason, remedy)


def _judge_slowest(ess: dict[str, float], n_chains: int) -> Finding:
    slowest = sorted(ess, key=lambda name: ess[name])[:_NAMED]
    few = ess[slowest[0]] < ESS_PER_CHAIN * n_chains
    reason = "Fewest effective draws: " + ", ".join(f"{name} {ess[name]:,.0f}" for name in slowest) + "."
    remedy = "Where these are effects, raise refreshed=; where they are shared, tune longer; or sample longer."
    return finding("slowest", NOT_KNOWN if few else TRUST, ess[slowest[0]], reason, remedy)
