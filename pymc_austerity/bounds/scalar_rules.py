"""How the enclosure of an elementwise operation follows from those of its arguments."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import numpy as np
from pytensor import scalar
from pytensor.graph.basic import Variable
from pytensor.scalar import math as scalar_math
from pytensor.tensor.special import LogSoftmax

from pymc_austerity.bounds import elementary, slow_ratios
from pymc_austerity.bounds import intervals as iv
from pymc_austerity.bounds.elementary import RULES, power
from pymc_austerity.bounds.gamma_ratios import sum_of
from pymc_austerity.bounds.interval_series import Series, choose, hull
from pymc_austerity.bounds.log_forms import Enclosure, log_complement, log_erfcx, logs_of
from pymc_austerity.bounds.row_graph import NoRemainderBoundError
from pymc_austerity.likelihood.model_graph import is_elementwise

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


def words(op: Any) -> str:
    """Return what an operation without a rule is called."""
    if isinstance(op, LogSoftmax):
        return "a softmax of something that is not affine in the variables, or not over the last axis"
    return _WORDS.get(type(op), f"the operation {op}")


def _sum(of: Enclosure, *terms: Variable) -> Series:
    return sum_of(of, [(v, 1) for v in terms])


def _product(of: Enclosure, *factors: Variable) -> Series:
    logs = [of.log_of(v) if v in of.moving else None for v in factors]
    positive = [log for log in logs if log is not None]
    for k, v in enumerate(factors) if positive else ():
        if logs[k] is None and (ratio := _by_ratio(of, positive, v)) is not None:
            others = [of(w) for i, w in enumerate(factors) if i != k and logs[i] is None]
            return reduce(lambda a, b: a * b, [*others, ratio])
    if len(positive) < 2:
        positive = []
    rest = [of(v) for v, log in zip(factors, logs) if log is None or not positive]
    parts = [reduce(add, positive).through(elementary.exp)] if positive else []
    known, other = [r for r in rest if not r.moves], [r for r in rest if r.moves]
    # Known numbers first: the order of the factors does not matter to them.
    return reduce(lambda a, b: a * b, [*known, *parts, *other])


def _by_ratio(of: Enclosure, positive: list[Series], x: Variable) -> Series | None:
    """Return eˢ log(1 + u) as eˢu · log(1 + u)/u, where eˢu changes less than eˢ does; None elsewhere."""
    if x not in of.moving:
        return None
    total = reduce(add, positive)
    if is_elementwise(x, scalar_math.Softplus):
        argument = of(x.owner.inputs[0])
        if _width(total + argument) < _width(total):
            return (total + argument).through(elementary.exp) * argument.through(slow_ratios.log1p_ratio)
    elif is_elementwise(x, scalar.Log1p) and (root := _root_of_square(of, x.owner.inputs[0])) is not None:
        scale = total + root[1] * of.of_known(2.0)
        if _width(scale) < _width(total):
            ratio = _root(root).through(slow_ratios.log1p_square_ratio)
            return root[0].squared() * scale.through(elementary.exp) * ratio
    return None


def _width(series: Series) -> float:
    """Return the mean width of the range over the box."""
    return float(np.mean(series.value.hi - series.value.lo))


def _quotient(of: Enclosure, a: Variable, b: Variable) -> Series:
    log = of.log_of(b)
    if b not in of.moving:
        return of(a) * of.of_known(1 / np.asarray(of.known[b], dtype=np.float64))
    if log is None:
        return of(a) * _reciprocal(of, b)
    above = of.log_of(a) if a in of.moving else None
    if above is not None:
        return (above - log).through(elementary.exp)
    return of(a) * (-log).through(elementary.exp)


def _reciprocal(of: Enclosure, x: Variable) -> Series:
    log = of.log_of(x)
    if log is not None:
        return (-log).through(elementary.exp)
    series = of(x)
    negative = series.value.hi < 0
    if not negative.any():
        return series.through(power(-1.0))
    return choose(negative, -(-series).through(power(-1.0)), series.through(power(-1.0)))


def _square(of: Enclosure, x: Variable) -> Series:
    log = of.log_of(x)
    return of(x).squared() if log is None else (log + log).through(elementary.exp)


def _power(of: Enclosure, x: Variable, p: Variable) -> Series:
    log = of.log_of(x)
    if p in of.moving:
        if log is None:
            raise NoRemainderBoundError("a power whose base is not shown to be positive and whose exponent varies")
        return (log * of(p)).through(elementary.exp)
    exponents = np.unique(of.known[p])
    if log is not None:
        return (log * of(p)).through(elementary.exp)
    if exponents.size != 1:
        raise NoRemainderBoundError("a power whose exponent differs between rows")
    return of(x).squared() if exponents[0] == 2 else of(x).through(power(float(exponents[0])))


def _log(of: Enclosure, x: Variable) -> Series:
    log = of.log_of(x)
    return of(x).through(elementary.log) if log is None else log


def _log1p(of: Enclosure, x: Variable) -> Series:
    complement = log_complement(of, x)
    if complement is not None:
        return complement
    root = _root_of_square(of, x)
    if root is not None:
        return _root(root).through(elementary.log1p_square)
    log = of.log_of(x)
    return of(x).through(RULES[scalar.Log1p]) if log is None else log.through(elementary.softplus)


def _root_of_square(of: Enclosure, x: Variable) -> tuple[Series, Series] | None:
    """Return b and the logarithm of a with x = (a b)², where x is one square times and over what is positive."""
    above, below = _factors(x)
    squares = [v for v in above if _square_base(of, v) is not None and of.log_of(v) is None]
    if len(squares) != 1:
        return None
    rest, under = logs_of(of, [v for v in above if v is not squares[0]]), logs_of(of, below)
    base = _square_base(of, squares[0])
    if rest is None or under is None or base is None:
        return None
    logs = [*rest, *(-log for log in under)] or [of.of_known(0.0)]
    return of(base), reduce(add, logs) * of.of_known(0.5)


def _root(parts: tuple[Series, Series]) -> Series:
    return parts[0] * parts[1].through(elementary.exp)


def _factors(x: Variable) -> tuple[list[Variable], list[Variable]]:
    if is_elementwise(x, scalar.Mul):
        parts = [_factors(v) for v in x.owner.inputs]
        return [v for above, _ in parts for v in above], [v for _, below in parts for v in below]
    if is_elementwise(x, scalar.TrueDiv):
        (a, b), (c, d) = (_factors(v) for v in x.owner.inputs)
        return a + d, b + c
    return [x], []


def _square_base(of: Enclosure, x: Variable) -> Variable | None:
    if x not in of.moving:
        return None
    if is_elementwise(x, scalar.Sqr):
        return x.owner.inputs[0]
    if is_elementwise(x, scalar.Pow) and x.owner.inputs[1] not in of.moving:
        return x.owner.inputs[0] if (np.asarray(of.known[x.owner.inputs[1]]) == 2).all() else None
    return None


def _switch(of: Enclosure, condition: Variable, a: Variable, b: Variable) -> Series:
    holds, fails = of.truth(condition)
    first, second = of(a), of(b)
    if not fails.any():
        return first.filled(holds.shape, second.shape)
    if not holds.any():
        return second.filled(holds.shape, first.shape)
    chosen = choose(holds, first, second)
    open_ = np.broadcast_to(holds & fails, chosen.shape)
    if not open_.any():
        return chosen
    if of.agree(a, b, open_):  # one function written in two ways, as log Φ is for either tail
        return choose(open_, hull(first, second), chosen)
    return _unknown_where(chosen, open_)


def _unknown_where(series: Series, where: np.ndarray) -> Series:
    """Return a series that encloses all numbers in some places."""
    if not where.any():
        return series
    size = np.where(where, np.inf, 0.0)
    unknown = iv.Interval(-size, size)
    # Nothing is known of any derivative either, whichever variables they are by.
    return series + Series(size.shape, lambda d: {((0, d),) if d > 0 else (): unknown}, True, series.radius)


def _extreme(of: Enclosure, a: Variable, b: Variable, sign: float) -> Series:
    x, y = of(a), of(b)
    first, second = (x.value, y.value) if sign > 0 else (y.value, x.value)
    return _unknown_where(choose(first.lo >= second.hi, x, y), ~((first.lo >= second.hi) | (first.hi <= second.lo)))


def _sign(of: Enclosure, x: Variable) -> Series:
    value = of(x).value if of.log_of(x) is None else iv.point(np.ones((1,) * x.type.ndim))
    return _unknown_where(of.of_known(np.sign(value.lo)), np.sign(value.lo) != np.sign(value.hi))


class _Absolute(elementary.Elementary):
    """The absolute value, whose slope alone is known."""

    def range(self, order: int, x: iv.Interval) -> iv.Interval:
        if order > 1:
            raise NoRemainderBoundError(_WORDS[scalar.Abs])
        return super().range(order, x)


def _absolute(of: Enclosure, x: Variable) -> Series:
    return of(x) if of.log_of(x) is not None else of(x).through(_Absolute([np.abs, np.sign], [(0.0,), ()]))


#: The rule of each scalar operation of which `RULES` does not say all.
ELEMENTWISE: dict[Any, Any] = {
    scalar.Add: _sum,
    scalar.Sub: lambda of, a, b: sum_of(of, [(a, 1), (b, -1)]),
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
    scalar.Identity: lambda of, x: of(x),
    scalar.Cast: lambda of, x: of(x),
    scalar_math.Erfcx: lambda of, x: log_erfcx(of, x).through(elementary.exp),
}
