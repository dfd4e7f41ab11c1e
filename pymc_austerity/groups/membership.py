"""Which groups each row belongs to, and which groups have rows in common."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np


class Cells(NamedTuple):
    """Pairs of groups of two factors, or by two indices of one, that have rows in common."""

    pairs: np.ndarray  # int64 (C, 2): a group of the finer factor and one of the other
    of_rows: np.ndarray  # int64 (N,): the cell of each row


class BothWays(NamedTuple):
    """All cells in the order of their groups, each once for either of its two; of no group with itself."""

    start: np.ndarray  # int64 (G + 1,): where those of each group begin
    other: np.ndarray  # uint32 (C,): the groups they are with
    numbers: np.ndarray  # int64: which of all cells have two groups
    order: np.ndarray  # int64: which of these, and then of the same the other way, comes where
    #: int64 (C,): where a new one begins, as there may be two: groups of one factor, by two indices either way.
    new: np.ndarray


class Membership(NamedTuple):
    """The groups of all rows."""

    of_rows: np.ndarray  # int64 (F, N): by each index; by the first in ascending order
    cells: dict[tuple[int, int], Cells]  # for each two indices
    both_ways: BothWays


def membership(of_rows: np.ndarray, n_groups: int) -> Membership:
    """Return the groups of all rows, and which groups have rows in common."""
    cells, n = {}, int(of_rows.max(initial=0)) + 1
    for f, h in combinations(range(len(of_rows)), 2):
        keys, of_cells = np.unique(of_rows[f] * n + of_rows[h], return_inverse=True)
        cells[f, h] = Cells(np.column_stack(np.divmod(keys, n)), of_cells.reshape(-1))
    return Membership(of_rows, cells, _both_ways(list(cells.values()), n_groups))


def _both_ways(cells: Sequence[Cells], n_groups: int) -> BothWays:
    """Put the cells of all pairs of indices in the order of their groups."""
    pairs = np.concatenate([np.empty((0, 2), np.int64), *(of.pairs for of in cells)])
    numbers = np.flatnonzero(pairs[:, 0] != pairs[:, 1])
    one, other = np.concatenate([pairs[numbers], pairs[numbers, ::-1]]).T
    order = np.lexsort((other, one))
    one, other = one[order], other[order]
    new = np.flatnonzero(np.append(True, (np.diff(one) != 0) | (np.diff(other) != 0))[: one.size])
    start = np.searchsorted(one[new], np.arange(n_groups + 1))
    return BothWays(start, other[new].astype(np.uint32), numbers, order, new)


def placed_both_ways(both_ways: BothWays, values: Sequence[np.ndarray], size: int) -> np.ndarray:
    """Return the second derivatives of all cells in their order."""
    matrices = np.concatenate([np.empty((0, size, size)), *values])[both_ways.numbers]
    matrices = np.concatenate([matrices, matrices.transpose(0, 2, 1)])[both_ways.order]
    return matrices if len(both_ways.new) == len(matrices) else np.add.reduceat(matrices, both_ways.new)
