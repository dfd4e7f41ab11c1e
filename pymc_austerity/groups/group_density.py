"""The prior of the parameters of groups, compiled: its terms, and their derivatives by each group's own parameters."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import types
from pytensor.gradient import grad
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import apply_ancestors
from pytensor.tensor.subtensor import Subtensor

from pymc_austerity.compile.addresses import arrays_at, tuple_of
from pymc_austerity.compile.by_address import Reached, build_call, reach
from pymc_austerity.compile.graph_compiler import compile_part
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.checked_by_numbers import farthest
from pymc_austerity.groups.factor import GroupsNotFoundError
from pymc_austerity.groups.grouping import Groups
from pymc_austerity.likelihood import VECTOR, Density, ModelData, RowLikelihood
from pymc_austerity.likelihood.linked_functions import WITHOUT_ROWS
from pymc_austerity.likelihood.model_graph import entries_taken

#: Groups and rows that the check looks at.
_CHECKED_GROUPS, _CHECKED_ROWS = 3, 500
_RELATIVE_ERROR = 1e-8
_WHOLE, _MATRIX = types.int64[::1], types.float64[:, ::1]
#: Where the parameters of each group lie in θ and how many they are, and the first six fields of `Ties`; a gradient and
#: a matrix for each group, and what ties them.
_OWN = types.int64[:, ::1], _WHOLE, _WHOLE, _MATRIX, _MATRIX, _WHOLE, _MATRIX, _MATRIX
_DERIVATIVES = types.Tuple((_MATRIX, types.float64[:, :, ::1], types.float64[::1]))

#: ``group_terms_at(address, theta, others, fixed)``: log p(u_g | φ) of all groups, of the model that the address is of.
group_terms_at = build_call(VECTOR, *WITHOUT_ROWS)
#: ``group_derivatives_at(address, theta, others, fixed, ...)``, with `_OWN` behind: the gradient of each term by the
#: group's own parameters, shape (G, K), minus its Hessian, and what ties groups to each other, shape (M,).
group_derivatives_at = build_call(_DERIVATIVES, *WITHOUT_ROWS, *_OWN)


class GroupPriorLinks(NamedTuple):
    """Addresses of the functions of a `GroupPrior` in this process."""

    terms: int
    derivatives: int


class GroupPrior(NamedTuple):
    """The prior terms of groups, compiled."""

    terms: Callable[..., tuple[np.ndarray]]  # of θ, the variables of other steps and fixed data
    derivatives: Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]]

    def reached(self, likelihood: RowLikelihood) -> tuple[Reached, Reached]:
        """Return both as code that is compiled for all models finds them, at the addresses of `GroupPriorLinks`."""
        terms, fixed = self.terms, tuple_of(likelihood.fixed)

        @njit
        def terms_of(theta, others, fixed_at):  # type: ignore[no-untyped-def]
            return np.ascontiguousarray(terms(theta, others, *arrays_at(fixed_at, fixed))[0])

        return reach(terms_of, *WITHOUT_ROWS), reach(self.derivatives, *WITHOUT_ROWS, *_OWN)


def compile_group_prior(likelihood: RowLikelihood, groups: Groups, options: dict[str, Any]) -> GroupPrior:
    """Compile the prior terms of groups.

    A derivative along the k-th parameter of all groups at once holds what belongs to each, because the terms split; of
    groups that are tied to each other, the product with a probe says which combination of matrices their precision is.
    """
    inputs = [likelihood.theta, likelihood.others, *likelihood.fixed]
    terms = compile_part(inputs, [groups.log_prior], **options)
    along = likelihood.theta.type("along")
    # Nobody asks for derivatives by these, and the way back through the prior of a covariance is long to compile.
    shared = parts_of_theta(likelihood, groups.log_prior, groups.shared)
    by_own: dict[str, Any] = {"wrt": likelihood.theta, "consider_constant": shared, "disconnected_inputs": "ignore"}
    gradient = grad(groups.log_prior.sum(), **by_own)
    # Reverse over reverse: the forward mode of a triangular solve is wrong in PyTensor 3.3.
    product = grad((gradient * along).sum(), **by_own)
    gradient_of = compile_part(inputs, [gradient], **options)
    product_of = compile_part([along, *inputs], [product], **options)
    types_of_fixed = tuple_of(likelihood.fixed)

    @njit
    def derivatives(  # type: ignore[no-untyped-def]
        theta, others, fixed_at, own, n_own, tied_at, probes, weights, tied_own_at, tied_own, tied_between
    ):
        fixed = arrays_at(fixed_at, types_of_fixed)
        n_groups, size = own.shape
        slope, curvature = np.zeros((n_groups, size)), np.zeros((n_groups, size, size))
        by_theta = gradient_of(theta, others, *fixed)[0]
        for g in range(n_groups):
            for k in range(n_own[g]):
                slope[g, k] = by_theta[own[g, k]]
        n_tied, places, products = tied_at.size, own.ravel(), np.empty((len(probes), tied_at.size))
        for k in range(max(size, len(probes))):
            direction = np.zeros(theta.size)
            for g in range(n_groups):
                if k < n_own[g]:
                    direction[own[g, k]] = 1.0
            for i in range(n_tied):
                direction[places[tied_at[i]]] = probes[k, i] if k < len(probes) else 0.0
            column = product_of(direction, theta, others, *fixed)[0]
            for g in range(n_groups):
                for j in range(n_own[g] if k < n_own[g] else 0):
                    curvature[g, j, k] = -column[own[g, j]]
            for i in range(n_tied if k < len(probes) else 0):
                products[k, i] = -column[places[tied_at[i]]]
        shares = np.zeros(len(weights))
        for r in range(shares.size):
            for i in range(products.size):
                shares[r] += weights[r, i] * products.ravel()[i]
        flat, between = curvature.ravel(), np.zeros(tied_between.shape[1])
        for i in range(n_tied):
            for j in range(size):
                flat[tied_at[i] * size + j] = 0.0
        for r in range(shares.size):
            for b in range(tied_own_at.size):
                flat[tied_own_at[b]] += shares[r] * tied_own[r, b]
            for t in range(between.size):
                between[t] += shares[r] * tied_between[r, t]
        return slope, curvature, between

    return GroupPrior(terms, derivatives)


def parts_of_theta(likelihood: RowLikelihood, graph: Variable, places: np.ndarray) -> list[Variable]:
    """Return the parts of θ in a graph that hold nothing but these entries."""

    def holds_these(node: Apply) -> bool:
        if not isinstance(node.op, Subtensor) or node.inputs[0] is not likelihood.theta:
            return False
        taken = entries_taken(node, likelihood.theta_size)
        return taken is not None and bool(np.isin(taken, places).all())

    return [node.outputs[0] for node in apply_ancestors([graph]) if holds_these(node)]


def check_groups(data: ModelData, groups: Groups, density: Density, prior: GroupPrior) -> None:
    """Check by numbers that a group's parameters change its own rows and its own prior term, and nothing else."""
    rng = np.random.default_rng(1956)
    of_rows, n_rows = groups.of_rows(data.rows.arrays), len(data.rows)
    some = rng.choice(n_rows, min(_CHECKED_ROWS, n_rows), replace=False)
    away = rng.standard_normal(data.theta0.size)

    def are_finite(spread: float) -> bool:
        sides = density.both_sides(
            *2 * [data.theta0 + spread * away], data.others0, *data.fixed, *data.rows.take(some).arrays
        )
        return bool(np.isfinite(sides).all())

    spread = farthest(are_finite)
    theta = data.theta0 + spread * away
    chosen = [a + rng.choice(b - a, min(_CHECKED_GROUPS, b - a), replace=False) for a, b in pairwise(groups.first)]
    for g in np.concatenate(chosen):
        changed = theta.copy()
        own = groups.own[g, : groups.size[g]]
        changed[own] += spread * rng.standard_normal(own.size)
        f = int(np.searchsorted(groups.first, g, side="right")) - 1
        of_g, reads = of_rows[groups.factors.index(f)], (of_rows == g).any(axis=0)
        numbers = np.union1d(some, np.flatnonzero(reads)[:_CHECKED_ROWS])
        new, old = density.both_sides(changed, theta, data.others0, *data.fixed, *data.rows.take(numbers).arrays)
        moved = np.abs(new - old) > _RELATIVE_ERROR * (1 + np.abs(old))
        if moved[~reads[numbers]].any():
            row = numbers[moved & ~reads[numbers]][0]
            raise GroupsNotFoundError(
                f"The parameters of group {g} change the likelihood of row {row}, which is in group {of_g[row]}."
            )
        at, at_new = (prior.terms(v, data.others0, *data.fixed)[0] for v in (theta, changed))
        change = at_new - at
        if groups.tied[f]:
            continue  # `find_ties` has compared the prior with what is taken for it
        whole, whole_new = (float(density.log_prior(v, data.others0, *data.fixed)[0]) for v in (theta, changed))
        off = np.abs(whole_new - whole - change[g]) + np.abs(np.delete(change, g)).sum()
        if off > _RELATIVE_ERROR * (1 + np.abs(at).sum() + abs(whole)):
            raise GroupsNotFoundError(
                f"The parameters of group {g} change more of the log prior than the group's own term: by {off:.3g}."
            )
