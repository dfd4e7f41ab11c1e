"""Logarithms of what is positive by its form: eˣ, sigmoids, tails of the normal distribution, their products and sums.

Enclosures by log(α + eˣ) = log α + softplus(x − log α) are closer than the logarithm of an enclosure.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from functools import reduce
from operator import add
from typing import Any, Protocol

import numpy as np
from pytensor import scalar
from pytensor.graph.basic import Variable
from pytensor.scalar import math as scalar_math

from pymc_austerity.bounds import elementary
from pymc_austerity.bounds.interval_series import Series
from pymc_austerity.likelihood.model_graph import is_elementwise

_R2 = np.sqrt(2)


class Enclosure(Protocol):
    """What a rule asks of the enclosures of all parts of a row, which `RowSeries` finds."""

    moving: Container[Variable]  # what depends on the predictors
    known: Mapping[Variable, Any]  # the values of the rest

    def __call__(self, var: Variable) -> Series:
        """Return the enclosure of one variable."""
        ...

    def of_known(self, value: Any) -> Series:
        """Return the enclosure of a value that does not depend on the predictors."""
        ...

    def log_of(self, var: Variable) -> Series | None:
        """Return the enclosure of the logarithm, where the variable is positive by its form."""
        ...

    def logit_of(self, var: Variable) -> Series | None:
        """Return the enclosure of log p/(1 − p), where the variable is a probability by its form."""
        ...

    def agree(self, a: Variable, b: Variable, where: np.ndarray) -> bool:
        """Return whether two variables are the same function of the predictors in these boxes."""
        ...

    def truth(self, var: Variable) -> tuple[np.ndarray, np.ndarray]:
        """Return where a condition may hold and where it may fail."""
        ...


def logs_of(of: Enclosure, variables: Iterable[Variable]) -> list[Series] | None:
    """Return the logarithms of all of them, or None where one is not positive by its form."""
    logs = []
    for var in variables:
        if (log := of.log_of(var)) is None:
            return None
        logs.append(log)
    return logs


def log_complement(of: Enclosure, x: Variable) -> Series | None:
    """Return log(1 + x) where −x is a sigmoid or a tail of the normal distribution."""
    if is_elementwise(x, scalar.Neg):
        return _log_of_one_minus(of, x.owner.inputs[0], 1.0)
    multiple = known_multiple(of, x)
    return None if multiple is None else _log_of_one_minus(of, multiple[0], -multiple[1])


def known_multiple(of: Enclosure, x: Variable) -> tuple[Variable, float] | None:
    """Return v and a where x = a·v, with one known number a for all rows."""
    if not is_elementwise(x, scalar.Mul):
        return None
    moving = [v for v in x.owner.inputs if v in of.moving]
    known = [np.unique(of.known[v]) for v in x.owner.inputs if v not in of.moving]
    return (moving[0], float(np.prod(known))) if len(moving) == 1 and all(k.size == 1 for k in known) else None


def _log_of_one_minus(of: Enclosure, x: Variable, factor: float) -> Series | None:
    if factor == 1.0:
        x, factor = known_multiple(of, x) or (x, 1.0)
    if is_elementwise(x, scalar_math.Sigmoid) and factor == 1.0:
        return -of(x.owner.inputs[0]).through(elementary.softplus)
    if is_elementwise(x, scalar_math.Erfc) and factor == 0.5:
        return (of(x.owner.inputs[0]) * of.of_known(_R2)).through(elementary.log_ndtr)
    return None


def _log_erfc(of: Enclosure, x: Variable) -> Series:
    return (of(x) * of.of_known(-_R2)).through(elementary.log_ndtr) + of.of_known(np.log(2))


def log_erfcx(of: Enclosure, x: Variable) -> Series:
    """Return the logarithm of exp(x²)·erfc x."""
    return of(x).squared() + _log_erfc(of, x)


def _log_sum(of: Enclosure, *terms: Variable) -> Series | None:
    if len(terms) == 2:
        for one, other in (terms, terms[::-1]):
            if one not in of.moving and (np.asarray(of.known[one]) == 1).all() and other in of.moving:
                complement = log_complement(of, other)
                if complement is not None:
                    return complement
    # Known terms last: one of them may be 0, and its logarithm no place to start from.
    logs = logs_of(of, sorted(terms, key=lambda v: v not in of.moving))
    return None if logs is None else reduce(lambda a, b: a + (b - a).through(elementary.softplus), logs)


def _log_difference(of: Enclosure, a: Variable, b: Variable) -> Series | None:
    if a not in of.moving and (np.asarray(of.known[a]) == 1).all():
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


def _from_logs(combine: Callable[..., Series]) -> Callable[..., Series | None]:
    """Return the rule of what has a logarithm where all of its arguments do, made of these."""

    def rule(of: Enclosure, *inputs: Variable) -> Series | None:
        logs = logs_of(of, inputs)
        return None if logs is None else combine(of, *logs)

    return rule


def _log_power(of: Enclosure, x: Variable, p: Variable) -> Series | None:
    log = of.log_of(x)
    return None if log is None else log * of(p)


#: The rule of each scalar operation that is positive by its form; None where its arguments do not make it so.
LOGARITHMS: dict[Any, Any] = {
    scalar.Exp: lambda of, x: of(x),
    scalar_math.Sigmoid: lambda of, x: -(-of(x)).through(elementary.softplus),
    scalar_math.Erfc: _log_erfc,
    scalar_math.Erfcx: log_erfcx,
    scalar.Add: _log_sum,
    scalar.Sub: _log_difference,
    scalar.Mul: _from_logs(lambda of, *logs: reduce(add, logs)),
    scalar.TrueDiv: _from_logs(lambda of, above, below: above - below),
    scalar.Reciprocal: _from_logs(lambda of, log: log * of.of_known(-1.0)),
    scalar.Sqr: _from_logs(lambda of, log: log * of.of_known(2.0)),
    scalar.Sqrt: _from_logs(lambda of, log: log * of.of_known(0.5)),
    scalar.Pow: _log_power,
    scalar.Sign: _from_logs(lambda of, log: log * of.of_known(0.0)),
    scalar.Identity: lambda of, x: of.log_of(x),
    scalar.Cast: lambda of, x: of.log_of(x),
}
