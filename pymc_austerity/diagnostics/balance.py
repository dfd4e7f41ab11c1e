"""The spot check: whether a test moves from drawn states to what it proposes there as often as back."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from pymc_austerity.diagnostics.decision_verdicts import judge_means, judge_spot_check, judge_spread
from pymc_austerity.diagnostics.drawn_states import DrawnStates, state_of_chain, test_of_chain
from pymc_austerity.diagnostics.judged_decisions import balance_remedy
from pymc_austerity.diagnostics.measured_error import (
    Flow,
    Repeats,
    control_coefficient,
    flow_of,
    mean_error,
    mean_shift,
    spread_shift,
    typical_error,
    worst_error,
)
from pymc_austerity.diagnostics.row_shape import NORMAL_SHAPE, RowShape
from pymc_austerity.diagnostics.spot_check import RepeatedTest, evaluate_pair, moments_of, pair_shape
from pymc_austerity.diagnostics.verdicts import NOT_KNOWN, Finding, judge_record
from pymc_austerity.kernel import Decider, Proposed

#: Rows read by the repeated tests at most, and repetitions of a state.
_REPEAT_BUDGET, _MOST_REPEATS, _FEWEST_REPEATS = 100_000_000, 1_000, 20
#: States whose error looked largest and is measured anew, and how many times longer.
_FINALISTS, _LONGER = 5, 10
_LEVEL = 0.05


class Spot(NamedTuple):
    """What was measured at one proposal; no repeats where it needed no rows."""

    chain: int
    draw: int
    proposed: Proposed
    log_ratio: float
    repeats: Repeats | None
    back: Repeats | None
    shape: RowShape
    left: tuple[float, float]
    looks: Any


@dataclass
class SpotCheck:
    """Proposals from drawn states, decided many times over, there and back.

    The decider is of rows that can all be read; `stats` are the statistics of the step's draws, flat, and `own` the
    same as they are.
    """

    decider: Decider
    stats: dict[str, np.ndarray]
    own: xr.Dataset
    #: States that are to be looked at.
    n_states: int
    rng: np.random.Generator
    spots: list[Spot] = field(default_factory=list)
    #: Seconds that the last state took, for its pass and for its repeats.
    seconds: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        n_total, chains = len(self.decider.parts.stored), range(self.own.sizes["chain"])
        read = max(float(np.minimum(self.stats["n_rows"], n_total).mean()), 1.0)
        # A test that always reads all rows makes the same decision every time.
        most = _REPEAT_BUDGET / (2 * self.n_states * read)
        always = self.stats["full_data"].all()
        self._n_repeats = 2 if always else int(np.clip(most, _FEWEST_REPEATS, _MOST_REPEATS))
        self._test = RepeatedTest(self.decider, self.rng)
        self._looks = [test_of_chain(self.decider, self.own, c).looks(n_total) for c in chains]
        self._tuned = [state_of_chain(self.decider, self.own, c) for c in chains]

    def look_at(self, states: DrawnStates, k: int) -> None:
        """Propose from the k-th of some states, evaluate all rows there, and repeat the test on them."""
        start, chain, draw = time.thread_time(), int(states.chain[k]), int(states.draw[k])
        proposed = self.decider.propose(states.theta[k], states.others[k], self._tuned[chain], self.rng)
        pair = evaluate_pair(self.decider, proposed)
        if pair is None:
            spot = Spot(chain, draw, proposed, -np.inf, None, None, NORMAL_SHAPE, (np.nan, np.nan), None)
        else:
            evaluated, looks = time.thread_time(), self._looks[chain]
            repeats = self._test.both_ways(pair, self._n_repeats, looks)
            self.seconds = evaluated - start, time.thread_time() - evaluated
            shape = pair_shape(self.decider, pair)
            log_ratio = self._test.log_ratio(pair)
            spot = Spot(chain, draw, proposed, log_ratio, *repeats, shape, moments_of(pair), looks)
        self.spots.append(spot)

    def repeat(self, k: int) -> None:
        """Repeat the test on the k-th proposal as often as before, which halves the variance of its error."""
        spot, start = self.spots[k], time.thread_time()
        pair = None if spot.repeats is None else evaluate_pair(self.decider, spot.proposed)
        if pair is not None and spot.repeats is not None:
            more, back = self._test.both_ways(pair, spot.repeats.n, spot.looks)
            both = None if spot.back is None or back is None else spot.back.with_more(back)
            self.spots[k] = spot._replace(repeats=spot.repeats.with_more(more), back=both)
            self.seconds = self.seconds[0], time.thread_time() - start

    @property
    def measured(self) -> list[Spot]:
        """Those that needed rows."""
        return [s for s in self.spots if s.repeats is not None]

    @property
    def batches(self) -> list[tuple[RowShape, float]]:
        """The shapes of the rows of proposals, with the rows that decided on them before all."""
        return [
            (s.shape, s.repeats.partial_rows / s.repeats.partial) for s in self.spots if s.repeats and s.repeats.partial
        ]

    @property
    def seconds_of_finalists(self) -> float:
        """What it takes to measure the largest errors anew, and a bit more."""
        return _FINALISTS * (self.seconds[0] + _LONGER * self.seconds[1]) + 0.1

    def _coefficient(self) -> float:
        return control_coefficient([r for s in self.spots for r in (s.repeats, s.back) if r is not None])

    def _flow(self, log_ratio: float, runs: tuple[Repeats, Repeats | None], coefficient: float) -> Flow:
        exact = self._test.exact(log_ratio), self._test.exact(-log_ratio)
        return flow_of(*runs, exact, log_ratio, coefficient)

    def table(self) -> pd.DataFrame:
        """Arrange the spot check, a row a state; where no rows were needed the test cannot err."""
        coefficient, rows = self._coefficient(), []
        for spot in self.spots:
            runs = spot.repeats
            flow = Flow(0.0, 0.0, 0.0) if runs is None else self._flow(spot.log_ratio, (runs, spot.back), coefficient)
            rows.append(
                {
                    "chain": spot.chain,
                    "draw": spot.draw,
                    "log_ratio": spot.log_ratio,
                    "exact": self._test.exact(spot.log_ratio),
                    "there": flow.there,
                    "back": flow.back,
                    "error": flow.error,
                    "error_se": flow.se,
                    "rows": 0.0 if runs is None else runs.rows / runs.n,
                    **{name: getattr(spot.shape, name) for name in ("skewness", "kurtosis", "largest")},
                }
            )
        return pd.DataFrame(rows)

    def judge_errors(self, table: pd.DataFrame, *, anew: bool) -> Finding:
        """Judge the measured errors, the largest of them measured anew where that is asked for."""
        errors, ses = table["error"].to_numpy(), table["error_se"].to_numpy()
        spots, coefficient = self.spots, self._coefficient()
        # The verdict on states so far is looked at often, and must not change what is drawn after it.
        rng = self.rng if anew else np.random.default_rng(0)
        finalists = np.array([k for k in np.argsort(-np.abs(errors))[:_FINALISTS] if spots[k].repeats is not None])
        least, again = min(s.repeats.n for s in spots if s.repeats is not None), []
        for k in finalists if anew else ():
            pair, runs = evaluate_pair(self.decider, spots[k].proposed), spots[k].repeats
            assert pair is not None
            assert runs is not None
            longer = self._test.both_ways(pair, _LONGER * runs.n, spots[k].looks)
            again.append(self._flow(spots[k].log_ratio, longer, coefficient))
        new, new_ses = (np.array([getattr(flow, name) for flow in again]) for name in ("error", "se"))
        return judge_spot_check(
            typical_error(errors, ses, rng, _LEVEL),
            mean_error(errors, _LEVEL),
            worst_error(errors, ses, finalists, new, new_ses, (least, _LONGER * least), _LEVEL) if anew else None,
            len(errors),
            balance_remedy(self.decider),
        )

    def judge_moments(self, table: pd.DataFrame, scale: Relaxations) -> list[Finding]:
        """Judge how far the measured errors shift the means and the standard deviations."""
        old, new = self.in_deviations(scale)
        errors, log_ratios = table["error"].to_numpy(), np.nan_to_num(table["log_ratio"].to_numpy())
        shift = mean_shift(new - old, errors, log_ratios, scale.of_means, scale.names, _LEVEL)
        spread = spread_shift(old, new, errors, log_ratios, scale.of_squares, _LEVEL)
        remedy = balance_remedy(self.decider)
        return [judge_means(shift, remedy), judge_spread(spread, remedy)]

    def tells(self, scale: Relaxations) -> bool:
        """Whether what was measured so far is enough for a verdict."""
        if len(self.measured) < 2:
            return False
        table = self.table()
        found = [self.judge_errors(table, anew=False), *self.judge_moments(table, scale)]
        return all(f.verdict != NOT_KNOWN for f in found)

    def in_deviations(self, scale: Relaxations) -> tuple[np.ndarray, np.ndarray]:
        """Return both ends of the proposals, from the mean of the draws in standard deviations."""
        ends = np.array([[s.proposed.theta, s.proposed.theta_new] for s in self.spots]) - scale.centre
        old, new = np.divide(ends, scale.sd, out=np.zeros_like(ends), where=scale.sd > 0).swapaxes(0, 1)
        return old, new

    def judge_record(self) -> Finding:
        """Compare what the run read with what the spot check did."""
        spots, stats = self.spots, self.stats
        again = np.array([0.0 if s.repeats is None else 1 - s.repeats.partial / s.repeats.n for s in spots])
        log_again = np.log1p([n for _, n in self.batches])
        full = stats["full_data"].astype(bool)
        log_rows = np.log1p(stats["n_rows"][~full & (stats["n_rows"] > 0)])
        if not log_rows.size or log_again.size < 2:
            log_rows, log_again = np.full(2, np.nan), np.full(2, np.nan)
        triples = [
            (float(of.mean()), float(by.mean()), float(by.std(ddof=1) / np.sqrt(by.size)))
            for of, by in ((full, again), (log_rows, log_again))
        ]
        return judge_record(*triples)


class Relaxations(NamedTuple):
    """What turns errors of decisions into those of moments, for each of the D entries of θ."""

    #: Draws in which a deviation of the mean, and of the square, decays.
    of_means: np.ndarray
    of_squares: np.ndarray
    names: list[str]
    #: Mean and standard deviation of the draws.
    centre: np.ndarray
    sd: np.ndarray
