"""Shifts that no row sees: where a column is constant within groups, b + δ and u_g − C_g δ leave every row as it is.

Such directions are the slow ones of hierarchical and crossed effects (Papaspiliopoulos, Roberts and Zanella, Biometrika
107, 2020).  C_g is the ratio of the slopes of the rows of a group along the two.

So are shifts of an effect against those nested in it: v_s + δ_s and u_g − C_g δ_s for the groups g within s.
"""

from __future__ import annotations

from itertools import combinations, product
from typing import NamedTuple

import numpy as np

from pymc_austerity.groups.group_pass import chunks
from pymc_austerity.groups.group_search import GroupSearch
from pymc_austerity.rows import Rows

#: Points at which rows are looked at, their distance from the centre, and how far they go along a shift.
_POINTS, _SPREAD, _STEPS = 2, 0.3, (1.0, -0.7)
#: What may differ, relative to the largest of what is compared; and of sums of squares.
_RELATIVE_ERROR, _OF_SQUARES = 1e-9, 1e-10
#: Steps that are tried for the width of the prior, and changes of its logarithm, as a share, that are rounding.
_TRIES, _ROUNDING = 14, 1e-12
#: Steps of scales for derivatives of the prior of effects, and the share of these that may be left along a shift.
_SMALL, _NEARLY = 1e-3, 0.05


def find_shifts(search: GroupSearch, centre: np.ndarray) -> np.ndarray:
    """Return directions along which no row changes, shape (S, D).

    Effects are shifted against every coefficient whose column is constant within the groups, and against the effects of
    factors before theirs; and against nothing where rows read several groups, as in ``rating[i] - rating[j]``.  Where
    the prior of effects stays when a shared parameter goes along that no row reads (the mean of effects), it does.
    Along the shifts of a factor the prior is standard normal at the centre, where it is normal.

    `centre`, shape (D,): a point with finite density.
    """
    rng = np.random.default_rng(1976)
    thetas = [centre + _SPREAD * rng.standard_normal(centre.size) for _ in range(_POINTS)]
    along, directions = search.model.group_pass.directions()
    with_means = [_with_mean(d, f, search, thetas) for d, (f, _) in zip(directions, along)]
    found: list[np.ndarray] = [np.zeros(centre.size)]
    of_factor: dict[int, list[np.ndarray]] = {}
    for c, columns in enumerate(_columns(search, thetas[0])):
        f = along[c][0]
        ups = [with_means[c]] if search.model.groups.factors.count(f) > 1 else []
        for q, column in columns.items():
            up = np.zeros(centre.size)
            up[_places_of(search, *along[c])] = column
            ups.append(_with_mean(up, f, search, thetas) - (with_means[q] if q < len(along) else directions[q]))
        for up in ups:
            length = _length(up, search, centre) if _keeps_sums(up, search) else None
            if length is None or np.linalg.matrix_rank([*found[1:], up / np.linalg.norm(up)]) < len(found):
                continue
            if _rows_stay(search, thetas, length * up):
                found.append(up / np.linalg.norm(up))
                of_factor.setdefault(f, []).append(length * up)
    whitened = [_whitened(np.array(ups), search, centre) for ups in of_factor.values()]
    return np.concatenate([*whitened, _of_scales(search, centre, thetas)])


def _of_scales(search: GroupSearch, centre: np.ndarray, thetas: list[np.ndarray]) -> np.ndarray:
    """Return shifts of scales that leave the prior of all effects as it is, or nearly, shape (S, D).

    So does a global scale against the local ones of all coefficients of a horseshoe.  Each variable is shifted as a
    whole, in the coordinates that it is sampled in.
    """
    data, groups, terms = search.data, search.model.groups, search.model.prior.terms
    unread = np.setdiff1d(groups.shared, groups.read)
    places = [np.arange(block.start, block.stop) for block in search.model.likelihood.blocks]
    directions = np.array([np.isin(np.arange(centre.size), p) for p in places if np.isin(p, unread).all()], np.float64)
    if len(directions) < 2:
        return np.empty((0, centre.size))
    rng, at = np.random.default_rng(1995), (data.others0, *data.fixed)
    points = [t + _SPREAD * rng.standard_normal(t.size) for t in thetas for _ in directions]
    changes = [[terms(t + _SMALL * d, *at)[0] - terms(t - _SMALL * d, *at)[0] for t in points] for d in directions]
    slopes = np.reshape(changes, (len(directions), -1))
    lengths = np.linalg.norm(slopes, axis=1)[:, None]
    matter = ((lengths > 0) & (lengths < np.inf))[:, 0]
    directions, slopes = directions[matter] / lengths[matter], slopes[matter] / lengths[matter]
    _, left, mixed = np.linalg.svd(slopes.T, full_matrices=False)
    ups = mixed[: left.size][left <= _NEARLY] @ directions
    return np.array([up * length for up in ups if (length := _length(up, search, centre))]).reshape(-1, centre.size)


def _places_of(search: GroupSearch, f: int, k: int) -> np.ndarray:
    """Return where the k-th parameters of the groups of a factor lie in θ."""
    groups = search.model.groups
    return np.asarray(groups.own[groups.first[f] : groups.first[f + 1], k])


def _columns(search: GroupSearch, theta: np.ndarray) -> list[dict[int, np.ndarray]]:
    """Return for every parameter of groups the directions that have a column constant within these, and C_g."""
    groups, (along, directions) = search.model.groups, search.model.group_pass.directions()
    found = []
    for c, (f, _) in enumerate(along):
        columns, of_rows = {}, search.member.of_rows[groups.factors.index(f)]
        for q in [*range(len(along), len(directions)), *(q for q in range(c) if along[q][0] < f)]:
            ratio = _ratio_of_slopes(search, theta, directions[c], directions[q], of_rows)
            if ratio is not None:
                column = ratio[groups.first[f] : groups.first[f + 1]]
                # Groups without rows go along, so that the mean of all can.
                columns[q] = np.where(np.isnan(column), np.nanmean(column), column)
        found.append(columns)
    return found


def _ratio_of_slopes(
    search: GroupSearch, theta: np.ndarray, along: np.ndarray, other: np.ndarray, of_rows: np.ndarray
) -> np.ndarray | None:
    """Return the slopes of rows along another direction over those along one, for each group; None if they differ.

    Groups without rows have no number.
    """
    data, n_groups = search.data, len(search.model.groups.own)
    sums = np.zeros((3, n_groups))
    both = [search.model.group_pass.at_all_indices(direction) for direction in (along, other)]
    for batch, numbers in zip(chunks(search.rows), chunks(Rows((of_rows,))), strict=True):
        own, beside = (
            search.model.group_pass.derivatives(d, d, theta, data.others0, *data.fixed, *batch)[0] for d in both
        )
        for total, terms in zip(sums, (own**2, own * beside, beside**2), strict=True):
            total += np.bincount(numbers[0], terms, n_groups)
    with np.errstate(invalid="ignore"):  # slopes beyond floats are not constant
        ratio = np.divide(sums[1], sums[0], out=np.full(n_groups, np.nan), where=sums[0] > 0)
        constant = np.abs(sums[2] - np.nan_to_num(ratio) * sums[1]) <= _OF_SQUARES * sums[2]
    return ratio if constant.all() and np.nan_to_num(ratio).any() else None


def _with_mean(direction: np.ndarray, f: int, search: GroupSearch, thetas: list[np.ndarray]) -> np.ndarray:
    """Add to a direction along effects the shared parameter that is their mean, if the rows do not read it."""
    data, groups, terms = search.data, search.model.groups, search.model.prior.terms
    own, at = slice(groups.first[f], groups.first[f + 1]), (data.others0, *data.fixed)
    step = _length(direction, search, thetas[0]) or 1.0  # in any unit one that the prior of the effects sees

    def change(along: np.ndarray) -> float:
        return float(np.abs([(terms(t + step * along, *at)[0] - terms(t, *at)[0])[own] for t in thetas]).max())

    rounding = _ROUNDING * (1 + np.abs(terms(thetas[0], *at)[0][own]).max())
    for p in np.setdiff1d(groups.shared, groups.read):
        with_it = direction.copy()
        with_it[p] = 1.0
        if change(with_it) <= _RELATIVE_ERROR * change(direction) + rounding:
            return with_it
    return direction


def _keeps_sums(direction: np.ndarray, search: GroupSearch) -> bool:
    """Whether effects that sum to zero do so along a direction."""
    groups = search.model.groups
    sums = [direction[groups.own[start:end, k]] for start, end, k in groups.zero_sums]
    return all(abs(steps.sum()) <= _RELATIVE_ERROR * np.abs(steps).sum() for steps in sums)


def _length(direction: np.ndarray, search: GroupSearch, theta: np.ndarray) -> float | None:
    """Return the standard deviation of the prior along a direction, or None where it has none."""
    step, here = 1.0, search.log_prior(theta)
    for _ in range(_TRIES):
        sides = [search.log_prior(theta + sign * step * direction) for sign in (1, -1)]
        curvature = 2 * here - sum(sides)
        if abs(curvature) <= _ROUNDING * abs(here):
            step *= 100
            continue
        if not curvature > 0 or not np.isfinite(curvature):
            step /= 4
            continue
        if 0.1 < curvature < 10:
            return float(step / np.sqrt(curvature))
        step /= np.sqrt(curvature)
    return None


def _rows_stay(search: GroupSearch, thetas: list[np.ndarray], direction: np.ndarray) -> bool:
    """Whether all rows stay as they are where θ moves along a direction.

    That is, change by a rounding error of themselves, and of their change where variables go by different shares.
    """
    blocks = search.model.likelihood.blocks
    shares = np.repeat(np.linspace(0.5, 1.5, len(blocks)), [b.stop - b.start for b in blocks])
    for theta, step in zip(thetas, _STEPS, strict=True):
        for batch in chunks(search.rows):
            new, old = search.both_sides(theta + step * direction, theta, batch)
            apart, _ = search.both_sides(theta + step * shares * direction, theta, batch)
            rounding = 10 * _RELATIVE_ERROR * np.abs(apart - old) + _ROUNDING * (1 + np.abs(old))
            if not (np.abs(new - old) <= rounding).all():
                return False
    return True


def _whitened(directions: np.ndarray, search: GroupSearch, theta: np.ndarray) -> np.ndarray:
    """Return directions of the same space along which the prior is standard normal, as far as it is normal."""
    at = search.data.others0, *search.data.fixed
    slopes = [search.model.whole_slope(theta + sign * d, *at)[0] for d in directions for sign in (-1, 1)]
    curvature = (np.array(slopes[::2]) - slopes[1::2]) @ directions.T / 2
    try:
        return np.linalg.solve(np.linalg.cholesky((curvature + curvature.T) / 2), directions)
    except np.linalg.LinAlgError:  # a prior that is not normal
        return directions


class Nested(NamedTuple):
    """Which parameters are nested in which, one pair of a finer and a coarser factor after the other."""

    start: np.ndarray  # int64 (Q + 1,): pair q has the entries ``start[q]`` to ``start[q + 1] - 1`` of what follows
    #: int64 (M, 2): a group g of the finer factor and which of its parameters, and the same of the coarser one.
    child: np.ndarray
    parent: np.ndarray
    column: np.ndarray  # (M,): C_g


def find_nested(search: GroupSearch, centre: np.ndarray) -> Nested:
    """Return the parameters of groups that are nested in those of coarser groups, with rows that read both."""
    groups, of_rows = search.model.groups, search.member.of_rows
    along, directions = search.model.group_pass.directions()
    pairs: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    single = [f for f, together in enumerate(groups.moves_together) if groups.factors.count(f) == 1 and not together]
    rng = np.random.default_rng(1991)
    thetas = [centre + _SPREAD * rng.standard_normal(centre.size) for _ in range(_POINTS)]
    for finer, coarser in combinations(single, 2):
        inner, outer = (of_rows[groups.factors.index(f)] for f in (finer, coarser))
        parent = np.full(len(groups.own), -1)
        parent[inner] = outer
        if not np.array_equal(parent[inner], outer):
            continue
        of = [[c for c, (f, _) in enumerate(along) if f == factor] for factor in (finer, coarser)]
        for c, d in product(*of):
            column = _ratio_of_slopes(search, thetas[0], directions[c], directions[d], inner)
            if column is None:
                continue
            column = np.nan_to_num(column)
            child = np.flatnonzero(column)
            shift = np.zeros(centre.size)
            shift[_places_of(search, *along[d])] = rng.standard_normal(int(np.diff(groups.first)[coarser]))
            k, q = along[c][1], along[d][1]
            shift[groups.own[child, k]] = -column[child] * shift[groups.own[parent[child], q]]
            if _rows_stay(search, thetas, shift):
                own, outer_own = (
                    np.column_stack([g, np.full(g.size, of)]) for g, of in ((child, k), (parent[child], q))
                )
                pairs.append((own, outer_own, column[child]))
    start = np.cumsum([0, *(len(column) for *_, column in pairs)])
    none = np.empty((0, 2), np.int64)
    child, parents = (np.concatenate([none, *(pair[i] for pair in pairs)]) for i in range(2))
    return Nested(start, child, parents, np.concatenate([np.empty(0), *(pair[2] for pair in pairs)]))
