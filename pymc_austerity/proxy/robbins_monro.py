"""Stochastic approximation: how a step size finds the acceptance rate that it should have."""

from __future__ import annotations

from pymc_austerity.compile.lean_njit import njit

#: Gains t^{-0.6}: their sum diverges and the sum of their squares does not.
_GAIN_EXPONENT = 0.6


@njit(cache=True)
def towards_target(log_scale: float, rate: float, target: float, t: int) -> float:
    """Move a log scale towards its target acceptance rate.

    Robbins and Monro (1951), as in Andrieu and Thoms (2008, Algorithm 4).

    Parameters
    ----------
    log_scale : float
    rate : float
        Acceptance probability of proposal number `t` (from 1), or 0 or 1 for what became of it.
    target : float
        Acceptance rate to reach.
    t : int
    """
    return log_scale + (rate - target) / t**_GAIN_EXPONENT
