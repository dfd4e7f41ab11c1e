"""How many rows a carried move reads, and by which test: where an accepted move costs least.

The noise of n rows has a variance of V/n, which leaves 2Φ(−√(V/n)/2) of the acceptance; and what else there is of a
draw costs as much as reading some rows.  Rows that are drawn by their bounds decide exactly, and that is worth a
factor.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr

from pymc_austerity.acceptance import AcceptanceTest, NoisePenalty, ScalableSubsampling
from pymc_austerity.groups.group_costs import GroupCosts

#: Rows of the first look of a carried move that is decided by a penalty for its noise: at least, and at most.
_LEAST, _MOST = 500, 50_000
#: An exact decision may cost so many times one that is not, and read such a share of all rows.
_WORTH, _SHARE = 2.0, 0.25


class CarriedRows(NamedTuple):
    """How a carried move is decided."""

    test: AcceptanceTest
    widening: float  # by how much bounds are best raised, so that more rows with less noise are drawn; 1 without bounds


def cheapest(noise: float, least: float, most: float, rest: float) -> tuple[float, float]:
    """Return how many rows a carried move reads best, and the logarithm of what an accepted one costs in rows.

    `noise`: variance of the log ratio times the number of rows that are read; `least`, `most`: limits of that number;
    `rest`: rows that cost as much as all else of a draw.
    """
    numbers = np.geomspace(max(1.0, least), max(1.0, least, most), 64)
    costs = np.log(rest + numbers) - np.log(2) - log_ndtr(-np.sqrt(noise / numbers) / 2)
    best = int(np.argmin(costs))
    return float(numbers[best]), float(costs[best])


def choose_carried_rows(costs: GroupCosts, rest: float, n_rows: int) -> CarriedRows:
    """Choose the test of the carried move, and its number of rows.

    `rest`: rows that cost as much as all else of a draw; `n_rows`: N.
    """
    n, cost = cheapest(costs.noise_of_weighted, _LEAST, min(_MOST, max(_LEAST, n_rows / 2)), rest)
    penalty = NoisePenalty(round(n))
    if not costs.drawn < _SHARE * n_rows:
        return CarriedRows(penalty, 1.0)
    n, exact = cheapest(costs.noise_of_drawn, costs.drawn, _SHARE * n_rows, rest)
    return CarriedRows(ScalableSubsampling() if exact < np.log(_WORTH) + cost else penalty, n / costs.drawn)
