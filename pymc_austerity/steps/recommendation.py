"""Which step to use for a model, from a short trial of each."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from pymc.exceptions import SamplingError
from pymc.model import Model
from pytensor.gradient import NullTypeGradError

from pymc_austerity.acceptance import DECIDED
from pymc_austerity.diagnostics import effective_draws, not_remembered
from pymc_austerity.kernel import Ahead
from pymc_austerity.likelihood import flatten, read_model
from pymc_austerity.steps.group_mh import GroupMH
from pymc_austerity.steps.groups_of_step import groups_that_pay
from pymc_austerity.steps.methods import MinibatchBarker, PenaltyMH
from pymc_austerity.steps.mhss import MHSS
from pymc_austerity.steps.row_step import RowStep
from pymc_austerity.unsupported_model import UnsupportedModelError
from pymc_austerity.user_input import check_seed, model_of, takes, variables_of

#: Transitions of a trial: first to tune the path, then to be timed.
_TUNED, _TIMED = 200, 500
#: Gradients of all rows in a trajectory of NUTS on a posterior that is nearly normal: 2³ − 1.
_GRADIENTS = 7
#: Seconds for which the gradient of the model is timed.
_SECONDS = 0.2
#: Microseconds of an effective draw of NUTS below which 4,000 of them, and as many to tune, are made in the time that
#: setting up a step of this package takes beyond that of NUTS (``benchmarks/choices.py``, the small models).
_QUICK_NUTS = 1_000.0
_COLUMNS = ["rows a draw", "us a draw", "accepted", "us an effective draw", "exact", "remark"]


@dataclass(frozen=True, eq=False)
class Recommendation:
    """Which step to use, and why.

    Parameters
    ----------
    step : str
        Name of the step: a class of this package, or NUTS.
    why : str
        A sentence.
    table : pandas.DataFrame
        A line a step: ``rows a draw`` and ``us a draw`` (microseconds of processor time), ``accepted``,
        ``us an effective draw``, whether it is ``exact``, and a ``remark``, which says why there are no numbers.
    """

    step: str
    why: str
    table: pd.DataFrame

    def __str__(self) -> str:
        shown = self.table.to_string(float_format="{:,.3g}".format, na_rep="-", max_colwidth=90)
        return f"{self.step}: {self.why}\n\n{shown}"

    def _repr_html_(self) -> str:
        table = self.table.to_html(float_format="{:,.3g}".format, na_rep="-")
        return f"<p><b>{self.step}</b>: {self.why}</p>{table}"


@takes()
def recommend(model: Model | None = None, *, seed: int = 0, all_steps: bool = False) -> Recommendation:
    """Say which step to use for a model, from what each would read and take.

    For NUTS the gradient of the whole model is timed, which takes seconds; where it is quick that is all.  Otherwise
    builds `MHSS`, `PenaltyMH` and `MinibatchBarker` with their default settings, and `GroupMH` where the model has 100
    groups or more, and makes 500 timed transitions of each on the surrogate's side of the posterior, after 200 to tune.
    That takes as long as setting up these steps, seconds to minutes.

    Parameters
    ----------
    model : pymc.Model, optional
        The model; that of the context by default.
    seed : int, default 0
        Of the trials.
    all_steps : bool, default False
        Try the steps of this package also where NUTS is quick.

    Returns
    -------
    Recommendation
        NUTS where its effective draws take less than a millisecond: it is done before another step is set up.
        Otherwise the step with the cheapest effective draws; `MHSS`, which is exact, also where `PenaltyMH` or
        `MinibatchBarker` is cheaper but reads no fewer rows.

    Raises
    ------
    ValueError
        Where no step and not even NUTS can sample the model.

    Notes
    -----
    Microseconds are of the transition alone; ``pm.sample`` adds some fifty to each draw, of any step.  Effective draws
    are ArviZ's bulk ESS of the trial, smallest over the parameters.  NUTS is counted with seven gradients of all rows a
    draw and draws that are all effective, which is kind to it where parameters are correlated.  A trial of 500 draws
    does not show what a long run does: see `reliability`.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=50_000)
    >>> with pm.Model() as model:
    ...     slope = pm.Normal("slope", 0, 1)
    ...     y = pm.Bernoulli("y", logit_p=slope * x, observed=rng.random(50_000) < 1 / (1 + np.exp(-x)))
    >>> found = pma.recommend(model)
    >>> found.step
    'MHSS'
    >>> bool(found.table.loc["MHSS", "rows a draw"] < 1)
    True
    """
    model = model_of(model, "recommend")
    variables_of(model.value_vars, model, "recommend")
    check_seed(seed, "recommend", "seed")
    lines: dict[str, dict[str, Any]] = {}
    nuts = _nuts(model)
    if all_steps or not nuts.get("us an effective draw", np.inf) < _QUICK_NUTS:
        with not_remembered(model):
            steps = (MHSS, PenaltyMH, MinibatchBarker) if groups_that_pay(model) is None else (MHSS, GroupMH)
            for make in steps:
                lines[make.__name__] = _tried(make, model, seed)
    lines["NUTS"] = nuts
    table = pd.DataFrame.from_dict(lines, orient="index").reindex(columns=_COLUMNS)
    table["remark"] = table["remark"].fillna("")
    return Recommendation(*choose(table), table)


def _tried(make: Callable[..., RowStep], model: Model, seed: int) -> dict[str, Any]:
    """Return the line of a step, or why it cannot be built."""
    exact = make is MHSS
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            step = make(model=model, progressbar=False, rng=seed)
            found = _trial_of_groups(step, model) if step.moves_groups else _trial(step)
        except (UnsupportedModelError, SamplingError) as reason:
            return {"exact": exact, "remark": _sentence(str(reason))}
    said = [_sentence(str(w.message)) for w in caught if "No proxy" in str(w.message)]
    return {"exact": exact, **found, "remark": "; ".join(filter(None, [found.get("remark"), *said]))}


def _trial_of_groups(step: RowStep, model: Model) -> dict[str, Any]:
    """Run a short chain of a step that moves groups, from the initial point of the model."""
    point, draws, rows, accepted, start = model.initial_point(), [], 0, 0.0, 0.0
    for t in range(_TUNED + _TIMED):
        if t == _TUNED:
            step.stop_tuning()
            start = time.process_time()
        point, (stats,) = step.step(point)
        if t >= _TUNED:
            draws.append(flatten(point, step.decider.likelihood.blocks))
            rows += stats["n_rows"]
            accepted += stats["accepted"]
    seconds = time.process_time() - start
    # The slowest of what is shared and of some groups; those of a factor are alike, and may be thousands.
    groups = step.decider.groups
    some = groups.own[:: max(1, len(groups.own) // 20), 0]
    watched = np.array(draws)[:, [*groups.shared, *some]]
    remark = f"{len(groups.own):,} groups, a part of which moves in each draw"
    return {"remark": remark, **_costs(watched, seconds, rows, accepted)}


def _sentence(text: str) -> str:
    """Return the first sentence."""
    return text.removeprefix("MHSS: ").partition("\n")[0].partition(". ")[0].rstrip(".")


def _trial(step: RowStep) -> dict[str, Any]:
    """Run a short chain of a step, from a draw of the surrogate."""
    chain, decider = step.chain, step.decider
    temperature, others = float(decider.parts.temperature.final), decider.parts.others0
    theta = decider.parts.theta0 if decider.prepared is None else decider.prepared.draws[-1]
    ahead, at = Ahead(chain, alone=not others.size), (others, temperature)
    draws, rows, accepted, start = [], 0, 0.0, 0.0
    for t in range(_TUNED + _TIMED):
        if t == _TUNED:
            start = time.process_time()
        outcome = chain.transition(theta, *at) if t < _TUNED else ahead.draw(1, theta, *at).outcome
        if outcome.status != DECIDED:
            raise UnsupportedModelError("a row or the prior is not finite at a point of the trial")
        theta = outcome.theta
        if t < _TUNED:
            chain.adapt(outcome)
        else:
            draws.append(theta)
            rows += outcome.n_rows
            accepted += outcome.accepted
    return _costs(np.array(draws), time.process_time() - start, rows, accepted)


def _costs(draws: np.ndarray, seconds: float, rows: int, accepted: float) -> dict[str, Any]:
    """Return the numbers of a line, from timed draws of shape (draws, parameters) and what they took."""
    us = 1e6 * seconds / _TIMED
    line = {"rows a draw": rows / _TIMED, "us a draw": us, "accepted": accepted / _TIMED}
    if not np.ptp(draws, axis=0).all():  # such draws have no effective sample size
        return {**line, "remark": f"a parameter did not move in {_TIMED} draws"}
    return {**line, "us an effective draw": us * _TIMED / _least_effective(draws[None])}


def _least_effective(draws: np.ndarray) -> float:
    """Return the smallest effective sample size of the parameters, of draws of shape (chains, draws, parameters)."""
    return float(effective_draws(xr.Dataset({"theta": (("chain", "draw", "parameter"), draws)}))["theta"].min())


def _nuts(model: Model) -> dict[str, Any]:
    """Return the line of NUTS, from the time that a gradient takes."""
    if model.discrete_value_vars:
        names = [model.values_to_rvs[value].name for value in model.discrete_value_vars]
        return {"exact": True, "remark": f"it moves continuous variables, and {names} is discrete"}
    try:
        gradient = model.logp_dlogp_function(ravel_inputs=True)
    except (NotImplementedError, NullTypeGradError) as reason:
        return {"exact": True, "remark": _sentence(str(reason))}
    gradient.set_extra_values({})
    point = np.concatenate([np.ravel(v) for v in model.initial_point().values()])
    gradient(point)
    start, n = time.process_time(), 0
    while time.process_time() - start < _SECONDS:
        gradient(point)
        n += 1
    us = _GRADIENTS * 1e6 * (time.process_time() - start) / n
    try:
        rows: float = _GRADIENTS * len(read_model(model, model.value_vars, None, None).rows)
    except UnsupportedModelError:
        rows = np.nan
    return {
        "rows a draw": rows,
        "us a draw": us,
        "us an effective draw": us,
        "exact": True,
        "remark": f"{_GRADIENTS} gradients of all rows a draw",
    }


def choose(table: pd.DataFrame) -> tuple[str, str]:
    """Return the step and the reason.

    Raises
    ------
    ValueError
        Where no line has numbers.
    """
    costs = table["us an effective draw"].dropna()
    if costs.empty:
        remarks = "; ".join(f"{name}: {remark}" for name, remark in table["remark"].items())
        raise UnsupportedModelError(
            f"None of these steps can sample this model. {remarks}. pm.sample() chooses among PyMC's own."
        )
    if list(table.index) == ["NUTS"]:
        return "NUTS", (
            f"its effective draws take {costs['NUTS']:,.0f} µs each, so some thousand are made in the seconds that "
            "setting up another step takes. No other was tried (all_steps=True tries them)"
        )
    cheapest = str(costs.idxmin())
    exact = "MHSS" if "MHSS" in costs else None
    rows = table["rows a draw"]
    nuts = costs.get("NUTS", np.inf)
    if cheapest != "NUTS" and nuts < _QUICK_NUTS:
        return "NUTS", (
            f"its effective draws take {nuts:,.0f} µs each, so some thousand are made in the seconds that setting up "
            f"{cheapest} takes; for very many draws {cheapest} is cheaper, with {costs[cheapest]:,.0f} µs each"
        )
    if cheapest == "NUTS" or exact is None:
        because = f". Not MHSS: {table.loc['MHSS', 'remark']!s}" if exact is None else ""
        return cheapest, f"its effective draws are the cheapest, about {costs[cheapest]:,.0f} µs each{because}"
    if cheapest == "GroupMH":  # what an exact step reads at a decision over all groups says nothing of what moves them
        return cheapest, f"its effective draws are the cheapest, about {costs[cheapest]:,.0f} µs each"
    if exact == cheapest or rows[exact] <= rows[cheapest]:
        beside = f", PenaltyMH {rows['PenaltyMH']:,.3g}" if "PenaltyMH" in rows else ""
        return exact, f"it is exact and reads {rows[exact]:,.3g} rows a draw{beside}"
    return cheapest, (
        f"its effective draws take {costs[cheapest]:,.0f} µs each; {exact}, which is exact, would read "
        f"{rows[exact]:,.3g} rows a draw and take {costs[exact]:,.0f} µs"
    )
