"""Rows drawn in proportion to their bounds, for tests that draw a Poisson number of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numba import njit

from pymc_austerity.rows.sources import nothing_to_restore, weigh_equally
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
    """

    keep: np.ndarray
    alias: np.ndarray
    size: np.ndarray
    total: float


def bound_table(bounds: np.ndarray) -> BoundTable:
    """Make the table for rows with these bounds.

    The probabilities of an alias table are rounded, and a row that is drawn less often than its bound asks for would
    shift the stationary distribution.  So the bounds are taken from the table: the total is raised until none lies
    below what was asked for.

    Parameters
    ----------
    bounds : numpy.ndarray, shape (N,)
        Numbers ≥ 0, finite.
    """
    n, total = bounds.size, bounds.sum()
    if not total > 0:
        return BoundTable(np.ones(n), np.arange(n, dtype=np.int64), np.zeros(n), 0.0)
    keep, alias = alias_table(bounds / total)
    share = keep / n
    np.add.at(share, alias, (1 - keep) / n)
    asked = bounds > 0
    total = float((bounds[asked] / share[asked]).max() * _OUTWARDS)
    return BoundTable(keep, alias.astype(np.uint32 if n < 2**32 else np.int64), total * share, total)


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
class RowsByBounds:
    """The row source of a table of bounds.  Rows are drawn with replacement, and the test thins them itself."""

    table: BoundTable

    draw = staticmethod(draw_by_bounds)
    restore = staticmethod(nothing_to_restore)
    weigh = staticmethod(weigh_equally)
    weighted: ClassVar[bool] = False
    weights: ClassVar[None] = None

    def state(self, n_rows: int) -> BoundTable:
        """Return the table."""
        return self.table
