"""The bound of rows that are known by their sums: nothing is left of them, and none is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pymc_austerity.bounds.row_bound import Bound, EvaluateBound, Region
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.rows import BoundTable, RowSource
from pymc_austerity.rows.by_bounds import RowsByBounds, bound_table


@njit
def no_span(constants, at):  # type: ignore[no-untyped-def]
    """Return 0, wherever the two points are."""
    return 0.0, 0


@dataclass(frozen=True)
class NothingLeft(Bound):
    """Zero for every row, since the sum over all rows is known at every θ."""

    reads_theta: ClassVar[bool] = False
    known_by_sums: ClassVar[bool] = True

    def constants(self, region: Region | None = None, largest_count: float = 1.0) -> tuple[tuple[()], BoundTable]:
        """Return a table from which nothing is ever drawn."""
        return (), bound_table(np.zeros(1))

    def build(self) -> EvaluateBound:
        """Return the function that is zero."""
        return no_span

    def of_remainder(self, order: int) -> Bound | None:
        """Return itself."""
        return self

    def row_source(self, constants: tuple[Any, ...]) -> RowSource | None:
        """Return the rows in proportion to nothing."""
        return RowsByBounds(constants[1])
