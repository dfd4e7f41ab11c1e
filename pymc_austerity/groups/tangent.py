"""Where the search for the joint means of several factors begins: on a plane through those that were worked out before.

The means m(φ) bend little over the width of the posterior of φ.  So they are worked out once, at its centre and a
standard deviation to either side along each axis, and in between m(φ̂) + M(φ − φ̂) leaves a few hundredths of a standard
deviation of all groups together: next to nothing is left to search for.  Frozen before sampling, so that what the
search ends with is still a function of φ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pymc_austerity.compile.lean_njit import njit


class Tangent(NamedTuple):
    """The joint means of all groups as a linear function of φ, as arrays for compiled code."""

    at: np.ndarray  # (P,): φ̂; empty where nothing has been worked out
    shift: np.ndarray  # (G, K): m(φ̂), from the centre of the expansion
    slope: np.ndarray  # (P, G, K)


def no_tangent() -> Tangent:
    """Return that nothing has been worked out."""
    return Tangent(np.empty(0), np.empty((0, 0)), np.empty((0, 0, 0)))


@njit
def along_tangent(phi: np.ndarray, tangent: Tangent) -> np.ndarray:
    """Return the means there, from the centre of the expansion."""
    shift = tangent.shift.copy()
    slope = tangent.slope
    for p in range(phi.size):
        distance = phi[p] - tangent.at[p]
        for g in range(shift.shape[0]):  # a loop is compiled in a tenth of the time that whole arrays take
            for k in range(shift.shape[1]):
                shift[g, k] += distance * slope[p, g, k]
    return shift


def find_tangent(means: Callable[[np.ndarray], np.ndarray], centre: np.ndarray, factor: np.ndarray) -> Tangent:
    """Work the means out around a centre of φ.

    `means` returns m(φ) from the centre of the expansion, shape (G, K); `centre`, `factor`, shapes (P,) and (P, P):
    normal approximation of φ. Return none where there are no means a standard deviation away.
    """
    sides = np.array([[means(centre + sign * axis) for sign in (1, -1)] for axis in factor.T])
    differences = (sides[:, 0] - sides[:, 1]) / 2
    slope = np.linalg.solve(factor.T, differences.reshape(centre.size, -1)).reshape(differences.shape)
    found = Tangent(centre.copy(), means(centre), np.ascontiguousarray(slope))
    return found if np.isfinite(found.shift).all() and np.isfinite(slope).all() else no_tangent()
