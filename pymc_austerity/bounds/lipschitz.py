"""Find from a model's graph how steep its log-likelihood can be in a linear predictor.

The distribution and its parameter η_i = a_i + x_iᵀθ give the most L_i that a unit of η_i changes row i, so that |l_i| ≤
L_i |x_iᵀ(θ′ − θ)|; that η is affine in θ is shown op by op.  What is unknown is refused with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.model import Model
from pytensor import scalar
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random import basic as rvs
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.special import Softmax

from pymc_austerity.compile.graph_compiler import BY_NUMPY
from pymc_austerity.likelihood import Block, RowLikelihood
from pymc_austerity.likelihood.affine import require_affine
from pymc_austerity.likelihood.row_terms import RowTerms

#: Rounding of the gradients, which are differences of predictors.
_SLACK = 1 + 1e-9


class Slope(NamedTuple):
    """The predictor η of an observed variable, and limits on the derivatives of its log-likelihood."""

    predictor: Variable
    steepest: Variable  # largest |∂ℓ/∂η|
    #: Whether the last axis of η holds the classes of one softmax; the derivatives are then along a direction, in units
    #: of the largest difference of two of its entries.
    classes: bool = False
    third: Variable | None = None  # largest |∂³ℓ/∂η³|, where one is known


#: Largest third central moment of a variable on [0, 1]: |p(1 − p)(1 − 2p)| at p = (3 − √3)/6.
_THIRD = np.sqrt(3) / 18


@singledispatch
def _slope(op: Any, *parameters: Variable) -> Slope:
    raise NotImplementedError(
        f"no Lipschitz constant is known for {op} (known: Bernoulli and Binomial with logit_p, Categorical with "
        "logit_p, Laplace, StudentT, Cauchy, Logistic)"
    )


def _inverse(p: Variable, kind: str, found: bool) -> Variable:
    if not found:
        raise NotImplementedError(
            f"its probability is not a {kind} of a predictor (use logit_p=, not p=; a probit or a probability "
            "itself has no bounded slope)"
        )
    return p.owner.inputs[0]


def _logit(p: Variable) -> Variable:
    op = p.owner.op if p.owner else None
    return _inverse(p, "sigmoid", isinstance(op, Elemwise) and isinstance(op.scalar_op, scalar.Sigmoid))


@_slope.register
def _bernoulli(op: rvs.BernoulliRV, p: Variable) -> Slope:
    return Slope(_logit(p), pt.constant(1.0), third=pt.constant(_THIRD))  # |y − p|, |p(1 − p)(1 − 2p)|


@_slope.register
def _binomial(op: rvs.BinomialRV, n: Variable, p: Variable) -> Slope:
    return Slope(_logit(p), n, third=_THIRD * n)


@_slope.register
def _categorical(op: rvs.CategoricalRV, p: Variable) -> Slope:
    last = p.type.ndim - 1
    softmax = isinstance(p.owner.op, Softmax) if p.owner else False
    if softmax and (p.owner.op.axis is None or list(np.atleast_1d(p.owner.op.axis) % p.type.ndim) != [last]):
        softmax = False
    # ∂ℓ/∂η = e_y − p: along a direction v that is v_y − Σp_k v_k, at most the largest difference of two entries.
    # The third derivative is the third central moment of v_k under p, largest for two classes.
    return Slope(_inverse(p, "softmax over the last axis", softmax), pt.constant(1.0), True, pt.constant(_THIRD))


@_slope.register
def _laplace(op: rvs.LaplaceRV, mu: Variable, b: Variable) -> Slope:
    return Slope(mu, 1 / b)


@_slope.register
def _student_t(op: rvs.StudentTRV, nu: Variable, mu: Variable, sigma: Variable) -> Slope:
    # (ν + 1)z/(ν + z²)/σ is largest at z = √ν.
    return Slope(mu, (nu + 1) / (2 * pt.sqrt(nu) * sigma))


@_slope.register
def _cauchy(op: rvs.CauchyRV, alpha: Variable, beta: Variable) -> Slope:
    return Slope(alpha, 1 / beta)  # Student's t with ν = 1


@_slope.register
def _logistic(op: rvs.LogisticRV, mu: Variable, s: Variable) -> Slope:
    return Slope(mu, 1 / s)


@dataclass(frozen=True)
class LinearPredictor:
    """The predictor of one observed variable, compiled for all rows."""

    predict: Callable[..., np.ndarray]  # predictors of all rows at a point, given by name
    steepest: Callable[[], np.ndarray]  # L_i, of a shape that broadcasts with the predictors
    point: dict[str, np.ndarray]  # zero in every variable
    blocks: tuple[Block, ...]  # layout of θ
    classes: bool  # whether the last axis of the predictors holds the classes of one softmax
    third: Callable[[], np.ndarray] | None  # largest |∂³ℓ_i/∂η³|, of the same shape, where it is known
    reads_others: bool  # whether the predictor reads variables that other steps move

    def extremes(self) -> tuple[float, np.ndarray]:
        """Return max_i L_i‖x_i‖ and, for each entry of θ, max_i L_i|x_id|."""
        return self._largest(np.abs(self.steepest()))

    def cubic_extremes(self) -> tuple[float, np.ndarray]:
        """Return the same with T_i^⅓ for L_i, where T_i is a sixth of the largest third derivative."""
        assert self.third is not None
        return self._largest(np.cbrt(np.abs(self.third()) / 6))

    def _largest(self, steepest: np.ndarray) -> tuple[float, np.ndarray]:
        # Evaluates the predictors of all rows once for each entry of θ.
        origin = self.predict(**self.point)
        reach = np.empty(self.blocks[-1].stop)
        squares: Any = 0.0
        for block in self.blocks:
            for k in range(block.stop - block.start):
                unit = np.zeros(block.shape, block.dtype)
                unit.flat[k] = 1
                x = self.predict(**{**self.point, block.name: unit}) - origin
                if self.classes:
                    x = x[..., :, None] - x[..., None, :]
                    x = x.reshape(*x.shape[:-2], -1)
                x = np.abs(x) * steepest
                squares = squares + x * x
                reach[block.start + k] = self._over_row(x).max()
        return float(self._over_row(np.sqrt(squares)).max()) * _SLACK, reach * _SLACK

    def _over_row(self, x: np.ndarray) -> np.ndarray:
        """Combine the entries that belong to one row: the worst pair of classes, the sum of components."""
        if self.classes:
            x = x.max(axis=-1)
        return x.sum(axis=tuple(range(1, x.ndim)))

    def __reduce__(self) -> Any:
        # Compiled functions of the model stay in its process; the constants travel without them.
        third = None if self.third is None else _left_behind
        return LinearPredictor, (
            _left_behind, _left_behind, self.point, self.blocks, self.classes, third, self.reads_others,
        )  # fmt: skip


def _left_behind(**point: np.ndarray) -> np.ndarray:
    raise RuntimeError("The predictors of a model are not evaluated in another process.")


def find_linear_predictors(model: Model, terms: RowTerms, likelihood: RowLikelihood) -> tuple[LinearPredictor, ...]:
    """Find the linear predictors of a model's row-wise terms.

    Raises NotImplementedError with the reason where a term has no known Lipschitz constant in a predictor affine in θ.
    """
    if len(terms.sets) > 1:
        names = [s.names for s in terms.sets]
        raise NotImplementedError(f"{names} are sets of rows of different length (observed= takes those of one)")
    (own,) = terms.sets
    if potentials := [term.name for term in own.terms if term.value is None]:
        raise NotImplementedError(f"{potentials} is a potential, whose slope is not known from its distribution")
    return tuple(_linear_predictor(model, rv, likelihood.blocks) for rv in own.all)


def _evaluate(inputs: Sequence[Variable], graph: Variable) -> Callable[..., np.ndarray]:
    return pm.compile(inputs, graph, mode=BY_NUMPY, on_unused_input="ignore")


def _linear_predictor(model: Model, rv: Variable, blocks: tuple[Block, ...]) -> LinearPredictor:
    inner = rv
    while isinstance(inner.owner.op, SpecifyShape):
        inner = inner.owner.inputs[0]
    op = inner.owner.op
    try:
        slope = _slope(op, *(op.dist_params(inner.owner) if isinstance(op, RandomVariable) else ()))
        predictor, steepest = model.replace_rvs_by_values([slope.predictor, slope.steepest])
        if set(ancestors([steepest])) & set(model.value_vars):
            raise NotImplementedError(
                "its scale is a free variable, so the slope has no fixed limit (fix the scale, or move it with another "
                "step and bound the rest yourself)"
            )
        require_affine(predictor, model.value_vars)
    except NotImplementedError as reason:
        raise NotImplementedError(f"in {rv.name!r}, {reason}") from None
    start = {k: np.zeros_like(v) for k, v in model.initial_point().items()}
    predict = _evaluate(model.value_vars, predictor)
    steepest_fn = _evaluate([], steepest)
    third_fn = None if slope.third is None else _evaluate([], model.replace_rvs_by_values([slope.third])[0])
    own = {b.name for b in blocks}
    reads_others = any(v.name not in own for v in model.value_vars if v in set(ancestors([predictor])))
    return LinearPredictor(predict, steepest_fn, start, blocks, slope.classes, third_fn, reads_others)
