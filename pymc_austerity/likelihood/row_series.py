"""Enclosures of the derivatives of row terms, operation by operation through their graph.

A density multiplies and divides by exponentials and takes the logarithm of the result.  Derivatives enclosed in that
order would be loose, so whatever is positive by its form – eˣ, a sigmoid, a tail of the normal distribution, products
and sums of such – is kept by its logarithm: log(α + eˣ) is log α + softplus(x − log α).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from pytensor import scalar
from pytensor.graph.basic import Variable
from pytensor.scalar import math as scalar_math
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.special import LogSoftmax
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
)

from pymc_austerity.likelihood import elementary
from pymc_austerity.likelihood import intervals as iv
from pymc_austerity.likelihood.elementary import RULES, power
from pymc_austerity.likelihood.interval_series import NotSmooth, Series, choose, constant, rearranged
from pymc_austerity.likelihood.row_graph import NoRemainderBoundError

_MOVES = (
    DimShuffle, Subtensor, AdvancedSubtensor, Reshape, SpecifyShape, Alloc, Join, MakeVector,
    TensorFromScalar, ScalarFromTensor,
)  # fmt: skip
_SETS = (IncSubtensor, AdvancedIncSubtensor)
#: What an operation is called where it has no rule, and why.
_WORDS: dict[type, str] = {
    scalar.Abs: "the absolute value of a predictor, which has no second derivative at 0 (as a Laplace error does)",
    scalar.Switch: "a switch",
    scalar.Maximum: "a maximum",
    scalar.Minimum: "a minimum",
    scalar.Clip: "a clip",
    scalar.Ceil: "a rounding",
    scalar.Floor: "a rounding",
}
_R2 = np.sqrt(2)


class RowSeries:
    """Encloses the derivatives of every variable of a graph over one box.

    Parameters
    ----------
    moving : frozenset of Variable
        Variables that depend on θ.
    predictors, softmaxes : mapping of Variable to Series
        What is known of the variables through which the graph reads θ.
    known : mapping of Variable to numpy.ndarray
        Values of what else it reads.
    radius : float
        Half the width of the box in every variable of the series.
    """

    def __init__(
        self,
        moving: frozenset[Variable],
        predictors: Mapping[Variable, Series],
        known: Mapping[Variable, np.ndarray],
        radius: float,
    ):
        self._moving, self._known, self._radius = moving, known, radius
        self._predictors = predictors
        self._found: dict[Variable, Series] = dict(predictors)
        self._logs: dict[Variable, Series | None] = {}

    def __call__(self, var: Variable) -> Series:
        """Return the enclosure of one variable."""
        if var not in self._found:
            self._found[var] = self._of(var)
        return self._found[var]

    def _constant(self, value: Any) -> Series:
        return constant(np.asarray(value, dtype=np.float64), self._radius)

    def _of(self, var: Variable) -> Series:
        if var not in self._moving:
            return self._constant(self._known[var])
        op, inputs = var.owner.op, var.owner.inputs
        try:
            if isinstance(op, Elemwise):
                rule = _ELEMENTWISE.get(type(op.scalar_op))
                if rule is not None:
                    return rule(self, *inputs)
                if type(op.scalar_op) in RULES:
                    return self(inputs[0]).through(RULES[type(op.scalar_op)])
                raise NoRemainderBoundError(_words(op.scalar_op))
            if _only_moves(op):
                return self._moved(var, self)
        except NotSmooth:
            raise NoRemainderBoundError("a softmax within another function") from None
        raise NoRemainderBoundError(_words(op))

    def _moved(self, var: Variable, of: Callable[[Variable], Series]) -> Series:
        """Apply an op that moves or adds up entries to the parts of its inputs that it moves."""
        node = var.owner
        entries = [i for i, v in enumerate(node.inputs) if v in self._moving]
        if isinstance(node.op, _SETS):
            entries = [0, 1]
        elif isinstance(node.op, Join):
            entries = [i for i, v in enumerate(node.inputs) if v.type.ndim]
        elif isinstance(node.op, MakeVector):
            entries = list(range(len(node.inputs)))
        parts = [of(node.inputs[i]) for i in entries]
        fixed = [None if i in entries else self._known[v] for i, v in enumerate(node.inputs)]

        def move(arrays: list[np.ndarray]) -> np.ndarray:
            arguments = list(fixed)
            for i, array in zip(entries, arrays):
                arguments[i] = array
            storage: list[list[Any]] = [[None]]
            node.op.perform(node, arguments, storage)
            return np.asarray(storage[0][0])

        return rearranged(move, parts)

    # The logarithm of what is positive by its form.

    def log_of(self, var: Variable) -> Series | None:
        """Return the enclosure of the logarithm, where the form of the graph gives it."""
        if var not in self._logs:
            self._logs[var] = self._log_of(var)
        return self._logs[var]

    def _log_of(self, var: Variable) -> Series | None:
        if var not in self._moving:
            value = np.asarray(self._known[var], dtype=np.float64)
            with np.errstate(divide="ignore"):
                return self._constant(np.log(value)) if (value >= 0).all() else None
        if var in self._predictors:
            return None
        op, inputs = var.owner.op, var.owner.inputs
        if isinstance(op, Elemwise):
            rule = _LOGARITHMS.get(type(op.scalar_op))
            return None if rule is None else rule(self, *inputs)
        if _only_moves(op) and not isinstance(op, (*_SETS, CAReduce, CumOp)):
            parts = [v for v in inputs if v in self._moving or (isinstance(op, Join | MakeVector) and v.type.ndim)]
            if all(self.log_of(v) is not None for v in parts):
                return self._moved(var, lambda v: self.log_of(v) or self(v))
        return None

    def logit_of(self, var: Variable) -> Series | None:
        """Return the enclosure of log p/(1 − p), where the variable is a sigmoid, 0 or 1, or picked from such."""
        if var not in self._moving:
            value = np.asarray(self._known[var], dtype=np.float64)
            with np.errstate(divide="ignore"):
                return self._constant(np.log(value) - np.log1p(-value)) if ((value == 0) | (value == 1)).all() else None
        if var in self._predictors:
            return None
        op, inputs = var.owner.op, var.owner.inputs
        if _is(var, scalar_math.Sigmoid):
            return self(inputs[0])
        if isinstance(op, DimShuffle | Subtensor | AdvancedSubtensor | Join):
            parts = [v for v in inputs if v in self._moving or (isinstance(op, Join) and v.type.ndim)]
            found = {v: self.logit_of(v) for v in parts}
            if all(series is not None for series in found.values()):
                return self._moved(var, lambda v: found[v])  # type: ignore[return-value]
        return None

    def truth(self, var: Variable) -> tuple[np.ndarray, np.ndarray]:
        """Return where a condition may hold and where it may fail."""
        if var not in self._moving:
            value = np.asarray(self._known[var]).astype(bool)
            return value, ~value
        op, inputs = var.owner.op, var.owner.inputs
        kind = type(op.scalar_op) if isinstance(op, Elemwise) else None
        if kind in (scalar.AND, scalar.Mul):
            both = [self.truth(v) for v in inputs]
            return reduce(np.logical_and, [b[0] for b in both]), reduce(np.logical_or, [b[1] for b in both])
        if kind is scalar.OR:
            both = [self.truth(v) for v in inputs]
            return reduce(np.logical_or, [b[0] for b in both]), reduce(np.logical_and, [b[1] for b in both])
        if kind is scalar.Invert:
            holds, fails = self.truth(inputs[0])
            return fails, holds
        if kind in _COMPARISONS:
            a, b = (self(v).value for v in inputs)
            return _COMPARISONS[kind](a, b)
        if isinstance(op, _MOVES) and sum(v in self._moving for v in inputs) == 1:
            holds, fails = (self._constant(t) for t in self.truth(next(v for v in inputs if v in self._moving)))
            moved = [self._moved(var, lambda v, t=t: t).value.lo.astype(bool) for t in (holds, fails)]
            return moved[0], moved[1]
        everywhere = np.ones((1,) * var.type.ndim, dtype=bool)
        return everywhere, everywhere


def _only_moves(op: Any) -> bool:
    if isinstance(op, IncSubtensor | AdvancedIncSubtensor):
        return op.set_instead_of_inc
    if isinstance(op, CumOp):
        return op.mode == "add"
    return isinstance(op, _MOVES) or (isinstance(op, CAReduce) and isinstance(op.scalar_op, scalar.Add))


def _words(op: Any) -> str:
    if isinstance(op, LogSoftmax):
        return "a softmax of something that is not affine in the variables, or not over the last axis"
    return _WORDS.get(type(op), f"the operation {op}")


def _is(var: Variable, kind: type) -> bool:
    return bool(var.owner and isinstance(var.owner.op, Elemwise) and isinstance(var.owner.op.scalar_op, kind))


def _less(a: iv.Interval, b: iv.Interval) -> tuple[np.ndarray, np.ndarray]:
    return a.lo < b.hi, a.hi >= b.lo


def _at_most(a: iv.Interval, b: iv.Interval) -> tuple[np.ndarray, np.ndarray]:
    return a.lo <= b.hi, a.hi > b.lo


def _equal(a: iv.Interval, b: iv.Interval) -> tuple[np.ndarray, np.ndarray]:
    same = (a.lo == b.lo) & (a.hi == b.hi) & (a.lo == a.hi)
    return (a.lo <= b.hi) & (b.lo <= a.hi), ~same


def _swapped(rule: Any) -> Any:
    return lambda a, b: rule(b, a)


_COMPARISONS: dict[Any, Any] = {
    scalar.LT: _less,
    scalar.GT: _swapped(_less),
    scalar.LE: _at_most,
    scalar.GE: _swapped(_at_most),
    scalar.EQ: _equal,
    scalar.NEQ: lambda a, b: _equal(a, b)[::-1],
}


def _sum(of: RowSeries, *terms: Variable) -> Series:
    return reduce(add, [of(v) for v in terms])


def _product(of: RowSeries, *factors: Variable) -> Series:
    logs = [of.log_of(v) if v in of._moving else None for v in factors]
    positive = [log for log in logs if log is not None]
    if len(positive) < 2:
        positive = []
    rest = [of(v) for v, log in zip(factors, logs) if log is None or not positive]
    parts = [reduce(add, positive).through(elementary.exp)] if positive else []
    known, other = [r for r in rest if not r.moves], [r for r in rest if r.moves]
    # Known numbers first: the order of the factors does not matter to them.
    return reduce(lambda a, b: a * b, [*known, *parts, *other])


def _quotient(of: RowSeries, a: Variable, b: Variable) -> Series:
    log = of.log_of(b)
    if b not in of._moving:
        return of(a) * of._constant(1 / np.asarray(of._known[b], dtype=np.float64))
    if log is None:
        return of(a) * _reciprocal(of, b)
    above = of.log_of(a) if a in of._moving else None
    if above is not None:
        return (above - log).through(elementary.exp)
    return of(a) * (-log).through(elementary.exp)


def _reciprocal(of: RowSeries, x: Variable) -> Series:
    log = of.log_of(x)
    if log is not None:
        return (-log).through(elementary.exp)
    series = of(x)
    negative = series.value.hi < 0
    if not negative.any():
        return series.through(power(-1.0))
    return choose(negative, -(-series).through(power(-1.0)), series.through(power(-1.0)))


def _square(of: RowSeries, x: Variable) -> Series:
    log = of.log_of(x)
    return of(x).squared() if log is None else (log + log).through(elementary.exp)


def _power(of: RowSeries, x: Variable, p: Variable) -> Series:
    log = of.log_of(x)
    if p in of._moving:
        if log is None:
            raise NoRemainderBoundError("a power whose base is not shown to be positive and whose exponent varies")
        return (log * of(p)).through(elementary.exp)
    exponents = np.unique(of._known[p])
    if log is not None:
        return (log * of(p)).through(elementary.exp)
    if exponents.size != 1:
        raise NoRemainderBoundError("a power whose exponent differs between rows")
    return of(x).squared() if exponents[0] == 2 else of(x).through(power(float(exponents[0])))


def _log(of: RowSeries, x: Variable) -> Series:
    log = of.log_of(x)
    return of(x).through(elementary.log) if log is None else log


def _log1p(of: RowSeries, x: Variable) -> Series:
    complement = _log_complement(of, x)
    if complement is not None:
        return complement
    root = _root_of_square(of, x)
    if root is not None:
        return root.through(elementary.log1p_square)
    log = of.log_of(x)
    return of(x).through(RULES[scalar.Log1p]) if log is None else log.through(elementary.softplus)


def _log_complement(of: RowSeries, x: Variable) -> Series | None:
    """Return log(1 + x) where −x is a sigmoid or a tail of the normal distribution."""
    if _is(x, scalar.Neg):
        return _log_of_one_minus(of, x.owner.inputs[0], 1.0)
    if _is(x, scalar.Mul):
        factors = [v for v in x.owner.inputs if v in of._moving]
        known = [np.unique(of._known[v]) for v in x.owner.inputs if v not in of._moving]
        if len(factors) == 1 and all(k.size == 1 for k in known):
            return _log_of_one_minus(of, factors[0], -float(np.prod([k[0] for k in known])))
    return None


def _log_of_one_minus(of: RowSeries, x: Variable, factor: float) -> Series | None:
    if x.owner and _is(x, scalar.Mul) and factor == 1.0:
        moving = [v for v in x.owner.inputs if v in of._moving]
        known = [np.unique(of._known[v]) for v in x.owner.inputs if v not in of._moving]
        if len(moving) == 1 and all(k.size == 1 for k in known):
            x, factor = moving[0], float(np.prod([k[0] for k in known]))
    if _is(x, scalar_math.Sigmoid) and factor == 1.0:
        return -of(x.owner.inputs[0]).through(elementary.softplus)
    if _is(x, scalar_math.Erfc) and factor == 0.5:
        return (of(x.owner.inputs[0]) * of._constant(_R2)).through(elementary.log_ndtr)
    return None


def _root_of_square(of: RowSeries, x: Variable) -> Series | None:
    """Return w with x = w², where x is one square times and over what is positive by its form."""
    above, below = _factors(x)
    squares = [v for v in above if _square_base(of, v) is not None and of.log_of(v) is None]
    if len(squares) != 1:
        return None
    rest = [of.log_of(v) for v in above if v is not squares[0]]
    under = [of.log_of(v) for v in below]
    if any(log is None for log in (*rest, *under)):
        return None
    root = of(_square_base(of, squares[0]))  # type: ignore[arg-type]
    if not rest and not under:
        return root
    half = reduce(add, [*rest, *(-log for log in under)]) * of._constant(0.5)  # type: ignore[operator, list-item, type-var]
    return root * half.through(elementary.exp)


def _factors(x: Variable) -> tuple[list[Variable], list[Variable]]:
    if _is(x, scalar.Mul):
        parts = [_factors(v) for v in x.owner.inputs]
        return [v for above, _ in parts for v in above], [v for _, below in parts for v in below]
    if _is(x, scalar.TrueDiv):
        (a, b), (c, d) = (_factors(v) for v in x.owner.inputs)
        return a + d, b + c
    return [x], []


def _square_base(of: RowSeries, x: Variable) -> Variable | None:
    if x not in of._moving:
        return None
    if _is(x, scalar.Sqr):
        return x.owner.inputs[0]
    if _is(x, scalar.Pow) and x.owner.inputs[1] not in of._moving:
        return x.owner.inputs[0] if (np.asarray(of._known[x.owner.inputs[1]]) == 2).all() else None
    return None


def _switch(of: RowSeries, condition: Variable, a: Variable, b: Variable) -> Series:
    holds, fails = of.truth(condition)
    if not fails.any():
        return of(a)
    if not holds.any():
        return of(b)
    chosen = choose(holds, of(a), of(b))
    return _unknown_where(chosen, holds & fails)


def _unknown_where(series: Series, where: np.ndarray) -> Series:
    """Return a series of which nothing is known in some places."""
    if not where.any():
        return series
    size = np.where(where, np.inf, 0.0)
    unknown = iv.Interval(-size, size)
    # Nothing is known of any derivative either, whichever variables they are by.
    return series + Series(size.shape, lambda: unknown, lambda: unknown, lambda d: {((0, d),): unknown}, series.radius)


def _extreme(of: RowSeries, a: Variable, b: Variable, sign: float) -> Series:
    x, y = of(a), of(b)
    first, second = (x.value, y.value) if sign > 0 else (y.value, x.value)
    return _unknown_where(choose(first.lo >= second.hi, x, y), ~((first.lo >= second.hi) | (first.hi <= second.lo)))


def _sign(of: RowSeries, x: Variable) -> Series:
    value = of(x).value if of.log_of(x) is None else iv.point(np.ones((1,) * x.type.ndim))
    return _unknown_where(of._constant(np.sign(value.lo)), np.sign(value.lo) != np.sign(value.hi))


def _absolute(of: RowSeries, x: Variable) -> Series:
    if of.log_of(x) is not None:
        return of(x)
    raise NoRemainderBoundError(_WORDS[scalar.Abs])


def _log_erfc(of: RowSeries, x: Variable) -> Series:
    return (of(x) * of._constant(-_R2)).through(elementary.log_ndtr) + of._constant(np.log(2))


def _log_erfcx(of: RowSeries, x: Variable) -> Series:
    return of(x).squared() + _log_erfc(of, x)


def _identity(of: RowSeries, x: Variable) -> Series:
    return of(x)


_ELEMENTWISE: dict[Any, Any] = {
    scalar.Add: _sum,
    scalar.Sub: lambda of, a, b: of(a) - of(b),
    scalar.Neg: lambda of, x: -of(x),
    scalar.Mul: _product,
    scalar.TrueDiv: _quotient,
    scalar.Reciprocal: _reciprocal,
    scalar.Sqr: _square,
    scalar.Pow: _power,
    scalar.Log: _log,
    scalar.Log1p: _log1p,
    scalar.Switch: _switch,
    scalar.Maximum: lambda of, a, b: _extreme(of, a, b, 1.0),
    scalar.Minimum: lambda of, a, b: _extreme(of, a, b, -1.0),
    scalar.Sign: _sign,
    scalar.Abs: _absolute,
    scalar.Identity: _identity,
    scalar.Cast: _identity,
    scalar_math.Erfcx: lambda of, x: _log_erfcx(of, x).through(elementary.exp),
}


# Logarithms of positive forms.


def _log_sum(of: RowSeries, *terms: Variable) -> Series | None:
    if len(terms) == 2:
        for one, other in (terms, terms[::-1]):
            if one not in of._moving and (np.asarray(of._known[one]) == 1).all() and other in of._moving:
                complement = _log_complement(of, other)
                if complement is not None:
                    return complement
    logs = [of.log_of(v) for v in terms]
    if any(log is None for log in logs):
        return None
    return reduce(lambda a, b: a + (b - a).through(elementary.softplus), logs)  # type: ignore[operator, return-value]


def _log_difference(of: RowSeries, a: Variable, b: Variable) -> Series | None:
    if a not in of._moving and (np.asarray(of._known[a]) == 1).all():
        return _log_of_one_minus(of, b, 1.0)
    upper, lower = of.logit_of(a), of.logit_of(b)
    if upper is None or lower is None:
        return None
    # s(a) − s(b) = s(a) s(−b) (1 − e^(b − a)): for cut points the last factor does not read the predictor.
    return (
        (lower - upper).through(elementary.log1mexp)
        - (-upper).through(elementary.softplus)
        - lower.through(elementary.softplus)
    )


def _log_product(of: RowSeries, *factors: Variable) -> Series | None:
    logs = [of.log_of(v) for v in factors]
    return None if any(log is None for log in logs) else reduce(add, logs)  # type: ignore[arg-type]


def _log_quotient(of: RowSeries, a: Variable, b: Variable) -> Series | None:
    above, below = of.log_of(a), of.log_of(b)
    return None if above is None or below is None else above - below


def _log_power(of: RowSeries, x: Variable, p: Variable) -> Series | None:
    log = of.log_of(x)
    return None if log is None else log * of(p)


def _log_scaled(factor: float) -> Callable[..., Series | None]:
    def rule(of: RowSeries, x: Variable) -> Series | None:
        log = of.log_of(x)
        return None if log is None else log * of._constant(factor)

    return rule


def _minus_softplus_of_minus(of: RowSeries, x: Variable) -> Series:
    return -(-of(x)).through(elementary.softplus)


_LOGARITHMS: dict[Any, Any] = {
    scalar.Exp: _identity,
    scalar_math.Sigmoid: _minus_softplus_of_minus,
    scalar_math.Erfc: _log_erfc,
    scalar_math.Erfcx: _log_erfcx,
    scalar.Add: _log_sum,
    scalar.Sub: _log_difference,
    scalar.Mul: _log_product,
    scalar.TrueDiv: _log_quotient,
    scalar.Reciprocal: _log_scaled(-1.0),
    scalar.Sqr: _log_scaled(2.0),
    scalar.Sqrt: _log_scaled(0.5),
    scalar.Pow: _log_power,
    scalar.Identity: lambda of, x: of.log_of(x),
    scalar.Cast: lambda of, x: of.log_of(x),
}
