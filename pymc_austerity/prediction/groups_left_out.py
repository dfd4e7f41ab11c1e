"""The log-likelihood of whole groups of rows, with the effects of each group integrated out.

A group that is left out has no effects u_g of its own any more: they are drawn from their prior.  So what the draws are
weighed by is p(y_g | φ) = ∫ p(y_g | u_g, φ) p(u_g | φ) du_g, with φ everything else (Merkle, Furr and Rabe-Hesketh,
Psychometrika 84, 2019).  Given the u_g of a draw as well the weights would have no finite variance: that u_g was fitted
to the rows.  The integral is found by Gauss–Hermite quadrature about the mode of u_g given φ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any, ClassVar

import numpy as np
from pymc.model import Model
from scipy.special import logsumexp

from pymc_austerity.groups import GroupsNotFoundError, ModelWithGroups, read_groups
from pymc_austerity.likelihood.layout import user_name
from pymc_austerity.prediction.loo_surrogate import (
    SurrogateOfRows,
    by_expansion,
    middle_and_spread,
    spread_directions,
    where_known,
)
from pymc_austerity.prediction.rows_of_run import CompiledRows, RowsOfRun, read_rows_of_run
from pymc_austerity.progress import setup_progress
from pymc_austerity.user_input import shown

#: Steps to the mode of the effects, the first from where a draw has them.
_STEPS = 3
#: Nodes of the quadrature along each of 1, 2, ... effects of a group.
_NODES = 11, 7, 5, 3, 3
#: Standard deviations that a step may go, and shares of the width before to which the width may change in a step.
_FAR, _NARROWEST, _WIDEST = 4.0, 1e-3, 3.0


@dataclass(frozen=True, eq=False)
class GroupsOfRun:
    """The groups of a run, as units that are left out."""

    run: RowsOfRun
    labels: np.ndarray  # of the groups that have rows, shape (n,)
    of_rows: np.ndarray  # the place of each row's group among these, shape (N,)
    own: np.ndarray  # where the effects of each group lie in ψ, shape (n, K); none where K = 0
    prior_terms: np.ndarray  # the place of each group among the terms of the prior, shape (n,)
    log_prior: CompiledRows | None  # log p(u_g | φ) of all groups that the model has, as a function of ψ
    unit: ClassVar[str] = "group"

    def at_draws(self, numbers: np.ndarray, progressbar: bool) -> np.ndarray:
        """Return log p(y_g | φ) of the groups with these numbers at all draws, shape (S, n)."""
        some, what = MarginalOfGroups(self, numbers), f"{len(numbers):,} groups"
        return self.run.over_draws(some, len(numbers), progressbar, "Leave-one-group-out", what)

    def rows_of(self, number: int) -> np.ndarray:
        """Return the numbers of the rows of a group."""
        return np.flatnonzero(self.of_rows == number)

    def surrogate(self, rng: np.random.Generator, progressbar: bool) -> SurrogateOfRows:
        """Return the surrogate of every group: an expansion of log p(y_g | φ) about the mean of the draws."""
        own, everything = self.own.ravel(), MarginalOfGroups(self, np.arange(len(self.labels)))
        centre, away = middle_and_spread(self.run)
        away[:, own] = 0.0
        directions = spread_directions(away, [], np.setdiff1d(np.arange(len(centre)), own), rng)
        with setup_progress(progressbar) as progress:
            what = f"{len(self.labels):,} groups at {1 + 2 * len(directions)} points"
            task = progress.add_task("Leave-one-group-out surrogate", total=1 + 2 * len(directions), what=what)

            def at(point: np.ndarray) -> np.ndarray:
                progress.advance(task)
                return everything(point)

            return where_known(*by_expansion(at, centre, directions))


class MarginalOfGroups:
    """Evaluates log p(y_g | φ) of some groups; it starts to look for the effects where ψ has them."""

    def __init__(self, groups: GroupsOfRun, numbers: np.ndarray):
        run, place = groups.run, np.full(len(groups.labels), -1)
        place[numbers] = np.arange(len(numbers))
        of_rows = place[groups.of_rows]
        (self._rows,) = run.table.samples([np.flatnonzero(of_rows >= 0)])
        self._values, self._log_prior, self._of_rows = run.values, groups.log_prior, of_rows[of_rows >= 0]
        self._own, self._terms = groups.own[numbers], groups.prior_terms[numbers]
        size = self._own.shape[1]
        self._nodes, self._log_weights = quadrature(size or 1)
        effects = run.psi[:, self._own]
        away = effects - effects.mean(axis=0)
        covariance = np.einsum("sgk,sgl->gkl", away, away) / len(away)
        least = 1e-6 + 1e-6 * np.trace(covariance, axis1=1, axis2=2)
        self._width = np.linalg.cholesky(covariance + least[:, None, None] * np.eye(size))

    def __call__(self, psi: np.ndarray) -> np.ndarray:
        """Return the numbers, shape (n,)."""
        size = self._own.shape[1]
        if not size:
            return self.joint(psi, psi[self._own])
        u, width = psi[self._own], self._width
        with np.errstate(all="ignore"):
            for _ in range(_STEPS):
                slope, curvature = self._derivatives(psi, u, width)
                known = np.isfinite(slope).all(axis=1) & np.isfinite(curvature).all(axis=(1, 2))
                values, vectors = np.linalg.eigh(np.where(known[:, None, None], -curvature, np.eye(size)))
                values = np.clip(values, 1 / _WIDEST**2, 1 / _NARROWEST**2)
                step = np.einsum("gkl,gl->gk", vectors, np.einsum("glk,gl->gk", vectors, slope) / values)
                step *= np.minimum(1, _FAR / np.maximum(np.linalg.norm(step, axis=1), 1e-300))[:, None]
                u = u + np.einsum("gkl,gl->gk", width, np.where(known[:, None], step, 0.0))
                width = width @ (vectors / np.sqrt(values)[:, None, :])
            values = np.array([self.joint(psi, u + width @ node) for node in self._nodes])
            return logsumexp(values + self._log_weights[:, None], axis=0) + np.linalg.slogdet(width)[1]

    def joint(self, psi: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return log p(y_g, u_g | φ) at effects of each group, shape (n,)."""
        psi, values = psi.copy(), self._values
        psi[self._own] = u
        total = np.bincount(self._of_rows, values(psi, self._rows.arrays), len(self._own))
        if self._log_prior is None:
            return total
        d = values.likelihood.theta_size
        return total + self._log_prior(psi[:d], psi[d:], *values.fixed)[self._terms]

    def _derivatives(self, psi: np.ndarray, u: np.ndarray, width: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return gradient and Hessian by z, with u + width·z, of the quadratic through points one width away."""
        size, unit = u.shape[1], np.eye(u.shape[1])
        middle = self.joint(psi, u)
        up, down = (np.array([self.joint(psi, u + width @ (sign * e)) for e in unit]) for sign in (1, -1))
        curvature = np.empty((len(u), size, size))
        for k in range(size):
            curvature[:, k, k] = up[k] + down[k] - 2 * middle
        for j, k in combinations(range(size), 2):
            both = sum(self.joint(psi, u + width @ (sign * (unit[j] + unit[k]))) for sign in (1, -1))
            curvature[:, j, k] = curvature[:, k, j] = (both - up[j] - down[j] - up[k] - down[k] + 2 * middle) / 2
        return (up - down).T / 2, curvature


def quadrature(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes, shape (M, size), and the log of weights with which ∫ f(z) dz ≈ Σ_m w_m f(z_m)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES[size - 1])
    all_nodes = np.array(list(product(nodes, repeat=size))).reshape(-1, size)
    log_weights = np.log(weights) + nodes**2 / 2  # of an integral without the factor exp(−z²/2)
    return all_nodes, np.array([sum(of) for of in product(log_weights, repeat=size)])


def read_groups_of_run(idata: Any, model: Model, by: Any, observed: Any, progressbar: bool) -> GroupsOfRun:
    """Read the model, its rows in groups, and all draws of a run.

    `by` is the name of a variable with an entry for each group, of the dimension of that, or of the data that number
    the groups; or an array with a label for each row.
    """
    try:
        with_groups = read_groups(model, observed)
    except GroupsNotFoundError as error:
        if isinstance(by, str):
            raise GroupsNotFoundError(
                f"loo: by={by!r} names no groups of the model, as none are found: {error} Pass an array with a label "
                "for each row, of rows that are left out together."
            ) from None
        with_groups = None
    run = read_rows_of_run(idata, model, None, observed, progressbar, with_groups)
    numbers = None if with_groups is None else with_groups.groups.of_rows(with_groups.data.rows.arrays)
    if isinstance(by, str):
        assert with_groups is not None
        assert numbers is not None
        return _by_factor(run, model, with_groups, numbers, _factor_named(model, with_groups, by))
    labels = np.asarray(by)
    if labels.shape != (len(run.table),):
        raise ValueError(
            f"loo: by={shown(by)} must have a label for each of {len(run.table):,} rows, and has shape {labels.shape}."
        )
    distinct, of_rows = np.unique(labels, return_inverse=True)
    if with_groups is not None and numbers is not None:
        for factor, of_factor in zip(with_groups.groups.factors, numbers, strict=True):
            if _is_same(np.unique(of_factor, return_inverse=True)[1], of_rows):
                found = _by_factor(run, model, with_groups, numbers, factor)
                _, first = np.unique(found.of_rows, return_index=True)
                return replace(found, labels=labels[first])
    return GroupsOfRun(run, distinct, of_rows, np.empty((len(distinct), 0), np.int64), np.arange(len(distinct)), None)


def variables_of_factor(found: ModelWithGroups, factor: int) -> list[str]:
    """Return the names of the user's variables that hold the effects of a factor."""
    groups = found.groups
    own = groups.own[groups.first[factor] : groups.first[factor + 1]]
    blocks = [b for b in found.data.likelihood.blocks if np.isin(np.arange(b.start, b.stop), own).any()]
    return [user_name(b.name) for b in blocks]


def _factor_named(model: Model, found: ModelWithGroups, by: str) -> int:
    """Return the number of the factor that a variable or a dimension belongs to."""
    n_factors = len(found.groups.first) - 1
    names = {f: variables_of_factor(found, f) for f in range(n_factors)}
    for factor, of in names.items():
        dims = {dim for name in of for dim in model.named_vars_to_dims.get(name, ())}
        if by in of or by in dims:
            return factor
    known = "; ".join(", ".join(of) for of in names.values())
    raise ValueError(
        f"loo: by={by!r} must name a variable with an entry for each group, or a dimension of one; groups are found of "
        f"{known}. Or pass an array with a label for each row."
    )


def _by_factor(run: RowsOfRun, model: Model, found: ModelWithGroups, numbers: np.ndarray, factor: int) -> GroupsOfRun:
    """Return the groups of one factor, with their effects; refuse those whose effects have no prior of their own."""
    groups, likelihood = found.groups, found.data.likelihood
    names, indices = variables_of_factor(found, factor), [k for k, of in enumerate(groups.factors) if of == factor]
    first, end = groups.first[factor : factor + 2]
    size = int(groups.size[first])
    if groups.tied[factor] or len(indices) > 1:
        why = "a row reads several of them" if len(indices) > 1 else "their prior ties them to each other"
        raise ValueError(
            f"loo: {names} cannot be left out group by group, because {why}: there is no prior of one given the rest "
            "that could be integrated over. Pass an array with a label for each row, and mind Pareto k."
        )
    if size > len(_NODES):
        raise ValueError(
            f"loo: {names} have {size} effects a group, and the integral over them is found for up to {len(_NODES)}."
        )
    levels, of_rows = np.unique(numbers[indices[0]], return_inverse=True)
    for k, other in enumerate(groups.factors):
        if other != factor and not _is_crossed(of_rows, numbers[k]):
            raise ValueError(
                f"loo: every group of {variables_of_factor(found, other)} lies in one group of {names}, so that with "
                "that group its effects go too. Leave out the finer groups, or pass an array with a label for each row "
                "and mind Pareto k."
            )
    coords = [model.coords[d] for n in names for d in model.named_vars_to_dims.get(n, ()) if model.coords.get(d)]
    labels = next((np.asarray(c) for c in coords if len(c) == end - first), np.arange(end - first))
    prior = CompiledRows([likelihood.theta, likelihood.others, *likelihood.fixed], groups.log_prior)
    return GroupsOfRun(run, labels[levels - first], of_rows, groups.own[levels, :size], levels, prior)


def _is_crossed(of_rows: np.ndarray, other: np.ndarray) -> bool:
    """Whether some group of another factor has rows in several groups."""
    pairs = np.unique(np.stack([other, of_rows]), axis=1)
    return len(np.unique(pairs[0])) < pairs.shape[1]


def _is_same(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether two numberings put the same rows together."""
    n_pairs = np.unique(np.stack([first, second]), axis=1).shape[1]
    return n_pairs == first.max() + 1 == second.max() + 1
