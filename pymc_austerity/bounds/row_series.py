"""Enclosures of the derivatives of row terms, operation by operation through their graph.

A density multiplies and divides by exponentials and takes the logarithm of the result, so variables that are positive
by their form are enclosed by their logarithms as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
from pytensor import scalar
from pytensor.graph.basic import Variable
from pytensor.scalar import math as scalar_math
from pytensor.tensor import special
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor, IncSubtensor, Subtensor
from pytensor.tensor.type import discrete_dtypes

from pymc_austerity.bounds import intervals as iv
from pymc_austerity.bounds.elementary import HIGHEST, RULES, softplus
from pymc_austerity.bounds.interval_series import NotSmooth, Series, choose, known_series, rearranged
from pymc_austerity.bounds.log_forms import LOGARITHMS
from pymc_austerity.bounds.row_graph import NoRemainderBoundError
from pymc_austerity.bounds.scalar_rules import ELEMENTWISE, words
from pymc_austerity.likelihood.model_graph import is_elementwise

_MOVES = (
    DimShuffle, Subtensor, AdvancedSubtensor, Reshape, SpecifyShape, Alloc, Join, MakeVector,
    TensorFromScalar, ScalarFromTensor,
)  # fmt: skip
_SETS = (IncSubtensor, AdvancedIncSubtensor)
#: Logarithm of a component that is not there: the upper end of an enclosure of −∞ is the lowest float.
_ABSENT = -1e300
#: PyTensor before 3.0 writes it by its parts.
LOG_SUM_EXP = getattr(special, "LogSumExp", ())


class RowSeries:
    """Encloses the derivatives of every variable of a graph over one box.

    `moving` are the variables that depend on θ, `predictors` what is known of those through which the graph reads θ,
    and `known` the values of what else it reads.  `radius` is half the width of the box in every variable of the
    series; `at_points` returns the same for some points of the box: boxes without width.
    """

    def __init__(
        self,
        moving: frozenset[Variable],
        predictors: Mapping[Variable, Series],
        known: Mapping[Variable, np.ndarray],
        radius: float,
        at_points: Callable[[], Iterable[RowSeries]] = tuple,
    ):
        self.moving, self.known, self._radius = moving, known, radius
        self._predictors = predictors
        self._found: dict[Variable, Series] = dict(predictors)
        self._at_points = at_points
        self._logs: dict[Variable, Series | None] = {}

    def __call__(self, var: Variable) -> Series:
        """Return the enclosure of one variable."""
        if var not in self._found:
            self._found[var] = self._of(var)
        return self._found[var]

    def of_known(self, value: Any) -> Series:
        """Return the series of known numbers."""
        return known_series(np.asarray(value, dtype=np.float64), self._radius)

    def _of(self, var: Variable) -> Series:
        if var not in self.moving:
            return self.of_known(self.known[var])
        op, inputs = var.owner.op, var.owner.inputs
        try:
            if isinstance(op, Elemwise):
                if isinstance(op.scalar_op, scalar.Cast) and var.type.dtype in discrete_dtypes:
                    raise NoRemainderBoundError("a rounding to whole numbers")
                rule = ELEMENTWISE.get(type(op.scalar_op))
                if rule is not None:
                    return rule(self, *inputs)
                if type(op.scalar_op) in RULES:
                    return self(inputs[0]).through(RULES[type(op.scalar_op)])
                raise NoRemainderBoundError(words(op.scalar_op))
            if _only_moves(op):
                return self._moved(var, self)
            if isinstance(op, LOG_SUM_EXP):
                return self._log_sum_exp(self(inputs[0]), op.axis)
        except NotSmooth:
            raise NoRemainderBoundError("a softmax within another function") from None
        raise NoRemainderBoundError(words(op))

    def _moved(self, var: Variable, of: Callable[[Variable], Series]) -> Series:
        """Apply an op that moves or adds up entries to the parts of its inputs that it moves."""
        node = var.owner
        entries = [i for i, v in enumerate(node.inputs) if v in self.moving]
        if isinstance(node.op, _SETS):
            entries = [0, 1]
        elif isinstance(node.op, Join):
            entries = [i for i, v in enumerate(node.inputs) if v.type.ndim]
        elif isinstance(node.op, MakeVector):
            entries = list(range(len(node.inputs)))
        parts = [of(node.inputs[i]) for i in entries]
        fixed = [None if i in entries else self.known[v] for i, v in enumerate(node.inputs)]

        def move(arrays: list[np.ndarray]) -> np.ndarray:
            arguments = list(fixed)
            for i, array in zip(entries, arrays):
                arguments[i] = array
            storage: list[list[Any]] = [[None]]
            node.op.perform(node, arguments, storage)
            return np.asarray(storage[0][0])

        return rearranged(move, parts)

    def _log_sum_exp(self, terms: Series, axes: Sequence[int] | None) -> Series:
        """Return the logarithm of a sum of exponentials, as of a mixture: log(eᵃ + eᵇ) = a + softplus(b − a)."""
        if axes is None or len(axes) != 1:
            raise NoRemainderBoundError("a sum of exponentials over several axes")
        parts = [
            rearranged(lambda arrays, k=k: np.take(arrays[0], k, axis=axes[0]), [terms])  # type: ignore[misc]
            for k in range(terms.shape[axes[0]])
        ]

        def added(a: Series, b: Series) -> Series:
            without_a, without_b = (part.value.hi < _ABSENT for part in (a, b))
            sum_of_both = a + (b - a).through(softplus)
            return choose(without_b, a, choose(without_a, b, sum_of_both))

        return reduce(added, parts)

    # The logarithm of what is positive by its form.

    def log_of(self, var: Variable) -> Series | None:
        """Return the enclosure of the logarithm, where the form of the graph gives it."""
        if var not in self._logs:
            self._logs[var] = self._log_of(var)
        return self._logs[var]

    def _log_of(self, var: Variable) -> Series | None:
        if var not in self.moving:
            value = np.asarray(self.known[var], dtype=np.float64)
            with np.errstate(divide="ignore"):
                return self.of_known(np.log(value)) if (value >= 0).all() else None
        if var in self._predictors or var.type.dtype in discrete_dtypes:
            return None
        op, inputs = var.owner.op, var.owner.inputs
        if isinstance(op, Elemwise):
            rule = LOGARITHMS.get(type(op.scalar_op))
            return None if rule is None else rule(self, *inputs)
        if _only_moves(op) and not isinstance(op, (*_SETS, CAReduce, CumOp)):
            parts = [v for v in inputs if v in self.moving or (isinstance(op, Join | MakeVector) and v.type.ndim)]
            if all(self.log_of(v) is not None for v in parts):
                return self._moved(var, lambda v: self.log_of(v) or self(v))
        return None

    def logit_of(self, var: Variable) -> Series | None:
        """Return the enclosure of log p/(1 − p), where the variable is a sigmoid, 0 or 1, or picked from such."""
        if var not in self.moving:
            value = np.asarray(self.known[var], dtype=np.float64)
            with np.errstate(divide="ignore"):
                return self.of_known(np.log(value) - np.log1p(-value)) if ((value == 0) | (value == 1)).all() else None
        if var in self._predictors:
            return None
        op, inputs = var.owner.op, var.owner.inputs
        if is_elementwise(var, scalar_math.Sigmoid):
            return self(inputs[0])
        if isinstance(op, DimShuffle | Subtensor | AdvancedSubtensor | Join):
            parts = [v for v in inputs if v in self.moving or (isinstance(op, Join) and v.type.ndim)]
            found = {v: logit for v in parts if (logit := self.logit_of(v)) is not None}
            if len(found) == len(set(parts)):
                return self._moved(var, found.__getitem__)
        return None

    def agree(self, a: Variable, b: Variable, where: np.ndarray) -> bool:
        """Return whether two variables are the same function of the predictors in the boxes asked for.

        Where they are, their values and derivatives at a point have enclosures that overlap, as no wider than rounding
        makes them.  No difference is too small to matter: the unit of what a branch is added to or multiplied by may be
        as small.
        """
        points = list(self._at_points())
        for at, degree in product(points, range(HIGHEST + 1)):
            first, second = at(a).terms(degree), at(b).terms(degree)
            for powers in {**first, **second}:
                x, y = (t.get(powers, iv.point(0.0)) for t in (first, second))
                same = (x.lo <= y.hi) & (y.lo <= x.hi) & np.isfinite(x.magnitude() + y.magnitude())
                if not np.broadcast_to(same, where.shape)[where].all():
                    return False
        return bool(points)

    def truth(self, var: Variable) -> tuple[np.ndarray, np.ndarray]:
        """Return where a condition may hold and where it may fail."""
        if var not in self.moving:
            value = np.asarray(self.known[var]).astype(bool)
            return value, ~value
        op, inputs = var.owner.op, var.owner.inputs
        kind = type(op.scalar_op) if isinstance(op, Elemwise) else None
        if kind in (scalar.AND, scalar.Mul, scalar.OR):
            held, failed = zip(*(self.truth(v) for v in inputs))
            if kind is scalar.OR:
                return reduce(np.logical_or, held), reduce(np.logical_and, failed)
            return reduce(np.logical_and, held), reduce(np.logical_or, failed)
        if kind is scalar.Invert:
            holds, fails = self.truth(inputs[0])
            return fails, holds
        if kind in _COMPARISONS:
            a, b = (self(v).value for v in inputs)
            return _COMPARISONS[kind](a, b)
        if isinstance(op, _MOVES) and sum(v in self.moving for v in inputs) == 1:
            both = [self.of_known(t) for t in self.truth(next(v for v in inputs if v in self.moving))]
            moved = [self._moved(var, lambda _, t=t: t).value.lo.astype(bool) for t in both]  # type: ignore[misc]
            return moved[0], moved[1]
        everywhere = np.ones((1,) * var.type.ndim, dtype=bool)
        return everywhere, everywhere


def _only_moves(op: Any) -> bool:
    if isinstance(op, IncSubtensor | AdvancedIncSubtensor):
        return op.set_instead_of_inc
    if isinstance(op, CumOp):
        return op.mode == "add"
    return isinstance(op, _MOVES) or (isinstance(op, CAReduce) and isinstance(op.scalar_op, scalar.Add))


def _equal(a: iv.Interval, b: iv.Interval) -> tuple[np.ndarray, np.ndarray]:
    same = (a.lo == b.lo) & (a.hi == b.hi) & (a.lo == a.hi)
    return (a.lo <= b.hi) & (b.lo <= a.hi), ~same


_COMPARISONS: dict[Any, Any] = {
    scalar.LT: lambda a, b: (a.lo < b.hi, a.hi >= b.lo),
    scalar.GT: lambda a, b: (b.lo < a.hi, b.hi >= a.lo),
    scalar.LE: lambda a, b: (a.lo <= b.hi, a.hi > b.lo),
    scalar.GE: lambda a, b: (b.lo <= a.hi, b.hi > a.lo),
    scalar.EQ: _equal,
    scalar.NEQ: lambda a, b: _equal(a, b)[::-1],
}
