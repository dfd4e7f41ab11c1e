"""Positive variables that rows read as they are, moved where the rows are quadratic in them.

A slope or an effect that is positive by its prior, and may be zero by the data, has a law with a long tail to one side
in the logarithm that PyMC moves.  Here b = w log(1 + exp(s/w)), and s is moved: far above w it is b, and below zero it
falls as a logarithm does.  w is half the standard deviation that the rows leave to b, found by their curvature.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.distributions.transforms import LogTransform
from pymc.model import Model
from pytensor.gradient import NullTypeGradError
from pytensor.graph.basic import Variable
from pytensor.graph.utils import MethodNotDefined
from scipy import optimize

from pymc_austerity.compile.graph_compiler import interpret_log_density
from pymc_austerity.groups.change_of_variables import ChangeOfVariables, log_density
from pymc_austerity.likelihood import Block, ModelData

#: Rows at which the likelihood is looked at, the steps of the search for a likely point, and its pull to the start.
_ROWS, _STEPS, _PULL = 4_000, 40, 1e-3
#: Steps of a common factor by which a variable is changed, and third differences in it, as a share of those in its
#: logarithm, from which on it is left as it is.
_CHANGES, _SHARE = np.array([-1.5, -0.5, 0.5, 1.5]) * 0.4, 0.5
#: Random signs by which curvatures are found, and the step of their differences.
_PROBES, _STEP = 12, 1e-3
#: w as a share of the standard deviation that rows leave to b given everything else: of .3 to 2, with effects of which
#: a quarter is about zero, the best.
_PART = 0.5


class _Rows:
    """Some rows from all over the table, and functions of θ of them."""

    def __init__(self, data: ModelData):
        likelihood, n_rows = data.likelihood, len(data.rows)
        some = np.unique(np.linspace(0, n_rows - 1, min(_ROWS, n_rows)).astype(np.int64))
        self.of_all = n_rows / len(some)  # the rows of the model for each of these
        self.theta, self.rows = likelihood.theta, likelihood.row_log_likelihood
        self._given = likelihood.others, *likelihood.fixed, *likelihood.batches
        self._values = data.others0, *data.fixed, *data.rows.take(some).arrays

    def function(self, graph: Variable) -> Callable[[np.ndarray], np.ndarray]:
        """Return a graph as a function of θ."""
        function = interpret_log_density([self.theta, *self._given], graph)

        def evaluated(theta: np.ndarray) -> np.ndarray:
            with np.errstate(all="ignore"):
                return np.asarray(function(theta, *self._values))

        return evaluated


def changes_of_positive_variables(model: Model, data: ModelData) -> dict[Variable, ChangeOfVariables]:
    """Return the changes of variables from b to s, of the positive variables in which the rows are nearly quadratic."""
    blocks = {b.name: b for b in data.likelihood.blocks if b.name in data.likelihood.read}
    positive = {
        rv: blocks[value.name]
        for rv, value in model.rvs_to_values.items()
        if value.name in blocks and isinstance(model.rvs_to_transforms[rv], LogTransform)
    }
    if not positive:
        return {}
    rows = _Rows(data)
    terms = rows.function(rows.rows)
    linear = {rv: block for rv, block in positive.items() if _nearly_quadratic(terms, data.theta0, block)}
    if not linear:
        return {}
    try:
        slope = rows.function(pytensor.grad(rows.rows.sum(), rows.theta))
    except (NotImplementedError, NullTypeGradError, MethodNotDefined):  # as is said where rows are expanded
        return {}
    widths = _widths(terms, slope, rows.of_all, data.theta0, list(linear.values()))
    return {rv: _change(rv, width, model) for rv, width in zip(linear, widths, strict=True)}


def _nearly_quadratic(terms: Callable[[np.ndarray], np.ndarray], theta: np.ndarray, block: Block) -> bool:
    """Whether rows have smaller third differences in the variable than in its logarithm."""
    own = slice(block.start, block.stop)

    def third_difference(logarithms: np.ndarray) -> float:
        values = []
        for change in logarithms:
            moved = theta.copy()
            moved[own] += change
            values.append(terms(moved))
        return float(np.abs(values[3] - 3 * values[2] + 3 * values[1] - values[0]).sum())

    in_itself, in_logarithm = third_difference(np.log1p(_CHANGES)), third_difference(_CHANGES)
    return in_itself < _SHARE * in_logarithm


def _widths(
    terms: Callable[[np.ndarray], np.ndarray],
    slope: Callable[[np.ndarray], np.ndarray],
    of_all: float,
    theta: np.ndarray,
    blocks: list[Block],
) -> list[np.ndarray]:
    """Return w for each entry of variables, at most where these start.

    `terms` and `slope` return the log-likelihood of some rows, and the slope of their sum; there are `of_all` times as
    many rows.
    """
    own = np.concatenate([np.arange(b.start, b.stop) for b in blocks])

    def negative(at: np.ndarray) -> tuple[float, np.ndarray]:
        away = at - theta
        value = terms(at).sum() - _PULL * away @ away / 2
        return (-value, -(slope(at) - _PULL * away)) if np.isfinite(value) else (1e300, np.zeros(at.size))

    likely = optimize.minimize(negative, theta, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS}).x
    likely[own] = theta[own]  # rows are about quadratic in them: their curvature is the same everywhere
    start, rng, curvature = np.exp(theta[own]), np.random.default_rng(1603), np.zeros(own.size)
    for _ in range(_PROBES):
        signs, sides = rng.choice((-1.0, 1.0), own.size), []
        for step in (_STEP, -_STEP):
            moved = likely.copy()
            moved[own] = np.log(start * (1 + step * signs))
            sides.append(slope(moved)[own] / np.exp(moved[own]))
        curvature -= signs * (sides[0] - sides[1]) / (2 * _STEP * start) / _PROBES
    with np.errstate(all="ignore"):
        widths = _PART / np.sqrt(of_all * curvature)
    widths = np.where(np.isfinite(widths), np.minimum(widths, start), start)
    ends = np.cumsum([b.stop - b.start for b in blocks])[:-1]
    return [of.reshape(b.shape) for of, b in zip(np.split(widths, ends), blocks, strict=True)]


def _change(b: Variable, width: np.ndarray, model: Model) -> ChangeOfVariables:
    new = pt.TensorType("float64", width.shape)(b.name)
    w = pt.constant(width)
    inverse = w * pt.softplus(new / w)
    log_prior = log_density(b, inverse, model.basic_RVs) - pt.softplus(-new / w)
    return ChangeOfVariables(b + w * pt.log1p(-pt.exp(-b / w)), new, inverse, log_prior, {})
