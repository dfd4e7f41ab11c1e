"""Models with sufficient statistics: a few sums over the data determine the log-likelihood of all rows.

A few rows with the same sums (`moment_rows`) give the sum over all rows exactly at every θ; remainders are zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pymc_austerity.bounds import moment_rows
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.likelihood import Density
from pymc_austerity.proxy.expansion import Expansion
from pymc_austerity.proxy.linear_maps import LinearMap
from pymc_austerity.rows import Rows


class ExpansionWithStatistics(NamedTuple):
    """An `Expansion`, for proposals, and the rows that stand for all, for decisions."""

    centre: np.ndarray
    coordinates: np.ndarray
    gradient: np.ndarray
    hessian: LinearMap
    fixed: tuple[np.ndarray, ...]  # data that are not indexed by row
    few: tuple[np.ndarray, ...]  # the arrays of the rows that stand for all
    weight: float  # how many rows each of them counts for


def with_statistics(expansion: Expansion, rows: Rows, fixed: Sequence[np.ndarray]) -> ExpansionWithStatistics:
    """Return the expansion with what one pass over the data finds to stand for all rows."""
    few, weight = moment_rows(rows)
    return ExpansionWithStatistics(*expansion[:4], tuple(fixed), few.arrays, weight)


def compile_statistics_density(density: Density) -> Density:
    """Return `density` with its rows known by their sums: what is left of each is zero."""
    both_sides = density.both_sides

    @njit
    def nothing_left(theta_new, theta, others, centre, *data):  # type: ignore[no-untyped-def]
        rows = both_sides(theta_new, theta, others, *data)[0]
        return np.zeros(rows.size), np.zeros(rows.size)

    @njit
    def known_sum(theta, others, expansion):  # type: ignore[no-untyped-def]
        data = expansion.fixed + expansion.few
        return expansion.weight * both_sides(theta, theta, others, *data)[0].sum()

    return Density(density.log_prior, nothing_left, known_sum)
