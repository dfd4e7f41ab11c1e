"""The quadratic that steers groups: gradient and Hessian averaged over the posterior (statistical linearisation).

It leaves half as much of all rows as the expansion at the centre, and less.  Only proposals read it: a test takes what
the expansion at the centre leaves, on which bounds are known.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from pymc_austerity.groups.group_expansion import GroupExpansion, grouped_sum
from pymc_austerity.groups.group_mode import GroupCentre, normal_law, with_zeros
from pymc_austerity.groups.group_pass import without_negative
from pymc_austerity.groups.group_search import GroupSearch

#: Points to average over, each with its mirror image, and how often the law that they are drawn from is renewed.
_PAIRS, _ROUNDS = 4, 2
#: Standard deviation of what a quadratic leaves of all rows, below which nothing is gained by another.
_SMALL = 0.3


class _Cloud(NamedTuple):
    """Points of the normal law that a quadratic gives, shape (S, D), and what it leaves of all rows over these."""

    thetas: np.ndarray
    left: float


def steer_groups(search: GroupSearch, centre: GroupCentre) -> tuple[GroupCentre, float]:
    """Return the quadratic that steers with its law of φ: the expansion at the centre where averages do not gain.

    And the standard deviation of what it leaves of all rows.
    """
    rng, best = np.random.default_rng(2011), centre
    cloud, passes = _cloud(search, best, rng), centre.passes
    for _ in range(_ROUNDS):
        if not cloud.left > _SMALL:
            break
        averaged = average([search.expand(theta) for theta in cloud.thetas])
        passes += len(cloud.thetas)
        if not np.isfinite(averaged.hessian).all():
            break
        found = GroupCentre(averaged, *normal_law(search, averaged), 0)
        around = _cloud(search, found, rng)
        if not around.left < cloud.left:
            break
        best, cloud = found, around
    return best._replace(passes=passes), cloud.left


def _cloud(search: GroupSearch, of: GroupCentre, rng: np.random.Generator) -> _Cloud:
    e, thetas, left = of.expansion, [], []
    shared, own = antithetic(rng, of.mean.size), antithetic(rng, e.own.size)
    for of_shared, of_own in zip(shared, own, strict=True):
        theta = search.theta(of.mean + of.factor @ of_shared, of_own.reshape(e.own.shape), e)
        left.append(search.total(theta) - float(grouped_sum(theta, search.data.others0, e)))
        thetas.append(theta)
    return _Cloud(np.array(thetas), float(np.std(left)))


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
