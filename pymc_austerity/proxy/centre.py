"""Where all rows are expanded: at the mode, in powers of parameters, or at the mean of the surrogate."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import NumbaError
from pytensor.gradient import NullTypeGradError
from pytensor.graph.utils import MethodNotDefined
from scipy import linalg

from pymc_austerity.compile.addresses import NOWHERE
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import Density, RowLikelihood, Surroundings
from pymc_austerity.likelihood.layout import flatten_onto, user_name
from pymc_austerity.proxy.bend import SampledSums, by_powers
from pymc_austerity.proxy.expansion import Taylor
from pymc_austerity.proxy.full_pass import FullPass, Sums
from pymc_austerity.proxy.linearisation import FALL, average, linearise
from pymc_austerity.proxy.log_posterior import (
    LogPosterior,
    NoProxyError,
    PriorCurvature,
    draw_samples,
    expanded_coordinates,
)
from pymc_austerity.proxy.mode import Mode, find_mode
from pymc_austerity.proxy.row_sums import RowSums
from pymc_austerity.proxy.scaling import find_scaling
from pymc_austerity.proxy.surrogate import Surrogate
from pymc_austerity.proxy.tuning import Tuned, build_pilot, is_off_centre, stays_near, tune_moves
from pymc_austerity.rows import Table
from pymc_austerity.tried_setup import once
from pymc_austerity.user_input import finite_values

_log = logging.getLogger("pymc_austerity")

#: Draws of a surrogate about a point in a tail that are compared with the posterior, and the share that has to be
#: effective: with less a random walk on uniform rows is as good.
_COMPARED, _LEAST_EFFECTIVE = 100, 0.05
#: Times that the centre moves to the mean of the surrogate at most.
_MAX_MOVES = 3
#: Standard deviations of the posterior, root mean square over its directions, that it may be away from where the rows
#: are expanded when some are added: it moves by 1 where they double, by 1.7 where they double twice, then by 2.6.
_MOST_MOVED = 2.0


class Kept(NamedTuple):
    """What stays as it is when rows are added, so that what is known of the others holds."""

    psi: np.ndarray  # where rows are expanded
    value: float  # Σ ℓ_i there
    pairs: list[tuple[np.ndarray, np.ndarray]]  # draws of θ between which rows are weighed
    factor: np.ndarray  # of the covariance of the surrogate, by which bounds are in units of the posterior's width
    other_mode: str = ""  # where another mode is that no chain gets to, a sentence; empty where none was found


class ToLearn(NamedTuple):
    """The model and the rows that a proxy is learnt from."""

    likelihood: RowLikelihood
    #: Returns the sums over rows and the log prior, with their derivatives, compiled.
    derivatives: Callable[[], tuple[RowSums, PriorCurvature]]
    #: Returns the density with remainders in place of the rows, compiled; called once there is a mode.
    remainders: Callable[[bool, int], Density]  # whether coordinates are bent, and the order of the expansion
    surrogate: Surrogate
    rows: Table
    fixed: tuple[np.ndarray, ...]  # data that are not indexed by row
    start: np.ndarray  # ψ = (θ, others) to start from, shape (D + O,)
    temperature: float
    compile_kwargs: dict[str, Any] | None
    progressbar: bool
    may_bend: bool  # whether rows may be expanded in powers of parameters
    moves_alone: bool  # only for the moves: bounds are on what an expansion in plain coordinates leaves
    kept: Kept | None = None  # what is to stay as it is, where rows are added to others

    def around(self, psi: np.ndarray) -> Surroundings:
        """Return the surroundings of the surrogate, with the variables of other steps as they are in ψ."""
        others, fixed_at = psi[self.likelihood.theta_size :].copy(), self.likelihood.fixed_at(self.fixed)
        return Surroundings(others, fixed_at, NOWHERE, self.temperature, (), self.surrogate.links)


class Centre(NamedTuple):
    """Where rows are expanded, what all of them add up to there, moves on the surrogate, and what was expanded in."""

    psi: np.ndarray
    powers: np.ndarray  # λ of every entry of ψ; empty where none is bent
    sums: Sums  # with the Hessian by bent coordinates
    tuned: Tuned
    coordinates: np.ndarray
    rows_read: int
    other_mode: str = ""


def find_centre(given: ToLearn, taylor: Taylor) -> Centre:
    """Find the mode, and expand there in powers of parameters, or move to the mean of the surrogate where it is far."""
    of = given.likelihood, given.rows, given.temperature, taylor.centre
    posterior, mode = once("mode", of, lambda: _find_mode(given, taylor))
    around = given.around(mode.psi)
    bent = None
    if given.may_bend and (taylor.order == 2 or given.moves_alone) and taylor.centre is None:
        bent = _bent_centre(posterior, given.surrogate, mode, around)
        if bent is not None and not given.moves_alone:
            return bent._replace(other_mode=mode.other)
    stays = taylor.centre is not None or bool(mode.tail)
    centre = once("centre", of, lambda: _settle(posterior, given.surrogate, mode, around, stays=stays))
    if mode.tail and _effective_share(posterior, given.surrogate, centre, around) < _LEAST_EFFECTIVE:
        raise NoProxyError(
            f"the posterior of '{mode.tail}' is nearly all tail, as of a log rate that neither rows nor prior inform: "
            "what is known at one place does not describe it. Give it a prior that says where it is, or move it by a "
            "step of its own, such as pm.Slice, and the others by this one with vars="
        )
    if mode.tail:
        _log.info(f"Rows are expanded in the tail of '{mode.tail}', as most of its posterior is there.")
    return centre._replace(other_mode=mode.other, tuned=centre.tuned if bent is None else bent.tuned)


def _effective_share(posterior: LogPosterior, surrogate: Surrogate, centre: Centre, around: Surroundings) -> float:
    """Return the share of draws of a surrogate that are effective for the posterior, as importance sampling counts."""
    rows, d = posterior.samples.search, posterior.full_pass.theta_size
    draws = centre.tuned.draws[:: -(-len(centre.tuned.draws) // _COMPARED)]
    log_weights = []
    for theta in draws:
        psi = np.append(theta, centre.psi[d:])
        of_rows = posterior.full_pass(psi, posterior.fixed, rows, hessian=False).value / posterior.temperature
        value = posterior.prior.value(psi, posterior.fixed) + of_rows * len(posterior.rows) / len(rows)
        log_weights.append(value - uninterrupted(surrogate.evaluate, theta, centre.tuned.move.linearisation, around)[0])
    finite = np.where(np.isfinite(log_weights), log_weights, -np.inf)
    weights = np.exp(finite - finite.max())
    return float(weights.sum() ** 2 / (weights**2).sum() / len(draws))


def stay_at(kept: Kept, given: ToLearn) -> Centre:
    """Expand all rows where the first are expanded; refuse where the posterior has moved away from there."""
    posterior = _log_posterior(given)
    found = _settle(posterior, given.surrogate, _at(kept.psi, posterior), given.around(kept.psi), stays=True)
    own = found.coordinates[found.coordinates < posterior.full_pass.theta_size]
    moved, factor = found.tuned.draws.mean(axis=0)[own] - kept.psi[own], found.tuned.normal.factor[own]
    away = np.sqrt(moved @ linalg.lstsq(factor @ factor.T, moved)[0] / max(1, own.size))
    if not away < _MOST_MOVED:
        raise NoProxyError(
            f"the posterior has moved by {away:.1f} of its standard deviations from where the first rows were expanded"
        )
    return found._replace(rows_read=found.rows_read - given.rows.n_known)


def _log_posterior(given: ToLearn) -> LogPosterior:
    coordinates = expanded_coordinates(given.likelihood)
    samples = draw_samples(given.rows, coordinates.size)
    row_sums, prior = given.derivatives()
    full_pass = FullPass(given.likelihood, coordinates, row_sums)
    return LogPosterior(full_pass, prior, given.fixed, given.rows, samples, given.temperature)


def _find_mode(given: ToLearn, taylor: Taylor) -> tuple[LogPosterior, Mode]:
    try:
        posterior = _log_posterior(given)
        if taylor.centre is None:
            return posterior, find_mode(posterior, given.start, given.progressbar, _entry_names(given.likelihood))
        shapes = {b.name: b.shape for of in given.likelihood.psi_blocks for b in of.apart()}
        values = finite_values("Taylor(centre=)", taylor.centre, shapes)
        if missing := [name for name in shapes if name not in values]:
            raise ValueError(
                f"Taylor(centre=) has no value for {', '.join(missing)}, and rows are expanded in it too. Give all "
                "unconstrained variables, as in model.initial_point()."
            )
        return posterior, _at(flatten_onto(given.start, values, given.likelihood.psi_blocks), posterior)
    except (NotImplementedError, NullTypeGradError, MethodNotDefined, NumbaError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise NoProxyError(f"the log-likelihood has no derivative that compiles ({reason})") from error


def _bent_centre(posterior: LogPosterior, surrogate: Surrogate, mode: Mode, around: Surroundings) -> Centre | None:
    """Return the expansion at the mode in powers of parameters; None where it is no better in these."""
    (psi, sums, scaling, *_), c, temperature = mode, posterior.coordinates, posterior.temperature
    of_sample = SampledSums(posterior, psi)
    powers = of_sample.find_powers(posterior.total(psi, sums, posterior.rows).hessian)
    if not powers.any():
        return None
    # At the mode the slopes of rows and prior cancel, and so does what bending adds to their curvatures.
    added = np.diag(powers[c] * sums.gradient) / temperature
    bent, centre = by_powers(sums, powers[c]), np.append(psi, powers)
    held = posterior.prior(psi, posterior.fixed, c).hessian + added
    linearisation = linearise(c, centre, bent, lambda: held, temperature, scaling)
    of_theta = scaling.of_theta(c, posterior.full_pass.theta_size)
    tuned = tune_moves(posterior, linearisation, psi, around, build_pilot(surrogate.trajectory), of_theta)
    if not (stays_near(tuned) and of_sample.suits(powers, tuned.draws)):
        return None
    names = _entry_names(posterior.full_pass.likelihood)
    listed = ", ".join(f"{names[k]} (power {powers[k]:.2g})" for k in np.flatnonzero(powers))
    _log.info(f"Rows are expanded in powers of {listed}, in which their sum is more nearly quadratic.")
    return Centre(psi, powers, bent, tuned, c, posterior.full_pass.rows_read)


def _entry_names(likelihood: RowLikelihood) -> list[str]:
    """Name the entries of ψ by the variables of the model."""
    names = []
    for b in (b for of in likelihood.psi_blocks for b in of.apart()):
        name = user_name(b.name)
        names += [f"{name}[{', '.join(map(str, place))}]" if b.shape else name for place in np.ndindex(b.shape)]
    return names


def _at(psi: np.ndarray, posterior: LogPosterior) -> Mode:
    """Return a centre that is given, in place of a mode that is found."""
    sums = posterior.full_pass(psi, posterior.fixed, posterior.rows)
    total = posterior.total(psi, sums, posterior.rows)
    if not all(np.isfinite(part).all() for part in total):
        raise NoProxyError("the log posterior, or a derivative of it, is not finite at the centre that was given")
    return Mode(psi, sums, find_scaling(posterior, psi, total))


def _settle(posterior: LogPosterior, surrogate: Surrogate, mode: Mode, around: Surroundings, *, stays: bool) -> Centre:
    """Tune moves on the surrogate, and move its centre to its mean where that is far off.

    A centre that the user gave `stays`, and one pass is enough for it.  `around` are the surroundings of the surrogate.
    """
    full_pass, prior, fixed, rows, samples, temperature = posterior
    psi, sums, scaling, *_ = mode
    run_pilot, d, c = build_pilot(surrogate.trajectory), full_pass.theta_size, full_pass.coordinates
    of_theta = scaling.of_theta(c, d)

    def tune(psi: np.ndarray, sums: Sums) -> Tuned:
        linearisation = linearise(c, psi, sums, lambda: prior(psi, fixed, c).hessian, temperature, scaling)
        tuned = tune_moves(posterior, linearisation, psi, around, run_pilot, of_theta)
        if stays_near(tuned):
            return tuned
        # A prior that curves down at ψ̂ need not do so further out.
        return tune_moves(posterior, linearise(c, psi, sums, scaling=scaling), psi, around, run_pilot, of_theta)

    def in_posterior(at: np.ndarray, found: Sums) -> bool:
        """Return whether rows or posterior are about as likely there as at the first centre."""
        if not all(np.isfinite(part).all() for part in found):
            return False
        falls = first.value - found.value, prior.value(first_psi, fixed) - prior.value(at, fixed)
        of_rows = falls[0] / temperature
        return bool(min(of_rows, of_rows + falls[1]) < FALL + c.size)

    def settled(psi: np.ndarray, sums: Sums, tuned: Tuned) -> Centre:
        return Centre(psi, np.empty(0), sums, tuned, c, full_pass.rows_read)

    averaged, known, first_psi, first, last = stays, sums, psi, sums, None
    for moves_left in reversed(range(_MAX_MOVES + 1)):
        tuned = tune(psi, known)
        moves = not stays and moves_left > 0 and is_off_centre(tuned.draws, psi, c)
        if averaged and not moves:
            break
        if moves:
            mean = np.append(tuned.draws.mean(axis=0), psi[d:])
            at_mean = full_pass(mean, fixed, rows)
            if not in_posterior(mean, at_mean):
                if last is None:
                    raise NoProxyError(
                        "draws from the quadratic that stands for the log-likelihood lie far from the posterior, as "
                        "where rows read the product of a scale and standardised effects (declare the effects as "
                        "pm.Normal(0, scale) instead, in bambi with noncentered=False)"
                    )
                # The centre before, from which the draws led to a point of the posterior.
                return last._replace(rows_read=full_pass.rows_read)
            last = settled(psi, sums, tuned)
            psi, sums = mean, at_mean
        known, averaged = average(full_pass, sums, tuned.draws, psi, fixed, rows, samples.average), True
    return settled(psi, sums, tuned)
