"""Rows drawn in proportion to their bounds, for tests that draw a Poisson number of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from pymc_austerity.rows.sources import RowSource, Share
from pymc_austerity.rows.weighted import alias_table

#: More than the rounding of a sum of shares.
_OUTWARDS = 1 + 1e-12


class BoundTable(NamedTuple):
    """Alias table for rows in proportion to their bounds, and the bounds that it draws by.

    Attributes
    ----------
    keep : numpy.ndarray of float64, shape (N,)
        Probability that a column of the table stands for its own row.
    alias : numpy.ndarray of uint32 or int64, shape (N,)
        The row that it stands for otherwise.
    size : numpy.ndarray of float64, shape (N,)
        c_i: the probability with which the table draws the row, times `total`.
    total : float
        C = Σc_i.
    always : numpy.ndarray of int64, shape (m,)
        Rows that are read at every decision, and never drawn: their c_i are 0 here.
    """

    keep: np.ndarray
    alias: np.ndarray
    size: np.ndarray
    total: float
    always: np.ndarray


def rows_to_read(bounds: np.ndarray, span: float) -> np.ndarray:
    """Return the numbers of the rows that are better read at every decision than drawn, in order.

    A row is drawn c_i M times a decision on average, and read once is read for good where that is more than one.

    Parameters
    ----------
    bounds : numpy.ndarray, shape (N,)
        c_i.
    span : float
        M of a typical decision.
    """
    return np.flatnonzero(bounds * span > 1)


def bound_table(bounds: np.ndarray, always: np.ndarray | None = None) -> BoundTable:
    """Make the table for rows with these bounds.

    The probabilities of an alias table are rounded, and a row that is drawn less often than its bound asks for would
    shift the stationary distribution.  So the bounds are taken from the table: the total is raised until none lies
    below what was asked for.

    Parameters
    ----------
    bounds : numpy.ndarray, shape (N,)
        Numbers ≥ 0, finite.
    always : numpy.ndarray of int, optional
        Rows that are read without being drawn.
    """
    always = np.empty(0, np.int64) if always is None else np.ascontiguousarray(always, dtype=np.int64)
    bounds = bounds.copy()
    bounds[always] = 0.0
    n, total = bounds.size, bounds.sum()
    if not total > 0:
        return BoundTable(np.ones(n), np.arange(n, dtype=np.int64), np.zeros(n), 0.0, always)
    keep, alias = alias_table(bounds / total)
    # Rounding may leave a column of no weight to its own row, which would then count twice.
    left = always[keep[always] > 0]
    keep[left], alias[left] = 0.0, bounds.argmax()
    share = keep / n
    np.add.at(share, alias, (1 - keep) / n)
    asked = bounds > 0
    total = float((bounds[asked] / share[asked]).max() * _OUTWARDS)
    return BoundTable(keep, alias.astype(np.uint32 if n < 2**32 else np.int64), total * share, total, always)


@njit
def draw_by_bounds(rng: np.random.Generator, table: BoundTable, start: int, stop: int) -> np.ndarray:
    """Draw row numbers with replacement, in proportion to their bounds."""
    numbers = np.empty(stop - start, np.int64)
    for k in range(numbers.size):
        column = rng.integers(0, table.keep.size)
        # A number of its own: what a column leaves of one at a billion rows would not settle a small probability.
        numbers[k] = column if rng.random() < table.keep[column] else np.int64(table.alias[column])
    return numbers


@dataclass(frozen=True, eq=False)
class RowsByBounds(RowSource):
    """The row source of a table of bounds.  Rows are drawn with replacement, and the test thins them itself."""

    table: BoundTable

    draw = staticmethod(draw_by_bounds)

    def state(self, n_rows: int, share: Share | None = None) -> BoundTable:
        """Return the table; for fewer rows, on which code is tried, one of the same types that draws none."""
        table = self.table
        if n_rows >= table.keep.size:
            return table
        numbers = np.arange(n_rows, dtype=table.alias.dtype)
        return BoundTable(np.ones(n_rows), numbers, np.zeros(n_rows), 0.0, np.empty(0, np.int64))
