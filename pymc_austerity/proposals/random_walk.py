"""Gaussian random walks, tuned to an acceptance rate and to the covariance of the chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pymc_austerity.argument_kinds import is_number
from pymc_austerity.compile.cache import njit_on_disk
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.proposals.adaptation import adapt_moments, proposal_factor
from pymc_austerity.proposals.proposal import Move, Proposal, Target
from pymc_austerity.proxy import towards_target
from pymc_austerity.user_input import takes_fields

#: A discrete variable keeps at least this standard deviation: below, rounding would hold it in place.
_MIN_DISCRETE_SD = 0.5
#: Draws a dimension, and at least ten factorisations' worth, before the covariance is first used.
_ISOTROPIC_DRAWS = 5


class WalkState(NamedTuple):
    """State of a random walk, as arrays that compiled code updates in place."""

    log_scale: np.ndarray  # (1,): log of the scale that tuning moves
    #: (D,) or (D, D): standard deviations, or lower Cholesky factor of the covariance, of an increment at scale 1.
    factor: np.ndarray
    discrete: np.ndarray  # bool (D,)
    target: np.ndarray  # (1,): acceptance rate to reach
    t: np.ndarray  # int64 (1,): proposals adapted to so far
    #: (D,) and (D, D): running moments of the chain; empty where they are not used.
    mean: np.ndarray
    cov: np.ndarray
    initial_scale: np.ndarray  # (D,): standard deviations of the walk before its covariance is known


@njit
def _whole_steps(step: np.ndarray, sd: np.ndarray, discrete: np.ndarray) -> None:
    """Round the increments of discrete variables; the walk stays symmetric."""
    for d in range(step.size):
        if discrete[d]:
            if sd[d] < _MIN_DISCRETE_SD:
                step[d] *= _MIN_DISCRETE_SD / sd[d]
            step[d] = np.rint(step[d])


@njit
def propose_independent(rng, theta, state, surroundings):  # type: ignore[no-untyped-def]
    """Random walk with independent increments."""
    sd = np.exp(state.log_scale[0]) * state.factor
    step = sd * rng.standard_normal(theta.size)
    _whole_steps(step, sd, state.discrete)
    return theta + step, 0.0, 0


@njit
def propose_correlated(rng, theta, state, surroundings):  # type: ignore[no-untyped-def]
    """Random walk with increments L z."""
    scale = np.exp(state.log_scale[0])
    z = rng.standard_normal(theta.size)
    step = np.zeros(theta.size)
    sd = np.zeros(theta.size)
    for i in range(theta.size):
        for j in range(i + 1):
            step[i] += scale * state.factor[i, j] * z[j]
            sd[i] += (scale * state.factor[i, j]) ** 2
    _whole_steps(step, np.sqrt(sd), state.discrete)
    return theta + step, 0.0, 0


@njit_on_disk()
def adapt_walk(state: WalkState, theta: np.ndarray, accepted: bool) -> None:
    """Adapt the scale alone."""
    state.t[0] += 1
    state.log_scale[0] = towards_target(state.log_scale[0], accepted, state.target[0], state.t[0])


@njit_on_disk()
def adapt_covariance(state: WalkState, theta: np.ndarray, accepted: bool) -> None:
    """Adapt the scale and, now and then, the covariance."""
    adapt_walk(state, theta, accepted)
    t = state.t[0]
    adapt_moments(state.mean, state.cov, theta, t)
    d = theta.size
    every = max(10, d)  # a factorisation costs D³, an update of the moments D²
    first = every * max(10, _ISOTROPIC_DRAWS * d // every)
    if t >= first and t % every == 0:
        if t == first:
            # From here on the factor carries the scale, starting from the one that was found.
            state.initial_scale[:] *= np.exp(state.log_scale[0])
            state.log_scale[0] = 0.0
        state.factor[:, :] = proposal_factor(state.cov, state.initial_scale, t)


def scale_and_factor(state: WalkState) -> tuple[np.ndarray, ...]:
    """Return what tuning changes in a walk that learns its covariance."""
    return state.log_scale, state.factor


def _initial_scale(scale: ArrayLike | None, dimension: int, n_rows: int) -> np.ndarray:
    # With N rows a posterior is about 1/√N wide; tuning finds the constant.
    found = np.asarray(2.38 / np.sqrt(dimension * n_rows) if scale is None else scale, dtype=float)
    return np.broadcast_to(found, (dimension,)).copy()


def target_rate(asked: float | None, dimension: int, best_rate: float) -> float:
    """Return the acceptance rate that a walk is tuned to.

    `asked`: what the user wants; by default a share of what the test can give; `best_rate`: acceptance rate of the test
    for a proposal as likely as the present point. Raises ValueError for a rate that the test cannot reach.
    """
    check_reachable(asked, best_rate)
    return (0.5 if dimension <= 2 else 0.25) * best_rate if asked is None else asked


def check_target(target_accept: float | None) -> None:
    """Refuse an acceptance rate that cannot be reached."""
    if target_accept is not None and not (is_number(target_accept) and 0 < target_accept < 1):
        raise ValueError(
            f"target_accept={target_accept} must lie between 0 and 1: tuning moves the scale until that share of "
            "proposals is accepted. Leave it out for the rate known to serve well: 0.5 for a random walk in up to two "
            "dimensions, 0.25 above, 0.574 for Langevin."
        )


def check_reachable(target_accept: float | None, best_rate: float) -> None:
    """Refuse a rate that the test does not reach even where a proposal is as likely as the present point."""
    if target_accept is not None and target_accept >= best_rate:
        raise ValueError(
            f"target_accept={target_accept} is out of reach: the test accepts {best_rate:g} of the proposals that are "
            "as likely as the present point, so the scale would shrink for as long as tuning lasts. Leave it out, or "
            f"take half of {best_rate:g} or less."
        )


@takes_fields
@dataclass(frozen=True, eq=False)
class RandomWalk(Proposal):
    """Gaussian random walk θ′ = θ + s·increment, with the scale s adapted while tuning.

    Discrete variables move by whole numbers (increments are rounded).

    Parameters
    ----------
    scale : float or array_like of shape (D,), optional
        Standard deviations of the increment in the unconstrained space.  About 1/√N by default.
    cov : array_like of shape (D, D), optional
        Covariance of the increment, in place of `scale`.
    target_accept : float, optional
        Acceptance rate that tuning aims at; 0.5 up to two dimensions and 0.25 above by default, half of that for a test
        of Barker's, which accepts at most half.

    Raises
    ------
    ValueError
        Both of `scale` and `cov`, values that are not positive (definite), or a size other than D.

    Examples
    --------
    >>> import pymc_austerity as pma
    >>> pma.RandomWalk(scale=0.01)
    RandomWalk(scale=0.01, cov=None, target_accept=None)
    """

    scale: ArrayLike | None = None
    cov: ArrayLike | None = None
    target_accept: float | None = None

    def __post_init__(self) -> None:
        if self.scale is not None and self.cov is not None:
            raise ValueError("RandomWalk was given both scale and cov, which contradict each other. Keep one.")
        if self.scale is not None and not np.all(np.isfinite(self.scale) & (np.asarray(self.scale) > 0)):
            raise ValueError(
                f"RandomWalk(scale={self.scale!r}) must be positive and finite: a walk with scale 0 never moves."
            )
        if self.cov is not None:
            cov = np.asarray(self.cov, dtype=float)
            if cov.ndim != 2 or cov.shape[0] != cov.shape[1] or not np.allclose(cov, cov.T):
                raise ValueError(
                    f"RandomWalk(cov=) has shape {cov.shape} and must be a symmetric square matrix; pass standard "
                    "deviations as scale=."
                )
            if not np.isfinite(cov).all() or np.linalg.eigvalsh(cov).min() <= 0:
                raise ValueError(
                    "RandomWalk(cov=) is not positive definite, so some directions would never be proposed. "
                    "Add a small multiple of the identity."
                )
        check_target(self.target_accept)

    def for_model(self, target: Target) -> Move:
        """Return the walk for any model."""
        check_reachable(self.target_accept, target.best_rate)

        def make_state(theta: np.ndarray, discrete: np.ndarray, n_rows: int) -> WalkState:
            d = theta.size
            given = np.asarray(self.scale if self.cov is None else self.cov).shape
            if given not in ((), (d,) if self.cov is None else (d, d)):
                raise ValueError(
                    f"RandomWalk was given a {'scale' if self.cov is None else 'cov'} of shape {given}, but the step "
                    f"moves {d} numbers in all (in the unconstrained space, in the order of its variables)."
                )
            if self.cov is None:
                factor = _initial_scale(self.scale, d, n_rows)
            else:
                factor = np.linalg.cholesky(np.asarray(self.cov, dtype=float))
            return walk_state(factor, discrete, target_rate(self.target_accept, d, target.best_rate))

        return Move(propose_independent if self.cov is None else propose_correlated, adapt_walk, make_state)


@takes_fields
@dataclass(frozen=True)
class AdaptiveMetropolis(Proposal):
    """Gaussian random walk whose covariance follows that of the chain while tuning.

    Haario, Saksman and Tamminen (2001), with the scale adapted to a target acceptance rate (Andrieu and Thoms
    2008, Algorithm 4).  Nothing adapts after tuning.

    Parameters
    ----------
    target_accept : float, optional
        0.5 up to two dimensions and 0.25 above by default, as in Bardenet, Doucet and Holmes (2014); half of that for
        a test of Barker's, which accepts at most half.

    Examples
    --------
    >>> import pymc_austerity as pma
    >>> pma.AdaptiveMetropolis(target_accept=0.3)
    AdaptiveMetropolis(target_accept=0.3)
    """

    target_accept: float | None = None

    def __post_init__(self) -> None:
        check_target(self.target_accept)

    def for_model(self, target: Target) -> Move:
        """Return the walk for any model."""
        check_reachable(self.target_accept, target.best_rate)

        def make_state(theta: np.ndarray, discrete: np.ndarray, n_rows: int) -> WalkState:
            d = theta.size
            scale = _initial_scale(None, d, n_rows)
            scale[discrete] = 1.0
            rate = target_rate(self.target_accept, d, target.best_rate)
            return walk_state(np.diag(scale), discrete, rate, (theta.copy(), np.zeros((d, d)), scale))

        return Move(propose_correlated, adapt_covariance, make_state, scale_and_factor)


def walk_state(
    factor: np.ndarray, discrete: np.ndarray, target: float, learns: tuple[np.ndarray, ...] | None = None
) -> WalkState:
    """Return a state that has not adapted yet; `learns`: mean, covariance and scale where the covariance is learnt."""
    mean, cov, initial_scale = learns or (np.empty(0), np.empty((0, 0)), np.empty(0))
    return WalkState(np.zeros(1), factor, discrete, np.array([target]), np.zeros(1, np.int64), mean, cov, initial_scale)
