"""Moves on the surrogate, tuned before sampling at no cost in rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, eigsh

from pymc_austerity.cholesky import is_positive_definite
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import Surroundings
from pymc_austerity.proxy.linear_maps import WIDE, CompressedRows, dense
from pymc_austerity.proxy.linearisation import Linearisation
from pymc_austerity.proxy.log_posterior import LogPosterior, NoProxyError
from pymc_austerity.proxy.scale_moves import NO_SCALES, find_scales
from pymc_austerity.proxy.scaling import Scaling
from pymc_austerity.proxy.surrogate import (
    INNER_TARGET,
    QUARTER_PERIOD,
    Surrogate,
    SurrogateState,
    Trajectory,
    adapt_step_size,
    path_search,
)

#: Transitions on the surrogate in each window; the covariance is learnt anew from every one.
_PILOT = (200, 300, 600)
#: With very many parameters the covariance stays that of the curvature at the centre, and a trajectory is dear.
_PILOT_WIDE = (60, 60)
#: Draws of the pilot that are kept, for row weights and starting points.
_KEPT, _KEPT_WIDE = 300, 100
#: The centre moves to the mean of the surrogate when it is further from it than this many standard deviations.
_OFF_CENTRE = 0.5
#: Draws further from the centre than this many of the standard deviations that the curvature there gives have run away.
_AWAY = 100.0
#: Draws that know a standard deviation better than the curvature at the centre does.
_ENOUGH = 200
#: A diagonal mass matrix takes more leapfrog steps, by the root of the condition number that it leaves, and saves
#: products of D² operations.  It is the cheaper one where that root is below this share of D; where the Hessian is
#: dense too, below the three such products that a step then takes.
_STRETCH, _STRETCH_DENSE = 0.1, 3.0
#: Directions wider than this are taken for so wide.
_WIDEST = 3.0


#: ``run(rng, theta, state, surroundings, n)``: `n` draws of a chain on the surrogate that adapts its step size.
RunPilot = Callable[..., np.ndarray]


class Tuned(NamedTuple):
    """Moves on a surrogate, and draws from it."""

    normal: SurrogateState  # the normal approximation of the surrogate: centre and factor
    move: SurrogateState  # Hamiltonian moves
    draws: np.ndarray  # shape (k, D)


def is_off_centre(draws: np.ndarray, psi: np.ndarray, coordinates: np.ndarray) -> bool:
    """Whether the surrogate represents the posterior about a point that is not its centre."""
    d = draws.shape[1]
    off = np.abs(draws.mean(axis=0) - psi[:d]) / draws.std(axis=0)
    return bool(off[coordinates[coordinates < d]].max(initial=0.0) > _OFF_CENTRE)


def stays_near(tuned: Tuned) -> bool:
    """Whether the draws stay near the centre: a surrogate that grows without bound lets them run away."""
    x = (tuned.draws - tuned.normal.centre) @ tuned.normal.whiten.T
    return bool(np.isfinite(x).all() and np.abs(x).max() < _AWAY)


def tune_moves(
    posterior: LogPosterior,
    linearisation: Linearisation,
    psi: np.ndarray,
    around: Surroundings,
    run_pilot: RunPilot,
    scaling: Scaling,
) -> Tuned:
    """Return the normal approximation of the surrogate, Hamiltonian moves tuned on it, and draws from it.

    `around` are the surroundings of the surrogate; `scaling` is that of θ, the coordinates in which the scales of
    different directions can be compared.
    """
    d, temperature = posterior.full_pass.theta_size, posterior.temperature
    _, slope, curvature = posterior.prior(psi, posterior.fixed, np.arange(d))
    precision = -curvature
    own = linearisation.coordinates < d
    places = linearisation.coordinates[own]
    slope[places] += linearisation.gradient[own] / temperature
    hessian, powers = dense(linearisation.hessian), linearisation.centre[psi.size :]
    if powers.size:  # of bent coordinates; the curvature by θ is wanted
        hessian = hessian + np.diag(powers[linearisation.coordinates] * linearisation.gradient)
    precision[np.ix_(places, places)] -= hessian[np.ix_(own, own)] / temperature
    if not np.isfinite(precision).all() or not np.isfinite(slope).all():
        raise NoProxyError("the log posterior has no finite slope and curvature at the centre of the expansion")
    root, shift = _normal_of(scaling.of_hessian(precision), slope, scaling)
    of_rows, identity = -np.diag(hessian)[own] / temperature, np.eye(d)
    start = SurrogateState(
        log_scale=np.log([0.5]),
        factor=identity,
        whiten=identity,
        centre=psi[:d] + shift,
        target=np.array([INNER_TARGET]),
        t=np.zeros(1, np.int64),
        search=path_search([(QUARTER_PERIOD, 1)], d),
        linearisation=linearisation,
        # Beside variables of other steps none are looked for.
        scales=NO_SCALES if psi.size > d else find_scales(posterior.prior, psi, posterior.fixed, places, of_rows),
    ).with_factor(root, 0.5, scaling)
    state = start.fresh()
    sd = np.sqrt((start.factor**2).sum(axis=1))
    if d > WIDE or isinstance(linearisation.hessian, CompressedRows):
        largest, smallest = _roots_of_precision(start, sd)
        saves = _STRETCH * d if isinstance(linearisation.hessian, CompressedRows) else _STRETCH_DENSE
        if largest < saves * smallest:
            quarter = path_search([(QUARTER_PERIOD / smallest, 1)], d)
            state = state.with_factor(sd, 0.1)._replace(search=quarter)
    rng = np.random.default_rng(2015)  # the same surrogate whatever the seed of the chains
    theta = psi[:d].copy()
    for n in _PILOT if d <= WIDE else _PILOT_WIDE:
        state.t[0] = 0
        draws = uninterrupted(run_pilot, rng, theta, state, around, n)
        theta = draws[-1].copy()
        if state.factor.ndim == 1 and n >= _ENOUGH:
            state = state.with_factor(draws[n // 4 :].std(axis=0), np.exp(state.log_scale[0]))
        elif state.factor.ndim == 2 and n >= 10 * d:  # with fewer draws the curvature serves better than they do
            keep, x = n / (n + 5.0), scaling.inward(draws.T)
            noise = 1e-3 * (1 - keep) * np.diag(x.var(axis=1) + 1e-12)
            cov = keep * np.cov(x[:, n // 4 :]).reshape(d, d) + noise
            if is_positive_definite(cov):  # of draws that did not move, or ran away, nothing is learnt
                state = state.with_factor(linalg.cholesky(cov, lower=True), 0.5, scaling)
    state.t[0] = 0
    draws = uninterrupted(run_pilot, rng, theta, state, around, _KEPT if d <= WIDE else _KEPT_WIDE)
    return Tuned(start, state, draws)


def _normal_of(precision: np.ndarray, slope: np.ndarray, scaling: Scaling) -> tuple[np.ndarray, np.ndarray]:
    """Return a root of the covariance in the coordinates of `scaling`, and the step to the centre in those of θ."""
    size = len(precision)
    if size > WIDE and scaling.matrix is None and is_positive_definite(precision - np.eye(size) / _WIDEST**2):
        lower = linalg.cholesky(precision, lower=True)
        root = linalg.solve_triangular(lower, np.eye(size), lower=True).T
        return root, linalg.cho_solve((lower, True), slope)
    values, vectors = linalg.eigh(precision)
    directions = scaling.outward(vectors)
    scales = 1 / np.sqrt(np.maximum(np.abs(values), 1e-6 * np.abs(values).max()))
    return vectors * np.minimum(scales, _WIDEST), directions @ (scales**2 * (directions.T @ slope))


def _roots_of_precision(normal: SurrogateState, sd: np.ndarray) -> tuple[float, float]:
    """Return the largest and smallest root of an eigenvalue of the precision, in units of standard deviations."""
    if sd.size <= WIDE:
        roots = linalg.svdvals(normal.whiten * sd)
        return roots[0], roots[-1]
    return _norm(normal.whiten * sd), 1 / _norm(normal.factor / sd[:, None])


def _norm(matrix: np.ndarray) -> float:
    """Return the largest singular value."""
    squared = LinearOperator(matrix.shape, lambda v: matrix.T @ (matrix @ v), dtype=float)
    return float(np.sqrt(eigsh(squared, 1, which="LA", v0=np.ones(len(matrix)), tol=1e-3)[0][0]))


def normality_of(surrogate: Surrogate, normal: SurrogateState, draws: np.ndarray, around: Surroundings) -> float:
    """Return the mean acceptance, on the surrogate, of independent draws from its normal approximation."""
    z = np.random.default_rng(1959).standard_normal(draws.shape)
    proposed = normal.centre + z @ normal.factor.T
    x = (draws - normal.centre) @ normal.whiten.T

    def log_density(points: np.ndarray) -> np.ndarray:
        evaluate = surrogate.evaluate
        return np.array([uninterrupted(evaluate, theta, normal.linearisation, around)[0] for theta in points])

    excess_new = log_density(proposed) + 0.5 * (z**2).sum(axis=1)
    excess = log_density(draws) + 0.5 * (x**2).sum(axis=1)
    log_ratio = np.where(np.isfinite(excess_new), excess_new - excess, -np.inf)
    return float(np.exp(np.minimum(log_ratio, 0)).mean())


@built_once
def build_pilot(trajectory: Trajectory) -> RunPilot:
    """Compile a chain on the surrogate that adapts its step size."""

    @njit
    def run(rng, theta, state, surroundings, n):  # type: ignore[no-untyped-def]
        draws = np.empty((n, theta.size))
        for i in range(n):
            theta, _, _, acceptance = trajectory(rng, theta, state, surroundings)
            adapt_step_size(state, acceptance)
            for j in range(theta.size):  # as a whole row numba would compile an error message for seconds
                draws[i, j] = theta[j]
        return draws

    return run
