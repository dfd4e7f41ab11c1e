"""Which step to use for a model, by trials of those that may suit it; and that step."""

from __future__ import annotations

import logging
from typing import Any

from pymc.model import Model

from pymc_austerity.progress import Phases
from pymc_austerity.steps.recommendation import Recommendation
from pymc_austerity.steps.step_trials import StepTrials
from pymc_austerity.user_input import check_seed, model_of, takes, variables_of

_log = logging.getLogger("pymc_austerity")


@takes()
def recommend(
    model: Model | None = None,
    *,
    draws: int = 4_000,
    seed: int = 0,
    all_steps: bool = False,
    progressbar: bool = True,
) -> Recommendation:
    """Say which step to use for a model: the one with the effective draws that were asked for first.

    Times the gradient of the model and runs NUTS for at most three seconds.  Where NUTS would be done within ten
    seconds, that is all.  Otherwise builds `GroupMH` where the model has groups that can be moved by themselves, else
    `PenaltyMH` and `MHSS`, with what they learn from all rows in common, and tries each for a second.

    Parameters
    ----------
    model : pymc.Model, optional
        The model; that of the context by default.
    draws : int, default 4000
        Effective draws of the slowest parameter that are wanted of four chains.
    seed : int, default 0
        Of the trials.
    all_steps : bool, default False
        Try all of `GroupMH`, `PenaltyMH`, `MHSS` and `MinibatchBarker`, however long that takes.
    progressbar : bool, default True
        Whether each candidate shows a line, and the log says what it would take.

    Returns
    -------
    Recommendation
        The step with the least seconds for set-up, tuning and draws; an exact one also where it takes up to three
        times as long.

    Raises
    ------
    TypeError, ValueError
        For something that is no model, or has no free variables; for fewer draws than one.
    UnsupportedModelError
        Where no step and not even NUTS can sample the model.

    Notes
    -----
    Seconds are those of one core for four chains, with 1,000 tuning draws each of NUTS and what the others ask for.
    Effective draws are ArviZ's bulk ESS of the trial, smallest over the parameters.

    NUTS is PyMC's.  Where no other step was tried before, its pilot tunes as a chain does; otherwise it starts where
    the trial of that step ended, with the variances of its draws.  Where a gradient takes so long that the pilot would
    end after some twenty draws, it is not run, and NUTS takes *at least* as long as three gradients a draw do.

    All trials together take about ten seconds, once their code is on disk.  Of what need not be tried: `MHSS` where
    `PenaltyMH` finds no proxy, where building it takes more than twice as long as building `PenaltyMH` did and five
    seconds, or longer than what is left of the ten; a first step where building it takes longer than NUTS would; a
    pilot of NUTS where less than four of the ten seconds are left, and another step is ahead of what it takes at
    least; `MinibatchBarker` unless `PenaltyMH` finds no proxy; any, and NUTS too, where a
    model has more than twelve observed variables that are not alike, each of which is compiled: then NUTS is named
    without numbers.  Where they are alike but for their data, NUTS is not timed.

    A trial of 500 draws does not show what a long run does: see `reliability`.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=50_000)
    >>> with pm.Model() as model:
    ...     slope = pm.Normal("slope", 0, 1)
    ...     y = pm.Bernoulli("y", logit_p=slope * x, observed=rng.random(50_000) < 1 / (1 + np.exp(-x)))
    >>> found = pma.recommend(model, progressbar=False)
    >>> print(found)  # doctest: +SKIP
    MHSS: exact, and 4,000 effective draws take about 2.1 s; ...
    >>> found.step in found.table.index
    True
    >>> chosen = found.build()  # for pm.sample(step=chosen)
    """
    model = model_of(model, "recommend")
    variables_of(model.value_vars, model, "recommend")
    check_seed(seed, "recommend", "seed")
    if draws < 1:
        raise ValueError(f"recommend: draws={draws} must be at least one effective draw; 4,000 are usual.")
    return StepTrials(model, draws, seed, all_steps, Phases(progressbar)).recommend()


@takes()
def step(model: Model | None = None, *, draws: int = 4_000, seed: int = 0, progressbar: bool = True) -> Any:
    """Return the step that `recommend` names, ready for ``pm.sample(step=...)``.

    Parameters
    ----------
    model : pymc.Model, optional
        The model; that of the context by default.
    draws : int, default 4000
        Effective draws of the slowest parameter that are wanted.
    seed : int, default 0
        Of the trials.
    progressbar : bool, default True
        Whether each candidate shows a line, and the log says what it would take and why one is chosen.

    Returns
    -------
    BlockedStep
        A step of this package, or ``pm.NUTS``.

    Raises
    ------
    TypeError, ValueError, UnsupportedModelError
        As in `recommend`.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> x = np.random.default_rng(0).normal(size=5_000)
    >>> with pm.Model():
    ...     y = pm.StudentT("y", nu=4, mu=pm.Normal("centre"), sigma=1, observed=x)
    ...     chosen = pma.step(progressbar=False)
    ...     idata = pm.sample(step=chosen, draws=500, chains=2, cores=1, random_seed=1, progressbar=False)
    >>> idata.posterior.sizes["draw"]
    500
    """
    found = recommend(model_of(model, "step"), draws=draws, seed=seed, progressbar=progressbar)
    if progressbar:
        _log.info(f"{found.step}: {found.why}.")
    return found.build()
