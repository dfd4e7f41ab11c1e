"""Bounds of rows that read θ through linear predictors: by Lipschitz constants, or by the third derivative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pymc_austerity.bounds.lipschitz import LinearPredictor
from pymc_austerity.bounds.row_bound import Bound, EvaluateBound, Region
from pymc_austerity.compile.lean_njit import njit


@njit
def _distance(radius, reach, a, b):  # type: ignore[no-untyped-def]
    """Return the smaller of the two bounds on L_i |x_iᵀ(a − b)|."""
    squares, weighted = 0.0, 0.0
    for d in range(a.size):
        step = abs(a[d] - b[d])
        squares += step * step
        weighted += reach[d] * step
    return min(radius * np.sqrt(squares), weighted)


@njit
def _through_predictor(constants, at):  # type: ignore[no-untyped-def]
    radius, reach = constants
    return _distance(radius[0], reach, at.theta_new, at.theta), 0


@dataclass(frozen=True)
class Lipschitz(Bound):
    """The bound of a log-likelihood that reads θ through linear predictors with a known Lipschitz constant.

    With L_i the constant of row i and x_i the gradient of its predictor, |l_i| ≤ L_i |x_iᵀ(θ′ − θ)|, which is at most
    max_i L_i‖x_i‖ · ‖θ′ − θ‖ (Bardenet et al. 2014, section 4.2) and at most Σ_d max_i L_i|x_id| · |θ′_d − θ_d|.  The
    smaller of the two is taken.
    """

    predictors: tuple[LinearPredictor, ...]
    evaluate: ClassVar[EvaluateBound] = staticmethod(_through_predictor)

    def constants(self, region: Region | None = None, largest_count: float = 1.0) -> tuple[Any, ...]:
        """Return max_i L_i‖x_i‖ and max_i L_i|x_id|, summed over the observed variables."""
        found = [p.extremes() for p in self.predictors]
        radius, reach = sum(radius for radius, _ in found), np.sum([reach for _, reach in found], axis=0)
        return np.array([largest_count * radius]), largest_count * reach

    def of_remainder(self, order: int) -> Bound | None:
        """Return the bound from the third derivative, where every predictor has one."""
        known = all(p.third is not None and not p.reads_others for p in self.predictors)
        return Cubic(self.predictors) if known and order == 2 else None


@njit
def _through_third_derivative(constants, at):  # type: ignore[no-untyped-def]
    radius, reach = constants
    total = 0.0
    for k in range(radius.size):
        total += _distance(radius[k], reach[k], at.theta_new, at.centre) ** 3
        total += _distance(radius[k], reach[k], at.theta, at.centre) ** 3
    return total, 0


@dataclass(frozen=True)
class Cubic(Bound):
    """The bound on what a second-order expansion leaves, by Taylor's theorem along a linear predictor.

    With T_i a sixth of the largest |∂³ℓ_i/∂η³|, the remainder at θ is at most T_i |x_iᵀ(θ − θ̂)|³.  For a logistic
    regression T_i = √3/108 (Bardenet, Doucet and Holmes 2017).
    """

    predictors: tuple[LinearPredictor, ...]
    evaluate: ClassVar[EvaluateBound] = staticmethod(_through_third_derivative)

    def constants(self, region: Region | None = None, largest_count: float = 1.0) -> tuple[Any, ...]:
        """Return max_i T_i^⅓‖x_i‖ and max_i T_i^⅓|x_id|, for each observed variable."""
        found = [p.cubic_extremes() for p in self.predictors]
        root = np.cbrt(largest_count)
        return root * np.array([radius for radius, _ in found]), root * np.array([reach for _, reach in found])
