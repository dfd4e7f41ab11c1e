"""Rows drawn with replacement and weights, by an alias table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pymc_austerity.argument_kinds import is_number
from pymc_austerity.compile.cache import njit_on_disk
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.rows.sources import RowSource, Share
from pymc_austerity.user_input import takes_fields


class AliasTable(NamedTuple):
    """Walker's alias table for the row probabilities, and the weight of each row."""

    keep: np.ndarray  # float32 (N,): probability that a column of the table stands for its own row
    alias: np.ndarray  # uint32 (N,): the row that it stands for otherwise
    weight: np.ndarray  # float32 (N,): 1/(N p_i), at most one over the uniform floor

    def to_read(self, rows: Any) -> Any:
        """Return the rows that chains read: those that were weighed."""
        return rows

    def source(self) -> RowSource:
        """Return the row source of chains."""
        return WeightedRows(self)


@njit_on_disk()
def alias_table(probability: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Build the alias table of `probability` in O(N) (Walker 1977; Vose 1991)."""
    n = probability.size
    keep, alias = np.ones(n), np.arange(n)
    stack = np.empty(n, np.int64)
    scaled = probability * n
    small, large = 0, n  # rows below average are stacked from the left, the others from the right
    for i in range(n):
        if scaled[i] < 1.0:
            stack[small] = i
            small += 1
        else:
            large -= 1
            stack[large] = i
    while small > 0 and large < n:
        small -= 1
        i, j = stack[small], stack[large]
        keep[i], alias[i] = scaled[i], j
        scaled[j] -= 1.0 - scaled[i]
        if scaled[j] < 1.0:
            large += 1
            stack[small] = j
            small += 1
    return keep, alias


@njit
def draw_weighted(rng: np.random.Generator, table: AliasTable, start: int, stop: int) -> np.ndarray:
    """Draw row numbers with replacement by the alias table.

    The whole part of u·N is the column and the rest decides between its two rows, 20 bits of it at a billion rows.
    """
    n = table.keep.size
    numbers, rest = np.empty(stop - start, np.int64), np.empty(stop - start)
    for k in range(numbers.size):
        place = rng.random() * n
        numbers[k] = min(int(place), n - 1)
        rest[k] = place - numbers[k]
    # A loop of its own without a branch, so that the processor waits for many places in memory at once.
    for k in range(numbers.size):
        i = numbers[k]
        other = int(table.alias[i])
        numbers[k] = i if rest[k] < table.keep[i] else other
    return numbers


@njit
def weigh_rows(table: Any, numbers: np.ndarray, new: np.ndarray, old: np.ndarray) -> None:
    """Weigh the row terms, by the weights of a table or of a pool, so that their mean estimates that of all rows."""
    for k in range(numbers.size):
        weight = table.weight[numbers[k]]
        new[k] *= weight
        old[k] *= weight


@takes_fields
@dataclass(frozen=True)
class Weighted:
    """Rows drawn with replacement, in proportion to the typical size of their remainder.

    Parameters
    ----------
    floor : float, default 0.2
        Share of the draws that is uniform.  No row counts for more than 1/floor times the average, so a row whose
        remainder was misjudged is still seen.

    Raises
    ------
    ValueError
        For a floor outside (0, 1].

    Examples
    --------
    >>> import pymc_austerity as pma
    >>> pma.Weighted()
    Weighted(floor=0.2)
    """

    floor: float = 0.2

    def __post_init__(self) -> None:
        if not (is_number(self.floor) and 0 < self.floor <= 1):
            raise ValueError(
                f"Weighted(floor={self.floor}) must lie in (0, 1]: without a floor a row with a small weight that "
                "turns out to matter would swamp the estimate. Use 0.2."
            )


@dataclass(frozen=True, eq=False)
class WeightedRows(RowSource):
    """The row source of `Weighted`, with its table."""

    table: AliasTable

    draw = staticmethod(draw_weighted)
    weigh = staticmethod(weigh_rows)
    weighted: ClassVar[bool] = True

    @property
    def weights(self) -> np.ndarray:
        """1/(N p_i) for every row."""
        return self.table.weight

    def state(self, n_rows: int, share: Share | None = None) -> AliasTable:
        """Return the table."""
        return self.table


def sizes_drawn_by(table: AliasTable, floor: float) -> np.ndarray:
    """Return the sizes that rows were weighed by, in units of their mean: the inverse of `row_table`."""
    if floor == 1:
        return np.ones(table.weight.size)
    return np.maximum((1 / table.weight.astype(float) - floor) / (1 - floor), 0.0)


def row_table(sizes: np.ndarray, floor: float) -> AliasTable:
    """Make the table for rows whose remainders are typically of the given sizes."""
    n = sizes.size
    total = sizes.sum()
    share = sizes / total if total > 0 else np.full(n, 1 / n)
    probability = (1 - floor) * share + floor / n
    keep, alias = alias_table(probability)
    return AliasTable(keep.astype(np.float32), alias.astype(np.uint32), (1 / (n * probability)).astype(np.float32))
