"""All rows in the order of memory, and the sums that a chain keeps of its last pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.rows.sources import RowSource, Share, draw_in_order
from pymc_austerity.rows.storage import CHUNK


class LastPass(NamedTuple):
    """The log-likelihood at the current point, summed over each chunk of rows."""

    point: np.ndarray  # (n,): θ and the variables of other steps; not a number where no sums are known
    sums: np.ndarray  # (2, n_chunks): at that point, and room for those at a proposal


@njit
def is_at(point: np.ndarray, theta: np.ndarray, others: np.ndarray) -> bool:
    """Whether the sums of a `LastPass` are those at this point."""
    same = point.size == theta.size + others.size
    for k in range(point.size if same else 0):
        same = same and point[k] == (theta[k] if k < theta.size else others[k - theta.size])
    return same


@njit
def move_to(point: np.ndarray, theta: np.ndarray, others: np.ndarray) -> None:
    """Store the point of the sums, where there is room for it."""
    if point.size == theta.size + others.size:
        for k in range(theta.size):
            point[k] = theta[k]
        for k in range(others.size):
            point[theta.size + k] = others[k]


@dataclass(frozen=True)
class InOrder(RowSource):
    """All rows in the order of memory, for tests that read all."""

    n_numbers: int = 0  # numbers of the point that a chain keeps; 0 for none

    draw = staticmethod(draw_in_order)

    def for_points(self, n_numbers: int) -> InOrder:
        """Return a source that keeps points of so many numbers."""
        return replace(self, n_numbers=n_numbers)

    def state(self, n_rows: int, share: Share | None = None) -> LastPass:
        """Return sums at no point: rows have not been read yet."""
        return LastPass(np.full(self.n_numbers, np.nan), np.zeros((2, -(-n_rows // CHUNK))))
