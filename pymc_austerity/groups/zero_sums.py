"""The law of effects some of which sum to zero over their groups, in coordinates that know of no sum.

With Q = RᵀR the precision of all groups and z = R(u − m), the sums Bᵀu are zero where (R⁻ᵀB)ᵀz is.  Reflections turn
R⁻ᵀB into one coordinate for each sum (Householder), which stay zero; the others are independent and standard normal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.crossed_means import inner
from pymc_austerity.groups.elimination import from_white, solve_joint, to_white


@njit
def reflections(factor: np.ndarray, left: np.ndarray, rate: float, e: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the normals of the reflections, shape (S, G, K), and the triangle that they turn R⁻ᵀB into, (S, S)."""
    sums, (n_groups, size) = e.zero_sums, e.own.shape
    normals, triangle = np.zeros((len(sums), n_groups, size)), np.zeros((len(sums), len(sums)))
    for s in range(len(sums)):
        first, end, k = sums[s]
        column = np.zeros((n_groups, size))
        for g in range(first, end):
            column[g, k] = 1.0
        if left.size > 0:
            column = to_white(solve_joint(column, factor, left, rate, e), factor, left, rate, e)
        else:
            for g in range(first, end):
                for i in range(e.size[g]):
                    for j in range(i):
                        column[g, i] -= factor[g, i, j] * column[g, j]
                    column[g, i] /= factor[g, i, i]
        reflect(column, normals[:s])
        for t in range(s):
            triangle[t, s] = column[sums[t, 1] - 1, sums[t, 2]]
            column[sums[t, 1] - 1, sums[t, 2]] = 0.0
        length = np.sqrt(inner(column, column))
        triangle[s, s] = -length if column[end - 1, k] > 0.0 else length
        column[end - 1, k] -= triangle[s, s]
        length = np.sqrt(inner(column, column))
        for g in range(n_groups):
            for i in range(size):
                normals[s, g, i] = column[g, i] / length
    return normals, triangle


@njit
def reflect(z: np.ndarray, normals: np.ndarray) -> None:
    """Turn z, in its place, into coordinates of which one for each sum stays zero."""
    for s in range(len(normals)):
        _reflect(z, normals[s])


@njit
def reflect_back(z: np.ndarray, normals: np.ndarray, e: Any) -> None:
    """Turn such coordinates into z, in their place; those that stay zero are zero, whatever is there."""
    for s in range(len(normals)):
        z[e.zero_sums[s, 1] - 1, e.zero_sums[s, 2]] = 0.0
    for s in range(len(normals) - 1, -1, -1):
        _reflect(z, normals[s])


@njit
def _reflect(z: np.ndarray, normal: np.ndarray) -> None:
    along = 2.0 * inner(z, normal)
    for g in range(z.shape[0]):
        for k in range(z.shape[1]):
            z[g, k] -= along * normal[g, k]


@njit
def take_sums_off(
    mean: np.ndarray, factor: np.ndarray, left: np.ndarray, rate: float, e: Any
) -> tuple[np.ndarray, float]:
    """Turn the mean of all groups, in its place, into that given the sums.

    Return the normals of the reflections, and what the sums take off half the log determinant of the covariance.
    """
    normals, triangle = reflections(factor, left, rate, e)
    sums, z, log_det = e.zero_sums, np.zeros(mean.shape), 0.0
    values = np.zeros(len(sums))
    for s in range(len(sums)):
        for g in range(sums[s, 0], sums[s, 1]):
            values[s] += mean[g, sums[s, 2]]
        for t in range(s):
            values[s] -= triangle[t, s] * values[t]
        values[s] /= triangle[s, s]
        log_det += np.log(np.abs(triangle[s, s]))
    for s in range(len(sums)):
        z[sums[s, 1] - 1, sums[s, 2]] = values[s]
    for s in range(len(sums) - 1, -1, -1):
        _reflect(z, normals[s])
    from_white(z, factor, left, rate, e)
    for g in range(mean.shape[0]):
        for k in range(mean.shape[1]):
            mean[g, k] -= z[g, k]
    return normals, log_det


@njit
def keep_sums(
    x: np.ndarray, factor: np.ndarray, left: np.ndarray, normals: np.ndarray, rate: float, e: Any
) -> np.ndarray:
    """Return what is left of Q⁻¹b given the sums."""
    z = to_white(x, factor, left, rate, e)
    reflect(z, normals)
    reflect_back(z, normals, e)
    from_white(z, factor, left, rate, e)
    return z
