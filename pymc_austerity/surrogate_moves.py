"""Proposals that move on the surrogate and so read no rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from pymc_austerity.proposals import Proposal
from pymc_austerity.surrogate import (
    SurrogateState,
    adapt_nothing,
    adapt_rho,
    build_trajectory,
    propose_crank_nicolson,
)


@dataclass(frozen=True)
class BoundMove:
    """A move together with the surrogate that it moves on: what a step takes as its proposal."""

    propose: Callable[..., Any]
    adapt: Callable[..., Any]
    prototype: SurrogateState

    def state(self, theta: np.ndarray, discrete: np.ndarray, n_rows: int) -> SurrogateState:
        """Return the state at the start of a chain."""
        changing = ("log_scale", "t", "others", "temperature")
        return self.prototype._replace(**{name: getattr(self.prototype, name).copy() for name in changing})


@dataclass(frozen=True)
class SurrogateHMC:
    """Hamiltonian transitions on the surrogate π̃ = exact prior × exp(summed proxy), at no cost in rows.

    Mass matrix and step size are tuned on the surrogate before sampling; a trajectory spans about a quarter period.
    The prior stays exact, so hierarchical scales, simplices and ordered cut points are no obstacle.  Needs a proxy.

    References
    ----------
    J. S. Liu, Monte Carlo Strategies in Scientific Computing, 2001, §9.4 (surrogate transition method);
    R. M. Neal, MCMC using Hamiltonian dynamics, 2011.

    Examples
    --------
    >>> import pymc_austerity as pma
    >>> pma.SurrogateHMC()
    SurrogateHMC()
    """

    def bind(
        self, surrogate: Callable[..., Any], tuned: SurrogateState, normal: SurrogateState, best_rate: float
    ) -> Proposal:
        """Return the proposal on a given surrogate, tuned on it before."""
        trajectory = build_trajectory(surrogate)

        @njit
        def propose(rng, theta, state):  # type: ignore[no-untyped-def]
            theta_new, value, value_new, _ = trajectory(rng, theta, state)
            return theta_new, value - value_new

        return BoundMove(propose, adapt_nothing, tuned)


@dataclass(frozen=True)
class CrankNicolson:
    """θ′ = θ̂ + ρ(θ − θ̂) + √(1 − ρ²)·L z, reversible for the normal approximation of the surrogate.

    Cheaper than `SurrogateHMC` where posterior and prior are close to normal.  ρ adapts while tuning; ρ = 0, its
    start, is the independence sampler.  Needs a proxy.

    Parameters
    ----------
    rho : float, optional
        Fixed value of ρ in [0, 1).

    Raises
    ------
    ValueError
        For ρ outside its range.

    References
    ----------
    S. L. Cotter, G. O. Roberts, A. M. Stuart and D. White, MCMC methods for functions, Statistical Science 28, 2013.

    Examples
    --------
    >>> import pymc_austerity as pma
    >>> pma.CrankNicolson(rho=0.5)
    CrankNicolson(rho=0.5)
    """

    rho: float | None = None

    def __post_init__(self) -> None:
        if self.rho is not None and not 0 <= self.rho < 1:
            raise ValueError(
                f"CrankNicolson(rho={self.rho}) must lie in [0, 1): at 1 the chain would never move. Leave it out to "
                "adapt it."
            )

    def bind(
        self, surrogate: Callable[..., Any], tuned: SurrogateState, normal: SurrogateState, best_rate: float
    ) -> Proposal:
        """Return the proposal for a normal approximation; `best_rate` is the acceptance rate of a point like it."""
        fresh = 1.0 if self.rho is None else float(np.sqrt(1 - self.rho**2))
        state = normal._replace(log_scale=np.log([fresh]), target=np.array([0.6 * best_rate]), t=np.zeros(1, np.int64))
        return BoundMove(propose_crank_nicolson, adapt_rho if self.rho is None else adapt_nothing, state)
