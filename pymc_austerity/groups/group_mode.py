"""Where the rows of groups are expanded: the mode of φ with the groups integrated out, and their means there.

The joint mode of a centred hierarchy lies at a scale of zero; the mode of the marginal does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import optimize

from pymc_austerity.cholesky import cholesky_of
from pymc_austerity.groups.cells import sum_over_cells
from pymc_austerity.groups.group_expansion import GroupExpansion
from pymc_austerity.groups.group_search import GroupSearch
from pymc_austerity.groups.scaled_columns import are_columns
from pymc_austerity.unsupported_model import UnsupportedModelError

#: Passes over all rows after which the search gives up.
_MAX_PASSES = 40
#: Steps of this many standard deviations end it, and the first step allowed in any parameter, see `_first_reach`.
_CLOSE_ENOUGH, _FIRST_RADIUS = 0.2, 1.0
#: Standard deviations, as rows know them, within which a coefficient of a column is taken for zero: within the first.
_TOLD = 0.15
#: Steps of fewer standard deviations are made, whatever becomes of the log posterior.
_NEAR = 1.0
#: How far the mode of a surrogate is looked for that holds over the width of the posterior.
_FAR = 3.0
#: Shares of the reach of a search for a mode of φ, where it ends as it begins.
_NEARER = (1.0, 0.1, 0.01)
#: Step of the numerical derivatives of the marginal, in standard deviations.
_STEP = 0.05
#: A width that is found to be so many times what it was taken for is looked for again, so often at most: in units of a
#: thousandth or a million it is far from one, where the search for it begins.
_WIDER, _MOST_SCALES = 100.0, 8
#: A change of the log posterior by this share of it is rounding.
_ROUNDING = 1e-13
#: Width of the marginal along a parameter that no posterior has.
_NARROWEST = 1e-30
#: Smallest curvature of the marginal along an eigenvector, where that along the axes is one, and how often directions
#: in which it is smaller are made the axes: each time a tenth of the width is enough.
_FLATTEST, _MOST_BASES = 0.01, 8


class GroupModeError(UnsupportedModelError):
    """No centre is found to expand the rows of groups around."""


class GroupCentre(NamedTuple):
    """What the search ends with."""

    expansion: GroupExpansion
    mean: np.ndarray  # (P,): mode of the marginal of φ
    factor: np.ndarray  # (P, P): lower Cholesky factor of its covariance
    passes: int  # passes over all rows


def find_group_centre(search: GroupSearch) -> GroupCentre:
    """Search for the mode of the marginal of φ, by steps to the mode of the surrogate's."""
    here = search.expand_at_any_scale(search.data.theta0)
    value, radius, passes = search.objective(here), _FIRST_RADIUS, 1
    if not np.isfinite(value):
        raise GroupModeError("The log posterior or a derivative is not finite at the initial point of the model.")
    moves_shared = False  # the groups find their places first
    while passes < _MAX_PASSES:
        here = curved_down(here)
        scale = _axis_scales(search, here)
        if not (scale > _NARROWEST).all():
            raise GroupModeError(
                "The search for the mode of the shared parameters went to where the posterior has no width, as where "
                "the prior of a scale is not proper at zero."
            )
        phi = _surrogate_mode(search, here, scale, radius) if moves_shared else here.centre[here.shared]
        _, theta = search.surrogate.marginal(phi, here)
        factor = np.tril(search.surrogate.condition(theta, here).factor)  # what lies above is left over from the matrix
        wanted = theta[here.own] - here.centre[here.own]
        moved, of_shared = np.einsum("gjk,gj->gk", factor, wanted), np.abs(phi - here.centre[here.shared]) / scale
        at_limit = (of_shared > 0.99 * radius * _first_reach(scale)).any()
        far = np.inf if at_limit else max(of_shared.max(initial=0.0), float(np.sqrt((moved**2).mean())))
        if far < _CLOSE_ENOUGH and not moves_shared:
            moves_shared = True
            continue
        if far < _CLOSE_ENOUGH:
            return GroupCentre(here, phi, _covariance_factor(search, here, phi, scale), passes)
        following = np.zeros(wanted.shape)
        if not are_columns(here.first).any():  # effects go along with φ, whose step is within its own reach
            following = (theta - search.surrogate.marginal(here.centre[here.shared], here)[1])[here.own]
        step, length, share = limited_step(wanted - following, factor, here, radius, len(search.rows))
        theta[here.own] = with_zeros(here.centre[here.own] + step + following, here)
        if share < 1.0:
            theta[here.shared] = here.centre[here.shared] + share * (phi - here.centre[here.shared])
            of_shared = share * of_shared
        there = search.expand_at_any_scale(theta)
        passes += 1
        new = search.objective(there)
        # Within a standard deviation the prediction of the expansion holds.  The log posterior also changes with the
        # curvatures of all groups, by more than such a step gains where they are many.
        if new > value - 0.1 or (far < _NEAR and np.isfinite(new)):
            radius, here, value = 2 * radius, there, new
        else:
            radius = min(radius, max((of_shared / _first_reach(scale)).max(initial=0.0), length)) / 4
    raise GroupModeError(f"The search for the mode of the shared parameters did not end in {_MAX_PASSES} passes.")


def curved_down(expansion: GroupExpansion) -> GroupExpansion:
    """Return an expansion whose groups have curvatures of the size of the Hessian's, upwards ones turned downwards.

    A group that curves upwards along some direction, as a scale of its own does far from its place, moves along it by
    what the curvature allows, and not without a limit (Dauphin et al. 2014).
    """
    values, vectors = np.linalg.eigh(-expansion.hessian)
    upwards = (values < 0).any(axis=1)
    if not upwards.any():
        return expansion
    precision = expansion.precision.copy()
    turned = np.abs(values[upwards])[:, None, :] * vectors[upwards]
    precision[upwards] = turned @ vectors[upwards].transpose(0, 2, 1)
    return expansion._replace(precision=precision)


def limited_step(
    wanted: np.ndarray, factor: np.ndarray, expansion: GroupExpansion, radius: float, n_rows: int
) -> tuple[np.ndarray, float, float]:
    """Return the steps of all groups within a radius, the length of the longest, and the share that φ goes along with.

    Lengths are in units of a first step.  A step that is too long is shortened as a whole, as the parameters of a group
    may be nearly collinear.  Groups that their prior ties to each other make a part of their step
    together, which such a prior allows.  Where there are columns, φ and all groups make the same part of theirs, as
    they follow each other: it is as long as what it changes for a row.
    """
    if are_columns(expansion.first).any():
        square = np.einsum("gj,gjk,gk->", wanted, expansion.precision, wanted) - 2 * sum_over_cells(wanted, expansion)
        length = float(np.sqrt(max(square, 0.0) / n_rows))
        share = min(1.0, radius / max(length, radius))
        return share * wanted, share * length, share
    precision = np.einsum("gjk,gjk->gj", factor, factor)
    tied = np.zeros(wanted.shape, bool)
    tied.flat[expansion.ties.at] = True
    precision[tied] = np.einsum("gkk->gk", expansion.precision)[tied]
    sds = 1 / np.sqrt(np.where(precision > 0, precision, 1.0))
    unit = sds * _first_reach(sds)
    longest = (np.abs(wanted) / unit).max(axis=1, keepdims=True)
    step = wanted * np.minimum(1.0, radius / np.maximum(longest, radius))
    step[tied] = wanted[tied] * min(1.0, radius / (np.abs(wanted) / unit)[tied].max(initial=radius))
    return step, float((np.abs(step) / unit).max()), 1.0


def with_zeros(effects: np.ndarray, expansion: GroupExpansion) -> np.ndarray:
    """Put coefficients of columns at zero, where rows cannot tell them from it.

    Their prior may be narrower than what is rounded off another number: the widths of the quick waves of a Gaussian
    process differ by many powers of ten from one length scale to another.
    """
    found = effects.copy()
    for g in expansion.first[:-1][are_columns(expansion.first)]:
        found[g, np.abs(effects[g]) * np.sqrt(np.diag(expansion.precision[g])) < _TOLD] = 0.0
    return found


def normal_law(search: GroupSearch, expansion: GroupExpansion, reach: float = _FAR) -> tuple[np.ndarray, np.ndarray]:
    """Return the mode of the surrogate's marginal within reach of the centre, and the factor of its covariance."""
    scale = _axis_scales(search, expansion)
    phi = _surrogate_mode(search, expansion, scale, reach)
    return phi, _covariance_factor(search, expansion, phi, scale)


def _axis_scales(search: GroupSearch, expansion: GroupExpansion) -> np.ndarray:
    """Return the width of the marginal of the surrogate along each parameter of φ, from its curvature there."""
    phi = expansion.centre[expansion.shared]
    curvature = np.full(phi.size, 1.0)
    of_rows = dict(zip(expansion.read, -np.diag(expansion.shared_hessian), strict=True))
    scale = np.array([1 / np.sqrt(1.0 + max(of_rows.get(p, 0.0), 0.0)) for p in expansion.shared])
    marginal = search.surrogate.marginal
    middle = marginal(phi, expansion)[0]
    for j in range(phi.size):
        first = scale[j]
        for k in range(_MOST_SCALES):
            step, before = np.zeros(phi.size), scale[j]
            step[j] = _STEP * before
            sides = marginal(phi + step, expansion)[0] + marginal(phi - step, expansion)[0]
            # Far out, where a scale goes to zero say, the square of a step is no number above zero: nothing is learnt.
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                fall = 2 * middle - sides
                curvature[j] = fall / step[j] ** 2
            if abs(fall) < _ROUNDING * abs(middle):
                scale[j] = _WIDER * before
            elif curvature[j] > 0:
                scale[j] = min(1 / np.sqrt(curvature[j]), _WIDER * before)
            if k and scale[j] < _WIDER * before:  # wider by less: it is known
                break
        else:
            scale[j] = first
    return scale


def _first_reach(sds: np.ndarray) -> np.ndarray:
    """Return how many standard deviations a first step may be long: one unit, but in any unit one to thirty."""
    return np.clip(1 / sds, 1.0, 30.0)


def _surrogate_mode(search: GroupSearch, expansion: GroupExpansion, scale: np.ndarray, radius: float) -> np.ndarray:
    start = expansion.centre[expansion.shared]
    reach = radius * _first_reach(scale)

    def negative(x: np.ndarray) -> float:
        value = search.surrogate.marginal(start + scale * x, expansion)[0]
        return -value if np.isfinite(value) else 1e300

    return start + scale * minimum_within(negative, reach)


def minimum_within(negative: Callable[[np.ndarray], float], reach: np.ndarray) -> np.ndarray:
    """Return where a negative log density is least within reach of 0, or of a part where its first step ends it."""
    for nearer in _NEARER:
        bounds = list(zip(-nearer * reach, nearer * reach, strict=True))
        found = optimize.minimize(negative, np.zeros(reach.size), method="L-BFGS-B", bounds=bounds)
        if found.x.any():  # else its first step led to where there is no density
            break
    return np.asarray(found.x)


def _covariance_factor(
    search: GroupSearch, expansion: GroupExpansion, phi: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    """Return the factor of the covariance of the marginal at its mode, by differences in units of `scale`.

    Where the marginal is far wider along another direction, as for nearly collinear columns, they are taken again in
    units of what was found, along its eigenvectors.
    """
    basis = np.diag(scale)
    for _ in range(_MOST_BASES):
        values, vectors = np.linalg.eigh(np.nan_to_num(_curvature(search, expansion, phi, basis)))
        wide = np.maximum(values, _FLATTEST)
        covariance = basis @ ((vectors / wide) @ vectors.T) @ basis.T
        if values.min(initial=1.0) > _FLATTEST:
            break
        basis = basis @ (vectors / np.sqrt(wide))
    return cholesky_of(covariance, "the covariance of the shared parameters at their mode")


def _curvature(search: GroupSearch, expansion: GroupExpansion, phi: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Return the negative second derivatives of the marginal along the columns of a basis, by differences."""
    hessian, steps, marginal = np.empty(basis.shape), _STEP * 4 * basis.T, search.surrogate.marginal
    for i in range(phi.size):
        for j in range(i + 1):
            corners = [(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)]
            total = sum(sign * marginal(phi + a * steps[i] + b * steps[j], expansion)[0] for a, b, sign in corners)
            hessian[i, j] = hessian[j, i] = -total / (4 * (4 * _STEP) ** 2)
    return hessian
