"""The surrogate π̃ = exact prior × exp(summed proxy), and Hamiltonian moves on it that read no rows.

A kernel reversible for π̃ used as a proposal has log q(θ|θ′) − log q(θ′|θ) = log π̃(θ) − log π̃(θ′), so the test
decides on the remainder alone (surrogate transition method: Liu 2001, §9.4; Christen and Fox 2005).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from pytensor.gradient import grad
from scipy import linalg

from pymc_austerity.compile.addresses import tuple_of
from pymc_austerity.compile.bounded_integers import integer_below
from pymc_austerity.compile.by_address import Reached
from pymc_austerity.compile.cache import built_once, njit_on_disk
from pymc_austerity.compile.graph_compiler import compile_part
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.likelihood import Links, RowLikelihood
from pymc_austerity.likelihood.linked_functions import LinkedPriorSlope, prior_slope_at, reach_prior_slope
from pymc_austerity.proxy.expansion import shift_from
from pymc_austerity.proxy.linear_maps import product
from pymc_austerity.proxy.linearisation import Linearisation
from pymc_austerity.proxy.scale_moves import NO_SCALES, ScaleMoves, build_rescaling
from pymc_austerity.proxy.scaling import Scaling

#: Acceptance rate of the inner trajectories: they cost no rows, so they may be careful.
INNER_TARGET = 0.9
#: Whitened trajectories of a quarter period reach independent points of a normal target.
QUARTER_PERIOD = np.pi / 2
_MAX_LEAPFROG = 64
_UNSCALED = Scaling()

#: Gains t^{-0.6}: their sum diverges and the sum of their squares does not.
_GAIN_EXPONENT = 0.6
#: ``evaluate(theta, linearisation, surroundings)``: log π̃(θ) and its gradient by θ.
Evaluate = Callable[..., tuple[float, np.ndarray]]
#: ``trajectory(rng, theta, state, surroundings)``: θ′, log π̃(θ), log π̃(θ′) and the acceptance probability of a
#: Hamiltonian transition that is reversible for the surrogate.
Trajectory = Callable[..., tuple[np.ndarray, float, float, float]]


class PathSearch(NamedTuple):
    """The paths that tuning chooses from, and their jumps so far, as arrays."""

    lengths: np.ndarray  # shape (K,)
    transitions: np.ndarray  # trajectories of that length between two tests, shape (K,)
    jumps: np.ndarray  # squared jumps of each choice so far, in the whitened space, shape (K,)
    costs: np.ndarray  # what they cost
    choice: np.ndarray  # the choice in use, shape (1,)
    last: np.ndarray  # the draw before, shape (D,)


class SurrogateState(NamedTuple):
    """State of a move on the surrogate, as arrays."""

    log_scale: np.ndarray  # log of the leapfrog step size in the whitened space, or of √(1 − ρ²), shape (1,)
    factor: np.ndarray  # θ = centre + factor·x has about unit covariance in x, shape (D, D), or the diagonal
    whiten: np.ndarray  # its inverse
    centre: np.ndarray  # shape (D,)
    target: np.ndarray  # acceptance rate that tuning aims at, shape (1,)
    t: np.ndarray  # shape (1,)
    search: PathSearch
    linearisation: Linearisation  # in place of the likelihood: it steers, and is in no sum that a test uses
    scales: ScaleMoves = NO_SCALES  # that are moved together with their effects

    def with_factor(self, factor: np.ndarray, step_size: float, scaling: Scaling = _UNSCALED) -> SurrogateState:
        """Return the state with another mass matrix, and tuning started anew."""
        if factor.ndim == 1:
            whiten = 1 / factor
        else:
            whiten = linalg.inv(factor) if scaling.inverse is None else linalg.inv(factor) @ scaling.inverse
        factor, whiten = np.ascontiguousarray(scaling.outward(factor)), np.ascontiguousarray(whiten)
        return self._replace(factor=factor, whiten=whiten, log_scale=np.log([step_size]), t=np.zeros(1, np.int64))

    def fresh(self) -> SurrogateState:
        """Return a copy whose changing parts are its own."""
        search = PathSearch(*(part.copy() for part in self.search))
        return self._replace(search=search, log_scale=self.log_scale.copy(), t=self.t.copy())

    def at_start(self, theta: np.ndarray, discrete: np.ndarray, n_rows: int) -> SurrogateState:
        """Return the state at the start of a chain, which the surrogate settles alone."""
        return self.fresh()


def path_search(choices: Sequence[tuple[float, int]], size: int) -> PathSearch:
    """Return a fresh search among pairs of a length and a number of transitions."""
    zeros = np.zeros(len(choices))
    return PathSearch(
        lengths=np.array([length for length, _ in choices]),
        transitions=np.array([transitions for _, transitions in choices], dtype=np.int64),
        jumps=zeros,
        costs=zeros.copy(),
        choice=np.zeros(1, np.int64),
        last=np.full(size, np.nan),
    )


class Surrogate(NamedTuple):
    """The compiled surrogate of one model."""

    evaluate: Evaluate
    trajectory: Trajectory
    prior_slope: Reached  # what both find by its address in ``surroundings.links``

    @property
    def links(self) -> Links:
        """The address, for surroundings without rows."""
        return Links(prior_slope=self.prior_slope.address)


def compile_surrogate(likelihood: RowLikelihood, compile_kwargs: dict[str, Any]) -> Surrogate:
    """Compile log π̃, its gradient, and Hamiltonian transitions on it."""
    gradient = grad(likelihood.log_prior, likelihood.theta, disconnected_inputs="ignore")
    inputs = [likelihood.theta, likelihood.others, *likelihood.fixed]
    prior = compile_part(inputs, [likelihood.log_prior, gradient], **compile_kwargs)
    fixed = tuple_of(likelihood.fixed)
    evaluate = build_evaluation(prior_slope_at)
    return Surrogate(evaluate, build_trajectory(evaluate), reach_prior_slope(prior, fixed))


@built_once
def build_evaluation(prior_slope: LinkedPriorSlope) -> Evaluate:
    """Compile log π̃ and its gradient."""

    @njit
    def evaluate(theta, linearisation, surroundings):  # type: ignore[no-untyped-def]
        others, temperature = surroundings.others, surroundings.temperature
        value, slope = prior_slope(surroundings.links, theta, others, surroundings.fixed)
        shift = shift_from(linearisation.centre, linearisation.coordinates, theta, others)
        curved = product(linearisation.hessian, shift)
        total = value + np.dot(linearisation.gradient + 0.5 * curved, shift) / temperature
        slope, centre, size = slope.copy(), linearisation.centre, theta.size + others.size
        for k in range(shift.size):
            c = linearisation.coordinates[k]
            if c < theta.size:
                pull = (linearisation.gradient[k] + curved[k]) / temperature
                if centre.size > size:  # of a bent coordinate, by ψ
                    pull *= 1.0 + centre[size + c] * shift[k]
                slope[c] += pull
        return total, slope

    return evaluate


@built_once
def build_trajectory(surrogate: Evaluate) -> Trajectory:
    """Compile Hamiltonian transitions on a surrogate, before or after which scales move together with their effects."""
    rescale = build_rescaling(surrogate)

    @njit
    def hamiltonian(rng, theta, state, surroundings):  # type: ignore[no-untyped-def]
        step = np.exp(state.log_scale[0])
        path = state.search.lengths[state.search.choice[0]]
        longest = min(_MAX_LEAPFROG, max(1, int(np.ceil(path / step))))
        # A random number of steps, drawn without looking at θ, keeps the trajectory from resonating.
        shortest = max(1, 3 * longest // 4)
        n_steps = shortest + integer_below(rng, longest + longest // 4 + 2 - shortest)
        momentum = rng.standard_normal(theta.size)
        log_uniform = np.log1p(-rng.random())
        start, slope = surrogate(theta, state.linearisation, surroundings)
        energy = start - 0.5 * np.dot(momentum, momentum)
        position, value = theta.copy(), start
        momentum = momentum + 0.5 * step * product(state.factor.T, slope)
        for i in range(n_steps):
            position = position + step * product(state.factor, momentum)
            value, slope = surrogate(position, state.linearisation, surroundings)
            if not np.isfinite(value):
                return theta.copy(), start, start, 0.0
            kick = step if i + 1 < n_steps else 0.5 * step
            momentum = momentum + kick * product(state.factor.T, slope)
        log_ratio = value - 0.5 * np.dot(momentum, momentum) - energy
        if not log_uniform < log_ratio:  # also where it is not a number
            return theta.copy(), start, start, (np.exp(log_ratio) if np.isfinite(log_ratio) else 0.0)
        return position, start, value, min(1.0, np.exp(log_ratio))

    @njit
    def trajectory(rng, theta, state, surroundings):  # type: ignore[no-untyped-def]
        if state.scales.place.size == 0:
            return hamiltonian(rng, theta, state, surroundings)
        start = surrogate(theta, state.linearisation, surroundings)[0]
        # One order or the other at random, so that all of it is reversible.
        first = rng.random() < 0.5
        if first:
            theta, _ = rescale(rng, theta, start, state, surroundings)
        theta, _, value, acceptance = hamiltonian(rng, theta, state, surroundings)
        if not first:
            theta, value = rescale(rng, theta, value, state, surroundings)
        return theta, start, value, acceptance

    return trajectory


@njit_on_disk()
def adapt_step_size(state: SurrogateState, acceptance: float) -> None:
    """Move the leapfrog step size towards its target acceptance rate (Robbins and Monro 1951)."""
    state.t[0] += 1
    state.log_scale[0] = towards_target(state.log_scale[0], acceptance, state.target[0], state.t[0])
    state.log_scale[0] = min(state.log_scale[0], 0.4)  # a leapfrog step of 1.5 is unstable at 2


@njit_on_disk()
def towards_target(log_scale: float, rate: float, target: float, t: int) -> float:
    """Move a log scale towards its target acceptance rate.

    Robbins and Monro (1951), as in Andrieu and Thoms (2008, Algorithm 4).  `rate` is the acceptance probability of
    proposal number `t` (from 1), or whether it was accepted.
    """
    return log_scale + (rate - target) / t**_GAIN_EXPONENT
