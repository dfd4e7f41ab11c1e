"""The refresh of effects of two factors that multiply each other, each from a quadratic that is fitted to its own rows.

Given the effects of the other factor, which enter the rows as a column of data does, a group is nearly normal, but what
an expansion at the centre says of it is wrong where the others have moved.  So the rows of a group are evaluated at a
few places around its centre, which are the same wherever the group is: its proposal is independent of it.
"""

from __future__ import annotations

import numpy as np

from pymc_austerity.acceptance import BAD_ROW, DECIDED
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.crossed_means import factorise, solve_group, solve_transposed
from pymc_austerity.groups.group_density import group_terms_at
from pymc_austerity.groups.group_parts import RefreshOutcome
from pymc_austerity.groups.group_refresh import Refresh, next_groups, rows_together, take_back
from pymc_austerity.kernel import DECIDE, PROPOSE
from pymc_austerity.likelihood import LinkedBothSides

#: Standard deviations from the centre of the places.
_STEP = 1.0
#: Share of groups that walk, and how much wider than the fitted law the others are proposed, as tails may be.
_WALKS, _WIDER = 0.2, 1.2
#: A fitted precision, in units of that of the expansion, is between these, and a mean no further from the centre.
_LEAST, _FURTHEST = 0.1, 6.0


@njit
def _places(size):  # type: ignore[no-untyped-def]
    """Return the places: the centre, either side of it along each coordinate of z, and the corners between two."""
    places, n = np.zeros((1 + 2 * size + size * (size - 1) // 2, size)), 1
    for k in range(size):
        places[n, k], places[n + 1, k] = _STEP, -_STEP
        n += 2
    for k in range(size):
        for j in range(k):
            places[n, k], places[n, j] = _STEP, _STEP
            n += 1
    return places


@njit
def _put(theta, z, groups, e, factor):  # type: ignore[no-untyped-def]
    """Return θ with groups at û_g + C_g⁻ᵀz_g, z a row each."""
    at, own, centre, x = theta.copy(), e.own, e.centre, z.copy()
    for i in range(groups.size):
        g = groups[i]
        solve_transposed(factor, g, x, i, e.size[g])
        for k in range(e.size[g]):
            at[own[g, k]] = centre[own[g, k]] + x[i, k]
    return at


@njit
def _fit(values, size):  # type: ignore[no-untyped-def]
    """Return mean and factor of the precision of the normal law through log densities at `_places`, a row a group."""
    n = len(values)
    mean, precision, trial = np.zeros((n, size)), np.zeros((n, size, size)), np.empty((1, size, size))
    for i in range(n):
        of, corner = values[i], 1 + 2 * size
        for k in range(size):
            up, down = of[1 + 2 * k], of[2 + 2 * k]
            mean[i, k] = (up - down) / (2 * _STEP)
            precision[i, k, k] = max(_LEAST, (2 * of[0] - up - down) / _STEP**2)
            for j in range(k):
                precision[i, k, j] = (up + of[1 + 2 * j] - of[0] - of[corner]) / _STEP**2
                corner += 1
        fitted = np.isfinite(mean[i]).all() and np.isfinite(precision[i]).all()
        for k in range(size):
            for j in range(k + 1):
                trial[0, k, j] = precision[i, k, j]
        if not fitted or not factorise(trial, 0, size):
            for k in range(size):
                mean[i, k] = mean[i, k] if fitted else 0.0
                for j in range(k + 1):
                    trial[0, k, j] = 0.0 if j < k else np.sqrt(precision[i, k, k]) if fitted else 1.0
        solve_group(trial, 0, mean, i, size)
        for k in range(size):
            mean[i, k] = min(max(mean[i, k], -_FURTHEST), _FURTHEST)
            for j in range(k + 1):
                precision[i, k, j] = trial[0, k, j]
    return mean, precision


@njit
def _propose(rng, theta, groups, e, of_centre, mean, factor):  # type: ignore[no-untyped-def]
    """Return the z that each group goes to, by its fitted law or a walk, and log q(u|u′) − log q(u′|u)."""
    n, size = mean.shape
    walks, noise, log_q_ratio = rng.random(n), rng.standard_normal((n, size)), np.zeros(n)
    z = np.empty((n, e.own.shape[1]))
    for i in range(n):
        g = groups[i]
        for k in range(size):
            z[i, k] = 0.0
            for j in range(k, size):
                z[i, k] += of_centre[g, j, k] * (theta[e.own[g, j]] - e.centre[e.own[g, j]])
        for k in range(size):
            if walks[i] < _WALKS:
                noise[i, k] *= 2.38 / np.sqrt(size)
            else:
                white = 0.0
                for j in range(k, size):
                    white += factor[i, j, k] * (z[i, j] - mean[i, j])
                log_q_ratio[i] += (noise[i, k] ** 2 - (white / _WIDER) ** 2) / 2
                noise[i, k] *= _WIDER
        solve_transposed(factor, i, noise, i, size)
        for k in range(size):
            z[i, k] = noise[i, k] + (z[i, k] if walks[i] < _WALKS else mean[i, k])
    return z, log_q_ratio


@built_once
def build_fitted_refresh(both_sides: LinkedBothSides) -> Refresh:
    """Compile the refresh."""

    @njit
    def sums(theta_new, theta, groups, data):  # type: ignore[no-untyped-def]
        """Return the log densities of groups at two places, a row that is no number, and how many were read."""
        links, found, bad_row, n_rows = data.links, np.zeros((2, groups.size)), -1, 0
        after = group_terms_at(links.prior.terms, theta_new, data.others, data.fixed)
        before = group_terms_at(links.prior.terms, theta, data.others, data.fixed)
        for i in range(groups.size):
            found[0, i], found[1, i] = after[groups[i]], before[groups[i]]
        first = np.int64(0)
        while first < groups.size:
            numbers, last = rows_together(first, groups, data)
            n_rows += numbers.size
            row = 0
            if numbers.size > 0:
                new, old = both_sides(
                    links.rows, theta_new, theta, data.others, data.expansion.centre, data.fixed, data.arrays, numbers
                )
                for i in range(first, last):
                    for _ in range(data.start[groups[i] + 1] - data.start[groups[i]]):
                        found[0, i] += new[row]
                        found[1, i] += old[row]
                        if not np.isfinite(old[row]):
                            bad_row = numbers[row]
                        row += 1
            first = last
        return found, bad_row, n_rows

    @njit
    def fitted(theta, groups, data, factor):  # type: ignore[no-untyped-def]
        """Return mean and factor of the precision of the law fitted to each group, in z, and the rows read for it."""
        e, n = data.steering, groups.size
        places = _places(e.size[groups[0]])
        values, z, n_read = np.empty((n, len(places))), np.empty((n, e.own.shape[1])), 0
        for s in range(0, len(places), 2):
            then = min(s + 1, len(places) - 1)
            both = [theta, theta]
            for side in range(2):
                z[:, : places.shape[1]] = places[s if side == 0 else then]
                both[side] = _put(theta, z, groups, e, factor)
            found, _, n_rows = sums(both[0], both[1], groups, data)
            values[:, s], values[:, then] = found[0], found[1]
            n_read += n_rows
        mean, of_law = _fit(values, places.shape[1])
        return mean, of_law, n_read

    @njit
    def refresh(theta, t, data, state, looks_of_large, generators):  # type: ignore[no-untyped-def]
        e, rng, groups = data.steering, generators[PROPOSE], next_groups(t, data, state)
        mean, factor, n_read = fitted(theta, groups, data, state.factor)
        z, log_q_ratio = _propose(rng, theta, groups, e, state.factor, mean, factor)
        theta_new = _put(theta, z, groups, e, state.factor)
        found, bad_row, n_rows = sums(theta_new, theta, groups, data)
        n, accepted = groups.size, np.zeros(groups.size, np.bool_)
        for i in range(n):
            log_ratio = found[0, i] - found[1, i] + log_q_ratio[i]
            accepted[i] = np.log1p(-generators[DECIDE].random()) < log_ratio  # never where it is no number
        n_accepted, status = take_back(theta_new, theta, groups, accepted, e), DECIDED
        if bad_row >= 0:
            theta_new, status = theta, BAD_ROW
        return RefreshOutcome(theta_new, status, bad_row, n, n_accepted, n_read + n_rows, 0, 0)

    return refresh
