"""Sums over the rows of each group: first and second derivatives by what is the group's own and by what is shared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_austerity.compat import pushforward
from pymc_austerity.compile.graph_compiler import compile_part
from pymc_austerity.groups.crossed_means import NO_TANGENT
from pymc_austerity.groups.factor import IndexArrays
from pymc_austerity.groups.group_expansion import NO_SCALE, GroupExpansion
from pymc_austerity.groups.grouping import Groups
from pymc_austerity.likelihood import RowLikelihood
from pymc_austerity.rows import Rows

#: Rows a call.
_CHUNK = 8192


class Cells(NamedTuple):
    """Pairs of groups of two factors, or by two indices of one, that have rows in common."""

    pairs: np.ndarray  # int64 (C, 2): a group of the finer factor and one of the other
    of_rows: np.ndarray  # int64 (N,): the cell of each row


class Membership(NamedTuple):
    """The groups of all rows."""

    of_rows: np.ndarray  # int64 (F, N): by each index; by the first in ascending order
    cells: dict[tuple[int, int], Cells]  # for each two indices


def membership(of_rows: np.ndarray) -> Membership:
    """Return the groups of all rows, and which groups have rows in common."""
    cells, n = {}, int(of_rows.max(initial=0)) + 1
    for f, h in combinations(range(len(of_rows)), 2):
        keys, of_cells = np.unique(of_rows[f] * n + of_rows[h], return_inverse=True)
        cells[f, h] = Cells(np.column_stack(np.divmod(keys, n)), of_cells.reshape(-1))
    return Membership(of_rows, cells)


class GroupPass:
    """Expands the rows of all groups around a centre, in one pass over the data.

    A direction moves one parameter of every group of a factor at once, or one shared parameter: a row reads one group,
    so its derivative along that direction is the one by its own group.  Where rows read several groups of a factor, the
    direction moves what they read by one index.  (K + R)(K + R + 1)/2 forward-mode derivatives a row, where K counts
    the parameters of one group for each index.
    """

    def __init__(self, likelihood: RowLikelihood, groups: Groups, options: dict[str, Any]):
        self._groups, self._likelihood, self._theta_size = groups, likelihood, likelihood.theta_size
        theta, rows = likelihood.theta, likelihood.row_log_likelihood
        s, t = pt.dscalar("s"), pt.dscalar("t")
        # What rows read by one of several indices of a factor moves by itself.
        self._apart = [i for i, f in enumerate(groups.factors) if groups.factors.count(f) > 1]
        size, apart = likelihood.theta_size, {}
        direction = theta.type.clone(shape=((1 + len(self._apart)) * size,)) if self._apart else theta.type
        first, second = direction("first"), direction("second")
        for q, i in enumerate(self._apart, start=1):
            part = slice(q * size, (q + 1) * size)
            by = {theta: theta + s * first[part] + t * second[part]}
            for read in _read_by(likelihood, groups.indices[i]):
                (apart[read],) = graph_replace([read], by, strict=False)
        cut, base = {read: read.type() for read in apart}, slice(size)
        moves = theta + s * first[base] + t * second[base] if apart else theta + s * first + t * second
        (moved,) = graph_replace(graph_replace([rows], cut, strict=False), {theta: moves}, strict=False)
        (moved,) = graph_replace([moved], {cut[read]: by for read, by in apart.items()}, strict=False)
        slope = pushforward(moved, s, pt.ones_like(s))
        curvature = pushforward(slope, t, pt.ones_like(t))
        zero = pt.constant(0.0, dtype="float64")
        outputs = graph_replace([slope, curvature], {s: zero, t: zero}, strict=False)
        inputs = [theta, likelihood.others, *likelihood.fixed, *likelihood.batches]
        outputs = [pt.broadcast_to(out, rows.shape) for out in outputs]
        self._rows = compile_part(inputs, [rows], **options)
        self.derivatives = compile_part([first, second, *inputs], outputs, **options)

    def rows(
        self, theta: np.ndarray, others: np.ndarray, fixed: Sequence[np.ndarray], rows: Rows
    ) -> Iterator[np.ndarray]:
        """Yield ℓ_i(θ) in order, for some rows at a time."""
        for batch in chunks(rows):
            yield self._rows(theta, others, *fixed, *batch)[0]

    def directions(self) -> tuple[list[tuple[int, int]], np.ndarray]:
        """Return (factor, number of the parameter) of the directions along groups, and all of them, shape (M, D).

        Those along what the rows read of φ come last.
        """
        groups = self._groups
        along = [(f, k) for f, first in enumerate(groups.first[:-1]) for k in range(groups.size[first])]
        places = [groups.own[groups.first[f] : groups.first[f + 1], k] for f, k in along]
        directions = np.zeros((len(along) + groups.read.size, self._theta_size))
        for direction, entries in zip(directions, [*places, *groups.read[:, None]], strict=True):
            direction[entries] = 1.0
        return along, directions

    def at_all_indices(self, direction: np.ndarray) -> np.ndarray:
        """Return a direction as `derivatives` take it, for all that rows read along it."""
        return np.tile(direction, 1 + len(self._apart))

    def _at_index(self, direction: np.ndarray, i: int) -> np.ndarray:
        """Return a direction along effects for what rows read of them by one index."""
        if i not in self._apart:
            return self.at_all_indices(direction)
        found = np.zeros((1 + len(self._apart), direction.size))
        found[1 + self._apart.index(i)] = direction
        return found.ravel()

    def __call__(
        self, theta: np.ndarray, others: np.ndarray, fixed: Sequence[np.ndarray], rows: Rows, member: Membership
    ) -> GroupExpansion:
        """Expand around θ."""
        groups = self._groups
        (n_groups, size), n_read = groups.own.shape, groups.read.size
        along, directions = self.directions()
        by_index = [(i, k) for i, f in enumerate(groups.factors) for k in range(groups.size[groups.first[f]])]
        moves = [
            *(self._at_index(directions[along.index((groups.factors[i], k))], i) for i, k in by_index),
            *map(self.at_all_indices, directions[len(along) :]),
        ]
        along = by_index
        n_own = len(along)
        gradient, shared_gradient = np.zeros((n_groups, size)), np.zeros(n_read)
        hessian, shared_hessian = np.zeros((n_groups, size, size)), np.zeros((n_read, n_read))
        cross = np.zeros((n_groups, size, n_read))
        cells = {pair: np.zeros((len(of.pairs), size, size)) for pair, of in member.cells.items()}
        n_indices = len(member.of_rows)
        labels = Rows((*member.of_rows, *(of.of_rows for of in member.cells.values())))
        for batch, numbers in zip(chunks(rows), chunks(labels), strict=True):
            cell_of = dict(zip(cells, numbers[n_indices:], strict=True))
            for i, direction in enumerate(moves):
                for j, and_along in enumerate(moves[: i + 1]):
                    first, second = self.derivatives(direction, and_along, theta, others, *fixed, *batch)
                    if j >= n_own:
                        shared_hessian[i - n_own, j - n_own] += second.sum()
                        continue
                    f, k = along[j]
                    if i >= n_own:
                        _add(cross, numbers[f], k, i - n_own, second)
                    elif along[i][0] == f:
                        _add(hessian, numbers[f], k, along[i][1], second)
                    else:
                        pair = f, along[i][0]
                        _add(cells[pair], cell_of[pair], k, along[i][1], second)
                if i >= n_own:
                    shared_gradient[i - n_own] += first.sum()
                else:
                    f, k = along[i]
                    _add(gradient[:, :, None], numbers[f], k, 0, first)
        hessian = np.where(np.tri(size, dtype=bool).T, hessian, hessian.transpose(0, 2, 1))
        pairs = {pair: member.cells[pair].pairs for pair in cells}
        for i, j in cells:
            same = pairs[i, j][:, 0] == pairs[i, j][:, 1]
            if same.any():  # a row reads a group by two indices
                of_both, groups_twice = cells[i, j][same], pairs[i, j][same, 0]
                hessian[groups_twice] += of_both + of_both.transpose(0, 2, 1)
                pairs[i, j], cells[i, j] = pairs[i, j][~same], cells[i, j][~same]
        shared_hessian = np.where(np.tri(n_read, dtype=bool), shared_hessian, shared_hessian.T)
        return GroupExpansion(
            theta.copy(), groups.own, groups.size, groups.first, groups.shared, groups.read, gradient, hessian,
            without_negative(-hessian), cross, shared_gradient, shared_hessian,
            *_both_ways(list(pairs.values()), list(cells.values()), n_groups, size),
            groups.left, NO_TANGENT, NO_SCALE, groups.ties, groups.zero_sums, groups.together,
        )  # fmt: skip


def _read_by(likelihood: RowLikelihood, index: IndexArrays) -> list[Variable]:
    """Return what rows read of θ by an index."""
    nodes = {var.owner for var in ancestors([likelihood.row_log_likelihood]) if var.owner is not None}
    by = {likelihood.batches[of.number] for of in index}
    return [
        node.outputs[0]
        for node in nodes
        if isinstance(node.op, AdvancedSubtensor)
        and by.issubset(ancestors(node.inputs[1:]))
        and likelihood.theta in ancestors(node.inputs[:1])
    ]


def _add(to: np.ndarray, numbers: np.ndarray, j: int, k: int, terms: np.ndarray) -> None:
    """Add what rows have to the entries (j, k) of their groups, which lie close together."""
    low, high = numbers.min(), numbers.max() + 1
    to[low:high, j, k] += np.bincount(numbers - low, terms, high - low)


def _both_ways(
    pairs: Sequence[np.ndarray], values: Sequence[np.ndarray], n_groups: int, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where the cells of each group begin, the groups they are with, and their second derivatives."""
    if not pairs:
        return np.zeros(n_groups + 1, np.int64), np.empty(0, np.uint32), np.empty((0, size, size))
    one = np.concatenate([*(p[:, 0] for p in pairs), *(p[:, 1] for p in pairs)])
    other = np.concatenate([*(p[:, 1] for p in pairs), *(p[:, 0] for p in pairs)])
    order = np.lexsort((other, one))
    one, other = one[order], other[order]
    matrices = np.concatenate([*values, *(v.transpose(0, 2, 1) for v in values)])[order]
    new = np.append(True, (np.diff(one) != 0) | (np.diff(other) != 0))
    if not new.all():  # two groups of one factor, by two indices one way and the other
        matrices, one, other = np.add.reduceat(matrices, np.flatnonzero(new)), one[new], other[new]
    return np.searchsorted(one, np.arange(n_groups + 1)), other.astype(np.uint32), matrices


def chunks(rows: Rows) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield the rows in order, some at a time."""
    for start in range(0, len(rows), _CHUNK):
        yield tuple(np.ascontiguousarray(a[start : start + _CHUNK]) for a in rows.arrays)


def without_negative(matrices: np.ndarray) -> np.ndarray:
    """Return symmetric matrices with their negative eigenvalues put to zero."""
    if matrices.shape[1] == 1:
        return np.maximum(matrices, 0.0)
    if not np.isfinite(matrices).all():  # at a point without a density, which the search leaves, or says so
        return np.full_like(matrices, np.nan)
    values, vectors = np.linalg.eigh(matrices)
    return np.ascontiguousarray((vectors * np.maximum(values, 0.0)[:, None, :]) @ vectors.transpose(0, 2, 1))
