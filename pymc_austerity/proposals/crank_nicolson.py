"""Autoregressive proposals about the normal approximation of the surrogate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from pymc_austerity.argument_kinds import is_number
from pymc_austerity.compile.cache import njit_on_disk
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.proposals.proposal import Move, Proposal, Propose, Target, adapt_nothing
from pymc_austerity.proxy import SurrogateState, towards_target
from pymc_austerity.user_input import takes_fields

#: Acceptance rate that tuning of ρ aims at, as a share of the best that the test allows.
_TARGET = 0.6


@takes_fields
@dataclass(frozen=True)
class CrankNicolson(Proposal):
    """θ′ = θ̂ + ρ(θ − θ̂) + √(1 − ρ²)·L z, reversible for the normal approximation of the surrogate.

    Cheaper than `SurrogateHMC` where posterior and prior are close to normal.  Needs a proxy.

    Parameters
    ----------
    rho : float or "adapt"
        ρ in [0, 1).  By default it adapts while tuning; ρ = 0, its start, is the independence sampler.
    degrees_of_freedom : float, optional
        Move about a multivariate Student t with as many degrees of freedom in place of the normal, for posteriors
        with heavier tails.  The scale of z is then drawn anew given the distance of θ from the centre.

    Raises
    ------
    ValueError
        For ρ outside its range, or degrees of freedom that are not positive.

    References
    ----------
    S. L. Cotter, G. O. Roberts, A. M. Stuart and D. White, MCMC methods for functions, Statistical Science 28, 2013;
    K. Kamatani, Efficient strategy for the Markov chain Monte Carlo in high-dimension with heavy-tailed target
    probability distribution, Bernoulli 24, 2018 (scale mixtures).

    Examples
    --------
    >>> import pymc_austerity as pma
    >>> pma.CrankNicolson(rho=0.5)
    CrankNicolson(rho=0.5, degrees_of_freedom=None)
    """

    needs_proxy: ClassVar[bool] = True

    rho: float | Literal["adapt"] = "adapt"
    degrees_of_freedom: float | None = None

    def __post_init__(self) -> None:
        if not (self.rho == "adapt" or (is_number(self.rho) and 0 <= self.rho < 1)):
            raise ValueError(
                f"CrankNicolson(rho={self.rho!r}) must lie in [0, 1): at 1 the chain would never move. Leave it out to "
                "adapt it."
            )
        degrees = self.degrees_of_freedom
        if degrees is not None and not (is_number(degrees) and degrees > 0):
            raise ValueError(
                f"CrankNicolson(degrees_of_freedom={self.degrees_of_freedom}) must be positive and finite; leave it "
                "out for normal tails, or try 10."
            )

    def for_model(self, target: Target) -> Move:
        """Return the proposal about the normal approximation of a model's surrogate."""
        assert target.prepared is not None
        fresh = 1.0 if self.rho == "adapt" else float(np.sqrt(1 - self.rho**2))
        state = target.prepared.normal._replace(
            log_scale=np.log([fresh]), target=np.array([_TARGET * target.best_rate]), t=np.zeros(1, np.int64)
        )
        propose = propose_normal
        if self.degrees_of_freedom is not None:
            propose = build_student(float(self.degrees_of_freedom))
        return Move(propose, adapt_rho if self.rho == "adapt" else adapt_nothing, state.at_start)


@njit
def propose_normal(rng, theta, state, surroundings):  # type: ignore[no-untyped-def]
    """θ′ = θ̂ + ρ(θ − θ̂) + √(1 − ρ²)·L z, reversible for N(θ̂, LLᵀ)."""
    fresh = np.exp(state.log_scale[0])
    x = np.dot(state.whiten, theta - state.centre)
    moved = np.sqrt(max(0.0, 1 - fresh * fresh)) * x + fresh * rng.standard_normal(theta.size)
    return state.centre + np.dot(state.factor, moved), 0.5 * (np.dot(moved, moved) - np.dot(x, x)), 0


def build_student(nu: float) -> Propose:
    """Compile the move that is reversible for the multivariate Student t with `nu` degrees of freedom."""

    @njit
    def propose(rng, theta, state, surroundings):  # type: ignore[no-untyped-def]
        fresh = np.exp(state.log_scale[0])
        x = np.dot(state.whiten, theta - state.centre)
        d, squares = x.size, np.dot(x, x)
        # x is √w times a normal, w inverse gamma; given x so is w, and given w the move is that about a normal.
        w = 0.5 * (nu + squares) / rng.standard_gamma(0.5 * (nu + d))
        moved = np.sqrt(max(0.0, 1 - fresh * fresh)) * x + fresh * np.sqrt(w) * rng.standard_normal(d)
        log_ratio = 0.5 * (nu + d) * (np.log1p(np.dot(moved, moved) / nu) - np.log1p(squares / nu))
        return state.centre + np.dot(state.factor, moved), log_ratio, 0

    return propose


@njit_on_disk()
def adapt_rho(state: SurrogateState, theta: np.ndarray, accepted: bool) -> None:
    """Move √(1 − ρ²) towards the target acceptance rate; 1 is the independence sampler."""
    state.t[0] += 1
    state.log_scale[0] = min(0.0, towards_target(state.log_scale[0], accepted, state.target[0], state.t[0]))
