"""Tries the steps that may suit a model, and chooses the one with the wanted effective draws first."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pymc as pm
from pymc.exceptions import SamplingError
from pymc.model import Model
from pytensor.gradient import NullTypeGradError

from pymc_austerity.compile.cache import n_compiled
from pymc_austerity.diagnostics import not_remembered, remember
from pymc_austerity.likelihood.joined_model import joined_model
from pymc_austerity.log import quiet
from pymc_austerity.progress import Phases
from pymc_austerity.steps.candidate import Candidate, try_step
from pymc_austerity.steps.group_mh import GroupMH
from pymc_austerity.steps.groups_of_step import groups_that_pay
from pymc_austerity.steps.methods import MinibatchBarker, PenaltyMH
from pymc_austerity.steps.mhss import MHSS
from pymc_austerity.steps.nuts_pilot import Gradient, nuts_of, pilot_nuts, time_gradient
from pymc_austerity.steps.recommendation import Recommendation, choose, line_of, table_of
from pymc_austerity.steps.row_step import RowStep
from pymc_austerity.tried_setup import SetupTooLongError, Shared, at_most, once, shared_setup
from pymc_austerity.unsupported_model import UnsupportedModelError
from pymc_austerity.user_input import check_seed, model_of, takes, variables_of

_log = logging.getLogger("pymc_austerity")

#: Seconds in which NUTS is done before another step is set up.
_QUICK_NUTS = 10.0
#: Seconds that building a further step may take in any case.
_SHORT = 5.0
#: Seconds of all trials, with their code on disk, and of these at least of building a step, trying it, and of a pilot
#: of NUTS.
_LIMIT, _BUILDING, _TRYING, _PILOT = 10.0, 1.0, 0.3, 4.0
#: Observed variables above which a step takes minutes to compile: each is a graph of its own.
_MANY_OUTCOMES = 12


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
    return _Trials(model, draws, seed, all_steps, Phases(progressbar)).recommend()


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


class _Trials:
    """The trials of steps for a model, and the choice among them."""

    def __init__(self, model: Model, draws: int, seed: int, all_steps: bool, phases: Phases):
        self.model, self.draws, self.seed, self.all_steps, self.phases = model, draws, seed, all_steps, phases
        self.found: list[Candidate] = []
        self.gradient: Gradient | None = None
        self.began, self.compiled = time.process_time(), n_compiled()

    def recommend(self) -> Recommendation:
        """Try what has to be tried, and choose."""
        outcomes = len(self.model.observed_RVs)
        many = outcomes > _MANY_OUTCOMES and not (self.all_steps or self.model.discrete_value_vars)
        with not_remembered(self.model), shared_setup() as shared:
            if many:
                with self.phases("Reading the model"):
                    joined = once("joined", (self.model,), partial(joined_model, self.model))
                if joined is None:
                    return self._nuts_untried(f"{outcomes} outcomes, each compiled by itself, take minutes to set up")
            nuts = Candidate("NUTS", exact=True, remark=f"its gradient, that of {outcomes} outcomes, is not timed")
            nuts = nuts if many else self._begin_with_nuts()
            if self.all_steps or not nuts.seconds(self.draws) <= _QUICK_NUTS or nuts.at_least:
                self._try_steps(shared, nuts)
            if many and not any(np.isfinite(c.seconds(self.draws)) for c in self.found):
                return self._nuts_untried(self.found[-1].remark)
            if self.gradient is not None and nuts.at_least:
                within = next((c for c in self.found if c.variances is not None and np.isfinite(c.effective_us)), None)
                ahead = np.nanmin([np.inf, *(c.seconds(self.draws) for c in self.found)])
                if not (self._left() < _PILOT and nuts.seconds(self.draws) > ahead):
                    with self.phases("Trying NUTS"):
                        nuts = pilot_nuts(self.model, self.gradient, self.seed, within, insist=True)
        self._note(nuts)
        build = {c.name: partial(_handed_over, c.step, self.model) for c in self.found if c.step is not None}
        if self.gradient is not None:
            build["NUTS"] = partial(nuts_of, self.model, self.gradient)
        elif many:
            build["NUTS"] = partial(pm.NUTS, model=self.model)
        lines = [line_of(candidate, self.draws) for candidate in self.found]
        return Recommendation(*choose(self.found, self.draws), table_of(self.found, self.draws), build, lines)

    def _nuts_untried(self, why_no_other: str) -> Recommendation:
        """Recommend NUTS where no other step is tried: what it takes would change nothing."""
        self.found.clear()
        self._note(Candidate("PenaltyMH", exact=False, remark=why_no_other))
        self._note(Candidate("NUTS", exact=True, remark="not timed: no other step is tried"))
        why = f"exact, and no other step is tried: {why_no_other} (all_steps=True tries all)"
        lines = [line_of(candidate, self.draws) for candidate in self.found]
        return Recommendation(
            "NUTS", why, table_of(self.found, self.draws), {"NUTS": partial(pm.NUTS, model=self.model)}, lines
        )

    def _note(self, candidate: Candidate) -> None:
        self.found.append(candidate)
        if self.phases.shown:
            _log.info(line_of(candidate, self.draws))

    def _begin_with_nuts(self) -> Candidate:
        """Return what NUTS would take: at least, where a pilot that tunes as a chain does is not short."""
        if self.model.discrete_value_vars:
            names = [self.model.values_to_rvs[value].name for value in self.model.discrete_value_vars]
            return Candidate("NUTS", exact=True, remark=f"it moves continuous variables, and {names} is discrete")
        try:
            with self.phases("Trying NUTS"):
                self.gradient = time_gradient(self.model)
                return pilot_nuts(self.model, self.gradient, self.seed)
        except (NotImplementedError, NullTypeGradError) as reason:
            return Candidate("NUTS", exact=True, remark=_sentence(str(reason)))

    def _try_steps(self, shared: Shared, nuts: Candidate) -> None:
        longest = np.nan_to_num(nuts.seconds(self.draws), nan=np.inf)
        with self.phases("Reading the model"):
            groups = groups_that_pay(self.model)
        if groups is not None:
            self._try(GroupMH, shared, longest)
            if self.found[-1].step is not None and not self.all_steps:
                return
        self._try(PenaltyMH, shared, longest)
        first = self.found[-1]
        has_proxy = first.step is not None and (
            first.step.moves_groups or first.step.decider.parts.prepared is not None
        )
        if has_proxy or self.all_steps:
            left = self._left() - _TRYING
            if left < _BUILDING:
                remark = f"not tried: {first.name} took {first.setup:.0f} s to build"
                self._note(Candidate("MHSS", exact=True, remark=remark))
            else:
                self._try(MHSS, shared, 2 * first.setup, left)
        elif first.step is not None:
            self._note(Candidate("MHSS", exact=True, remark="it needs a proxy, and PenaltyMH found none"))
        if (first.step is not None and not has_proxy) or self.all_steps:
            self._try(MinibatchBarker, shared, longest)

    def _left(self) -> float:
        """Return the seconds that trials may still take: infinite where code was compiled, which is done once."""
        counts = n_compiled() == self.compiled and not self.all_steps
        return _LIMIT - (time.process_time() - self.began) if counts else np.inf

    def _try(self, make: Callable[..., RowStep], shared: Shared, longest: float, left: float = np.inf) -> None:
        """Build a step within some seconds, and try it."""
        name, exact, start, before = make.__name__, make is MHSS, time.process_time(), shared.saved
        limit = np.inf if self.all_steps else min(np.nanmax([_SHORT, longest]), left)
        with warnings.catch_warnings(record=True) as caught, quiet(), self.phases(f"Trying {name}"):
            warnings.simplefilter("always")
            try:
                with at_most(limit):
                    step = make(model=self.model, progressbar=False, rng=self.seed)
                setup = time.process_time() - start + shared.saved - before
                candidate = try_step(step, self.model, setup, self.seed)
            except SetupTooLongError:
                remark = f"given up: building it takes more than {limit:.0f} s"
                candidate = Candidate(name, exact, remark=remark)
            except (UnsupportedModelError, SamplingError) as reason:
                candidate = Candidate(name, exact, remark=_sentence(str(reason)))
        said = [_sentence(str(w.message)) for w in caught if "No proxy" in str(w.message)]
        self._note(replace(candidate, remark="; ".join(filter(None, [candidate.remark, *said]))))


def _handed_over(step: RowStep, model: Model) -> RowStep:
    """Return a step that was tried, as the newest of its model."""
    if not step.moves_groups:
        remember(model, step)
    return step


def _sentence(text: str) -> str:
    """Return the first sentence."""
    return text.removeprefix("MHSS: ").partition("\n")[0].partition(". ")[0].rstrip(".")
