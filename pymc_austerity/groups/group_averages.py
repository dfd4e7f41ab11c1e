"""Quadratics averaged over points of the posterior (statistical linearisation): gradient and Hessian of the rows.

That which steers leaves half as much of all rows as the expansion at the centre, and less.  Only proposals read it: a
test takes what the expansion at the centre leaves, on which bounds are known.

Effects whose mode given φ no quadratic finds, as with priors of heavy tails or with a kink, are expanded at about their
posterior means.  The law of all groups is taken for independent normal laws whose mean and precision are those of the
rows and the prior averaged over it (variational inference; Opper and Archambeau, Neural Computation 21, 2009).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import ndtri

from pymc_austerity.cholesky import NoFactorError
from pymc_austerity.compile.by_reference import by_reference
from pymc_austerity.groups.group_expansion import GroupExpansion, grouped_sum
from pymc_austerity.groups.group_mode import (
    GroupCentre,
    GroupModeError,
    curved_down,
    limited_step,
    minimum_within,
    normal_law,
    with_zeros,
)
from pymc_austerity.groups.group_pass import without_negative
from pymc_austerity.groups.group_search import GroupSearch
from pymc_austerity.interrupts import uninterrupted

#: Points to average over, each with its mirror image, and how often at most the law that they have is renewed.
_PAIRS, _ROUNDS = 4, 6
#: Standard deviations that the mode of φ moves by when the law of the points has settled.
_SETTLED = 0.15
#: Standard deviation of what a quadratic leaves of all rows, below which nothing is gained by another.
_SMALL = 0.3
#: Rounds after which the search gives up, and those before φ moves; the steps, in standard deviations, and the gain of
#: the log posterior that end it.
_MOST_ROUNDS, _GROUPS_FIRST, _CLOSE_ENOUGH, _LITTLE = 80, 5, 0.1, 0.05
#: Rounds of whole steps; later ones are shorter, as across a kink they would go back and forth.
_WHOLE_STEPS = 10
#: How far a parameter moves in a round.
_REACH = 1.0
#: Share of the parameters of groups along which the prior has to fall as a parabola does, for a mode of φ by these.
_MOST = 0.8
#: The least curvature that a group is taken to have.
_FLATTEST = 1e-8
_NOT_FINITE = "The log posterior or a derivative is not finite near the initial point of the model."


def steer_groups(search: GroupSearch, centre: GroupCentre) -> tuple[GroupCentre, float]:
    """Return the quadratic that steers with its law of φ: the expansion at the centre where averages do not gain.

    And the standard deviation of what it leaves of all rows.
    """
    rng, best = np.random.default_rng(2011), centre
    (thetas, left), passes = _cloud(search, best, rng), centre.passes
    for _ in range(_ROUNDS):
        if not left > _SMALL:
            break
        averaged = average([search.expand(theta) for theta in thetas])
        passes += len(thetas)
        if not np.isfinite(averaged.hessian).all():
            break
        try:
            found = GroupCentre(averaged, *normal_law(search, averaged), 0)
        except NoFactorError:  # the average has no maximum within reach
            break
        far = np.abs(np.linalg.solve(found.factor, found.mean - best.mean)).max(initial=0.0)
        around, less = _cloud(search, found, rng)
        if not less < left:
            break
        best, thetas, left = found, around, less
        if far < _SETTLED:
            break
    return best._replace(passes=passes), left


def _cloud(search: GroupSearch, of: GroupCentre, rng: np.random.Generator) -> tuple[list[np.ndarray], float]:
    """Return points of the normal law that a quadratic gives, and the spread of what it leaves of all rows there."""
    e, thetas, left = of.expansion, [], []
    shared, own = antithetic(rng, of.mean.size), antithetic(rng, e.own.size)
    for of_shared, of_own in zip(shared, own, strict=True):
        theta = search.surrogate.theta(of.mean + of.factor @ of_shared, of_own.reshape(e.own.shape), e)
        left.append(search.total(theta) - float(grouped_sum(theta, search.data.others0, by_reference(e))))
        thetas.append(theta)
    return thetas, float(np.std(left))


def antithetic(rng: np.random.Generator, size: int) -> np.ndarray:
    """Return points of N(0, I) whose coordinates each take the same values, in an order and with signs at random."""
    sides = ndtri(0.5 + (np.arange(_PAIRS) + 0.5) / (2 * _PAIRS))
    sides /= np.sqrt(np.mean(sides**2))
    points = sides[np.argsort(rng.random((_PAIRS, size)), axis=0)] * rng.choice((-1.0, 1.0), (_PAIRS, size))
    return np.concatenate([points, -points])


def average(expansions: list[GroupExpansion]) -> GroupExpansion:
    """Return the quadratic about the mean of the centres with the average derivatives."""
    names = ("centre", "gradient", "hessian", "cross", "shared_gradient", "shared_hessian", "cell_hessian")
    means: dict[str, Any] = {name: np.mean([getattr(e, name) for e in expansions], axis=0) for name in names}
    found = expansions[0]._replace(**means, precision=without_negative(-means["hessian"]))
    found.centre[found.own] = with_zeros(found.centre[found.own], found)
    return found


def find_means(search: GroupSearch) -> tuple[GroupCentre, GroupCentre]:
    """Search for the means of all groups, one factor after the other, and the mode of φ given their spread.

    Return the expansion there, and the average that steers.  Raises GroupModeError where the search does not end.
    """
    theta, rng = search.data.theta0.copy(), np.random.default_rng(2009)
    here = curved_down(search.expand(theta))
    points = antithetic(rng, here.own.size).reshape(-1, *here.own.shape)
    factor = _precision(search, [theta], None, here)[1]
    for rounds in range(1, _MOST_ROUNDS + 1):
        far, share = 0.0, min(1.0, _WHOLE_STEPS / rounds)
        for first, end in pairwise(here.first):
            slope, factor = _precision(
                search, _around(theta, factor, points, here), np.einsum("gjk,sgk->sgj", factor, points), here
            )
            wanted = np.linalg.solve(factor @ factor.transpose(0, 2, 1), slope[:, :, None])[:, :, 0]
            some, step = slice(first, end), limited_step(wanted, factor, here, _REACH, len(search.rows))[0]
            of_group = np.arange(here.own.shape[1]) < here.size[some, None]
            theta[here.own[some][of_group]] += share * step[some][of_group]
            far = max(far, float(np.sqrt((np.einsum("gjk,gj->gk", factor[some], wanted[some]) ** 2)[of_group].mean())))
            cloud = _around(theta, factor, points, here)
            here = curved_down(average([search.expand(at) for at in cloud]))
        if rounds < _GROUPS_FIRST:
            continue
        step_of_shared, gained = _mode_of_shared(search, cloud, here)
        theta[here.shared] += share * step_of_shared
        if share * far < _CLOSE_ENOUGH and share * gained < _LITTLE:
            passes = 1 + 2 * rounds * len(points)
            if not np.isfinite(search.surrogate.condition(here.centre, here).log_det):
                raise GroupModeError(_NOT_FINITE)
            centre = GroupCentre(search.expand(here.centre), *normal_law(search, here, 0.0), passes)
            return centre, centre._replace(expansion=here)
    raise GroupModeError(f"The search for the means of the effects took more than {rounds} rounds.")


def _precision(
    search: GroupSearch, cloud: list[np.ndarray], white: np.ndarray | None, e: GroupExpansion
) -> tuple[np.ndarray, np.ndarray]:
    """Return the slope of rows and prior by each group, and the factor of its precision, both averaged over a cloud.

    `white` holds the points of a cloud times the precision.  A prior that is nowhere curved, as Laplace's, has the
    curvature of its averaged slope (Stein's identity).
    """
    found = [_of_prior(search, at, e) for at in cloud]
    slope, curvature = (np.mean([of[i] for of in found], axis=0) for i in (0, 1))
    if not all(np.isfinite(of).all() for of in (slope, curvature, e.gradient, e.precision)):
        raise GroupModeError(_NOT_FINITE)
    if white is not None:
        each = np.einsum("gkk->gk", curvature)  # a view of the diagonals
        by_slope = -np.mean([of[0] * z for of, z in zip(found, white, strict=True)], axis=0)
        each[:] = np.where(each > 0, each, np.maximum(by_slope, 0.0))
    values, vectors = np.linalg.eigh(e.precision + curvature)
    present, size = np.arange(e.own.shape[1]) < e.size[:, None], e.own.shape[1]
    precision = (np.maximum(np.abs(values), _FLATTEST)[:, None, :] * vectors) @ vectors.transpose(0, 2, 1)
    precision[~present[:, :, None] & np.eye(size, dtype=bool)] = 1.0
    return np.where(present, slope + e.gradient, 0.0), np.linalg.cholesky(precision)


def _of_prior(search: GroupSearch, theta: np.ndarray, e: GroupExpansion) -> tuple[np.ndarray, np.ndarray]:
    """Return the slope of the prior by each group, and minus its second derivatives."""
    t, model = e.ties, search.model
    of_groups = e.own, e.size, t.at, t.probes, t.weights, t.own_at, t.own, t.between
    at = theta, search.data.others0, model.likelihood.fixed_at(search.data.fixed)
    slope, curvature, _ = uninterrupted(model.prior.derivatives, *at, *of_groups)
    return slope, curvature


def is_curved(search: GroupSearch, e: GroupExpansion) -> bool:
    """Whether the prior of most groups has a maximum of its own along each of their parameters, as a normal law has."""
    curvature = np.einsum("gkk->gk", _of_prior(search, e.centre, e)[1])
    present = np.arange(e.own.shape[1]) < e.size[:, None]
    return bool(np.mean(curvature[present] > 0) > _MOST)


def _mode_of_shared(search: GroupSearch, cloud: list[np.ndarray], e: GroupExpansion) -> tuple[np.ndarray, float]:
    """Return the step to the mode of φ where groups are as they are, and what the log posterior gains by it."""
    read = np.searchsorted(e.shared, e.read)

    def negative(step: np.ndarray) -> float:
        value = e.shared_gradient @ step[read] + step[read] @ e.shared_hessian @ step[read] / 2
        for at in cloud:
            moved = at.copy()
            moved[e.shared] += step
            value += search.log_prior(moved) / len(cloud)
        return -value if np.isfinite(value) else 1e300

    step = minimum_within(negative, np.full(e.shared.size, _REACH))
    return step, negative(np.zeros(step.size)) - negative(step)


def _around(theta: np.ndarray, factor: np.ndarray, points: np.ndarray, e: GroupExpansion) -> list[np.ndarray]:
    """Return θ with all groups where the points z are: u_g + C_g⁻ᵀz_g."""
    absent = np.arange(e.own.shape[1]) >= e.size[:, None]
    inverse = np.linalg.inv(factor).transpose(0, 2, 1)
    found = []
    for z in points:
        at = theta.copy()
        at[e.own[~absent]] += np.einsum("gjk,gk->gj", inverse, z)[~absent]
        found.append(at)
    return found
