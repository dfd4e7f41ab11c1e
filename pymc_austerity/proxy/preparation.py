"""Everything that is learnt from all rows before sampling: centre, expansion, surrogate, row weights."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba import NumbaError
from pymc.util import get_untransformed_name, is_transformed_name
from pytensor.gradient import NullTypeGradError
from pytensor.graph.utils import MethodNotDefined
from scipy import linalg

from pymc_austerity.bounds import Region
from pymc_austerity.cholesky import NoFactorError
from pymc_austerity.compile.addresses import NOWHERE
from pymc_austerity.likelihood import Density, RowLikelihood, Surroundings, numba_options
from pymc_austerity.likelihood.layout import flatten_onto
from pymc_austerity.likelihood.row_entries import reads_few_entries
from pymc_austerity.progress import setup_progress
from pymc_austerity.proxy.bend import SampledSums, by_powers
from pymc_austerity.proxy.expansion import CubicExpansion, Expansion, Taylor, check_order
from pymc_austerity.proxy.full_pass import FullPass, Sums, read_coordinates
from pymc_austerity.proxy.linear_maps import WIDE, compressed
from pymc_austerity.proxy.linearisation import FALL, average, linearise
from pymc_austerity.proxy.log_posterior import LogPosterior, PriorCurvature, draw_samples
from pymc_austerity.proxy.mode import Mode, ModeNotFoundError, find_mode
from pymc_austerity.proxy.remainder_sizes import SizesOfRows
from pymc_austerity.proxy.row_sums import RowSums
from pymc_austerity.proxy.scaling import find_scaling
from pymc_austerity.proxy.sufficient_statistics import ExpansionWithStatistics
from pymc_austerity.proxy.surrogate import Surrogate, SurrogateState
from pymc_austerity.proxy.tuning import Tuned, build_pilot, is_off_centre, normality_of, stays_near, tune_moves
from pymc_austerity.rows import Table
from pymc_austerity.rows.storage import DrawnRows
from pymc_austerity.tried_setup import once
from pymc_austerity.user_input import finite_values

_log = logging.getLogger("pymc_austerity")

#: Times that the centre moves to the mean of the surrogate at most.
_MAX_MOVES = 3
_WEIGHT_PAIRS = 4
#: Standard deviations of the posterior, root mean square over its directions, that it may be away from where the rows
#: are expanded when some are added: it moves by 1 where they double, by 1.7 where they double twice, then by 2.6.
_MOST_MOVED = 2.0
#: Matrices of that size that a step holds while it is set up.
_COPIES = 8
#: A Hessian of more parameters than this takes minutes to sum over whole rows and hours over very many.  By the entries
#: of rows that read few it takes seconds; what limits these is a draw, of some tens of milliseconds at the second.
_MAX_EXPANDED, _MAX_BY_ENTRIES = WIDE, 6_000


class Kept(NamedTuple):
    """What stays as it is when rows are added, so that what is known of the others holds."""

    psi: np.ndarray  # where rows are expanded
    value: float  # Σ ℓ_i there
    pairs: list[tuple[np.ndarray, np.ndarray]]  # draws of θ between which rows are weighed
    factor: np.ndarray  # of the covariance of the surrogate, by which bounds are in units of the posterior's width


class Prepared(NamedTuple):
    """What a step keeps of its preparation, in arrays that can be pickled."""

    expansion: Expansion | CubicExpansion | ExpansionWithStatistics
    order: int
    move: SurrogateState  # Hamiltonian moves, tuned on the surrogate
    normal: SurrogateState  # the normal approximation of the surrogate: centre and factor
    #: Share of independent draws from that approximation that the surrogate would accept; 1 where it is normal.
    normality: float
    draws: np.ndarray  # draws of θ from the surrogate, shape (k, D)
    table: DrawnRows | None  # rows with weights, where they were asked for
    passes: float  # passes over all rows, in rows evaluated divided by N
    bent: bool  # whether rows are expanded in powers of parameters
    kept: Kept

    def region(self, fixed: tuple[np.ndarray, ...], rows: Any) -> Region:
        """Return where the rows are expanded, and how wide the posterior is there."""
        centre, coordinates, *_ = self.expansion
        return Region(centre, coordinates, self.kept.factor, self.order, fixed, rows)

    def sums_known(self, fixed: tuple[np.ndarray, ...]) -> tuple[tuple[np.ndarray, ...], Sums] | None:
        """Return what the pass over all rows at the centre was about, and its result; None where it is not kept."""
        _, coordinates, gradient, hessian, *_ = self.expansion
        if self.bent or self.order < 2 or not isinstance(hessian, np.ndarray):
            return None
        about = self.kept.psi, coordinates, np.array(True), *fixed
        return about, Sums(self.kept.value, gradient, hessian)


class NoProxyError(RuntimeError):
    """A proxy cannot be built for this model."""


class DiscreteError(NoProxyError):
    """The model has discrete variables, for which there is no proxy."""


class ToLearn(NamedTuple):
    """The model and the rows that a proxy is learnt from."""

    likelihood: RowLikelihood
    #: Returns the sums over rows and the log prior, with their derivatives, compiled.
    derivatives: Callable[[], tuple[RowSums, PriorCurvature]]
    #: Returns the density with remainders in place of the rows, compiled; called once there is a mode.
    remainders: Callable[[bool], Density]  # whether coordinates are bent
    surrogate: Surrogate
    rows: Table
    fixed: tuple[np.ndarray, ...]  # data that are not indexed by row
    start: np.ndarray  # ψ = (θ, others) to start from, shape (D + O,)
    temperature: float
    compile_kwargs: dict[str, Any] | None
    progressbar: bool
    may_bend: bool  # whether rows may be expanded in powers of parameters
    kept: Kept | None = None  # what is to stay as it is, where rows are added to others


def prepare(given: ToLearn, taylor: Taylor, floor: float | None) -> Prepared:
    """Find the centre, expand all rows there, tune a move on the surrogate, and weigh the rows.

    `floor` is the share of uniform draws among weighted rows, None for no weights.  Raises NoProxyError with the
    reason: a discrete variable, no mode, derivatives that fail their check.
    """
    likelihood, rows, fixed, d = given.likelihood, given.rows, given.fixed, given.likelihood.theta_size
    found = _find_centre(given, taylor) if given.kept is None else _stay_at(given.kept, given)
    psi, powers, sums, tuned, coordinates, rows_read = found
    kept = given.kept or Kept(psi, sums.value, _pairs_of(tuned.draws), tuned.normal.factor)
    kept = kept._replace(value=sums.value)
    centre, bent = np.append(psi, powers), powers.size > 0
    hessian = sums.hessian if taylor.order > 1 else np.zeros_like(sums.hessian)
    # What a draw costs is a product with it, where parameters are very many.
    expansion = Expansion(centre, coordinates, sums.gradient, compressed(hessian) if len(hessian) > WIDE else hessian)
    both_sides = given.remainders(bent).both_sides
    # A step within the posterior: along sd of correlated parameters it would end far outside.
    spread = np.concatenate([tuned.draws[-1] - psi[:d], np.zeros(psi.size - d)])
    if wrong := check_order(both_sides, expansion, taylor.order, spread, fixed, rows.some(500), d):
        raise NoProxyError(wrong)
    table = None
    if floor is not None:
        options = numba_options(given.compile_kwargs)
        sizes_of = SizesOfRows(likelihood, taylor.order, options, kept.pairs, centre, fixed, both_sides)
        table = _weigh(sizes_of, rows, floor, given.progressbar)
        rows_read += len(rows) - rows.n_known
    passes = rows_read / len(rows) + rows.reading_passes
    _log.info(f"Proxy of order {taylor.order} for {len(rows):,} rows after {passes:.1f} passes over the data.")
    normality = normality_of(given.surrogate, tuned.normal, tuned.draws, _around(given, psi))
    return Prepared(
        expansion, taylor.order, tuned.move, tuned.normal, normality, tuned.draws, table, passes, bent, kept
    )


class Centre(NamedTuple):
    """Where rows are expanded, what all of them add up to there, moves on the surrogate, and what was expanded in."""

    psi: np.ndarray
    powers: np.ndarray  # λ of every entry of ψ; empty where none is bent
    sums: Sums  # with the Hessian by bent coordinates
    tuned: Tuned
    coordinates: np.ndarray
    rows_read: int


def _around(given: ToLearn, psi: np.ndarray) -> Surroundings:
    others, fixed_at = psi[given.likelihood.theta_size :].copy(), given.likelihood.fixed_at(given.fixed)
    return Surroundings(others, fixed_at, NOWHERE, given.temperature, (), given.surrogate.links)


def _find_centre(given: ToLearn, taylor: Taylor) -> Centre:
    """Find the mode, and expand there in powers of parameters, or move to the mean of the surrogate where it is far."""
    of = given.likelihood, given.rows, given.temperature, taylor.centre
    posterior, mode = once("mode", of, lambda: _find_mode(given, taylor))
    try:
        around = _around(given, mode.psi)
        if given.may_bend and taylor.order == 2 and taylor.centre is None:
            found = _bent_centre(posterior, given.surrogate, mode, around)
            if found is not None:
                return found
        stays = taylor.centre is not None
        return once("centre", of, lambda: _settle(posterior, given.surrogate, mode, around, stays=stays))
    except NoFactorError as error:
        raise NoProxyError(str(error)) from None


def _stay_at(kept: Kept, given: ToLearn) -> Centre:
    """Expand all rows where the first are expanded; refuse where the posterior has moved away from there."""
    posterior = _log_posterior(given)
    try:
        mode = _at(kept.psi, posterior)
        found = _settle(posterior, given.surrogate, mode, _around(given, kept.psi), stays=True)
    except NoFactorError as error:
        raise NoProxyError(str(error)) from None
    own = found.coordinates[found.coordinates < posterior.full_pass.theta_size]
    moved, factor = found.tuned.draws.mean(axis=0)[own] - kept.psi[own], found.tuned.normal.factor[own]
    away = np.sqrt(moved @ linalg.lstsq(factor @ factor.T, moved)[0] / max(1, own.size))
    if not away < _MOST_MOVED:
        raise NoProxyError(
            f"the posterior has moved by {away:.1f} of its standard deviations from where the first rows were expanded"
        )
    return found._replace(rows_read=found.rows_read - given.rows.n_known)


def _log_posterior(given: ToLearn) -> LogPosterior:
    coordinates = _expanded_coordinates(given.likelihood)
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
        return posterior, _at(flatten_onto(given.start, values, given.likelihood.psi_blocks), posterior)
    except ModeNotFoundError as error:
        raise NoProxyError(str(error)) from None
    except (NotImplementedError, NullTypeGradError, MethodNotDefined, NumbaError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise NoProxyError(f"the log-likelihood has no derivative that compiles ({reason})") from error


def _bent_centre(posterior: LogPosterior, surrogate: Surrogate, mode: Mode, around: Surroundings) -> Centre | None:
    """Return the expansion at the mode in powers of parameters; None where it is no better in these."""
    (psi, sums, scaling), c, temperature = mode, posterior.coordinates, posterior.temperature
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


def _expanded_coordinates(likelihood: RowLikelihood) -> np.ndarray:
    """Return the entries of ψ to expand in, or refuse discrete ones and too many."""
    discrete = [b.name for b in likelihood.psi_blocks if b.name in likelihood.read and np.dtype(b.dtype).kind != "f"]
    discrete += [b.name for b in likelihood.blocks if np.dtype(b.dtype).kind != "f" and b.name not in discrete]
    if discrete:
        raise DiscreteError(f"{discrete} is discrete and has no derivative")
    coordinates = read_coordinates(likelihood)
    if coordinates.size > _MAX_EXPANDED:
        _require_few_entries(likelihood, coordinates.size)
    return coordinates


def _require_few_entries(likelihood: RowLikelihood, n_parameters: int) -> None:
    """Refuse more parameters than a Hessian can be summed for."""
    few = reads_few_entries(likelihood)
    limit = _MAX_BY_ENTRIES if few else _MAX_EXPANDED
    if n_parameters > limit:
        rows = "rows that read few of them" if few else "rows that read them all"
        remedy = "" if few else f" Sparse tables (pytensor.sparse.dot) may have {_MAX_BY_ENTRIES:,} columns."
        raise NoProxyError(
            f"the rows read {n_parameters:,} parameters, and a Hessian of {rows} serves up to {limit:,}: give this "
            f"step fewer vars and the rest to another, or drop columns with few entries.{remedy}"
        )
    _log.warning(
        f"The rows read few of {n_parameters:,} parameters each. The Hessian of all rows takes "
        f"{8 * n_parameters**2 / 1e6:,.0f} MB, the step some {_COPIES} times as much, and every draw some products "
        "with it, which cost more than its rows. Set-up takes minutes."
    )


def _entry_names(likelihood: RowLikelihood) -> list[str]:
    """Name the entries of ψ by the variables of the model."""
    names = []
    for b in (b for of in likelihood.psi_blocks for b in of.apart()):
        name = get_untransformed_name(b.name) if is_transformed_name(b.name) else b.name
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
    psi, sums, scaling = mode
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


def _pairs_of(draws: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return draws that lie far apart in the chain, two by two, between which remainders change."""
    far = len(draws) // 2
    return [(draws[-1 - k], draws[-1 - k - far]) for k in range(_WEIGHT_PAIRS)]


def _weigh(sizes_of: SizesOfRows, rows: Table, floor: float, progressbar: bool) -> DrawnRows:
    """Weigh the rows by what the proxy leaves of them between some draws, in one pass."""
    with setup_progress(progressbar) as progress:
        task = progress.add_task("Row weights", total=len(rows), what=f"{len(rows):,} rows")
        return rows.weighed(sizes_of, floor, partial(progress.advance, task))
