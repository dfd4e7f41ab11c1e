"""The surrogate π̃ = exact prior × exp(summed proxy), and Hamiltonian moves on it that read no rows.

A kernel reversible for π̃ used as a proposal has log q(θ|θ′) − log q(θ′|θ) = log π̃(θ) − log π̃(θ′), so the test
decides on the remainder alone (surrogate transition method: Liu 2001, §9.4; Christen and Fox 2005).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from pytensor.gradient import grad

from pymc_austerity.adaptation import adapt_scale
from pymc_austerity.compat import compile_log_density
from pymc_austerity.likelihood import RowLikelihood
from pymc_austerity.proxy import Expansion

#: Acceptance rate of the inner trajectories: they cost no rows, so they may be careful.
INNER_TARGET = 0.9
#: Whitened trajectories of a quarter period reach independent points of a normal target.
_QUARTER_PERIOD = np.pi / 2
_MAX_LEAPFROG = 64


class SurrogateState(NamedTuple):
    """State of a move on the surrogate, of arrays only.

    Attributes
    ----------
    log_scale : numpy.ndarray, shape (1,)
        Log of the leapfrog step size in the whitened space, or of √(1 − ρ²).
    factor, centre : numpy.ndarray, shapes (D, D) and (D,)
        θ = centre + factor·x has about unit covariance in x.
    target : numpy.ndarray, shape (1,)
        Acceptance rate that tuning aims at.
    t : numpy.ndarray of int64, shape (1,)
    others : numpy.ndarray, shape (O,)
        Present values of the variables of other steps.
    temperature : numpy.ndarray, shape (1,)
    fixed : tuple of numpy.ndarray
    steering : Expansion
        The proxy with its Hessian made negative semi-definite: it steers, and is in no sum that a test uses.
    """

    log_scale: np.ndarray
    factor: np.ndarray
    centre: np.ndarray
    target: np.ndarray
    t: np.ndarray
    others: np.ndarray
    temperature: np.ndarray
    fixed: tuple[np.ndarray, ...]
    steering: Expansion


def compile_surrogate(likelihood: RowLikelihood, compile_kwargs: dict[str, Any]) -> Callable[..., Any]:
    """Compile ``surrogate(theta, state)``, which returns log π̃ and its gradient by θ."""
    gradient = grad(likelihood.log_prior, likelihood.theta, disconnected_inputs="ignore")
    inputs = [likelihood.theta, likelihood.others, *likelihood.fixed]
    prior = compile_log_density(inputs, [likelihood.log_prior, gradient], **compile_kwargs).vm.jit_fn

    @njit
    def surrogate(theta, state):  # type: ignore[no-untyped-def]
        value, slope = prior(theta, state.others, *state.fixed)
        steering = state.steering
        d, e = theta.size, steering.coordinates.size
        shift = np.empty(e)
        for k in range(e):
            c = steering.coordinates[k]
            shift[k] = (theta[c] if c < d else state.others[c - d]) - steering.centre[c]
        curved = np.dot(steering.hessian, shift)
        total = value.item() + np.dot(steering.gradient + 0.5 * curved, shift) / state.temperature[0]
        slope = slope.copy()
        for k in range(e):
            c = steering.coordinates[k]
            if c < d:
                slope[c] += (steering.gradient[k] + curved[k]) / state.temperature[0]
        return total, slope

    return surrogate


def build_trajectory(surrogate: Callable[..., Any]) -> Callable[..., Any]:
    """Compile ``trajectory(rng, theta, state)``: one Hamiltonian transition reversible for π̃.

    Returns θ′, log π̃(θ), log π̃(θ′) and the acceptance probability of the trajectory.
    """

    @njit
    def trajectory(rng, theta, state):  # type: ignore[no-untyped-def]
        step = np.exp(state.log_scale[0])
        longest = min(_MAX_LEAPFROG, max(1, int(np.ceil(_QUARTER_PERIOD / step))))
        # A random number of steps, drawn without looking at θ, keeps the trajectory from resonating.
        n_steps = rng.integers(max(1, 3 * longest // 4), longest + longest // 4 + 2)
        momentum = rng.standard_normal(theta.size)
        log_uniform = np.log1p(-rng.random())
        start, slope = surrogate(theta, state)
        energy = start - 0.5 * np.dot(momentum, momentum)
        position, value = theta.copy(), start
        momentum = momentum + 0.5 * step * np.dot(state.factor.T, slope)
        for i in range(n_steps):
            position = position + step * np.dot(state.factor, momentum)
            value, slope = surrogate(position, state)
            if not np.isfinite(value):
                return theta.copy(), start, start, 0.0
            kick = step if i + 1 < n_steps else 0.5 * step
            momentum = momentum + kick * np.dot(state.factor.T, slope)
        log_ratio = value - 0.5 * np.dot(momentum, momentum) - energy
        if not log_uniform < log_ratio:  # also where it is not a number
            return theta.copy(), start, start, (np.exp(log_ratio) if np.isfinite(log_ratio) else 0.0)
        return position, start, value, min(1.0, np.exp(log_ratio))

    return trajectory


@njit
def adapt_nothing(state: SurrogateState, theta: np.ndarray, accepted: bool) -> None:
    """Leave a move alone that was tuned on the surrogate."""


@njit
def adapt_step_size(state: SurrogateState, acceptance: float) -> None:
    """Move the leapfrog step size towards its target acceptance rate (Robbins and Monro 1951)."""
    state.t[0] += 1
    state.log_scale[0] += (acceptance - state.target[0]) / state.t[0] ** 0.6
    state.log_scale[0] = min(state.log_scale[0], 0.4)  # a leapfrog step of 1.5 is unstable at 2


@njit
def propose_crank_nicolson(
    rng: np.random.Generator, theta: np.ndarray, state: SurrogateState
) -> tuple[np.ndarray, float]:
    """θ′ = θ̂ + ρ(θ − θ̂) + √(1 − ρ²)·L z, reversible for N(θ̂, LLᵀ)."""
    fresh = np.exp(state.log_scale[0])
    x = np.linalg.solve(state.factor, theta - state.centre)
    moved = np.sqrt(1 - fresh * fresh) * x + fresh * rng.standard_normal(theta.size)
    return state.centre + np.dot(state.factor, moved), 0.5 * (np.dot(moved, moved) - np.dot(x, x))


@njit
def adapt_rho(state: SurrogateState, theta: np.ndarray, accepted: bool) -> None:
    """Move √(1 − ρ²) towards the target acceptance rate; 1 is the independence sampler."""
    state.t[0] += 1
    state.log_scale[0] = min(0.0, adapt_scale(state.log_scale[0], accepted, state.target[0], state.t[0]))
