"""Tries the steps that may suit a model, and chooses the one with the wanted effective draws first."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Mapping
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
from pymc_austerity.steps.candidate import Candidate, Gradient, nuts_of, pilot_nuts, time_gradient, try_step
from pymc_austerity.steps.group_mh import GroupMH
from pymc_austerity.steps.groups_of_step import groups_that_pay
from pymc_austerity.steps.methods import MinibatchBarker, PenaltyMH
from pymc_austerity.steps.mhss import MHSS
from pymc_austerity.steps.recommendation import Recommendation, choose, line_of, table_of
from pymc_austerity.steps.row_step import RowStep
from pymc_austerity.tried_setup import SetupTooLongError, Shared, at_most, once, shared_setup
from pymc_austerity.unsupported_model import UnsupportedModelError

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


class StepTrials:
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
        return self._told(*choose(self.found, self.draws), build)

    def _nuts_untried(self, why_no_other: str) -> Recommendation:
        """Recommend NUTS where no other step is tried: what it takes would change nothing."""
        self.found.clear()
        self._note(Candidate("PenaltyMH", exact=False, remark=why_no_other))
        self._note(Candidate("NUTS", exact=True, remark="not timed: no other step is tried"))
        why = f"exact, and no other step is tried: {why_no_other} (all_steps=True tries all)"
        return self._told("NUTS", why, {"NUTS": partial(pm.NUTS, model=self.model)})

    def _told(self, step: str, why: str, build: Mapping[str, Callable[[], Any]]) -> Recommendation:
        lines = [line_of(candidate, self.draws) for candidate in self.found]
        return Recommendation(step, why, table_of(self.found, self.draws), build, lines)

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
            return Candidate("NUTS", exact=True, remark=_sentence(reason))

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
                candidate = Candidate(name, exact, remark=_sentence(reason))
        said = [_sentence(w.message) for w in caught if "No proxy" in str(w.message)]
        self._note(replace(candidate, remark="; ".join(filter(None, [candidate.remark, *said]))))


def _handed_over(step: RowStep, model: Model) -> RowStep:
    """Return a step that was tried, as the newest of its model."""
    remember(model, step)
    return step


def _sentence(reason: object) -> str:
    """Return the first sentence."""
    return str(reason).removeprefix("MHSS: ").partition("\n")[0].partition(". ")[0].rstrip(".")
