"""Sums over the rows of each group: first and second derivatives by what is the group's own and by what is shared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
        self._rows = compile_log_density(inputs, [rows], **options)
        self._derivatives = compile_log_density([first, second, *inputs], outputs, **options)

    def value(self, theta: np.ndarray, others: np.ndarray, fixed: Sequence[np.ndarray], rows: Rows) -> float:
        """Return Σ ℓ_i(θ)."""
        return float(sum(terms.sum() for terms in self.rows(theta, others, fixed, rows)))

    def rows(
        self, theta: np.ndarray, others: np.ndarray, fixed: Sequence[np.ndarray], rows: Rows
    ) -> Iterator[np.ndarray]:
        """Yield ℓ_i(θ) in order, for some rows at a time."""
        for batch in chunks(rows):
            yield self._rows(theta, others, *fixed, *batch)[0]

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
        (n_groups, size), n_read = groups.own.shape, groups.read.size
        places = [*groups.own.T, *groups.read[:, None]]
        directions = np.zeros((len(places), theta.size))
        for direction, entries in zip(directions, places, strict=True):
            direction[entries] = 1.0
        gradient, shared_gradient = np.zeros((n_groups, size)), np.zeros(n_read)
        hessian, shared_hessian = np.zeros((n_groups, size, size)), np.zeros((n_read, n_read))
        cross = np.zeros((n_groups, size, n_read))
        for batch, (numbers,) in zip(chunks(rows), chunks(Rows((of_rows,))), strict=True):
            low, high = numbers[0], numbers[-1] + 1
            for i, along in enumerate(directions):
                for j, and_along in enumerate(directions[: i + 1]):
                    first, second = self._derivatives(along, and_along, theta, others, *fixed, *batch)
                    if j >= size:
                        shared_hessian[i - size, j - size] += second.sum()
                    else:
                        to, k = (hessian, i) if i < size else (cross, i - size)
                        to[low:high, j, k] += np.bincount(numbers - low, second, high - low)
                if i >= size:
                    shared_gradient[i - size] += first.sum()
                else:
                    gradient[low:high, i] += np.bincount(numbers - low, first, high - low)
        hessian = np.where(np.tri(size, dtype=bool).T, hessian, hessian.transpose(0, 2, 1))
        shared_hessian = np.where(np.tri(n_read, dtype=bool), shared_hessian, shared_hessian.T)
        return GroupExpansion(
            theta.copy(), groups.own, groups.shared, groups.read, gradient, hessian, _without_negative(-hessian),
            cross, shared_gradient, shared_hessian,
        )  # fmt: skip


def chunks(rows: Rows) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield the rows in order, some at a time."""
    for start in range(0, len(rows), _CHUNK):
        yield tuple(np.ascontiguousarray(a[start : start + _CHUNK]) for a in rows.arrays)


def _without_negative(matrices: np.ndarray) -> np.ndarray:
    """Return symmetric matrices with their negative eigenvalues put to zero."""
    if matrices.shape[1] == 1:
        return np.maximum(matrices, 0.0)
    values, vectors = np.linalg.eigh(matrices)
    return np.ascontiguousarray((vectors * np.maximum(values, 0.0)[:, None, :]) @ vectors.transpose(0, 2, 1))
