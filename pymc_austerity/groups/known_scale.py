"""The expansion of rows with normal errors, which holds at every value of their scale.

Where ℓ_i(θ) = c s + e^{ks} q_i(v) with q_i of second degree (`RowScale`), the expansion in v at (v̂, ŝ), multiplied by
r(s) = e^{k(s − ŝ)}, is that at (v̂, s); and Σ ℓ_i(v̂, s) − Σ ℓ_i(v̂, ŝ) = N c (s − ŝ) + Q̂ (r(s) − 1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pymc_austerity.compile.lean_njit import njit


class KnownScale(NamedTuple):
    """What the expansion needs to know of the scale of rows, as arrays and numbers for compiled code."""

    place: np.ndarray  # int64 (0,) or (1,): where s lies in θ; empty where the expansion is multiplied by nothing
    power: float  # k
    slope: float  # N c
    squares: float  # Q̂, the sum over all rows of e^{kŝ} q_i(v̂)


def no_scale() -> KnownScale:
    """Return that the expansion is multiplied by nothing."""
    return KnownScale(np.empty(0, np.int64), 0.0, 0.0, 0.0)


@njit
def nothing_of_rows(theta_new, theta, others, centre, *data):  # type: ignore[no-untyped-def]
    """Return what is left of each row at both ends of a move: nothing."""
    return np.zeros(data[-1].shape[0]), np.zeros(data[-1].shape[0])


@njit
def nothing_of_linked_rows(links, theta_new, theta, others, centre, fixed, arrays, numbers):  # type: ignore[no-untyped-def]
    """Return the same for code that is compiled for all models."""
    return np.zeros(numbers.size), np.zeros(numbers.size)


@njit
def rate_of_rows(theta: np.ndarray, centre: np.ndarray, scale: KnownScale) -> float:
    """Return r(s)."""
    if scale.place.size == 0:
        return 1.0
    s = scale.place[0]
    return np.exp(scale.power * (theta[s] - centre[s]))


@njit
def sum_at_centre(theta: np.ndarray, centre: np.ndarray, scale: KnownScale) -> float:
    """Return Σ ℓ_i(v̂, s) − Σ ℓ_i(v̂, ŝ)."""
    if scale.place.size == 0:
        return 0.0
    s = scale.place[0]
    shift = theta[s] - centre[s]
    return scale.slope * shift + scale.squares * np.expm1(scale.power * shift)
