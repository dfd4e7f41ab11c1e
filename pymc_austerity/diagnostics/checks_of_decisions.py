"""The checks of a run whose moves one test decided, one after the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from pymc.model import Model

from pymc_austerity.acceptance import Reads
from pymc_austerity.diagnostics.balance import Relaxations, SpotCheck
from pymc_austerity.diagnostics.built_steps import sample_of_rows
from pymc_austerity.diagnostics.convergence import FEWEST_DRAWS, Mixing, chains_of, entries_of_theta, relaxation_of
from pymc_austerity.diagnostics.density_on_rows import density_of
from pymc_austerity.diagnostics.drawn_states import drawn_states, test_of_chain
from pymc_austerity.diagnostics.judged_decisions import OnAllRows, judge_batches, judge_exact_decisions
from pymc_austerity.diagnostics.place_of_draws import (
    drift_of,
    judge_place,
    least_movement,
    movement_on_rows,
    states_of_place,
)
from pymc_austerity.diagnostics.reliability_report import Reliability, report_of
from pymc_austerity.diagnostics.results import SamplingResult
from pymc_austerity.diagnostics.statistics_of_step import stats_of_step
from pymc_austerity.diagnostics.time_allowance import Allowance
from pymc_austerity.diagnostics.verdicts import (
    Finding,
    judge_acceptance,
    judge_location,
    judge_movement,
    judge_other_mode,
    not_looked_at,
)
from pymc_austerity.kernel import Decider

#: Row terms evaluated over all states at most, unless n_states= asks for more.
_ROW_BUDGET, _MOST_STATES, _FEWEST_STATES = 200_000_000, 1_000, 30
#: Above so many rows a spot check is of a sample of so many, and so many times those that a decision reads.
_MANY_ROWS, _SAMPLE, _TIMES_READ = 200_000, 10_000, 100


class ChecksOfDecisions:
    """The checks of a run that one test decided."""

    def __init__(
        self, idata: SamplingResult, model: Model, decider: Decider, allowance: Allowance, n_states: int | None,
        random_seed: int, of_rows: np.random.Generator,
    ):  # fmt: skip
        self.stats, self.own = stats_of_step(idata, model, decider)
        # Of several designs, the first in the remedies.
        self.decider = decider = replace(decider, test=test_of_chain(decider, self.own, 0))
        self.idata, self.model, self.allowance, self.of_rows = idata, model, allowance, of_rows
        self.rng, self.n_states = np.random.default_rng(random_seed), n_states
        self.temperature = float(decider.parts.temperature.final)
        self.pooled = decider.row_source.counts is not None
        self.is_exact = decider.test.reads in (Reads.BY_BOUNDS, Reads.ALL) and not self.pooled
        self.population = self._population()
        self.sampled = self.population is not decider
        self.n_planned = n_states or int(
            np.clip(_ROW_BUDGET // len(self.population.parts.stored), _FEWEST_STATES, _MOST_STATES)
        )
        self.states = drawn_states(idata, model, decider.parts, self.n_planned)
        self.mixing, self.on_all_rows = Mixing(idata, model), OnAllRows(decider)
        self.passes, self.table, self.place_is_known = 0.0, pd.DataFrame(), False

    def _population(self) -> Decider:
        """Return the decider for the rows of the spot check: of very many a sample, where decisions read far fewer."""
        decider, read, n_total = self.decider, self.stats["n_rows"], len(self.decider.parts.stored)
        k = max(_SAMPLE, int(_TIMES_READ * read.mean()))
        can_be = decider.test.reads is Reads.BATCHES and not (self.pooled or decider.bound.is_asked_for)
        few = n_total > max(_MANY_ROWS, 2 * k) and np.mean(read > k / 10) < 0.001
        return sample_of_rows(decider, k, self.of_rows) if can_be and few else decider

    def report(self) -> Reliability:
        """Look at everything."""
        check, stats = self.allowance.check, self.stats
        findings = check(["chains"], lambda: [chains_of(self.mixing)])
        if self.mixing.values.shape[1] < FEWEST_DRAWS:  # nor do they show whether a chain moves
            return report_of(findings, 0.0, self.table)
        findings += check(["acceptance"], lambda: [judge_acceptance(float(stats["accepted"].mean()))])
        if (prepared := self.decider.parts.prepared) is not None and prepared.kept.other_mode:
            findings += check(["modes"], lambda: [judge_other_mode(prepared.kept.other_mode)])
        findings += check(["movement", "location", "scale"], self._place)
        if self.is_exact:
            findings += check(["batch means"], lambda: judge_exact_decisions(stats))
        if not self.is_exact or self.n_states is not None or not self.place_is_known:
            findings += check(["spot check", "means", "spread"], self._spots)
        findings += check(["proxy", "sums"] if self.decider.density.expands else [], self._proxy)
        passes = float(self.passes + self.on_all_rows.passes)
        return report_of(findings, passes, self.table, self._looked_at())

    def _place(self) -> list[Finding]:
        """Judge whether the chains move, and whether the draws lie where the posterior is."""
        decider, states = self.decider, self.states
        density = None
        if not self.pooled:
            n_states = states_of_place(len(decider.parts.stored), states.theta.shape[1])
            states = drawn_states(self.idata, self.model, decider.parts, n_states)
            density = density_of(decider.parts, self.temperature, states, self.of_rows)
        if density is None:
            change, passes = least_movement(decider, states)
            self.passes += passes
            return [judge_movement(change)]
        found = [judge_movement(movement_on_rows(density, states))]
        names = entries_of_theta(self.mixing, self.model, decider.parts)[1]
        centre = None if decider.parts.prepared is None else decider.parts.prepared.expansion.centre[: len(names)]
        of_place = judge_place(density, states, names, centre)
        self.passes += density.passes
        self.place_is_known = bool(of_place)
        return [*found, *of_place]

    def _spots(self) -> list[Finding]:
        """Judge decisions by what the test does, there and back, from drawn states."""
        checked = SpotCheck(self.population, self.stats, self.own, self.n_planned, self.rng)
        _, names = entries_of_theta(self.mixing, self.model, self.decider.parts)
        of_means, of_squares = (relaxation_of(self.mixing, self.model, self.decider.parts, of) for of in ("bulk", "sd"))
        theta = self.states.theta
        scale = Relaxations(of_means, of_squares, names, theta.mean(axis=0), theta.std(axis=0))
        self._look_at_states(checked, scale)
        if len(checked.spots) < 2:
            return [not_looked_at("spot check", "Time was over before two states were looked at.")]
        self.table, measured = checked.table(), checked.measured
        share = len(self.population.parts.stored) / len(self.decider.parts.stored)
        self.passes += len(measured) * share
        found = []
        if self.decider.row_source.counts is None:
            found.append(checked.judge_record())
        if not self.place_is_known:
            old, new = checked.in_deviations(scale)
            exact = self.table["exact"].to_numpy()
            drift = drift_of(new - old, exact, scale.of_means, scale.names)
            found.append(judge_location(drift, "decisions on all rows"))
        if not self.is_exact:
            found += self._batches(checked)
        if measured:
            anew = not self.allowance.stopped
            found.append(checked.judge_errors(self.table, anew=anew))
            found += checked.judge_moments(self.table, scale)
            self.passes += min(5, len(measured)) * share * anew
        if not self.sampled:
            self.on_all_rows.take([(spot.proposed, spot.left) for spot in measured])
        return found

    def _look_at_states(self, checked: SpotCheck, scale: Relaxations) -> None:
        """Look at the states that are planned, within the time, and at each twice as often while these do not tell."""
        n, allowance = len(self.states.theta), self.allowance

        def has_time() -> bool:
            return allowance.has_time(checked.seconds_of_finalists)

        # Any first part of the golden ratio's multiples is spread evenly.
        order = np.arange(n) if self.n_states else np.argsort(np.argsort(np.arange(n) * (5**0.5 - 1) / 2 % 1))
        try:
            with allowance.not_counted():  # the loop over decisions is compiled for the first state
                checked.look_at(self.states, int(order[0]))
            for k in order[1:]:
                if len(checked.spots) >= 2 and not has_time():
                    return
                checked.look_at(self.states, int(k))
            while self.n_states is None and has_time() and not checked.tells(scale):
                for k in range(n):
                    if not has_time():
                        return
                    checked.repeat(k)
        except KeyboardInterrupt:
            allowance.stopped = True

    def _batches(self, checked: SpotCheck) -> list[Finding]:
        """Judge batches by the shape of all rows, also where a sample of them was looked at many times."""
        batches, n_total = checked.batches, len(self.population.parts.stored)
        if self.sampled and batches:
            self.on_all_rows.propose(self.states, self.own, self.of_rows)
            read = float(np.mean([n for _, n in batches]))
            batches, n_total = [(shape, read) for shape in self.on_all_rows.shapes], len(self.decider.parts.stored)
        return judge_batches(self.decider, self.stats, batches, n_total)

    def _proxy(self) -> list[Finding]:
        """Judge what a proxy leaves, and its sums over the data, beside all rows at some proposals."""
        if self.decider.density.expands and not self.on_all_rows.pairs:
            self.on_all_rows.propose(self.states, self.own, self.of_rows)
        return self.on_all_rows.judge_proxy()

    def _looked_at(self) -> str:
        k = len(self.population.parts.stored)
        if self.sampled and len(self.table):
            return f"a sample of {k:,} rows in place of all {len(self.decider.parts.stored):,}"
        return f"the {k:,} rows of the pool in place of all rows" if self.pooled else "all rows"
