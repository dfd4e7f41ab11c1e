"""Taylor models: series in a few variables whose coefficients are intervals, for derivatives over a whole box.

The variables are s = (s₁, …, s_m) with |s_a| ≤ r.  The coefficient of s^α encloses ∂^α g/α! at *every* point of the
box; sums, products and the chain rule hold at each point, so they hold for the enclosures (Moore, Kearfott and Cloud
2009, chapter 9).  The derivatives of a function of one number enter by their exact range,
so the bounds are exact where rows read one predictor through such functions, as in most generalised linear models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import factorial

import numpy as np

from pymc_austerity.bounds import intervals as iv
from pymc_austerity.bounds.elementary import Elementary
from pymc_austerity.bounds.intervals import Interval
from pymc_austerity.tried_setup import check_time

#: The powers of the variables that belong to a coefficient: (variable, exponent) in order, none with exponent 0.
Powers = tuple[tuple[int, int], ...]
Terms = Mapping[Powers, Interval]
#: The "degree" of the value at the centre of the box.
CENTRE = -1


class NotSmooth(Exception):
    """Derivatives were asked of a part of which only the size of the last one is known."""


class Series:
    """An array of functions on a box, by enclosures of their derivatives, each found when it is asked for.

    ``part(degree)`` returns the coefficients of a degree by the powers they belong to; what is not there is zero.
    Those of degree 0 and `CENTRE` belong to none: the range over the box, and an enclosure of the value at its centre.
    The series `varies` where there are any of degree 1 and more.  The range is cut by the mean-value form where `cuts`
    says so.  `radius` is r.  `directional` is given for a part of which only the largest |D^K g[v, …, v]|/K! is known,
    with K the degree that is wanted in the end and v in the box of r = 1; such a part can be added, weighted and picked
    from.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        part: Callable[[int], Terms],
        varies: bool,
        radius: float,
        directional: np.ndarray | None = None,
        cuts: bool = False,
    ):
        self.shape, self.varies, self.radius, self.directional = shape, varies, radius, directional
        self._part, self._cuts = part, cuts
        self._by_degree: dict[int, Terms] = {}

    @property
    def value(self) -> Interval:
        """Range over the box."""
        return self.terms(0)[()]

    @property
    def centre(self) -> Interval:
        """Enclosure of the value at the centre of the box."""
        return self.terms(CENTRE)[()]

    @property
    def moves(self) -> bool:
        """Whether it depends on the variables."""
        return self.varies or self.directional is not None

    def terms(self, degree: int) -> Terms:
        """Return the coefficients of a degree."""
        if degree > 0 and not self.varies:
            return {}
        if degree not in self._by_degree:
            check_time()
            found = self._part(degree)
            self._by_degree[degree] = {(): self._cut(found[()])} if degree == 0 and self._cuts else found
        return self._by_degree[degree]

    def _cut(self, value: Interval) -> Interval:
        """Return a range, cut by the mean-value form: g(centre) + Σ ∂_a g · [−r, r]."""
        total, reach = self.centre, Interval(np.asarray(-self.radius), np.asarray(self.radius))
        for slope in self.terms(1).values():
            total = iv.add(total, iv.multiply(slope, reach))
        return iv.intersection(value, total)

    def __neg__(self) -> Series:
        def part(degree: int) -> Terms:
            return {p: -c for p, c in self.terms(degree).items()}

        return Series(self.shape, part, self.varies, self.radius, self.directional)

    def __add__(self, other: Series) -> Series:
        def part(degree: int) -> Terms:
            found = dict(self.terms(degree))
            for powers, c in other.terms(degree).items():
                _accumulate(found, powers, c)
            return found

        parts = [s.directional for s in (self, other) if s.directional is not None]
        directional = np.add.reduce(np.broadcast_arrays(*parts)) if parts else None
        return self._with(other, part, directional)

    def __sub__(self, other: Series) -> Series:
        return self + (-other)

    def __mul__(self, other: Series) -> Series:
        directional = None
        for known, weight in ((self, other), (other, self)):
            if known.directional is not None:
                if weight.moves:
                    raise NotSmooth
                directional = weight.value.magnitude() * known.directional

        def part(degree: int) -> Terms:
            if degree == CENTRE:
                return {(): iv.multiply(self.centre, other.centre)}
            return _product(self.terms, other.terms, degree)

        return self._with(other, part, directional)

    def _with(self, other: Series, part: Callable[[int], Terms], directional: np.ndarray | None) -> Series:
        """Return what is made of this series and another."""
        shape, both = np.broadcast_shapes(self.shape, other.shape), self.varies and other.varies
        return Series(shape, part, self.varies or other.varies, self.radius, directional, cuts=both)

    def squared(self) -> Series:
        """Return the square, whose value and leading coefficients are not negative."""
        self.require_derivatives()

        def part(degree: int) -> Terms:
            return {(): iv.square(self.centre)} if degree == CENTRE else _square(self.terms, degree)

        return Series(self.shape, part, self.varies, self.radius)

    def through(self, f: Elementary) -> Series:
        """Return f of this series: Σ f⁽ʲ⁾/j! · (g − g₀)ʲ."""
        self.require_derivatives()
        powers_of_shift: dict[tuple[int, int], Terms] = {}

        def without_value(degree: int) -> Terms:
            return self.terms(degree) if degree else {}

        def shift(j: int, degree: int) -> Terms:
            # (g − g₀)ʲ, which starts at degree j.
            if (j, degree) not in powers_of_shift:
                if j == 1:
                    found = without_value(degree)
                elif j == 2:
                    found = _square(without_value, degree)
                else:
                    found = _product(lambda d: shift(j - 1, d) if d >= j - 1 else {}, without_value, degree)
                powers_of_shift[j, degree] = found
            return powers_of_shift[j, degree]

        def part(degree: int) -> Terms:
            if degree <= 0:
                return {(): f.range(0, self.terms(degree)[()])}
            found: dict[Powers, Interval] = {}
            for j in range(1, degree + 1):
                power = shift(j, degree)
                slope = f.range(j, self.value) if power else None
                for p, c in power.items():
                    assert slope is not None
                    weighted = iv.multiply(slope, c)
                    _accumulate(found, p, weighted if j == 1 else iv.multiply(iv.point(1 / factorial(j)), weighted))
            return found

        return Series(self.shape, part, self.varies, self.radius, cuts=self.varies)

    def filled(self, *shapes: tuple[int, ...]) -> Series:
        """Return the same for the shape that this one and others have together."""
        return Series(np.broadcast_shapes(self.shape, *shapes), self.terms, self.varies, self.radius, self.directional)

    def require_derivatives(self) -> None:
        """Refuse a part of which only the size of the last derivative is known."""
        if self.directional is not None:
            raise NotSmooth


def _accumulate(terms: dict[Powers, Interval], powers: Powers, c: Interval) -> None:
    terms[powers] = iv.add(terms[powers], c) if powers in terms else c


def _times(a: Powers, b: Powers) -> Powers:
    total = dict(a)
    for variable, exponent in b:
        total[variable] = total.get(variable, 0) + exponent
    return tuple(sorted(total.items()))


def _product(a: Callable[[int], Terms], b: Callable[[int], Terms], degree: int) -> Terms:
    found: dict[Powers, Interval] = {}
    for i in range(degree + 1):
        left = a(i)
        for p, x in left.items():
            for q, y in b(degree - i).items():
                _accumulate(found, _times(p, q), iv.multiply(x, y))
    return found


def _square(a: Callable[[int], Terms], degree: int) -> Terms:
    found: dict[Powers, Interval] = {}
    for i in range(degree // 2 + 1):
        left, right = list(a(i).items()), list(a(degree - i).items())
        for k, (p, x) in enumerate(left):
            for q, y in right[k:] if 2 * i == degree else right:
                twice = iv.square(x) if p == q and 2 * i == degree else iv.multiply(iv.point(2.0), iv.multiply(x, y))
                _accumulate(found, _times(p, q), twice)
    return found


def known_series(value: np.ndarray, radius: float) -> Series:
    """Return a series that does not depend on the variables."""
    known = iv.point(value)
    return Series(known.lo.shape, lambda degree: {(): known}, False, radius)


def affine(centre: np.ndarray, slopes: Mapping[int, np.ndarray], radius: float) -> Series:
    """Return centre + Σ slope·s for some of the variables."""
    known: Terms = {((number, 1),): iv.point(slope) for number, slope in slopes.items()}

    def part(degree: int) -> Terms:
        if degree > 0:
            return known if degree == 1 else {}
        if degree == CENTRE:
            return {(): iv.point(centre)}
        if np.isinf(radius):
            return {(): iv.everything(np.asarray(centre))}
        reach = sum(np.abs(slope) * radius for slope in slopes.values())
        return {(): iv.outwards(centre - reach, centre + reach)}

    return Series(np.shape(centre), part, True, radius)


def _entries_of(
    of: Callable[[list[Interval]], Interval],
    parts: Sequence[Series],
    shape: tuple[int, ...],
    directional: np.ndarray | None = None,
) -> Series:
    """Return a series whose value and coefficients are what `of` makes of those of others."""
    zero = iv.point(0.0)

    def part(degree: int) -> Terms:
        found = [one.terms(degree) for one in parts]
        return {p: of([f.get(p, zero) for f in found]) for p in dict.fromkeys(p for f in found for p in f)}

    return Series(shape, part, any(one.varies for one in parts), parts[0].radius, directional)


def choose(condition: np.ndarray, a: Series, b: Series) -> Series:
    """Return `a` where a condition on the rows holds and `b` elsewhere."""
    directional = None
    if a.directional is not None or b.directional is not None:
        directional = np.where(condition, *(0.0 if s.directional is None else s.directional for s in (a, b)))
    shape = np.broadcast_shapes(condition.shape, a.shape, b.shape)
    return _entries_of(lambda both: iv.choose(condition, *both), (a, b), shape, directional)


def hull(a: Series, b: Series) -> Series:
    """Return what encloses both."""
    return _entries_of(lambda both: iv.hull(*both), (a, b), np.broadcast_shapes(a.shape, b.shape))


def rearranged(move: Callable[[list[np.ndarray]], np.ndarray], parts: Sequence[Series]) -> Series:
    """Return a series whose entries are entries of others, or sums of them.

    `move` takes an array of full shape for each of the series, and is linear with weights ≥ 0.
    """

    def of(intervals: list[Interval]) -> Interval:
        lo = move([np.broadcast_to(i.lo, part.shape) for i, part in zip(intervals, parts)])
        if all(i.is_point for i in intervals):
            return iv.point(lo)
        return iv.outwards(lo, move([np.broadcast_to(i.hi, part.shape) for i, part in zip(intervals, parts)]))

    directional = None
    if any(part.directional is not None for part in parts):
        directional = of([iv.point(0.0 if s.directional is None else s.directional) for s in parts]).hi
    return _entries_of(of, parts, move([np.broadcast_to(0.0, part.shape) for part in parts]).shape, directional)
