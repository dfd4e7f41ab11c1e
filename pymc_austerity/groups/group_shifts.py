"""Shifts that no row sees: an intercept up and all effects down, or those of one factor up and those of another down.

They are found by numbers.  A direction adds one to a parameter of every group of a factor; another does to a second
factor, or to one shared parameter.  Where the slopes of all rows along the two are in one ratio r(θ), θ moves along
d(θ) = up − r(θ) down without any row changing; not centred, r is a scale.  Only what the scale is not may move r.  That
the rows stay and that r does is then looked at for steps of some length, on all rows.  See Papaspiliopoulos, Roberts
and Zanella, Biometrika 107, 2020, for why such directions are the slow ones of crossed effects.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pymc_austerity.groups.group_density import GroupPrior
from pymc_austerity.groups.group_pass import GroupPass, chunks
from pymc_austerity.groups.grouping import Groups
from pymc_austerity.likelihood import Density, ModelData
from pymc_austerity.rows import Rows

#: Points at which the slopes are compared, their distance from the centre, and how many rows.
_POINTS, _SPREAD, _ROWS = 3, 0.3, 500
#: What may differ, relative to the largest of what is compared.
_RELATIVE_ERROR = 1e-9


class Shifts(NamedTuple):
    """Directions along which no row changes, as arrays for compiled code.

    Attributes
    ----------
    up, down : numpy.ndarray, shape (S, D)
        θ moves along ``up − r(θ) down``.
    row : numpy.ndarray of int64, shape (S,)
        The number of a row for each, whose slopes along the two are in the ratio r.
    length : numpy.ndarray, shape (S,)
        Standard deviation of the prior along each, at the centre.
    """

    up: np.ndarray
    down: np.ndarray
    row: np.ndarray
    length: np.ndarray


class _Search:
    """Slopes and rows of one model at a few points."""

    def __init__(self, data: ModelData, density: Density, group_pass: GroupPass, rows: Rows, thetas: list[np.ndarray]):
        self.data, self.density, self.group_pass, self.rows, self.thetas = data, density, group_pass, rows, thetas
        some = np.random.default_rng(1939).choice(len(rows), min(_ROWS, len(rows)), replace=False)
        self.some = np.sort(some)
        self.batch = rows.take(self.some).arrays

    def slopes(self, along: np.ndarray) -> np.ndarray:
        """Return the slopes of some rows at all points, shape (points, rows)."""
        at = (self.data.others0, *self.data.fixed, *self.batch)
        return np.array([self.group_pass.derivatives(along, along, theta, *at)[0] for theta in self.thetas])

    def ratios(self, up: np.ndarray, down: np.ndarray) -> tuple[int, np.ndarray] | None:
        """Return the row to look at and r at all points, or None where there is no such ratio."""
        if not np.abs(down).min(axis=0).max() > 0:
            return None
        i = int(np.argmax(np.abs(down).min(axis=0)))
        r = up[:, i] / down[:, i]
        off = np.abs(up - r[:, None] * down).max()
        return (i, r) if off <= _RELATIVE_ERROR * np.abs(up).max() else None

    def stays(self, up: np.ndarray, down: np.ndarray, r: np.ndarray) -> bool:
        """Whether all rows stay as they are where θ moves along this direction."""
        for theta, ratio, step in zip(self.thetas, r, (1.0, -0.7, 0.4), strict=True):
            moved = theta + step * (up - ratio * down)
            for batch in chunks(self.rows):
                at = (self.data.others0, *self.data.fixed, *batch)
                new, old = self.density.both_sides(moved, theta, *at)
                if not (np.abs(new - old) <= _RELATIVE_ERROR * (1 + np.abs(old)) * 10).all():
                    return False
        return True


def find_shifts(
    data: ModelData, groups: Groups, density: Density, prior: GroupPrior, group_pass: GroupPass, rows: Rows,
    centre: np.ndarray,
) -> Shifts:  # fmt: skip
    """Find for every parameter of every factor what may move against it.

    For those of the first factor a shared parameter that the rows read, for those of another the same parameter of a
    factor before it or else a shared one.  Where the prior of the effects stays when a shared parameter goes along that
    no row reads (the mean of effects), it does.

    Parameters
    ----------
    data : ModelData
    groups : Groups
    density : Density
    prior : GroupPrior
    group_pass : GroupPass
    rows : Rows
    centre : numpy.ndarray, shape (D,)
        A point with finite density.
    """
    rng = np.random.default_rng(1976)
    thetas = [centre + _SPREAD * rng.standard_normal(centre.size) for _ in range(_POINTS)]
    search = _Search(data, density, group_pass, rows, thetas)
    along, directions = group_pass.directions()
    slopes = [search.slopes(direction) for direction in directions]
    found, n_own = [], len(along)
    for c, (f, _) in enumerate(along):
        before = [q for q in range(c) if along[q][0] < f]
        for q in (*before, *range(n_own, len(directions))):
            ratio = search.ratios(slopes[c], slopes[q])
            if ratio is None:
                continue
            up, down = (_with_mean(directions[d], d, along, data, groups, prior, thetas) for d in (c, q))
            length = _length(up, down, ratio[1][0], density, data, thetas[0])
            if length is not None and search.stays(up, down, ratio[1]):
                found.append((up, down, search.some[ratio[0]], length))
                break
    size = centre.size
    return Shifts(
        np.array([f[0] for f in found]).reshape(-1, size),
        np.array([f[1] for f in found]).reshape(-1, size),
        np.array([f[2] for f in found], dtype=np.int64),
        np.array([f[3] for f in found]),
    )


def _with_mean(
    direction: np.ndarray, d: int, along: list[tuple[int, int]], data: ModelData, groups: Groups, prior: GroupPrior,
    thetas: list[np.ndarray],
) -> np.ndarray:  # fmt: skip
    """Add to a direction along effects the shared parameter that is their mean, if the rows do not read it."""
    if d >= len(along):
        return direction
    f, _ = along[d]
    own = slice(groups.first[f], groups.first[f + 1])
    at = (data.others0, *data.fixed)
    for p in np.setdiff1d(groups.shared, groups.read):
        with_it = direction.copy()
        with_it[p] = 1.0
        changes = [prior.terms(t + 0.5 * with_it, *at)[0][own] - prior.terms(t, *at)[0][own] for t in thetas]
        if np.abs(changes).max() <= _RELATIVE_ERROR * (1 + np.abs(prior.terms(thetas[0], *at)[0][own]).max()):
            return with_it
    return direction


def _length(
    up: np.ndarray, down: np.ndarray, r: float, density: Density, data: ModelData, theta: np.ndarray
) -> float | None:
    """Return the standard deviation of the prior along a direction, or None where it has none."""
    direction, step = up - r * down, 1.0

    def log_prior(at: np.ndarray) -> float:
        return float(density.log_prior(at, data.others0, *data.fixed)[0])

    for _ in range(8):
        curvature = 2 * log_prior(theta) - log_prior(theta + step * direction) - log_prior(theta - step * direction)
        if not curvature > 0 or not np.isfinite(curvature):
            step /= 4
            continue
        if 0.1 < curvature < 10:
            return float(step / np.sqrt(curvature))
        step /= np.sqrt(curvature)
    return None
