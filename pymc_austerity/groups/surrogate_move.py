"""φ on the surrogate, in coordinates (φ, z): groups go along with their z as they are.

All steps together are reversible for π̃(φ, u(φ, z)) Π|Σ_g(φ)|^{1/2}, as their order is one way or the other at random:
what is left to the decision is what the expansion leaves of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_austerity.compile.bounded_integers import integer_below
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.crossed_means import factorise, solve_group, solve_transposed
from pymc_austerity.groups.elimination import solve_joint
from pymc_austerity.groups.group_expansion import rate_of_rows
from pymc_austerity.groups.slice_step import build_slice, moved
from pymc_austerity.groups.zero_sums import keep_sums
from pymc_austerity.likelihood.linked_functions import prior_slope_at

#: Correlation of what is normal given the rest with where it comes from: across the mean, see `shared_move`.
_ACROSS = -0.4


@built_once
def build_surrogate_slice(surrogate: Callable[..., Any]) -> Callable[..., Any]:
    """Compile the `build_slice` of φ on the surrogate, of points of `build_surrogate`, given z and the `GroupData`."""
    return build_slice(njit(lambda here, step, up, given: surrogate(moved(here.phi, step, up), given[0], given[1])))


@built_once
def build_surrogate_move(along: Callable[..., Any], given: Callable[..., Any]) -> Callable[..., Any]:
    """Compile ``move(rng, here, z, data, shared)``: slice steps, and one of what is normal given the rest around them.

    `along` is from `build_surrogate_slice`, `given` from `build_normal_given`, or `no_step`; `shared`: a `SharedState`.
    """

    @njit
    def direction_of(rng, phi, steps, wider):  # type: ignore[no-untyped-def]
        """Return an axis and its number, or a direction across all of them and −1."""
        sliced, direction = steps.sliced, np.zeros(phi.size)
        if rng.random() < 0.5:
            s = steps.chosen[integer_below(rng, steps.chosen.size)]
            direction[sliced[s]] = wider[s] * steps.axes[s]
            return direction, s
        sphere = rng.standard_normal(sliced.size)
        length = 0.0
        for s in range(sliced.size):
            length += sphere[s] ** 2
        for s in range(sliced.size):
            for t in range(s + 1):
                direction[sliced[s]] += wider[s] * steps.oblique[s, t] * sphere[t] / np.sqrt(length)
        return direction, -1

    @njit
    def move(rng, here, z, data, shared):  # type: ignore[no-untyped-def]
        first = rng.random() < 0.5
        if first:
            here = given(rng, here, z, data)
        for _ in range(data.steps.n_slices):
            direction, axis = direction_of(rng, here.phi, data.steps, shared.wider)
            here, length = along(rng, here, direction, (z, data))
            if axis >= 0:
                shared.lengths[axis] = max(shared.lengths[axis], length)
        return here if first else given(rng, here, z, data)

    return move


@njit
def _columns_of(theta, slope, data, precision):  # type: ignore[no-untyped-def]
    """Return A_ub, shape (n, G, K), and put A_bb into its place; of b in units."""
    e, steps = data.steering, data.steps
    normal, unit, read_as, rate = steps.normal, steps.unit, steps.read_as, rate_of_rows(theta, e.centre, e.scale)
    own, sizes, cross, shared = e.own, e.size, e.cross, e.shared
    n = normal.size
    columns, alone = np.zeros((n, own.shape[0], own.shape[1])), theta.copy()
    for i in range(n):
        if not steps.coupled[i]:
            alone[shared[normal[i]]] += unit[i]
    _, along = prior_slope_at(data.links.rows, alone, data.others, data.fixed)
    for i in range(n):
        r, place = read_as[i], shared[normal[i]]
        if steps.coupled[i]:
            moved = theta.copy()
            moved[place] += unit[i]
            _, of_this = prior_slope_at(data.links.rows, moved, data.others, data.fixed)
            for j in range(n):
                precision[i, j] = (slope[shared[normal[j]]] - of_this[shared[normal[j]]]) * unit[j]
            for g in range(own.shape[0]):
                for k in range(sizes[g]):
                    columns[i, g, k] = slope[own[g, k]] - of_this[own[g, k]]
        else:
            precision[i, i] = (slope[place] - along[place]) * unit[i]
        if r >= 0:
            for j in range(n):
                if read_as[j] >= 0:
                    precision[i, j] -= rate * unit[i] * unit[j] * e.shared_hessian[r, read_as[j]]
            for g in range(own.shape[0]):
                for k in range(sizes[g]):
                    columns[i, g, k] -= rate * unit[i] * cross[g, k, r]
    return columns


@njit
def _slope_by(theta, slope, i, data):  # type: ignore[no-untyped-def]
    """Return the derivative of the log surrogate by a coefficient, in its units."""
    e, steps = data.steering, data.steps
    total, r = slope[e.shared[steps.normal[i]]], steps.read_as[i]
    if r >= 0:
        own, sizes, cross, centre = e.own, e.size, e.cross, e.centre
        of_rows = e.shared_gradient[r]
        for s in range(e.read.size):
            of_rows += e.shared_hessian[r, s] * (theta[e.read[s]] - centre[e.read[s]])
        for g in range(own.shape[0]):
            for k in range(sizes[g]):
                of_rows += cross[g, k, r] * (theta[own[g, k]] - centre[own[g, k]])
        total += rate_of_rows(theta, centre, e.scale) * of_rows
    return steps.unit[i] * total


@built_once
def build_normal_given(surrogate: Callable[..., Any], sums: bool) -> Callable[..., Any]:
    """Compile ``given(rng, here, z, data)``: a step of coefficients that are normal given the rest of φ, to a point.

    `sums` says whether some sums of effects are zero.

    With b the coefficients, u the groups, of precision Q given φ, and A the second derivatives of minus the log
    surrogate, the precision of b is A_bb − A_bu Q⁻¹ A_ub, and its mean a Newton step from anywhere.  All of this is
    taken at one b, so that it is a function of the rest of φ; what is accepted by the surrogate is right even where it
    is not quite its law.
    """

    @njit
    def law(phi, data):  # type: ignore[no-untyped-def]
        """Return the mean, in units from the centre, and the factor of the precision, and whether there is one."""
        e, steps = data.steering, data.steps
        normal, n = steps.normal, steps.normal.size
        at = phi.copy()
        for i in range(n):
            at[normal[i]] = e.centre[e.shared[normal[i]]]
        there = surrogate(at, np.zeros(e.own.shape), data)
        theta, factor, left = there.theta, there.conditional.factor, there.conditional.left
        normals = there.conditional.normals
        _, slope = prior_slope_at(data.links.rows, theta, data.others, data.fixed)
        precision, mean = np.zeros((1, n, n)), np.empty((1, n))
        columns = _columns_of(theta, slope, data, precision[0])
        rate = rate_of_rows(theta, e.centre, e.scale)
        for i in range(n):
            solved = solve_joint(columns[i], factor, left, rate, e)
            if sums:
                solved = keep_sums(solved, factor, left, normals, rate, e)
            for j in range(i + 1):
                total = 0.0
                for g in range(solved.shape[0]):
                    for k in range(solved.shape[1]):
                        total += columns[j, g, k] * solved[g, k]
                precision[0, i, j] -= total
            mean[0, i] = _slope_by(theta, slope, i, data)
        found = np.isfinite(there.value) and factorise(precision, 0, n)
        return mean, precision, found

    @njit
    def given(rng, here, z, data):  # type: ignore[no-untyped-def]
        e, steps = data.steering, data.steps
        normal, unit, n = steps.normal, steps.unit, steps.normal.size
        noise, u = rng.standard_normal(n), rng.random()
        mean, factor, found = law(here.phi, data)
        if not found:
            return here
        solve_group(factor, 0, mean, 0, n)
        white, gained = np.empty((1, n)), 0.0
        for i in range(n):
            z_i = 0.0
            for j in range(i, n):
                shift = (here.phi[normal[j]] - e.centre[e.shared[normal[j]]]) / unit[j] - mean[0, j]
                z_i += factor[0, j, i] * shift
            white[0, i] = _ACROSS * z_i + np.sqrt(1 - _ACROSS**2) * noise[i]
            gained += (white[0, i] ** 2 - z_i**2) / 2
        solve_transposed(factor, 0, white, 0, n)
        phi = here.phi.copy()
        for i in range(n):
            phi[normal[i]] = e.centre[e.shared[normal[i]]] + unit[i] * (mean[0, i] + white[0, i])
        there = surrogate(phi, z, data)
        return there if np.log1p(-u) < there.value - here.value + gained else here

    return given


@njit
def no_step(rng, here, z, data):  # type: ignore[no-untyped-def]
    """Stay, where nothing is normal given the rest."""
    return here
