"""Sums with log Γ(a + k) − log Γ(a), enclosed as one function: for whole numbers k of the data Σ_{j<k} log(a + j).

The densities of overdispersed counts have such differences, and that of Student's t has one with k = ½.  Where the
dispersion is hardly known, each of the two terms may change a million times as much as their difference.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np
from pytensor import scalar
from pytensor.graph.basic import Variable
from pytensor.scalar import math as scalar_math

from pymc_austerity.bounds import elementary, slow_ratios
from pymc_austerity.bounds import intervals as iv
from pymc_austerity.bounds.interval_series import Series
from pymc_austerity.bounds.intervals import Interval
from pymc_austerity.bounds.log_forms import Enclosure, known_multiple
from pymc_austerity.likelihood.model_graph import is_elementwise

#: Terms of a sum over j at most.
_MOST = 100
Signed = tuple[Variable, int]


@dataclass(frozen=True)
class _Ratio(elementary.Elementary):
    """log Γ(eˣ + k) − log Γ(eˣ), with a whole number k ≥ 0 for each row."""

    k: np.ndarray = field(default_factory=lambda: np.zeros(()))

    def range(self, order: int, x: Interval) -> Interval:
        """Return an enclosure: log(eˣ + j) = x + softplus(log j − x) for each j < k."""
        k = iv.point(self.k)
        total = iv.multiply(k, x) if order == 0 else k if order == 1 else iv.point(np.zeros_like(self.k))
        for j in range(1, int(self.k.max(initial=0))):
            term = elementary.softplus.range(order, iv.add(iv.point(np.log(j)), -x))
            total = iv.add(total, iv.multiply(iv.point(1.0 * (self.k > j)), -term if order % 2 else term))
        return total


class _Argument(NamedTuple):
    """The argument of a log Γ: what of it moves, each with how often it is added, and the known rest."""

    var: Variable
    sign: int  # of the log Γ
    moving: frozenset[tuple[Variable, float]]
    known: np.ndarray


def sum_of(of: Enclosure, terms: Sequence[Signed]) -> Series:
    """Return the enclosure of a sum of variables, each with its sign."""
    apart = [_taken_apart(of, *term) for term in terms]
    gammas, rest = [g for found, _ in apart for g in found], [v for _, left in apart for v in left]
    ratios = [ratio for ratio in _pairs(of, gammas) if ratio is not None]
    if not ratios:
        return reduce(add, [_signed(of(var), sign) for var, sign in terms])
    used = {id(gamma) for pair, _ in ratios for gamma in pair}
    left = [(g.var, g.sign) for g in gammas if id(g) not in used]
    alone = [_signed(of(var).through(elementary.RULES[scalar_math.GammaLn]), sign) for var, sign in left]
    return reduce(add, [*(series for _, series in ratios), *alone, *(_signed(of(var), sign) for var, sign in rest)])


def _signed(series: Series, sign: int) -> Series:
    return series if sign > 0 else -series


def _taken_apart(of: Enclosure, var: Variable, sign: int) -> tuple[list[_Argument], list[Signed]]:
    """Return the log Γ that a sum has, and its other terms, taken apart no further than these ask for."""
    if var in of.moving and is_elementwise(var, scalar_math.GammaLn):
        return [_argument(of, var.owner.inputs[0], sign)], []
    parts = [_taken_apart(of, part, sign * s) for part, s in _terms(of, var)]
    gammas = [gamma for found, _ in parts for gamma in found]
    return (gammas, [v for _, left in parts for v in left]) if gammas else ([], [(var, sign)])


def _terms(of: Enclosure, var: Variable) -> list[Signed]:
    """Return what a sum or difference consists of; nothing where it is none."""
    if var not in of.moving or var.owner is None:
        return []
    if is_elementwise(var, scalar.Add):
        return [(v, 1) for v in var.owner.inputs]
    if is_elementwise(var, scalar.Sub):
        return list(zip(var.owner.inputs, (1, -1), strict=True))
    return [(var.owner.inputs[0], -1)] if is_elementwise(var, scalar.Neg) else []


def _argument(of: Enclosure, var: Variable, sign: int) -> _Argument:
    """Take an argument apart; not where it is affine, so that only its sum is known."""
    moving: defaultdict[Variable, float] = defaultdict(float)
    known, ahead = np.zeros(()), [(var, 1.0)]
    while ahead:
        part, s = ahead.pop()
        if part not in of.moving:
            if part not in of.known:
                return _Argument(var, sign, frozenset({(var, 1.0)}), np.zeros(()))
            known = known + s * np.asarray(of.known[part], dtype=np.float64)
        elif terms := _terms(of, part):
            ahead += [(v, s * t) for v, t in terms]
        elif multiple := known_multiple(of, part):
            ahead.append((multiple[0], s * multiple[1]))
        else:
            moving[part] += s
    return _Argument(var, sign, frozenset(moving.items()), known)


def _pairs(of: Enclosure, gammas: list[_Argument]) -> list[tuple[tuple[_Argument, _Argument], Series]]:
    """Return differences of two of them by known numbers, each in one pair at most."""
    found, free = [], list(gammas)
    for above in [g for g in gammas if g.sign > 0]:
        for below in [g for g in free if g.sign < 0 and g.moving == above.moving]:
            ratio = _ratio(of, above, below)
            if ratio is not None and any(g is above for g in free):
                found.append(((above, below), ratio))
                free = [g for g in free if g is not above and g is not below]
    return found


def _ratio(of: Enclosure, above: _Argument, below: _Argument) -> Series | None:
    """Return log Γ(above) − log Γ(below), or None where they differ by neither ½ nor few whole numbers of one sign."""
    k = above.known - below.known
    if (k == 0.5).all() and (log := of.log_of(below.var)) is not None:
        return log.through(slow_ratios.half_ratio)
    if not (np.isfinite(k).all() and (k == np.round(k)).all() and np.abs(k).max(initial=0) <= _MOST):
        return None
    if (k < 0).any() and (k > 0).any():
        return None
    sign, k = (-1, -k) if (k < 0).any() else (1, k)
    log = of.log_of((above if sign < 0 else below).var)
    if log is None:
        return None
    return _signed(log.filled(k.shape).through(_Ratio((), k=k)), sign)
