"""What a step would take for a model: set-up, tuning and draws, from a short trial of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pymc.model import Model

from pymc_austerity.diagnostics.convergence import effective_draws, of_entries
from pymc_austerity.steps.row_step import RowStep

#: Chains that PyMC runs, each of which is tuned.
CHAINS = 4
#: Draws of a trial, first to tune, then to load code, then to be timed; and the seconds that each takes at most.
_TUNED, _FIRST, _DRAWN, _SECONDS = 200, 20, 500, 0.7
#: Draws of a chain that does not look at itself before the trial ends.
_ENDLESS = 10**9
#: Draws in which PyMC tunes steps that ask for no other number.
_TUNE = 1_000
#: Entries of a variable that are watched; those of groups are alike, and may be thousands.
_WATCHED = 20


@dataclass(frozen=True, eq=False)
class Candidate:
    """A line of a recommendation; microseconds are of processor time."""

    name: str  # of the class of the step
    exact: bool  # whether it leaves the posterior as it is
    setup: float = np.nan  # seconds of building it; not a number where it was not tried, nor any of the following
    tuning: float = np.nan  # seconds of tuning a chain
    rows: float = np.nan  # that a draw reads
    us: float = np.nan  # of a draw
    effective_us: float = np.nan  # of an effective draw of the slowest parameter
    accepted: float = np.nan  # share of moves that are accepted
    at_least: bool = False  # whether it takes that long or longer
    remark: str = ""  # why there are no numbers, or what they rest on
    step: Any = None  # as it was built
    #: A point of the posterior, and the variances of all entries, from the trial.
    start: Any = None
    variances: Any = None

    def seconds(self, draws: int) -> float:
        """Return the seconds of one core in which four chains are set up, tuned, and make so many effective draws."""
        return self.setup + CHAINS * self.tuning + 1e-6 * draws * self.effective_us


def try_step(step: RowStep, model: Model, setup: float, seed: int) -> Candidate:
    """Run a short chain of a step whose building takes `setup` seconds, and leave the step as it was built."""
    step.setup_chain(np.random.default_rng(seed), _TUNED, _ENDLESS)
    _, point, _ = make_draws(step, model.initial_point(), _TUNED, _SECONDS)
    step.stop_tuning()
    _, point, _ = make_draws(step, point, _FIRST, _SECONDS)  # what draws ahead is fetched from disk
    found, point, times = make_draws(step, point, _DRAWN, _SECONDS)
    step.set_rng(np.random.default_rng(seed))
    n, points = len(found), [point for point, _ in found]
    rows, accepted = (sum(float(stats[name]) for _, stats in found) for name in ("n_rows", "accepted"))
    us = 1e6 * sum(times) / n
    share = effective_share(points)
    return Candidate(
        type(step).__name__,
        exact=not step.error,
        setup=setup,
        tuning=1e-6 * us * (step.default_tune_steps or _TUNE),
        rows=rows / n,
        us=us,
        effective_us=us / share if share > 0 else np.nan,
        accepted=accepted / n,
        remark="" if share > 0 else f"a parameter did not move in {n} draws",
        step=step,
        start=point,
        variances={name: np.var([p[name] for p in points], axis=0) for name in point},
    )


def make_draws(step: Any, point: Any, most: int, seconds: float) -> tuple[list[tuple[Any, Any]], Any, list[float]]:
    """Make draws until there are enough or the time is over.

    Returns them with their statistics, the last point, and the processor time of each.
    """
    found: list[tuple[Any, Any]] = []
    times: list[float] = []
    began = time.process_time()
    while len(found) < most and time.process_time() - began < seconds:
        start = time.process_time()
        point, (stats,) = step.step(point)
        times.append(time.process_time() - start)
        found.append((point, stats))
    return found, point, times


def effective_share(points: Sequence[Any]) -> float:
    """Return the effective draws for each draw of the slowest parameter; 0 where one did not move."""
    draws = np.array([np.concatenate([_watched(value) for value in point.values()]) for point in points], dtype=float)
    if len(draws) < 4 or not np.ptp(draws, axis=0).all():
        return 0.0
    return float(of_entries(effective_draws, draws[None]).min()) / len(draws)


def _watched(value: np.ndarray) -> np.ndarray:
    """Return some entries of a variable."""
    entries = np.ravel(value)
    return entries[:: max(1, entries.size // _WATCHED)]
