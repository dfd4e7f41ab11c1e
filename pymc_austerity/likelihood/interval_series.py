"""Taylor series in a few variables whose coefficients are intervals: derivatives over a whole box at once.

The variables are s = (s₁, …, s_m) with |s_a| ≤ r.  The coefficient of s^α encloses ∂^α g/α! at *every* point of the
box, not at its centre alone; sums, products and the chain rule hold at each point, so they hold for the enclosures
(Moore, Kearfott and Cloud 2009, chapter 9).  The derivatives of a function of one number enter by their exact range,
so nothing is lost where rows read one predictor through such functions, as in most generalised linear models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import factorial

import numpy as np

from pymc_austerity.likelihood import intervals as iv
from pymc_austerity.likelihood.elementary import Elementary
from pymc_austerity.likelihood.intervals import Interval

#: The powers of the variables that belong to a coefficient: (variable, exponent) in order, none with exponent 0.
Powers = tuple[tuple[int, int], ...]


def degree(powers: Powers) -> int:
    """Return the total degree."""
    return sum(exponent for _, exponent in powers)


def _times(a: Powers, b: Powers) -> Powers:
    total = dict(a)
    for variable, exponent in b:
        total[variable] = total.get(variable, 0) + exponent
    return tuple(sorted(total.items()))


@dataclass(frozen=True, eq=False)
class Series:
    """An array of functions on a box, by enclosures of their derivatives.

    Parameters
    ----------
    value : Interval
        Range over the box, of the full shape of the array.
    centre : Interval
        Enclosure of the value at the centre of the box.
    terms : mapping
        Coefficients by the powers they belong to, from degree 1; what is not there is zero.
    order : int
        Highest degree that is kept.
    radius : float
        r.
    directional : numpy.ndarray or None
        Of a part of which only |D^order g[v, …, v]|/order! is known, for directions with |s| = 1 in every variable:
        its largest value.  Such a part may be added, weighted and picked from, and nothing else.
    """

    value: Interval
    centre: Interval
    terms: Mapping[Powers, Interval]
    order: int
    radius: float
    directional: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return np.broadcast_shapes(self.value.lo.shape, self.centre.lo.shape)

    def tightened(self) -> Series:
        """Return the same with the value cut by the mean-value form: g(centre) + Σ ∂_a g · [−r, r]."""
        total = self.centre
        reach = Interval(np.asarray(-self.radius), np.asarray(self.radius))
        for powers, coefficient in self.terms.items():
            if degree(powers) == 1:
                total = iv.add(total, iv.multiply(coefficient, reach))
        return replace(self, value=iv.intersection(self.value, total))

    def __neg__(self) -> Series:
        terms = {powers: -c for powers, c in self.terms.items()}
        return replace(self, value=-self.value, centre=-self.centre, terms=terms)

    def __add__(self, other: Series) -> Series:
        terms = dict(self.terms)
        for powers, c in other.terms.items():
            terms[powers] = iv.add(terms[powers], c) if powers in terms else c
        directional = self.directional
        if other.directional is not None:
            directional = other.directional if directional is None else directional + other.directional
        total = Series(
            iv.add(self.value, other.value), iv.add(self.centre, other.centre), terms, self.order, self.radius,
            directional,
        )  # fmt: skip
        return total.tightened() if self.terms and other.terms else total

    def __sub__(self, other: Series) -> Series:
        return self + (-other)

    def __mul__(self, other: Series) -> Series:
        _require_derivatives(self if other.terms else None, other if self.terms else None)
        terms: dict[Powers, Interval] = {}
        mine, others = {(): self.value, **self.terms}, {(): other.value, **other.terms}
        for p, a in mine.items():
            for q, b in others.items():
                if 0 < degree(p) + degree(q) <= self.order:
                    _accumulate(terms, _times(p, q), iv.multiply(a, b))
        weight, part = (other, self) if self.directional is not None else (self, other)
        directional = None if part.directional is None else weight.value.magnitude() * part.directional
        product = Series(
            iv.multiply(self.value, other.value), iv.multiply(self.centre, other.centre), terms, self.order,
            self.radius, directional,
        )  # fmt: skip
        return product.tightened() if self.terms and other.terms else product

    def squared(self) -> Series:
        """Return the square, whose value and leading coefficients are not negative."""
        _require_derivatives(self)
        terms: dict[Powers, Interval] = {}
        mine = [((), self.value), *self.terms.items()]
        for i, (p, a) in enumerate(mine):
            for q, b in mine[i:]:
                if 0 < degree(p) + degree(q) <= self.order:
                    product = iv.square(a) if p == q else iv.multiply(iv.point(2.0), iv.multiply(a, b))
                    _accumulate(terms, _times(p, q), product)
        return Series(iv.square(self.value), iv.square(self.centre), terms, self.order, self.radius)

    def through(self, f: Elementary) -> Series:
        """Return f of this series: Σ f⁽ʲ⁾/j! · (g − g₀)ʲ."""
        _require_derivatives(self)
        value, centre = f.range(0, self.value), f.range(0, self.centre)
        if not self.terms:
            return replace(self, value=value, centre=centre)
        shift = replace(self, value=iv.point(0.0), centre=iv.point(0.0))
        terms: dict[Powers, Interval] = {}
        power = shift
        for j in range(1, self.order + 1):
            if j > 1:
                power = shift.squared() if j == 2 else power * shift
            slope = f.range(j, self.value)
            for p, c in power.terms.items():
                weighted = iv.multiply(slope, c) if j == 1 else _scaled(iv.multiply(slope, c), 1 / factorial(j))
                _accumulate(terms, p, weighted)
        return Series(value, centre, terms, self.order, self.radius).tightened()

    def largest(self) -> np.ndarray:
        """Return the largest |D^order g[v, …, v]|/order! over the box, for directions with |s_a| ≤ 1."""
        total = np.zeros(self.shape) if self.directional is None else self.directional
        for powers, c in self.terms.items():
            if degree(powers) == self.order:
                total = np.nextafter(total + c.magnitude(), np.inf)
        return total


class NotSmooth(Exception):
    """Derivatives were asked of a part of which only the size of the last one is known."""


def _require_derivatives(*series: Series | None) -> None:
    if any(s is not None and s.directional is not None for s in series):
        raise NotSmooth


def _accumulate(terms: dict[Powers, Interval], powers: Powers, c: Interval) -> None:
    terms[powers] = iv.add(terms[powers], c) if powers in terms else c


def _scaled(a: Interval, factor: float) -> Interval:
    return iv.multiply(iv.point(factor), a)


def constant(value: np.ndarray, order: int, radius: float) -> Series:
    """Return a series that does not depend on the variables."""
    known = iv.point(value)
    return Series(known, known, {}, order, radius)


def variable(number: int, centre: np.ndarray, slope: np.ndarray, order: int, radius: float) -> Series:
    """Return centre + slope·s for one of the variables."""
    known = iv.point(centre)
    reach = np.abs(slope) * radius
    value = iv.outwards(centre - reach, centre + reach)
    return Series(value, known, {((number, 1),): iv.point(slope)}, order, radius)


def choose(condition: np.ndarray, a: Series, b: Series) -> Series:
    """Return `a` where a condition on the rows holds and `b` elsewhere."""
    zero = iv.point(0.0)
    terms = {p: iv.choose(condition, a.terms.get(p, zero), b.terms.get(p, zero)) for p in {**a.terms, **b.terms}}
    directional = None
    if a.directional is not None or b.directional is not None:
        parts = [0.0 if s.directional is None else s.directional for s in (a, b)]
        directional = np.where(condition, *parts)
    return Series(
        iv.choose(condition, a.value, b.value), iv.choose(condition, a.centre, b.centre), terms, a.order, a.radius,
        directional,
    )  # fmt: skip


def rearranged(move: Callable[[list[np.ndarray]], np.ndarray], parts: Sequence[Series]) -> Series:
    """Return a series whose entries are entries of others, or sums of them.

    Parameters
    ----------
    move : callable
        From one array for each of the series, of its full shape, to the result: linear, and no weight negative.
    parts : sequence of Series
    """

    def of(intervals: Sequence[Interval | None]) -> Interval:
        known = [iv.point(0.0) if i is None else i for i in intervals]
        lo = move([np.broadcast_to(i.lo, part.shape) for i, part in zip(known, parts)])
        if all(i.is_point for i in known):
            return iv.point(lo)
        return iv.outwards(lo, move([np.broadcast_to(i.hi, part.shape) for i, part in zip(known, parts)]))

    terms = {
        p: of([part.terms.get(p) for part in parts]) for p in dict.fromkeys(p for part in parts for p in part.terms)
    }
    directional = None
    if any(part.directional is not None for part in parts):
        directional = of([None if s.directional is None else iv.point(s.directional) for s in parts]).hi
    return replace(
        parts[0],
        value=of([s.value for s in parts]),
        centre=of([s.centre for s in parts]),
        terms=terms,
        directional=directional,
    )
