"""What NUTS would take for a model, from a short run of it."""

from __future__ import annotations

import time
import warnings
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

from pymc_austerity.steps.candidate import Candidate, effective_share, make_draws

#: Seconds for which the gradient is timed, and those of a pilot, half of them to tune.
_TIMED, _PILOT = 0.2, 2.5
#: Draws that PyMC tunes NUTS for, and that a pilot makes at most.
_TUNE, _MOST_DRAWS = 1_000, 500
#: Gradients of a trajectory on a posterior that is normal and has been scaled: 2² − 1 at least, and as a rule.
_LEAST_GRADIENTS, _USUAL_GRADIENTS = 3, 7
#: Draws of a pilot below which it says no more than that, and from which on effective ones are counted.
_FEWEST, _ENOUGH = 20, 100
#: Entries of an array above which it is handed to compiled code, and is no part of it.
_LARGE = 1_000


class Gradient(NamedTuple):
    """The log density of a model with its gradient, compiled."""

    function: Any  # what PyMC's own steps take as ``logp_dlogp_func=``
    setup: float  # seconds that it took to compile
    seconds: float  # of an evaluation

    @property
    def least(self) -> float:
        """Seconds of a draw at least."""
        return _LEAST_GRADIENTS * self.seconds

    @property
    def usual(self) -> float:
        """Seconds of a draw of a posterior that is nearly normal."""
        return _USUAL_GRADIENTS * self.seconds


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
    model: Model,
    gradient: Gradient,
    seed: int,
    within: Candidate | None = None,
    insist: bool = False,
) -> Candidate:
    """Run NUTS for seconds, and return what it would take.

    The pilot starts where a step that has been tried, `within`, ended, with the variances of its draws. Without one it
    tunes as a chain does, which has to be short, unless the caller does `insist`.
    """
    too_long = gradient.least * _FEWEST > _PILOT if within is not None or insist else gradient.usual * _TUNE > _PILOT
    if too_long:
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
        found, point, drawing = make_draws(nuts, point, _MOST_DRAWS, 0.5 * _PILOT)
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
        rows=np.nan,
        us=us,
        effective_us=us / share if share > 0 else np.nan,
        remark="" if n >= _ENOUGH else f"from {n} draws of a pilot",
    )


def _at_least(gradient: Gradient) -> Candidate:
    us = 1e6 * gradient.least
    return Candidate(
        "NUTS",
        exact=True,
        setup=gradient.setup,
        tuning=1e-6 * us * _TUNE,
        rows=np.nan,
        us=us,
        effective_us=us,
        at_least=True,
        remark=f"a gradient takes {1e3 * gradient.seconds:,.3g} ms",
    )
