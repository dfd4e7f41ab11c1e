"""Everything that is learnt from all rows before sampling: centre, expansion, surrogate, row weights."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.core.errors import NumbaError
from pytensor.gradient import NullTypeGradError
from scipy import linalg

from pymc_austerity.compile_cache import cached
from pymc_austerity.likelihood import Density, RowLikelihood, Surroundings, flatten_onto, numba_options
from pymc_austerity.progress import setup_progress
from pymc_austerity.proxy.expansion import Expansion, Taylor, check_order
from pymc_austerity.proxy.full_pass import FullPass, read_coordinates
from pymc_austerity.proxy.linear_maps import CompressedRows, dense
from pymc_austerity.proxy.mode import ModeNotFoundError, PriorCurvature, find_mode
from pymc_austerity.proxy.remainder_sizes import remainder_sizes
from pymc_austerity.proxy.steering import Steering, average, can_average, steer
from pymc_austerity.proxy.surrogate import (
    INNER_TARGET,
    QUARTER_PERIOD,
    Surrogate,
    SurrogateState,
    adapt_step_size,
    path_search,
)
from pymc_austerity.rows import AliasTable, Rows, row_table

_log = logging.getLogger("pymc_austerity")

#: Transitions on the surrogate in each window; the covariance is learnt anew from every one.
_PILOT = (200, 300, 600)
#: Draws of the pilot that are kept, for row weights and starting points.
_KEPT = 300
#: The centre moves to the mean of the surrogate when it is further from it than this many standard deviations.
_OFF_CENTRE, _MAX_MOVES = 0.5, 3
_WEIGHT_PAIRS = 4
#: A diagonal mass matrix takes more leapfrog steps, by the root of the condition number that it leaves, and saves
#: products of D² operations.  It is the cheaper one where that root is below this share of D.
_STRETCH = 0.1
#: A dense Hessian of more parameters than this neither fits a cache nor can be factorised while tuning.
_MAX_EXPANDED = 2_000


class Prepared(NamedTuple):
    """What a step keeps of its preparation: arrays only, so that it travels to other processes.

    Attributes
    ----------
    expansion : Expansion
    order : int
    move : SurrogateState
        Hamiltonian moves, tuned on the surrogate.
    normal : SurrogateState
        The normal approximation of the surrogate: centre and factor.
    normality : float
        Share of independent draws from that approximation that the surrogate would accept; 1 where it is normal.
    draws : numpy.ndarray, shape (k, D)
        Draws of θ from the surrogate.
    table : AliasTable or None
        Row weights, where they were asked for.
    passes : float
        Passes over all rows, in rows evaluated divided by N.
    """

    expansion: Expansion
    order: int
    move: SurrogateState
    normal: SurrogateState
    normality: float
    draws: np.ndarray
    table: AliasTable | None
    passes: float


class NoProxyError(RuntimeError):
    """A proxy cannot be built for this model."""


class DiscreteError(NoProxyError):
    """A proxy makes no sense for this model, which is no fault of it."""


def prepare(
    likelihood: RowLikelihood,
    compile_remainders: Callable[[], Density],
    surrogate: Surrogate,
    taylor: Taylor,
    rows: Rows,
    fixed: Sequence[np.ndarray],
    start: np.ndarray,
    temperature: float,
    floor: float | None,
    compile_kwargs: dict[str, Any] | None,
    progressbar: bool,
) -> Prepared:
    """Find the centre, expand all rows there, tune a move on the surrogate, and weigh the rows.

    Parameters
    ----------
    compile_remainders : callable
        Returns the density with remainders in place of the rows; called once there is a mode.
    start : numpy.ndarray
        ψ = (θ, others) to start from.
    floor : float or None
        Share of uniform draws among weighted rows; None for no weights.

    Raises
    ------
    NoProxyError
        With the reason: a discrete variable, no mode, derivatives that fail their check.
    """
    options = numba_options(compile_kwargs)
    discrete = [b.name for b in likelihood.psi_blocks if b.name in likelihood.read and np.dtype(b.dtype).kind != "f"]
    discrete += [b.name for b in likelihood.blocks if np.dtype(b.dtype).kind != "f" and b.name not in discrete]
    if discrete:
        raise DiscreteError(f"{discrete} is discrete and has no derivative")
    coordinates = read_coordinates(likelihood)
    if coordinates.size > _MAX_EXPANDED:
        raise NoProxyError(
            f"the rows read {coordinates.size} parameters and the dense Hessian serves up to {_MAX_EXPANDED}; give "
            "this step fewer vars and the rest to another"
        )
    try:
        full_pass = FullPass(likelihood, coordinates, options)
        prior = PriorCurvature(likelihood, options)
        if taylor.centre is None:
            psi, sums = find_mode(full_pass, prior, start, fixed, rows, temperature, progressbar)
        else:
            psi = flatten_onto(start, taylor.centre, likelihood.psi_blocks)
            sums = full_pass(psi, fixed, rows)
    except ModeNotFoundError as error:
        raise NoProxyError(str(error)) from error
    except (NotImplementedError, NullTypeGradError, NumbaError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise NoProxyError(f"the log-likelihood has no derivative that compiles ({reason})") from error
    run_pilot = build_pilot(surrogate)
    d = likelihood.theta_size
    steering = steer(coordinates, psi, sums)
    averages = taylor.centre is None and can_average(rows)  # a given centre promises a single pass
    averaged = not averages
    for moves_left in reversed(range(_MAX_MOVES + 1)):
        normal, move, draws = _tune(prior, steering, psi, d, fixed, temperature, run_pilot)
        moves = taylor.centre is None and moves_left > 0 and _off_centre(draws, psi, coordinates)
        if averaged and not moves:
            break
        if moves:
            psi = np.append(draws.mean(axis=0), psi[d:])
            sums = full_pass(psi, fixed, rows)
        steering = steer(coordinates, psi, average(full_pass, sums, draws, psi, fixed, rows) if averages else sums)
        averaged = True
    hessian = sums.hessian if taylor.order == 2 else np.zeros_like(sums.hessian)
    expansion = Expansion(psi, coordinates, sums.gradient, hessian)
    both_sides = compile_remainders().both_sides
    batch = tuple(a[: min(len(rows), 500)] for a in rows.arrays)
    # A step within the posterior: along sd of correlated parameters it would end far outside.
    spread = np.concatenate([draws[-1] - psi[:d], np.zeros(psi.size - d)])
    wrong = check_order(both_sides, expansion, taylor.order, spread, fixed, batch, d)
    if wrong is not None:
        raise NoProxyError(wrong)
    table = None
    if floor is not None:
        far = len(draws) // 2
        pairs = [(draws[-1 - k], draws[-1 - k - far]) for k in range(_WEIGHT_PAIRS)]
        with setup_progress(progressbar) as progress:
            task = progress.add_task("Row weights", total=len(rows), what=f"{len(rows):,} rows")
            advance = partial(progress.advance, task)
            table = row_table(remainder_sizes(both_sides, pairs, psi[d:], psi, fixed, rows, advance), floor)
    passes = full_pass.rows_read / len(rows) + (floor is not None)
    _log.info(f"Proxy of order {taylor.order} for {len(rows):,} rows after {passes:.1f} passes over the data.")
    around = Surroundings(psi[d:].copy(), tuple(fixed), (), temperature, ())
    normality = _normality(surrogate, normal, draws, around)
    return Prepared(expansion, taylor.order, move, normal, normality, draws, table, passes)


def _off_centre(draws: np.ndarray, psi: np.ndarray, coordinates: np.ndarray) -> bool:
    """Whether the surrogate represents the posterior about a point that is not its centre."""
    d = draws.shape[1]
    off = np.abs(draws.mean(axis=0) - psi[:d]) / draws.std(axis=0)
    return bool(off[coordinates[coordinates < d]].max(initial=0.0) > _OFF_CENTRE)


def _tune(
    prior: PriorCurvature,
    steering: Steering,
    psi: np.ndarray,
    d: int,
    fixed: Sequence[np.ndarray],
    temperature: float,
    run_pilot: Callable[..., Any],
) -> tuple[SurrogateState, SurrogateState, np.ndarray]:
    """Return the normal approximation of the surrogate, Hamiltonian moves tuned on it, and draws from it."""
    _, slope, curvature = prior(psi, fixed, np.arange(d))
    precision = -curvature
    own = steering.coordinates < d
    places = steering.coordinates[own]
    slope[places] += steering.gradient[own] / temperature
    precision[np.ix_(places, places)] -= dense(steering.hessian)[np.ix_(own, own)] / temperature
    values, vectors = linalg.eigh(precision)
    scales = 1 / np.sqrt(np.maximum(np.abs(values), 1e-6 * np.abs(values).max()))
    identity = np.eye(d)
    start = SurrogateState(
        log_scale=np.log([0.5]),
        factor=identity,
        whiten=identity,
        centre=psi[:d] + vectors @ (scales**2 * (vectors.T @ slope)),
        target=np.array([INNER_TARGET]),
        t=np.zeros(1, np.int64),
        search=path_search([(QUARTER_PERIOD, 1)], d),
        steering=steering,
    ).with_factor(vectors * np.minimum(scales, 3.0), 0.5)
    state = start.fresh()
    sd = np.sqrt((start.factor**2).sum(axis=1))
    if isinstance(steering.hessian, CompressedRows):
        roots = linalg.svdvals(start.whiten * sd)  # of the precision, in units of marginal standard deviations
        if roots[0] < _STRETCH * d * roots[-1]:
            quarter = path_search([(QUARTER_PERIOD / roots[-1], 1)], d)
            state = state.with_factor(sd, 0.1)._replace(search=quarter)
    rng = np.random.default_rng(2015)  # the same surrogate whatever the seed of the chains
    around = Surroundings(psi[d:].copy(), tuple(fixed), (), temperature, ())
    theta = psi[:d].copy()
    for n in _PILOT:
        state.t[0] = 0
        draws = run_pilot(rng, theta, state, around, n)
        theta = draws[-1].copy()
        if state.factor.ndim == 1:
            state = state.with_factor(draws[n // 4 :].std(axis=0), np.exp(state.log_scale[0]))
        elif n >= 10 * d:  # with fewer draws the curvature at the centre serves better than their covariance
            keep = n / (n + 5.0)
            noise = 1e-3 * (1 - keep) * np.diag(draws.var(axis=0) + 1e-12)
            cov = keep * np.cov(draws[n // 4 :].T).reshape(d, d) + noise
            state = state.with_factor(linalg.cholesky(cov, lower=True), 0.5)
    state.t[0] = 0
    draws = run_pilot(rng, theta, state, around, _KEPT)
    return start, state, draws


def _normality(surrogate: Surrogate, normal: SurrogateState, draws: np.ndarray, around: Surroundings) -> float:
    """Return the mean acceptance, on the surrogate, of independent draws from its normal approximation."""
    z = np.random.default_rng(1959).standard_normal(draws.shape)
    proposed = normal.centre + z @ normal.factor.T
    x = (draws - normal.centre) @ normal.whiten.T

    def log_density(points: np.ndarray) -> np.ndarray:
        return np.array([surrogate.evaluate(theta, normal.steering, around)[0] for theta in points])

    excess_new = log_density(proposed) + 0.5 * (z**2).sum(axis=1)
    excess = log_density(draws) + 0.5 * (x**2).sum(axis=1)
    log_ratio = np.where(np.isfinite(excess_new), excess_new - excess, -np.inf)
    return float(np.exp(np.minimum(log_ratio, 0)).mean())


def build_pilot(surrogate: Surrogate) -> Callable[..., Any]:
    """Compile ``run(rng, theta, state, surroundings, n)``: a chain on the surrogate that adapts its step size."""
    trajectory = surrogate.trajectory

    @njit
    def run(rng, theta, state, surroundings, n):  # type: ignore[no-untyped-def]
        draws = np.empty((n, theta.size))
        for i in range(n):
            theta, _, _, acceptance = trajectory(rng, theta, state, surroundings)
            adapt_step_size(state, acceptance)
            draws[i] = theta
        return draws

    return cached(run)
