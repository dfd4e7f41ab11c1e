"""Arithmetic with arrays of intervals, rounded outwards.

The libraries of interval arithmetic hold one interval an object; rows come by the million, so an interval here is a
pair of arrays.  A sum or product of floats is off by half a unit in the last place, and every result is moved outwards
by a whole one (Moore, Kearfott and Cloud 2009, chapter 2).
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np

_FLOAT = np.finfo(np.float64)


class Interval(NamedTuple):
    """All numbers from `lo` to `hi`, entry by entry; the two are the same array where the number is known."""

    lo: np.ndarray
    hi: np.ndarray

    @property
    def is_point(self) -> bool:
        """Whether it is known to hold one number an entry."""
        return self.lo is self.hi

    def magnitude(self) -> np.ndarray:
        """Return the largest absolute value."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    def __neg__(self) -> Interval:
        return point(-self.lo) if self.is_point else Interval(-self.hi, -self.lo)


def point(x: np.ndarray | float) -> Interval:
    """Return the interval that holds one number."""
    x = np.asarray(x, dtype=np.float64)
    return Interval(x, x)


def everything(like: np.ndarray) -> Interval:
    """Return the interval of all real numbers."""
    return Interval(np.full(like.shape, -np.inf), np.full(like.shape, np.inf))


def _below(x: np.ndarray) -> np.ndarray:
    """Return what is less than x by a unit in the last place or two; `numpy.nextafter` takes ten times as long."""
    least = np.minimum(np.abs(x), _FLOAT.max) * _FLOAT.eps + _FLOAT.smallest_subnormal
    return np.minimum(x - least, _FLOAT.max)


def outwards(lo: np.ndarray, hi: np.ndarray) -> Interval:
    """Return the interval a unit in the last place wider at both ends; where an end is unknown, all numbers."""
    with np.errstate(over="ignore"):
        lo, hi = _below(lo), -_below(-hi)
    unknown = np.isnan(lo) | np.isnan(hi)
    if unknown.any():
        lo, hi = np.where(unknown, -np.inf, lo), np.where(unknown, np.inf, hi)
    return Interval(lo, hi)


def add(a: Interval, b: Interval) -> Interval:
    """Return a + b."""
    with np.errstate(invalid="ignore", over="ignore"):
        return outwards(a.lo + b.lo, a.hi + b.hi)


def multiply(a: Interval, b: Interval) -> Interval:
    """Return a·b, with 0·∞ = 0 at the ends."""
    if b.is_point:
        a, b = b, a
    with np.errstate(invalid="ignore", over="ignore"):
        products = [a.lo * b.lo, a.lo * b.hi] if a.is_point else [a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi]
    lowest, highest = reduce(np.minimum, products), reduce(np.maximum, products)
    if np.isnan(lowest).any():
        known = [np.where(np.isnan(product), 0.0, product) for product in products]
        lowest, highest = reduce(np.minimum, known), reduce(np.maximum, known)
    return outwards(lowest, highest)


def square(a: Interval) -> Interval:
    """Return a², with ends ≥ 0."""
    with np.errstate(over="ignore"):
        ends = np.minimum(np.abs(a.lo), np.abs(a.hi)) ** 2, a.magnitude() ** 2
        lowest = np.where((a.lo <= 0) & (a.hi >= 0), 0.0, ends[0])
        return Interval(np.maximum(_below(lowest), 0.0), -_below(-ends[1]))


def hull(a: Interval, b: Interval) -> Interval:
    """Return the smallest interval that holds both."""
    return Interval(np.minimum(a.lo, b.lo), np.maximum(a.hi, b.hi))


def intersection(a: Interval, b: Interval) -> Interval:
    """Return what is in both, for two that enclose the same number."""
    return Interval(np.maximum(a.lo, b.lo), np.minimum(a.hi, b.hi))


def choose(condition: np.ndarray, a: Interval, b: Interval) -> Interval:
    """Return `a` where the condition holds and `b` elsewhere."""
    if a.is_point and b.is_point:
        return point(np.where(condition, a.lo, b.lo))
    return Interval(np.where(condition, a.lo, b.lo), np.where(condition, a.hi, b.hi))
