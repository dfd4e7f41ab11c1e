"""Bounded variables that rows read as they are, moved where the rows are quadratic in them.

A slope that is positive by its prior, a probability and shares of a whole may lie at a bound by the data.  Their law
then has a long tail to one side in the logarithms that PyMC moves.  Here they are made of numbers s by

    f(s) = w log(1 + exp(s/w)),

which is s far above w, and falls as an exponential does below zero: f(s) is what a variable is above its bound, and
f(s_k) / Σ_j f(s_j) are shares, of which the last s is one less the others.  A variable between two bounds is a share of
what is between these.  w is half the standard deviation that the rows leave to a variable, found by their curvature.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.distributions.transforms import Interval, LogOddsTransform, LogTransform, SimplexTransform
from pymc.model import Model
from pymc.pytensorf import rvs_in_graph
from pytensor.gradient import NullTypeGradError
from pytensor.graph.basic import Variable
from pytensor.graph.utils import MethodNotDefined
from scipy import optimize

from pymc_austerity.compat import replace_parts
from pymc_austerity.compile.graph_compiler import interpret_log_density
from pymc_austerity.groups.change_of_variables import ChangeOfVariables, log_density
from pymc_austerity.likelihood import Block, ModelData

#: Rows at which the likelihood is looked at, the steps of the search for a likely point, and its pull to the start.
_ROWS, _STEPS, _PULL = 4_000, 40, 1e-3
#: Changes of a variable, as shares of its distance from its bound, and third differences in it, as a share of those in
#: what PyMC moves, from which on it is left as it is.
_CHANGES, _SHARE = np.array([-1.5, -0.5, 0.5, 1.5]) * 0.4, 0.5
#: Random signs by which curvatures are found, and the step of their differences.
_PROBES, _STEP = 12, 1e-3
#: w as a share of the standard deviation that rows leave to a variable given everything else: of .3 to 2, with effects
#: of which a quarter is about zero, the best.
_PART = 0.5
#: Steps to the numbers that shares are made of, by Newton: of a share of 1e-300 too they are found.
_TO_SHARES = 12


@dataclass(frozen=True)
class _Bounded:
    """A variable of a model with its bounds, infinity for none above; of shares all but the last are looked at."""

    rv: Variable
    block: Block
    lower: float
    upper: float
    are_shares: bool

    @property
    def own(self) -> slice:
        """Its place in θ."""
        return slice(self.block.start, self.block.stop)

    def moved(self, model: Model, value: Variable) -> Variable:
        """Return what PyMC moves where the variable has a value."""
        if self.are_shares:
            value = pt.concatenate([value, 1.0 - value.sum(keepdims=True)])
        return model.rvs_to_transforms[self.rv].forward(value, *self.rv.owner.inputs)

    def value(self, model: Model, moved: Variable) -> Variable:
        """Return the value of the variable from what PyMC moves."""
        value = model.rvs_to_transforms[self.rv].backward(moved, *self.rv.owner.inputs)
        return value[:-1] if self.are_shares else value

    def room(self, value: np.ndarray) -> np.ndarray:
        """Return how far each entry may go down and up."""
        if self.are_shares:
            return np.full(value.size, min(value.min(), 1.0 - value.sum()))
        return np.minimum(value - self.lower, self.upper - value)


def changes_of_bounded_variables(model: Model, data: ModelData) -> dict[Variable, ChangeOfVariables]:
    """Return the changes to s, of the bounded variables in which the rows are nearly quadratic."""
    blocks = {b.name: b for b in data.likelihood.blocks if b.name in data.likelihood.read}
    read = [(rv, blocks[value.name]) for rv, value in model.rvs_to_values.items() if value.name in blocks]
    bounded = [found for found in (_bounded(model, *one) for one in read) if found is not None]
    if not bounded:
        return {}
    try:
        rows = _Rows(model, data, bounded)
    except (NotImplementedError, NullTypeGradError, MethodNotDefined):  # as is said where rows are expanded
        return {}
    likely = rows.likely()
    changed = [of for of in bounded if rows.nearly_quadratic(of, likely)]
    if not changed:
        return {}
    width = rows.widths(changed, likely)
    return {of.rv: _change(of, width[of.own].reshape(of.block.shape), model) for of in changed}


def _bounded(model: Model, rv: Variable, block: Block) -> _Bounded | None:
    """Return a variable with its bounds, where these are numbers."""
    transform, inputs = model.rvs_to_transforms[rv], rv.owner.inputs
    if isinstance(transform, SimplexTransform):
        return _Bounded(rv, block, 0.0, 1.0, are_shares=True) if rv.type.ndim == 1 else None
    if not isinstance(transform, LogTransform | LogOddsTransform | Interval):
        return None
    ends = [transform.backward(pt.constant(end), *inputs) for end in (-np.inf, np.inf)]
    if rvs_in_graph(ends) or any(end.type.ndim for end in ends):
        return None
    lower, upper = (float(end) for end in interpret_log_density([], ends)())
    return _Bounded(rv, block, lower, upper, are_shares=False) if np.isfinite(lower) else None


class _Rows:
    """Some rows from all over the table, and functions of them.

    Points are θ, or θ with values of bounded variables in the place of what PyMC moves: they are called values.
    """

    def __init__(self, model: Model, data: ModelData, bounded: list[_Bounded]):
        likelihood, n_rows = data.likelihood, len(data.rows)
        some = np.unique(np.linspace(0, n_rows - 1, min(_ROWS, n_rows)).astype(np.int64))
        self._of_all = n_rows / len(some)  # the rows of the model for each of these
        self._given = likelihood.others, *likelihood.fixed, *likelihood.batches
        self._numbers = data.others0, *data.fixed, *data.rows.take(some).arrays
        self._start, theta = data.theta0, likelihood.theta
        values, at = theta.type("values"), theta
        moved = values
        for of in bounded:
            at = pt.set_subtensor(at[of.own], of.value(model, theta[of.own].reshape(of.block.shape)).ravel())
            moved = pt.set_subtensor(moved[of.own], of.moved(model, values[of.own].reshape(of.block.shape)).ravel())
        rows = likelihood.row_log_likelihood
        by_values = replace_parts(rows.sum(), {theta: moved})
        self.terms = self._function(theta, rows)
        self._slope = self._function(theta, pytensor.grad(rows.sum(), theta))
        self._slope_by_values = self._function(values, pytensor.grad(by_values, values))
        self._values, self._theta = self._function(theta, at), self._function(values, moved)

    def _function(self, of: Variable, graph: Variable) -> Callable[[np.ndarray], np.ndarray]:
        """Return a graph as a function of a point."""
        function = interpret_log_density([of, *self._given], graph)

        def evaluated(point: np.ndarray) -> np.ndarray:
            with np.errstate(all="ignore"):
                return np.asarray(function(point, *self._numbers))

        return evaluated

    def likely(self) -> np.ndarray:
        """Return θ where the rows are likely, and not far from the start where they do not tell."""

        def negative(theta: np.ndarray) -> tuple[float, np.ndarray]:
            away = theta - self._start
            value = self.terms(theta).sum() - _PULL * away @ away / 2
            slope = _PULL * away - self._slope(theta)
            return (-value, slope) if np.isfinite(value) else (1e300, np.zeros(theta.size))

        found = optimize.minimize(negative, self._start, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS})
        return np.asarray(found.x)

    def nearly_quadratic(self, of: _Bounded, theta: np.ndarray) -> bool:
        """Whether rows have smaller third differences in a variable than in what PyMC moves."""
        values, step = self._values(theta), np.zeros(theta.size)
        step[of.own] = of.room(values[of.own])
        if of.are_shares:  # what some gain others lose
            step[of.own][1::2] *= -1.0
        along = (self._theta(values + _STEP * step) - self._theta(values - _STEP * step)) / (2 * _STEP)

        def third_difference(points: list[np.ndarray]) -> float:
            first, second, third, last = (self.terms(point) for point in points)
            return float(np.abs(last - 3 * third + 3 * second - first).sum())

        by_values = third_difference([self._theta(values + change * step) for change in _CHANGES])
        return by_values < _SHARE * third_difference([theta + change * along for change in _CHANGES])

    def widths(self, changed: list[_Bounded], likely: np.ndarray) -> np.ndarray:
        """Return w for each entry of θ that is changed, at most as much as it may go up and down at the start."""
        start, values, step = self._values(self._start), self._values(likely), np.zeros(likely.size)
        for of in changed:
            values[of.own] = (values[of.own] + start[of.own]) / 2  # where rows are likely it may be at its bound
            step[of.own] = _STEP * of.room(values[of.own])
        rng, curvature = np.random.default_rng(1603), np.zeros(likely.size)
        with np.errstate(all="ignore"):
            for _ in range(_PROBES):
                along = step * rng.choice((-1.0, 1.0), step.size)
                bend = self._slope_by_values(values - along) - self._slope_by_values(values + along)
                curvature += bend / (2 * along) / _PROBES
            width = _PART / np.sqrt(self._of_all * curvature)
        for of in changed:
            room = of.room(start[of.own])
            width[of.own] = np.where(np.isfinite(width[of.own]), np.minimum(width[of.own], room), room)
        return width


def _change(of: _Bounded, width: np.ndarray, model: Model) -> ChangeOfVariables:
    """Return the change of a variable to s, with w for each entry of s."""
    b, new = of.rv, pt.TensorType("float64", width.shape)(of.rv.name)
    w = pt.constant(np.median(width) if of.are_shares else width)
    if not np.isfinite(of.upper):
        inverse = of.lower + w * pt.softplus(new / w)
        log_prior = log_density(b, inverse, model.basic_RVs) - pt.softplus(-new / w)
        return ChangeOfVariables(_undone(b - of.lower, w), new, inverse, log_prior, {})
    if of.are_shares:
        shares, log_jacobian = _shares(new, w)
        s = _of_shares(b, w)
        return ChangeOfVariables(s, new, shares, log_density(b, shares, model.basic_RVs) + log_jacobian, {})
    size = of.upper - of.lower
    w = w[..., None] / size
    shares, log_jacobian = _shares(new[..., None], w)
    inverse, share = of.lower + size * shares[..., 0], (b - of.lower) / size
    log_prior = log_density(b, inverse, model.basic_RVs) + log_jacobian + np.log(size)
    s = _of_shares(pt.stack([share, 1.0 - share], axis=-1), w)[..., 0]
    return ChangeOfVariables(s, new, inverse, log_prior, {})


def _undone(value: Variable, w: Variable) -> Variable:
    """Return s where f(s) is a value."""
    return value + w * pt.log(-pt.expm1(-value / w))


def _shares(s: Variable, w: Variable) -> tuple[Variable, Variable]:
    """Return the shares that numbers make along the last axis, and the logarithm of the Jacobian.

    That of all shares but the last by all s but the last, from the determinant of a matrix plus a product of vectors.
    """
    s = pt.concatenate([s, 1.0 - s.sum(axis=-1, keepdims=True)], axis=-1)
    parts = w * pt.softplus(s / w)
    total, log_slope = parts.sum(axis=-1), -pt.softplus(-s / w)
    shares = parts / total[..., None]
    log_jacobian = log_slope.sum(axis=-1) + pt.logsumexp(pt.log(shares) - log_slope, axis=-1)
    return shares, log_jacobian - (s.shape[-1] - 1) * pt.log(total)


def _of_shares(shares: Variable, w: Variable) -> Variable:
    """Return the numbers that make shares, without the last: f(s_k) is c times a share, and all s have the sum 1.

    The sum rises with c and bends down, so that Newton's steps from c = 1, where it is less than 1, go up to it.
    """
    c = pt.ones_like(shares[..., :1])
    for _ in range(_TO_SHARES):
        s, slope = _undone(c * shares, w), shares / -pt.expm1(-c * shares / w)
        c = c + (1.0 - s.sum(axis=-1, keepdims=True)) / slope.sum(axis=-1, keepdims=True)
    return _undone(c * shares, w)[..., :-1]
