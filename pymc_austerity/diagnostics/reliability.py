"""Whether the draws of a run can be trusted: what it recorded, and a look at all rows from some of its states."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from pymc.model import Model

from pymc_austerity.acceptance import Reads
from pymc_austerity.diagnostics.built_steps import Deciding, data_of_step, decider_of, find_decider
from pymc_austerity.diagnostics.convergence import effective_draws, r_hats
from pymc_austerity.diagnostics.drawn_states import DrawnStates, drawn_states, state_of_chain, test_of_chain
from pymc_austerity.diagnostics.group_findings import group_findings, made_by_groups
from pymc_austerity.diagnostics.mean_shift import mean_shift, relaxation_of, spread_shift
from pymc_austerity.diagnostics.measured_error import (
    Flow,
    Repeats,
    control_coefficient,
    flow_of,
    mean_error,
    typical_error,
    worst_error,
)
from pymc_austerity.diagnostics.movement import least_movement
from pymc_austerity.diagnostics.place_of_draws import LEVEL_OF_PLACE, drift_of, find_place, judged_place
from pymc_austerity.diagnostics.remedies import balance_remedy, batch_remedy, decision_remedy
from pymc_austerity.diagnostics.results import SamplingResult, posterior_variables
from pymc_austerity.diagnostics.row_shape import NORMAL_SHAPE, RowShape, batch_shape
from pymc_austerity.diagnostics.same_data import check_draws_of
from pymc_austerity.diagnostics.spot_check import RepeatedTest, against_rows, evaluate_pair, moments_of, pair_shape
from pymc_austerity.diagnostics.statistics_of_step import stats_of_step
from pymc_austerity.diagnostics.stopping import wrong_decisions
from pymc_austerity.diagnostics.verdicts import (
    Finding,
    judge_acceptance,
    judge_all_rows,
    judge_batch,
    judge_bounds,
    judge_chains,
    judge_edgeworth,
    judge_location,
    judge_means,
    judge_movement,
    judge_no_decision,
    judge_proxy,
    judge_record,
    judge_spot_check,
    judge_spread,
    judge_sums,
    judge_wrong_decisions,
    overall,
)
from pymc_austerity.kernel import Decider, Proposed
from pymc_austerity.likelihood import read_model
from pymc_austerity.user_input import check_seed, model_of, takes

__all__ = ["Reliability", "reliability"]

#: Row terms evaluated over all states at most, unless n_states= asks for more.
_ROW_BUDGET = 200_000_000
_MOST_STATES, _FEWEST_STATES = 1_000, 30
#: Rows read by the repeated tests at most, and repetitions of a state.
_REPEAT_BUDGET, _MOST_REPEATS, _FEWEST_REPEATS = 100_000_000, 1_000, 20
#: States whose error looked largest and is measured anew, and how many times longer.
_FINALISTS, _LONGER = 5, 10
_LEVEL = 0.05
#: Proposals at most at which a proxy is compared with the raw row terms.
_PROXY_PAIRS = 20


@dataclass(frozen=True)
class Reliability:
    """How far the draws of a run can be trusted.

    Attributes
    ----------
    verdict : str
        ``"trust"``, ``"trust with care"`` or ``"do not trust"``: the worst of all checks.
    checks : pandas.DataFrame
        One row a check: ``verdict``, ``value``, ``reason`` and ``remedy``.
    states : pandas.DataFrame
        One row a proposal of the spot check: where its state stands in the run (``chain``, ``draw``), the log
        acceptance ratio and the acceptance probability on all rows (``log_ratio``, ``exact``), how often the test moves
        ``there`` and ``back``, as seen from the more probable of the two states, their difference (``error``) and its
        Monte Carlo standard error (``error_se``), mean ``rows`` read, and the shape of the row terms (``skewness``,
        ``kurtosis``, ``largest``).
    passes : float
        Passes over the data that the check took.
    looked_at : str
        The rows that these were.  Of a run with ``data=`` it is the pool, whose weighted rows stand for all.
    """

    verdict: str
    checks: pd.DataFrame
    states: pd.DataFrame
    passes: float
    looked_at: str = "all rows"

    def __str__(self) -> str:
        """Write the verdict with its reasons, and the remedies there are."""
        lines = [self.verdict.upper()]
        for check, row in self.checks.iterrows():
            lines.append(f"  {check} – {row['verdict']}: {row['reason']}")
            if row["remedy"]:
                lines.append(f"      {row['remedy']}")
        if self.looked_at != "all rows":
            lines.append(f"  Proposals were looked at on {self.looked_at}.")
        return "\n".join(lines)

    __repr__ = __str__


class _Spot(NamedTuple):
    """What was measured at one proposal; no repeats where it needed no rows."""

    proposed: Proposed
    log_ratio: float
    repeats: Repeats | None
    back: Repeats | None
    shape: RowShape
    left: tuple[float, float]
    looks: Any


@takes()
def reliability(
    idata: SamplingResult,
    model: Model | None = None,
    *,
    step: Deciding | None = None,
    n_states: int | None = None,
    random_seed: int = 0,
) -> Reliability:
    r"""Judge how far the draws of a run can be trusted, with the reason and the remedy.

    From what the run recorded follow the agreement of the chains, the acceptance rate and, for tests that decide
    against a threshold, the probability that decisions were wrong.  A spot check adds what no record holds: from some
    drawn states proposals are made as the chain made them, all rows are evaluated there, and the test runs many times
    on each and on its reverse.  A chain that keeps the posterior moves as often there as back (detailed balance); what
    it accepts of its proposals is no matter, and a test that pays for its noise accepts fewer.

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
        States of the spot check, a pass over the data each.  1,000 by default, fewer (down to 30) above 200,000 rows;
        30 for `MHSS`, which errs only where its code is wrong.
    random_seed : int, default 0

    Returns
    -------
    Reliability
        Prints as text; ``.verdict``, ``.checks`` and ``.states`` hold the parts.

    Raises
    ------
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
    maximum of many noisy numbers would be taken for an error.

    Of a run that moved groups by themselves the record alone is judged: both moves, parameters that never moved, and
    the slowest.

    A verdict is about decisions, and about chains that disagree.  Chains that all miss the same mode agree: start them
    far apart.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> rows = np.random.default_rng(1).normal(size=2_000)
    >>> with pm.Model() as model:
    ...     mean = pm.Normal("mean", 0, 1)
    ...     _ = pm.Normal("y", mean, 1, observed=rows)
    ...     idata = pm.sample(
    ...         1000, tune=500, chains=4, cores=1, step=pma.ExactMH(), random_seed=1, progressbar=False
    ...     )
    >>> pma.reliability(idata, model, n_states=40).verdict
    'trust'
    """
    model = model_of(model, "reliability")
    check_draws_of(model, idata, data_of_step(step, model))
    if made_by_groups(idata):
        of_groups = [_chains(idata, model), *group_findings(idata, model)]
        place = find_place(idata, model, read_model(model, model.value_vars, None, None, several=False), 1.0)
        of_groups += [] if place is None else judged_place(place)
        passes = 0.0 if place is None else float(place.passes)
        return Reliability(overall(of_groups), _checks(of_groups), pd.DataFrame(), passes)
    decider = find_decider(model) if step is None else decider_of(step, "reliability judges the decisions of one")
    stats, own = stats_of_step(idata, model, decider)
    decider = replace(decider, test=test_of_chain(decider, own, 0))  # of several designs, the first in the remedies
    n_total = len(decider.rows)
    if n_states is None:
        most = _FEWEST_STATES if decider.test.reads is Reads.BY_BOUNDS else _MOST_STATES
        n_states = int(np.clip(_ROW_BUDGET // n_total, _FEWEST_STATES, most))
    if n_states < 2:
        raise ValueError(f"n_states={n_states}: at least 2 are needed for an interval; some tens for a useful one.")
    check_seed(random_seed, "reliability", "random_seed")
    rng = np.random.default_rng(random_seed)
    states = drawn_states(idata, model, decider, n_states)

    rate = float(stats["accepted"].mean())
    test = RepeatedTest(decider, rng)
    spots = _spots(decider, test, states, stats, own, rng)
    measured = [s for s in spots if s.repeats is not None]
    change, passes_moved = least_movement(decider, states)
    findings = [_chains(idata, model), judge_acceptance(rate), judge_movement(change)]
    findings += _decisions(decider, stats, rate, measured)
    if decider.row_source.counts is None:
        findings.append(_judge_record(stats, spots))
    passes = float(len(measured) + passes_moved)
    if decider.density.expands and measured:
        some = [(s.proposed, s.left) for s in measured[:: -(-len(measured) // _PROXY_PAIRS)]]
        by_rows = against_rows(decider, some)
        findings += [judge_proxy(by_rows.variance_left), *judge_sums(by_rows.sum_error)]
        passes += len(some)
    table = _table(test, states, spots)
    of_place, passes_placed = _judge_place(idata, model, decider, states, spots, table)
    findings, passes = findings + of_place, passes + passes_placed
    if measured:
        findings.append(_judge_errors(decider, test, spots, table, rng))
        findings += _judge_moments(idata, model, decider, states, spots, table)
        passes += min(_FINALISTS, len(measured))
    pooled = decider.row_source.counts is not None
    looked_at = f"the {n_total:,} rows of the pool in place of all rows" if pooled else "all rows"
    return Reliability(overall(findings), _checks(findings), table, passes, looked_at)


def _checks(findings: list[Finding]) -> pd.DataFrame:
    return pd.DataFrame([f._asdict() for f in findings]).set_index("check")


def _chains(idata: SamplingResult, model: Model) -> Finding:
    draws = posterior_variables(idata, [rv.name for rv in model.free_RVs])
    if draws.sizes["chain"] == 1:
        return judge_chains(np.nan, np.nan, 1)
    # A parameter that never moved has no R-hat; a NaN must not hide behind the maximum of the others.
    r_hat = np.concatenate([np.ravel(v.to_numpy()) for v in r_hats(draws).values()])
    both = [effective_draws(draws, method=part) for part in ("bulk", "tail")]
    ess = np.concatenate([np.ravel(v.to_numpy()) for effective in both for v in effective.values()])
    return judge_chains(float(r_hat.max()), float(np.nanmin(ess)), draws.sizes["chain"])


def _spots(
    decider: Decider,
    test: RepeatedTest,
    states: DrawnStates,
    stats: dict[str, np.ndarray],
    own: xr.Dataset,
    rng: np.random.Generator,
) -> list[_Spot]:
    """Propose from each state, evaluate all rows there, and repeat the test on them."""
    n_total = len(decider.rows)
    read = max(float(np.minimum(stats["n_rows"], n_total).mean()), 1.0)
    # A test that always reads all rows makes the same decision every time.
    most = _REPEAT_BUDGET / (2 * len(states.theta) * read)
    n = 2 if stats["full_data"].all() else int(np.clip(most, _FEWEST_REPEATS, _MOST_REPEATS))
    of_chain = {int(c): test_of_chain(decider, own, int(c)).looks(n_total) for c in np.unique(states.chain)}
    tuned = {int(c): state_of_chain(decider, own, int(c)) for c in np.unique(states.chain)}
    spots = []
    for theta, others, chain in zip(states.theta, states.others, states.chain):
        proposed = decider.propose(theta, others, tuned[int(chain)], rng)
        pair = evaluate_pair(decider, proposed)
        if pair is None:
            spots.append(_Spot(proposed, -np.inf, None, None, NORMAL_SHAPE, (np.nan, np.nan), None))
        else:
            looks = of_chain[int(chain)]
            repeats = test.both_ways(pair, n, looks)
            spots.append(
                _Spot(proposed, test.log_ratio(pair), *repeats, pair_shape(decider, pair), moments_of(pair), looks)
            )
    return spots


def _coefficient(spots: list[_Spot]) -> float:
    return control_coefficient([r for s in spots for r in (s.repeats, s.back) if r is not None])


def _flow(test: RepeatedTest, log_ratio: float, runs: tuple[Repeats, Repeats | None], coefficient: float) -> Flow:
    exact = test.exact(log_ratio), test.exact(-log_ratio)
    return flow_of(*runs, exact, log_ratio, coefficient)


def _table(test: RepeatedTest, states: DrawnStates, spots: list[_Spot]) -> pd.DataFrame:
    """Arrange the spot check, a row a state; where no rows were needed the test cannot err."""
    coefficient = _coefficient(spots)
    rows = []
    for chain, draw, spot in zip(states.chain, states.draw, spots):
        runs = spot.repeats
        flow = Flow(0.0, 0.0, 0.0) if runs is None else _flow(test, spot.log_ratio, (runs, spot.back), coefficient)
        rows.append(
            {
                "chain": int(chain),
                "draw": int(draw),
                "log_ratio": spot.log_ratio,
                "exact": test.exact(spot.log_ratio),
                "there": flow.there,
                "back": flow.back,
                "error": flow.error,
                "error_se": flow.se,
                "rows": 0.0 if runs is None else runs.rows / runs.n,
                "skewness": spot.shape.skewness,
                "kurtosis": spot.shape.kurtosis,
                "largest": spot.shape.largest,
            }
        )
    return pd.DataFrame(rows)


def _decisions(decider: Decider, stats: dict[str, np.ndarray], rate: float, measured: list[_Spot]) -> list[Finding]:
    """Judge the batches that decided, and the error that follows from where decisions stopped or from their shape."""
    n_total = len(decider.rows)
    batches = [
        (s.shape, s.repeats.partial_rows / s.repeats.partial)
        for s in measured
        if s.repeats is not None and s.repeats.partial
    ]
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
        wrong = wrong_decisions(stats["log_ratio"], stats["log_ratio_sd"], stats["threshold"], rate)
        found.append(judge_wrong_decisions(float(wrong.mean()), decision_remedy(decider)))
    return found


def _judge_errors(
    decider: Decider, test: RepeatedTest, spots: list[_Spot], table: pd.DataFrame, rng: np.random.Generator
) -> Finding:
    """Judge the measured errors, the largest of them measured anew."""
    errors, ses = table["error"].to_numpy(), table["error_se"].to_numpy()
    coefficient = _coefficient(spots)
    finalists = np.array([k for k in np.argsort(-np.abs(errors))[:_FINALISTS] if spots[k].repeats is not None])
    least = min(s.repeats.n for s in spots if s.repeats is not None)
    again = []
    for k in finalists:
        pair, runs = evaluate_pair(decider, spots[k].proposed), spots[k].repeats
        assert pair is not None
        assert runs is not None
        longer = test.both_ways(pair, _LONGER * runs.n, spots[k].looks)
        again.append(_flow(test, spots[k].log_ratio, longer, coefficient))
    new, new_ses = (np.array([getattr(flow, name) for flow in again]) for name in ("error", "se"))
    return judge_spot_check(
        typical_error(errors, ses, rng, _LEVEL),
        mean_error(errors, _LEVEL),
        worst_error(errors, ses, finalists, new, new_ses, (least, _LONGER * least), _LEVEL),
        len(errors),
        balance_remedy(decider),
    )


def _judge_place(
    idata: SamplingResult, model: Model, decider: Decider, states: DrawnStates, spots: list[_Spot], table: pd.DataFrame
) -> tuple[list[Finding], int]:
    """Judge whether the draws lie where the posterior is, and the passes that it took."""
    place = (
        None
        if decider.row_source.counts is not None
        else find_place(idata, model, decider, float(decider.parts.temperature.final))
    )
    if place is not None:
        return judged_place(place), place.passes
    old, new = _in_deviations(states, spots)
    relaxation, names = relaxation_of(idata, model, decider)
    drift = drift_of(new - old, table["exact"].to_numpy(), relaxation, names, LEVEL_OF_PLACE)
    return [judge_location(drift, "decisions on all rows")], 0


def _judge_record(stats: dict[str, np.ndarray], spots: list[_Spot]) -> Finding:
    """Compare what the run read with what the spot check did."""
    again = np.array([0.0 if s.repeats is None else 1 - s.repeats.partial / s.repeats.n for s in spots])
    log_again = np.log1p([s.repeats.partial_rows / s.repeats.partial for s in spots if s.repeats and s.repeats.partial])
    full = stats["full_data"].astype(bool)
    log_rows = np.log1p(stats["n_rows"][~full & (stats["n_rows"] > 0)])
    if not log_rows.size or log_again.size < 2:
        log_rows, log_again = np.full(2, np.nan), np.full(2, np.nan)
    triples = [
        (float(of.mean()), float(by.mean()), float(by.std(ddof=1) / np.sqrt(by.size)))
        for of, by in ((full, again), (log_rows, log_again))
    ]
    return judge_record(*triples)


def _judge_moments(
    idata: SamplingResult, model: Model, decider: Decider, states: DrawnStates, spots: list[_Spot], table: pd.DataFrame
) -> list[Finding]:
    """Judge how far the measured errors shift the means and the standard deviations."""
    old, new = _in_deviations(states, spots)
    errors, log_ratios = table["error"].to_numpy(), np.nan_to_num(table["log_ratio"].to_numpy())
    relaxation, names = relaxation_of(idata, model, decider)
    shift = mean_shift(new - old, errors, log_ratios, relaxation, names, _LEVEL)
    of_squares, _ = relaxation_of(idata, model, decider, "sd")
    spread = spread_shift(old, new, errors, log_ratios, of_squares, _LEVEL)
    remedy = balance_remedy(decider)
    return [judge_means(shift, remedy), judge_spread(spread, remedy)]


def _in_deviations(states: DrawnStates, spots: list[_Spot]) -> tuple[np.ndarray, np.ndarray]:
    """Return both ends of the proposals, from the mean of the draws in standard deviations."""
    centre, sd = states.theta.mean(axis=0), states.theta.std(axis=0)
    old, new = (np.array([at(s.proposed) - centre for s in spots]) for at in (_theta, _theta_new))
    old, new = (np.divide(x, sd, out=np.zeros_like(x), where=sd > 0) for x in (old, new))
    return old, new


_theta, _theta_new = attrgetter("theta"), attrgetter("theta_new")
