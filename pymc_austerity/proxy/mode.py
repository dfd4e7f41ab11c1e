"""The posterior mode over all rows, found in few passes: first on a random subset, then on everything."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, eigsh

from pymc_austerity.progress import setup_progress
from pymc_austerity.proxy.full_pass import Sums
from pymc_austerity.proxy.linear_maps import WIDE
from pymc_austerity.proxy.log_posterior import LogPosterior
from pymc_austerity.proxy.newton import ModeNotFoundError, Objective, newton, newton_of_more
from pymc_austerity.proxy.scaling import Scaling, find_scaling
from pymc_austerity.rows import Table

#: Passes over all rows after which the search on all rows gives up.
_MAX_PASSES = 10
#: First of all a few rows are searched, from the given start and from points around it.
_STARTS, _JITTER = 5, 1.0
#: Of very many parameters from two points only.
_STARTS_WIDE = 2
#: Modes this many standard deviations apart are two; one whose log posterior is lower by more than this is negligible.
_APART, _NEGLIGIBLE = 5.0, 20.0
#: Where the log posterior falls by more between two modes, on a straight line of so many points, no chain passes from
#: one to the other.
_NO_WAY, _BETWEEN = 30.0, 9
#: Two standard deviations from a mode the log posterior is lower by 2 where it is normal.  Less than the first: the
#: mode lies at infinity.  Less than the second: most of it is tail, as for a log rate that the prior knows from less
#: than .35 events; at one event it falls by 1.13, for a half-normal scale without rows by .94.
_FALL, _TAIL_FALL = 0.1, 0.85
#: Directions this wide, in the unconstrained space, are looked at, and so many of them: a tail of a log rate is wider.
_WIDE, _MOST_DIRECTIONS = 2.0, 20


class Mode(NamedTuple):
    """A point near the posterior mode, or in a tail that most of the posterior is, and the sums over all rows there."""

    psi: np.ndarray  # (θ, others) at the mode; coordinates that the rows do not read are those of the start
    sums: Sums  # log-likelihood, gradient and Hessian of all rows at `psi`
    scaling: Scaling  # the coordinates in which it was searched for
    other: str = ""  # where another mode is that no chain gets to from this one; empty where none was found
    tail: str = ""  # the entry of ψ in whose tail `psi` lies, in place of the mode; empty where it is the mode


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
            psi, sums, other, has_tail = _single_mode(objective(few), start, names)
            scaling = find_scaling(posterior, psi, posterior.total(psi, sums, few), scaling)
        except ModeNotFoundError:  # a few rows may hold none of the rare events that tell, or none next to their kinks
            part = subset
            psi, sums, other, has_tail = _single_mode(objective(subset), start, names)
        if other and len(part) < len(subset):  # of which more rows tell whether one is negligible
            part = subset
            psi, sums, other, has_tail = _single_mode(objective(subset), start, names)
        if len(part) < len(subset):
            psi, sums = newton_of_more(objective(subset), psi, start, 60)
        if len(subset) < len(rows):
            progress.update(task, what=f"{len(rows):,} rows")
            psi, sums = newton_of_more(objective(rows), psi, start, _MAX_PASSES)
        tail = ""
        if has_tail:
            of_all = objective(rows)
            step, tail = _step_into_tail(of_all, psi, of_all.total(psi, sums), names)
            psi = of_all.psi(of_all.x(psi) + step, psi)
            sums = evaluate(rows, psi)
    return Mode(psi, sums, scaling, other, tail)


class _Found(NamedTuple):
    """A mode of some rows, in words where another one is, and whether most of the posterior is a tail of it."""

    psi: np.ndarray
    sums: Sums
    other: str
    has_tail: bool


def _single_mode(objective: Objective, start: np.ndarray, names: Sequence[str]) -> _Found:
    """Search from several starts; of two modes of about equal weight take that of the first start.

    They are refused where the log posterior is not far lower between them.
    """
    rng = np.random.default_rng(1974)
    ends: list[tuple[np.ndarray, Sums, Sums]] = []
    refused: list[ModeNotFoundError] = []
    for k in range(_STARTS if objective.size <= WIDE else _STARTS_WIDE):
        psi = objective.psi(objective.x(start) + _JITTER * rng.uniform(-1, 1, objective.size), start) if k else start
        try:
            psi, sums = newton(objective, psi, 60)
        except ModeNotFoundError as error:
            refused.append(error)
            continue
        ends.append((psi, sums, objective.total(psi, sums)))
    if not ends:
        raise refused[0]
    best = max(ends, key=lambda end: end[2].value)
    tail = _step_into_tail(objective, *best[::2], names)[1]
    factor = linalg.cholesky(-best[2].hessian, lower=True)

    def apart(one: np.ndarray, other: np.ndarray) -> float:
        return float(np.abs(factor.T @ (objective.x(other) - objective.x(one))).max())

    ends = [end for end in ends if end[2].value > best[2].value - _NEGLIGIBLE]
    if all(apart(best[0], psi) <= _APART for psi, *_ in ends):
        return _Found(*best[:2], "", bool(tail))
    first = ends[0]
    other = max(ends, key=lambda end: apart(first[0], end[0]))
    distance = apart(first[0], other[0])
    if _is_way_between(objective, first[0], other[0], min(first[2].value, other[2].value)):
        raise ModeNotFoundError(
            f"the posterior has two modes, {distance:,.0f} standard deviations apart, and a proxy knows only one"
        )
    tail = _step_into_tail(objective, *first[::2], names)[1]
    entry = _entry(objective, objective.x(other[0]) - objective.x(first[0]))
    where = (
        f"The posterior has two modes, {distance:,.0f} standard deviations apart, between which no chain passes: "
        f"'{_name(entry, names)}' is {first[0][entry]:.4g} at one and {other[0][entry]:.4g} at the other, in the "
        "unconstrained space."
    )
    return _Found(*first[:2], where, bool(tail))


def _is_way_between(objective: Objective, one: np.ndarray, other: np.ndarray, lower: float) -> bool:
    """Return whether the log posterior on the straight line between two modes is never far below the lower one."""
    from_x, to_x = objective.x(one), objective.x(other)
    line = (from_x + t * (to_x - from_x) for t in np.linspace(0, 1, _BETWEEN + 2)[1:-1])
    lowest = min(np.nan_to_num(objective.value(objective.psi(x, one)), nan=-np.inf) for x in line)
    return bool(lowest > lower - _NO_WAY)


def _step_into_tail(objective: Objective, psi: np.ndarray, total: Sums, names: Sequence[str]) -> tuple[np.ndarray, str]:
    """Return a step of x from a mode to where most of the posterior is, and the entry of ψ whose tail that is.

    In its flattest direction, and other wide ones, the log posterior may hardly fall off on one side: the step goes two
    standard deviations there, and is zero where it falls off on both.  A mode at infinity is refused.
    """
    eigenvalues, vectors = _flattest(-total.hessian)
    scales = 1 / np.sqrt(np.maximum(eigenvalues, np.finfo(float).eps * eigenvalues[-1]))
    step, tail = np.zeros(objective.size), ""
    for k in range(max(1, min(_MOST_DIRECTIONS, int((scales > _WIDE).sum())))):
        sides = [side * scales[k] * vectors[:, k] for side in (-2, 2)]
        falls = [total.value - objective.value(objective.psi(objective.x(psi) + side, psi)) for side in sides]
        if min(falls) >= _TAIL_FALL:
            continue
        of = _name(_entry(objective, vectors[:, k]), names)
        if min(falls) < _FALL:
            raise ModeAtInfinityError(
                f"the posterior does not fall off in its flattest direction, in which '{of}' changes most: the mode "
                "lies at infinity, as for separable classes under a flat prior. A prior that says how large it can be "
                "keeps it finite"
            )
        step, tail = step + sides[int(np.argmin(falls))], tail or of
    return step, tail


def _entry(objective: Objective, direction: np.ndarray) -> int:
    """Return the entry of ψ that changes most in a direction of x."""
    return int(objective.posterior.coordinates[objective.scaling.entry(direction)])


def _name(entry: int, names: Sequence[str]) -> str:
    return names[entry] if len(names) else f"entry {entry}"


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
