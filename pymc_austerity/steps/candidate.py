"""What a step, or NUTS, would take for a model: set-up, tuning and draws, from a short trial of it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor
from pymc.model import Model
from pymc.model.core import ValueGradFunction
from pymc.util import get_random_generator
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor import TensorConstant, TensorVariable

from pymc_austerity.diagnostics.convergence import effective_draws, of_entries
from pymc_austerity.steps.row_step import RowStep

#: Chains that PyMC runs, each of which is tuned.
CHAINS = 4
#: Draws of a trial, first to tune, then to load code, then to be timed; and the seconds that each takes at most.
_TUNED, _FIRST, _DRAWN, _SECONDS = 200, 20, 500, 0.7
#: Draws of a chain that does not look at itself before the trial ends.
_ENDLESS = 10**9
#: Draws in which PyMC tunes NUTS, and steps that ask for no other number.
_TUNE = 1_000
#: Entries of a variable that are watched; those of groups are alike, and may be thousands.
_WATCHED = 20
#: Seconds for which the gradient is timed, and those of a pilot of NUTS, half of them to tune.
_TIMED, _PILOT = 0.2, 2.5
#: Gradients of a trajectory on a posterior that is normal and has been scaled: 2² − 1 at least, and as a rule.
_LEAST_GRADIENTS, _USUAL_GRADIENTS = 3, 7
#: Draws of a pilot below which it says no more than that, and from which on effective ones are counted.
_FEWEST, _ENOUGH = 20, 100
#: Entries of an array above which it is handed to compiled code, and is no part of it.
_LARGE = 1_000


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
    """Return at most so many draws with their statistics, the last point, and the processor time of each."""
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


class Gradient(NamedTuple):
    """The log density of a model with its gradient, compiled."""

    function: Any  # what PyMC's own steps take as ``logp_dlogp_func=``
    setup: float  # seconds that it took to compile
    seconds: float  # of an evaluation


def time_gradient(model: Model) -> Gradient:
    """Compile the log density with its gradient, and time it; raise what PyTensor does where there is no gradient."""
    start = time.process_time()
    function = ValueGradFunction(
        [_with_shared_data(model.logp())], model.continuous_value_vars, {}, ravel_inputs=True, model=model
    )
    function.trust_input = True
    function.set_extra_values({})
    point = np.concatenate([np.ravel(v) for v in model.initial_point().values()]).astype("float64")
    function(point)
    setup, n, began = time.process_time() - start, 0, time.process_time()
    while n < 3 or time.process_time() - began < _TIMED:
        function(point)
        n += 1
    return Gradient(function, setup, (time.process_time() - began) / n)


def _with_shared_data(log_density: TensorVariable) -> TensorVariable:
    """Replace the large arrays in a graph by shared variables, so that PyTensor keeps its compiled code on disk."""
    large = [v for v in ancestors([log_density]) if isinstance(v, TensorConstant) and v.data.size > _LARGE]
    shared = {v: pytensor.shared(v.data, shape=v.type.shape, borrow=True) for v in large}
    return clone_replace(log_density, shared)


def nuts_of(model: Model, gradient: Gradient, **options: Any) -> pm.NUTS:
    """Return a step of PyMC's NUTS that is not tuned."""
    return pm.NUTS(model=model, logp_dlogp_func=gradient.function, **options)


def pilot_nuts(
    model: Model, gradient: Gradient, seed: int, within: Candidate | None = None, insist: bool = False
) -> Candidate:
    """Run NUTS for seconds, and return what it would take.

    The pilot starts where a step that has been tried, `within`, ended, with the variances of its draws. Without one it
    tunes as a chain does, which has to be short, unless the caller does `insist`.
    """
    in_short = within is not None or insist
    gradients = _LEAST_GRADIENTS * _FEWEST if in_short else _USUAL_GRADIENTS * _TUNE
    if gradients * gradient.seconds > _PILOT:
        return _at_least(gradient)
    start, scaled = model.initial_point(), {}
    if within is not None:
        start = within.start
        variances = np.concatenate([np.ravel(within.variances[v.name]) for v in model.continuous_value_vars])
        scaled = {"scaling": variances, "is_cov": True}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        nuts = nuts_of(model, gradient, rng=get_random_generator(seed), **scaled)
        most = _TUNE if within is None else _TUNE // 10
        _, point, tuning = make_draws(nuts, start, most, 0.5 * _PILOT)
        nuts.stop_tuning()
        found, point, drawing = make_draws(nuts, point, _DRAWN, 0.5 * _PILOT)
    n = len(found)
    if n < _FEWEST:
        return _at_least(gradient)
    us = 1e6 * sum(drawing) / n
    # What the pilot did not come to costs as much as its draws; what it did, as much as it took.
    tuned = tuning if within is None else []
    share = effective_share([point for point, _ in found]) if n >= _ENOUGH else 1.0
    return Candidate(
        "NUTS",
        exact=True,
        setup=gradient.setup,
        tuning=sum(tuned) + 1e-6 * us * (_TUNE - len(tuned)),
        us=us,
        effective_us=us / share if share > 0 else np.nan,
        remark="" if n >= _ENOUGH else f"from {n} draws of a pilot",
    )


def _at_least(gradient: Gradient) -> Candidate:
    us, remark = 1e6 * _LEAST_GRADIENTS * gradient.seconds, f"a gradient takes {1e3 * gradient.seconds:,.3g} ms"
    tuning = 1e-6 * us * _TUNE
    return Candidate("NUTS", True, gradient.setup, tuning, us=us, effective_us=us, at_least=True, remark=remark)
