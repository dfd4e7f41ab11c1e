"""Rows by cones of like directions, each with a distance of its own: closer bounds in many dimensions.

Of rows that read θ through one predictor, what an expansion leaves of row i is at most c_i |d_iᵀz|^K, with d_i of
length 1 the direction of the row in the whitened space.  |d_iᵀz| ≤ ‖z‖ loses √E.  With m near to d_i or to −d_i,

    |d_iᵀz| ≤ |mᵀz| + ‖d_i − m‖‖z‖,

and |mᵀz| is found once for all rows near m.  A cone holds the rows that are nearest to one of some hundred such m and
about as far from it; M_g = (|mᵀz| + ε_g‖z‖)^K + (|mᵀz′| + ε_g‖z′‖)^K, ε_g being the distance of the farthest.
"""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.cluster.vq import kmeans2

from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.rows import OUTWARDS, Rows
from pymc_austerity.rows.by_cones import BoundCones, cone_table

#: Directions, at most, and at least so many rows for each.
_DIRECTIONS, _ROWS_EACH = 1_000, 16
#: Rows that directions are chosen from, and rounds of choosing them.
_CHOSEN_FROM, _ROUNDS = 10_000, 8
#: Cones of a direction: distances from 2^(−l/2) to the next are together, and all below the last.
_DISTANCES = 12
#: Draws z that distances are judged by.
_TRIED = 100
#: A direction takes as long as so many rows.
_ROWS_A_DIRECTION = 0.1
#: Rows a draw below which there is nothing to save.
_LEAST_SAVED = 50
_CHUNK = 16_384


class Whitened(NamedTuple):
    """What the compiled bound needs to know."""

    coordinates: np.ndarray  # shape (E,)
    whiten: np.ndarray  # L⁻¹, shape (E, E)
    radius: float  # the bounds hold for ‖z‖ up to it
    power: int  # k + 1
    outwards: float  # what makes up for rounding in z


class WhitenedCones(NamedTuple):
    """The same, with the cones."""

    whitened: Whitened
    directions: np.ndarray  # the m, in columns, shape (E, L)
    direction: np.ndarray  # number of the m of each cone, shape (G,)
    off: np.ndarray  # ε_g, shape (G,)


@njit
def whitened_at(whitened, theta, centre):  # type: ignore[no-untyped-def]
    """Return z and ‖z‖, infinite outside the radius."""
    z, squares = np.zeros(whitened.coordinates.size), 0.0
    for j in range(z.size):  # not by a library, whose rounding depends on its threads: decisions would with it
        for k in range(z.size):
            c = whitened.coordinates[k]
            z[j] += whitened.whiten[j, k] * (theta[c] - centre[c])
        squares += z[j] * z[j]
    distance = np.sqrt(squares) * whitened.outwards
    return z, (distance if distance <= whitened.radius else np.inf)


@njit
def _add_distances(spans, cones, theta, centre):  # type: ignore[no-untyped-def]
    """Add the part of one end to all M_g, infinite outside the radius."""
    z, distance = whitened_at(cones.whitened, theta, centre)
    if distance == np.inf:
        spans[:] = np.inf
        return
    along = np.zeros(cones.directions.shape[1])
    for j in range(z.size):
        for m in range(along.size):
            along[m] += cones.directions[j, m] * z[j]
    for g in range(spans.size):
        # ε_g is large enough for the rounding of the product as well.
        reach = min(abs(along[cones.direction[g]]) + cones.off[g] * distance, distance)
        spans[g] += reach**cones.whitened.power


@njit
def distances_of_cones(constants, at):  # type: ignore[no-untyped-def]
    """Return the M_g(θ, θ′) and that no row was read for them."""
    spans = np.zeros(constants[0].off.size)
    _add_distances(spans, constants[0], at.theta_new, at.centre)
    _add_distances(spans, constants[0], at.theta, at.centre)
    return spans, 0


def rows_in_cones(
    bounds: np.ndarray, directions_of: Callable[[Rows], np.ndarray | None], rows: Rows, whitened: Whitened, span: float
) -> tuple[WhitenedCones, BoundCones] | None:
    """Return rows in cones, or None where that is not known or not worth its time.

    `bounds` are the c_i, of shape (N,); `directions_of` returns d_i for each of some rows, as rows of a matrix, and
    None where they read more than one predictor; `whitened` and `span`, the M of a typical decision, are for all rows
    alike.
    """
    n_directions = min(_DIRECTIONS, len(rows) // _ROWS_EACH)
    read = np.minimum(1.0, bounds * span)
    if n_directions < 2 or read.sum() < _LEAST_SAVED + _ROWS_A_DIRECTION * n_directions:
        return None
    rng = np.random.default_rng(0)
    size = min(_CHOSEN_FROM, int(np.count_nonzero(read)))
    some = np.sort(rng.choice(len(rows), size, replace=False, p=read / read.sum()))
    sample = directions_of(rows.take(some))
    if sample is None:
        return None
    centres = _directions(_upwards(sample), min(n_directions, len(sample)), rng)
    number, off = _nearest(centres, directions_of, rows)
    cone, of_cone = _cones(number, off)
    farthest = np.zeros(of_cone.size)
    np.maximum.at(farthest, cone, off)
    off_of_cone = farthest * (1 + OUTWARDS) + OUTWARDS
    new = WhitenedCones(whitened, np.ascontiguousarray(centres.T), of_cone, off_of_cone)
    z = rng.normal(size=(_TRIED, whitened.coordinates.size))
    away = np.linalg.norm(z, axis=1)[:, None]
    reach = np.minimum(np.abs(z @ centres.T)[:, of_cone] + farthest * away, away)
    typical = 2 * (reach**whitened.power).mean(axis=0)[cone]
    saved = read.sum() - np.minimum(1.0, bounds * typical).sum()
    if saved < _LEAST_SAVED + _ROWS_A_DIRECTION * n_directions:
        return None
    return new, cone_table(bounds * (1 + OUTWARDS), cone, np.flatnonzero(bounds * typical > 1))


def _directions(sample: np.ndarray, number: int, rng: np.random.Generator) -> np.ndarray:
    """Return the means of clusters; a direction to which none is near stays what it was."""
    first = sample[rng.choice(len(sample), number, replace=False)]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "One of the clusters is empty", UserWarning)
        return kmeans2(sample, first, iter=_ROUNDS, minit="matrix")[0]


def _upwards(directions: np.ndarray) -> np.ndarray:
    """Turn directions round so that their largest entry is positive: d and −d are alike."""
    largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=1)[:, None], axis=1)
    return directions * np.where(largest < 0, -1.0, 1.0)


def _nearest(
    centres: np.ndarray, directions_of: Callable[[Rows], np.ndarray | None], rows: Rows
) -> tuple[np.ndarray, np.ndarray]:
    """Return for each row the number of the m that is nearest to its direction, and how far that is."""
    number, off = np.empty(len(rows), np.int64), np.empty(len(rows))
    squares = (centres**2).sum(axis=1)
    for start in range(0, len(rows), _CHUNK):
        chunk = np.arange(start, min(start + _CHUNK, len(rows)))
        found = directions_of(rows.take(chunk))
        assert found is not None
        products = found @ centres.T
        number[chunk] = (squares - 2 * np.abs(products)).argmin(axis=1)
        nearest = centres[number[chunk]]
        sign = np.where(np.take_along_axis(products, number[chunk][:, None], axis=1) < 0, -1.0, 1.0)
        off[chunk] = np.linalg.norm(sign * found - nearest, axis=1)
    return number, off


def _cones(number: np.ndarray, off: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the cone of each row, and the number of the m of each cone."""
    with np.errstate(divide="ignore"):
        level = np.clip(np.floor(-2 * np.log2(off)), 0, _DISTANCES - 1).astype(np.int64)
    found, cone = np.unique(number * _DISTANCES + level, return_inverse=True)
    return cone, found // _DISTANCES
