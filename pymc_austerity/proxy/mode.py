"""The posterior mode over all rows, found in few passes: first on a random subset, then on everything."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, optimize
from scipy.sparse.linalg import LinearOperator, eigsh

from pymc_austerity.progress import setup_progress
from pymc_austerity.proxy.full_pass import Sums
from pymc_austerity.proxy.linear_maps import WIDE
from pymc_austerity.proxy.log_posterior import LogPosterior, NoProxyError
from pymc_austerity.proxy.scaling import Scaling, find_scaling
from pymc_austerity.rows import Table

#: A centre this many posterior standard deviations from the mode (Newton decrement) serves as well as the mode.
_CLOSE_ENOUGH = 0.1
#: Passes over all rows after which the search on all rows gives up.
_MAX_PASSES = 10
#: First of all a few rows are searched, from the given start and from points around it.
_STARTS, _JITTER = 5, 1.0
#: Times that a search from the mode of fewer rows is moved halfway back to the start.
_HALVINGS = 30
#: Of very many parameters from two points only, and with a trust region that has room for all of them.
_STARTS_WIDE, _RADIUS_WIDE = 2, 0.3
#: Modes this many standard deviations apart are two; one whose log posterior is lower by more than this is negligible.
_APART, _NEGLIGIBLE = 5.0, 20.0
#: What the trust region may grow to: it doubles with every step that goes well, so a mode a million units away, as of
#: a pressure in Pa under a flat prior, is reached in twenty steps more.
_LARGEST_RADIUS = 1e12
#: Two standard deviations from a mode the log posterior is lower by 2 where it is normal.  Less than the first: the
#: mode lies at infinity.  Less than the second: most of it is tail, as for a log rate that the prior knows from less
#: than .35 events; at one event it falls by 1.13, for a half-normal scale without rows by .94.
_FALL, _TAIL_FALL = 0.1, 0.85
#: Directions this wide, in the unconstrained space, are looked at, and so many of them: a tail of a log rate is wider.
_WIDE, _MOST_DIRECTIONS = 2.0, 20


class Mode(NamedTuple):
    """A point near the posterior mode, and the sums over all rows there."""

    psi: np.ndarray  # (θ, others) at the mode; coordinates that the rows do not read are those of the start
    sums: Sums  # log-likelihood, gradient and Hessian of all rows at `psi`
    scaling: Scaling  # the coordinates in which it was searched for


class ModeNotFoundError(NoProxyError):
    """There is no mode to expand around."""


class _NoDensityError(ModeNotFoundError):
    """A search starts where there is no density."""


class ModeAtInfinityError(ModeNotFoundError):
    """The log posterior does not fall off in some direction."""


def find_mode(posterior: LogPosterior, start: np.ndarray, progressbar: bool, names: Sequence[str] = ()) -> Mode:
    """Search for the posterior mode along the coordinates that the rows read; the others stay at `start`.

    A trust-region Newton method (SciPy's ``trust-exact``) first on a random subset of the rows, whose
    log-likelihood is scaled up to all rows, then on all rows, where one pass a step gives value, gradient and
    Hessian together.  Before, on a few rows, it starts from several points, to see whether there is more than one mode.
    All that in coordinates in which the units of the columns of the data do not matter, see `find_scaling`.
    `names` are those of all entries of ψ, for the reason that a ModeNotFoundError gives where no mode can be reached.
    """
    rows, (subset, few, _) = posterior.rows, posterior.samples
    with setup_progress(progressbar) as progress:
        task = progress.add_task("Posterior mode", total=len(subset), what="on a subset of the rows")

        seen: list[Sums] = []  # of the few rows at the start, which the first search begins with

        def evaluate(of: Table, psi: np.ndarray, hessian: bool = True) -> Sums:
            if seen and of is few and hessian and np.array_equal(psi, start):
                return seen[0]
            progress.reset(task, total=len(of))
            advance = partial(progress.advance, task)
            return posterior.full_pass(psi, posterior.fixed, of, hessian=hessian, advance=advance)

        seen.append(evaluate(few, start))
        scaling = find_scaling(posterior, start, posterior.total(start, seen[0], few))

        def objective(part: Table) -> Objective:
            return Objective(posterior, part, partial(evaluate, part), scaling)

        part = few
        try:
            psi, sums = _single_mode(objective(few), start, names)
            scaling = find_scaling(posterior, psi, posterior.total(psi, sums, few), scaling)
        except ModeAtInfinityError:  # a few rows may hold none of the rare events that keep it from there
            part = subset
            psi, sums = _single_mode(objective(subset), start, names)
        if len(part) < len(subset):
            psi, sums = _newton_of_more(objective(subset), psi, start, 60)
        if len(subset) < len(rows):
            progress.update(task, what=f"{len(rows):,} rows")
            psi, sums = _newton_of_more(objective(rows), psi, start, _MAX_PASSES)
    return Mode(psi, sums, scaling)


class Objective(NamedTuple):
    """The log posterior along some coordinates, its likelihood that of some rows scaled up to all."""

    posterior: LogPosterior
    part: Table
    #: The log-likelihood of these rows and its derivatives at ψ, without the Hessian where ``hessian=False``.
    evaluate: Callable[..., Sums]
    scaling: Scaling  # from the coordinates that the rows read to the coordinates x of the search

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.posterior.coordinates.size

    def total(self, psi: np.ndarray, likelihood: Sums) -> Sums:
        """Return the log posterior at `psi` and its derivatives by x, given the log-likelihood of the rows there."""
        return self.scaling.of_sums(self.posterior.total(psi, likelihood, self.part))

    def x(self, psi: np.ndarray) -> np.ndarray:
        """Return the coordinates of the search at `psi`."""
        return self.scaling.inward(psi[self.posterior.coordinates])

    def psi(self, x: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Return ψ, which outside the coordinates of the search is as in `start`."""
        psi = start.copy()
        psi[self.posterior.coordinates] = self.scaling.outward(x)
        return psi

    def value(self, psi: np.ndarray) -> float:
        """Return the log posterior at `psi`, without derivatives."""
        of, scale = self.posterior, len(self.posterior.rows) / len(self.part) / self.posterior.temperature
        return self.evaluate(psi, hessian=False).value * scale + of.prior.value(psi, of.fixed)


def _single_mode(objective: Objective, start: np.ndarray, names: Sequence[str]) -> tuple[np.ndarray, Sums]:
    """Search from several starts, and refuse where the best two ends are different modes of about equal weight."""
    rng = np.random.default_rng(1974)
    ends: list[tuple[np.ndarray, Sums, Sums]] = []
    refused: list[ModeNotFoundError] = []
    for k in range(_STARTS if objective.size <= WIDE else _STARTS_WIDE):
        psi = objective.psi(objective.x(start) + _JITTER * rng.uniform(-1, 1, objective.size), start) if k else start
        try:
            psi, sums = _newton(objective, psi, 60)
        except ModeNotFoundError as error:
            refused.append(error)
            continue
        ends.append((psi, sums, objective.total(psi, sums)))
    if not ends:
        raise refused[0]
    best = max(ends, key=lambda end: end[2].value)
    _require_fall(objective, *best[::2], names)
    factor = linalg.cholesky(-best[2].hessian, lower=True)
    for psi, _, total in ends:
        distance = np.abs(factor.T @ (objective.x(psi) - objective.x(best[0]))).max()
        if distance > _APART and total.value > best[2].value - _NEGLIGIBLE:
            raise ModeNotFoundError(
                f"the posterior has two modes, {distance:,.0f} standard deviations apart, and a proxy knows only one"
            )
    return best[:2]


def _require_fall(objective: Objective, psi: np.ndarray, total: Sums, names: Sequence[str]) -> None:
    """Refuse a mode around which the log posterior hardly falls off: in the flattest direction, and other wide ones."""
    eigenvalues, vectors = _flattest(-total.hessian)
    scales = 1 / np.sqrt(np.maximum(eigenvalues, np.finfo(float).eps * eigenvalues[-1]))
    for k in range(max(1, min(_MOST_DIRECTIONS, int((scales > _WIDE).sum())))):
        falls = []
        for side in (-2, 2):
            there = objective.psi(objective.x(psi) + side * scales[k] * vectors[:, k], psi)
            falls.append(total.value - objective.value(there))
        if min(falls) >= _TAIL_FALL:
            continue
        entry = objective.posterior.coordinates[objective.scaling.entry(vectors[:, k])]
        of = names[entry] if len(names) else f"entry {entry}"
        if min(falls) < _FALL:
            raise ModeAtInfinityError(
                f"the posterior does not fall off in its flattest direction, in which '{of}' changes most: the mode "
                "lies at infinity, as for separable classes under a flat prior. A prior that says how large it can be "
                "keeps it finite"
            )
        raise ModeNotFoundError(
            f"the posterior of '{of}' is nearly all tail, as of a log rate that neither rows nor prior inform: "
            "what is known around its mode does not describe it. Give it a prior that says where it is, or move "
            "it by a step of its own, such as pm.Slice, and the others by this one with vars="
        )


def _flattest(curvature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest eigenvalues, in order, and their vectors; all of them where that is quick."""
    size = len(curvature)
    if size <= WIDE:
        return linalg.eigh(curvature)
    factor = linalg.cho_factor(curvature, lower=True)
    inverse = LinearOperator((size, size), lambda v: linalg.cho_solve(factor, v), dtype=float)
    values, vectors = eigsh(curvature, _MOST_DIRECTIONS, sigma=0.0, OPinv=inverse, v0=np.ones(size))
    order = np.argsort(values)
    return values[order], vectors[:, order]


def _decrement(here: Sums) -> float | None:
    """Return the Newton decrement, the distance from a mode in standard deviations; None where there is no mode."""
    try:
        factor = linalg.cho_factor(here.hessian)
    except linalg.LinAlgError:
        return None
    return float(here.gradient @ linalg.cho_solve(factor, here.gradient)) ** 0.5


def _newton_of_more(
    objective: Objective, psi: np.ndarray, start: np.ndarray, max_evaluations: int
) -> tuple[np.ndarray, Sums]:
    """Search from the mode of fewer rows; halfway back to `start`, and again, where all rows have no density there."""
    for _ in range(_HALVINGS):
        with suppress(_NoDensityError):
            return _newton(objective, psi, max_evaluations)
        psi = (psi + start) / 2
    return _newton(objective, start, max_evaluations)


def _newton(objective: Objective, start: np.ndarray, max_evaluations: int) -> tuple[np.ndarray, Sums]:
    """Maximise log prior + scale × log-likelihood over the coordinates, until the Newton decrement is small."""
    seen: dict[bytes, tuple[Sums, Sums]] = {}
    best: list[tuple[float, np.ndarray]] = []
    accepted, evaluations = [b""], count()

    def at(x: np.ndarray) -> Sums:
        key = x.tobytes()
        if key not in seen:
            if next(evaluations) >= max_evaluations:
                raise StopIteration
            psi = objective.psi(x, start)
            likelihood = objective.evaluate(psi)
            total = objective.total(psi, likelihood)
            if all(np.isfinite(part).all() for part in total):
                negative = total.scaled(-1)
            else:  # the trust region steps back from a point without a density or its derivatives
                negative = Sums(np.inf, np.zeros(objective.size), np.eye(objective.size))
            if not best or negative.value < best[0][0]:
                best[:] = [(negative.value, x.copy())]
            if objective.size > WIDE:  # of Hessians of tens of megabytes those likely to be asked for again stay
                for old in set(seen) - {best[0][1].tobytes(), accepted[0]}:
                    del seen[old]
            seen[key] = negative, likelihood
        return seen[key][0]

    def close_enough(intermediate_result: Any) -> None:
        accepted[0] = intermediate_result.x.tobytes()
        decrement = _decrement(at(intermediate_result.x))
        if decrement is not None and decrement < _CLOSE_ENOUGH:
            raise StopIteration

    x0 = objective.x(start)
    if not np.isfinite(at(x0).value):
        raise _NoDensityError("the log-likelihood or a derivative of it is not finite where the search starts")
    found: np.ndarray
    radius = 1.0 if objective.size <= WIDE else _RADIUS_WIDE * np.sqrt(objective.size)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = optimize.minimize(  # type: ignore[call-overload]  # the stubs know no callback that stops
                lambda x: at(x).value,
                x0,
                jac=lambda x: at(x).gradient,
                hess=lambda x: at(x).hessian,
                method="trust-exact",
                callback=close_enough,
                options={"initial_trust_radius": radius, "max_trust_radius": _LARGEST_RADIUS, "gtol": 1e-12},
            ).x
    except StopIteration:
        found = best[0][1]
    decrement = _decrement(at(found))
    if decrement is None:
        raise ModeNotFoundError("the Hessian at the end of the search is not negative definite")
    if decrement > 1.0:
        raise ModeNotFoundError(f"the search ended {decrement:.1f} posterior standard deviations from a mode")
    return objective.psi(found, start), seen[found.tobytes()][1]
