"""Shifts of an effect against those nested in it: v_s + δ_s and u_g − C_g δ_s for the groups g within s.

No row changes, so that the prior decides, for every s by itself.  The sums u_g + v_s(g) stay, as where a hierarchy is
centred (Papaspiliopoulos, Roberts and Sköld, Statistical Science 22, 2007): where rows say much of these, moves of u
and v one after the other are slow.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from typing import NamedTuple

import numpy as np

from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.group_density import group_derivatives_at, group_terms_at
from pymc_austerity.groups.group_search import GroupSearch
from pymc_austerity.groups.group_shifts import POINTS, SPREAD, places_of, ratio_of_slopes, rows_stay
from pymc_austerity.kernel import DECIDE, PROPOSE

#: ``nested(theta, data, generators)``: θ.
NestedShift = Callable[..., np.ndarray]


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
    thetas = [centre + SPREAD * rng.standard_normal(centre.size) for _ in range(POINTS)]
    for finer, coarser in combinations(single, 2):
        inner, outer = (of_rows[groups.factors.index(f)] for f in (finer, coarser))
        parent = np.full(len(groups.own), -1)
        parent[inner] = outer
        if not np.array_equal(parent[inner], outer):
            continue
        of = [[c for c, (f, _) in enumerate(along) if f == factor] for factor in (finer, coarser)]
        for c, d in product(*of):
            column = ratio_of_slopes(search, thetas[0], directions[c], directions[d], inner)
            if column is None:
                continue
            column = np.nan_to_num(column)
            child = np.flatnonzero(column)
            shift = np.zeros(centre.size)
            shift[places_of(search, *along[d])] = rng.standard_normal(int(np.diff(groups.first)[coarser]))
            k, q = along[c][1], along[d][1]
            shift[groups.own[child, k]] = -column[child] * shift[groups.own[parent[child], q]]
            if rows_stay(search, thetas, shift):
                own, outer_own = (
                    np.column_stack([g, np.full(g.size, of)]) for g, of in ((child, k), (parent[child], q))
                )
                pairs.append((own, outer_own, column[child]))
    start = np.cumsum([0, *(len(column) for *_, column in pairs)])
    none = np.empty((0, 2), np.int64)
    child, parents = (np.concatenate([none, *(pair[i] for pair in pairs)]) for i in range(2))
    return Nested(start, child, parents, np.concatenate([np.empty(0), *(pair[2] for pair in pairs)]))


@built_once
def build_nested_shift() -> NestedShift:
    """Compile the shifts of all coarser effects at once, each proposed from the normal law of its prior.

    The prior decides on each. Where the prior is normal all are accepted: v is then drawn given the sums.
    """

    @njit
    def normal_along(theta, pair, data):  # type: ignore[no-untyped-def]
        """Return the mean of each δ, its precision, and the log prior terms that it changes, by coarser group."""
        e, nested = data.expansion, data.nested
        t, own = e.ties, e.own
        links, at = data.links.prior, (theta, data.others, data.fixed)
        slope, curvature, _ = group_derivatives_at(
            links.derivatives, *at, own, e.size, t.at, t.probes, t.weights, t.own_at, t.own, t.between
        )
        terms = group_terms_at(links.terms, *at)
        mean, precision, total = np.zeros(len(own)), np.zeros(len(own)), np.zeros(len(own))
        for i in range(nested.start[pair], nested.start[pair + 1]):
            g, k = nested.child[i]
            s, q = nested.parent[i]
            if precision[s] == 0.0:
                mean[s], precision[s], total[s] = slope[s, q], curvature[s, q, q], terms[s]
            mean[s] -= nested.column[i] * slope[g, k]
            precision[s] += nested.column[i] ** 2 * curvature[g, k, k]
            total[s] += terms[g]
        for s in range(mean.size):
            mean[s] = mean[s] / precision[s] if precision[s] > 0.0 else 0.0
        return mean, precision, total

    @njit
    def shifted(theta, step, pair, data):  # type: ignore[no-untyped-def]
        nested, own, theta_new = data.nested, data.expansion.own, theta.copy()
        for i in range(nested.start[pair], nested.start[pair + 1]):
            g, k = nested.child[i]
            s, q = nested.parent[i]
            theta_new[own[g, k]] -= nested.column[i] * step[s]
            theta_new[own[s, q]] = theta[own[s, q]] + step[s]
        return theta_new

    @njit
    def nested_shift(theta, data, generators):  # type: ignore[no-untyped-def]
        for pair in range(data.nested.start.size - 1):
            mean, precision, here = normal_along(theta, pair, data)
            step, z = np.zeros(mean.size), np.zeros(mean.size)
            for s in range(mean.size):
                if precision[s] > 0.0:
                    z[s] = generators[PROPOSE].standard_normal()
                    step[s] = mean[s] + z[s] / np.sqrt(precision[s])
            mean_back, precision_back, there = normal_along(shifted(theta, step, pair, data), pair, data)
            for s in range(mean.size):
                if precision[s] > 0.0:
                    u, back = generators[DECIDE].random(), -step[s] - mean_back[s]
                    log_ratio = there[s] - here[s] + (z[s] ** 2 - precision_back[s] * back**2) / 2.0
                    log_ratio += np.log(precision_back[s] / precision[s]) / 2.0 if precision_back[s] > 0.0 else -np.inf
                    if not np.log1p(-u) < log_ratio:
                        step[s] = 0.0
            theta = shifted(theta, step, pair, data)
        return theta

    return nested_shift
