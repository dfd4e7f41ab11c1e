"""Sums over the rows of each group: first and second derivatives by what is the group's own and by what is shared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors, walk
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_austerity.compat import pushforward
from pymc_austerity.compile.graph_compiler import compile_part
from pymc_austerity.groups.crossed_means import NO_TANGENT
from pymc_austerity.groups.factor import IndexArrays
from pymc_austerity.groups.group_expansion import NO_SCALE, GroupExpansion
from pymc_austerity.groups.grouping import Groups
from pymc_austerity.groups.membership import Membership, placed_both_ways
from pymc_austerity.groups.row_multiples import Multiples, no_multiples
from pymc_austerity.likelihood import RowLikelihood
from pymc_austerity.likelihood.model_graph import values_read
from pymc_austerity.rows import Rows

#: Rows a call.
_CHUNK = 8192


class GroupPass:
    """Expands the rows of all groups around a centre, in one pass over the data.

    A direction moves one parameter of every group of a factor at once, or one shared parameter: a row reads one group,
    so its derivative along that direction is the one by its own group.  Where rows read several groups of a factor, the
    direction moves what they read by one index.  (K + R)(K + R + 1)/2 forward-mode derivatives a row, where K counts
    the parameters of one group for each index; fewer where some are multiples of others.
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

    def moves(self) -> tuple[list[tuple[int, int]], list[np.ndarray]]:
        """Return the index and the parameter of what is the groups' own, and all directions to differentiate along.

        Those along what the rows read of φ come last.
        """
        groups, (along, directions) = self._groups, self.directions()
        by_index = [(i, k) for i, f in enumerate(groups.factors) for k in range(groups.size[groups.first[f]])]
        own = (self._at_index(directions[along.index((groups.factors[i], k))], i) for i, k in by_index)
        return by_index, [*own, *map(self.at_all_indices, directions[len(along) :])]

    def _along(self, directions: list[np.ndarray], *at: np.ndarray) -> tuple[list[np.ndarray], dict[Any, np.ndarray]]:
        """Return ∂ℓ_i along each of some directions, and ∂²ℓ_i along each two of them."""
        slopes, curvatures = [], {}
        for i, direction in enumerate(directions):
            for j, and_along in enumerate(directions[: i + 1]):
                slope, curvatures[frozenset((i, j))] = self.derivatives(direction, and_along, *at)
            slopes.append(slope)
        return slopes, curvatures

    def __call__(
        self,
        theta: np.ndarray,
        others: np.ndarray,
        fixed: Sequence[np.ndarray],
        rows: Rows,
        member: Membership,
        multiples: Multiples | None = None,
    ) -> GroupExpansion:
        """Expand around θ."""
        groups, (along, moves) = self._groups, self.moves()
        (n_groups, size), n_read, n_own = groups.own.shape, groups.read.size, len(along)
        multiples = multiples or no_multiples(moves)
        gradient, shared_gradient = np.zeros((n_groups, size)), np.zeros(n_read)
        hessian, shared_hessian = np.zeros((n_groups, size, size)), np.zeros((n_read, n_read))
        cross = np.zeros((n_groups, size, n_read))
        cells = {pair: np.zeros((len(of.pairs), size, size)) for pair, of in member.cells.items()}
        n_indices = len(member.of_rows)
        labels = Rows((*member.of_rows, *(of.of_rows for of in member.cells.values()), *multiples.times.values()))
        for batch, numbers in zip(chunks(rows), chunks(labels), strict=True):
            cell_of = dict(zip(cells, numbers[n_indices:], strict=False))
            times = dict(zip(multiples.times, numbers[n_indices + len(cells) :], strict=True))
            slopes, curvatures = self._along(multiples.directions, theta, others, *fixed, *batch)
            for i, of in enumerate(multiples.of):
                first = slopes[of] * times.get(i, 1.0)
                for j, and_of in enumerate(multiples.of[: i + 1]):
                    second = curvatures[frozenset((of, and_of))] * times.get(i, 1.0) * times.get(j, 1.0)
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
        for pair, values in cells.items():
            one, other = member.cells[pair].pairs.T
            if (one == other).any():  # a row reads a group by two indices
                of_both = values[one == other]
                hessian[one[one == other]] += of_both + of_both.transpose(0, 2, 1)
        shared_hessian = np.where(np.tri(n_read, dtype=bool), shared_hessian, shared_hessian.T)
        return GroupExpansion(
            theta.copy(), groups.own, groups.size, groups.first, groups.shared, groups.read, gradient, hessian,
            without_negative(-hessian), cross, shared_gradient, shared_hessian,
            member.both_ways.start, member.both_ways.other, placed_both_ways(member.both_ways, [*cells.values()], size),
            groups.left, NO_TANGENT, NO_SCALE, groups.ties, groups.zero_sums, groups.together,
        )  # fmt: skip


def _read_by(likelihood: RowLikelihood, index: IndexArrays) -> list[Variable]:
    """Return what rows read of θ by an index; numbers of rows that are counted, as of a table, have but its shape."""
    nodes = {var.owner for var in ancestors([likelihood.row_log_likelihood]) if var.owner is not None}
    by = {likelihood.batches[of.number] for of in index}
    return [
        node.outputs[0]
        for node in nodes
        if isinstance(node.op, AdvancedSubtensor)
        and by.issubset(walk(node.inputs[1:], values_read, bfs=False))
        and likelihood.theta in ancestors(node.inputs[:1])
    ]


def _add(to: np.ndarray, numbers: np.ndarray, j: int, k: int, terms: np.ndarray) -> None:
    """Add what rows have to the entries (j, k) of their groups, which lie close together."""
    low, high = numbers.min(), numbers.max() + 1
    to[low:high, j, k] += np.bincount(numbers - low, terms, high - low)


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
