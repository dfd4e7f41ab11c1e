"""Sums over the rows of each group: first and second derivatives by what is the group's own and by what is shared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace

from pymc_austerity.compat import pushforward
from pymc_austerity.graph_compiler import compile_log_density
from pymc_austerity.likelihood import Groups, RowLikelihood
from pymc_austerity.proxy.group_expansion import GroupExpansion
from pymc_austerity.rows import Rows

#: Rows a call.
_CHUNK = 8192


class GroupPass:
    """Expands the rows of all groups around a centre, in one pass over the data.

    A direction moves one parameter of every group at once, or one shared parameter: a row reads one group, so its
    derivative along that direction is the one by its own group.  (K + R)(K + R + 1)/2 forward-mode derivatives a row.

    Parameters
    ----------
    likelihood : RowLikelihood
    groups : Groups
    options : dict
        Of the compiler.
    """

    def __init__(self, likelihood: RowLikelihood, groups: Groups, options: dict[str, Any]):
        self._groups = groups
        theta, rows = likelihood.theta, likelihood.row_log_likelihood
        s, t = pt.dscalar("s"), pt.dscalar("t")
        first, second = theta.type("first"), theta.type("second")
        (moved,) = graph_replace([rows], {theta: theta + s * first + t * second}, strict=False)
        slope = pushforward(moved, s, pt.ones_like(s))
        curvature = pushforward(slope, t, pt.ones_like(t))
        zero = pt.constant(0.0, dtype="float64")
        outputs = graph_replace([slope, curvature], {s: zero, t: zero}, strict=False)
        inputs = [theta, likelihood.others, *likelihood.fixed, *likelihood.batches]
        outputs = [pt.broadcast_to(out, rows.shape) for out in outputs]
        self._value = compile_log_density(inputs, [rows], **options)
        self._derivatives = compile_log_density([first, second, *inputs], outputs, **options)

    def value(self, theta: np.ndarray, others: np.ndarray, fixed: Sequence[np.ndarray], rows: Rows) -> float:
        """Return Σ ℓ_i(θ)."""
        total = 0.0
        for start in range(0, len(rows), _CHUNK):
            total += self._value(theta, others, *fixed, *(a[start : start + _CHUNK] for a in rows.arrays))[0].sum()
        return float(total)

    def __call__(
        self, theta: np.ndarray, others: np.ndarray, fixed: Sequence[np.ndarray], rows: Rows, of_rows: np.ndarray
    ) -> GroupExpansion:
        """Expand around θ.

        Parameters
        ----------
        theta, others, fixed
        rows : Rows
        of_rows : numpy.ndarray of int64, shape (N,)
            Group of each row, in ascending order.
        """
        groups = self._groups
        n_groups, size = groups.own.shape
        places = [groups.own[:, k] for k in range(size)] + [groups.read[r : r + 1] for r in range(groups.read.size)]
        n = len(places)
        slope, curvature = np.zeros((n, n_groups)), np.zeros((n, n, n_groups))
        directions = np.zeros((n, theta.size))
        for direction, entries in zip(directions, places, strict=True):
            direction[entries] = 1.0
        for start in range(0, len(rows), _CHUNK):
            batch = tuple(np.ascontiguousarray(a[start : start + _CHUNK]) for a in rows.arrays)
            low, high = of_rows[start], of_rows[min(start + _CHUNK, len(rows)) - 1] + 1
            local = of_rows[start : start + _CHUNK] - low
            for i in range(n):
                for j in range(max(i, 0), n):
                    first, second = self._derivatives(directions[i], directions[j], theta, others, *fixed, *batch)
                    curvature[i, j, low:high] += np.bincount(local, second, high - low)
                slope[i, low:high] += np.bincount(local, first, high - low)
        for i in range(n):
            for j in range(i):
                curvature[i, j] = curvature[j, i]
        hessian = np.ascontiguousarray(curvature[:size, :size].transpose(2, 0, 1))
        return GroupExpansion(
            theta.copy(),
            groups.own,
            groups.shared,
            groups.read,
            np.ascontiguousarray(slope[:size].T),
            hessian,
            _without_negative(-hessian),
            np.ascontiguousarray(curvature[:size, size:].transpose(2, 0, 1)),
            slope[size:].sum(axis=1),
            curvature[size:, size:].sum(axis=2),
        )


def _without_negative(matrices: np.ndarray) -> np.ndarray:
    """Return symmetric matrices with their negative eigenvalues put to zero."""
    if matrices.shape[1] == 1:
        return np.maximum(matrices, 0.0)
    values, vectors = np.linalg.eigh(matrices)
    return np.ascontiguousarray((vectors * np.maximum(values, 0.0)[:, None, :]) @ vectors.transpose(0, 2, 1))
