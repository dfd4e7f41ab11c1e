"""Effects whose prior is normal but does not split over groups: random walks, AR(1), ICAR, a normal law over groups.

Their precision given φ is Q(φ) = Σ_k c_k(φ) V_k.  The V_k are found by numbers before sampling; then products of Q(φ)
with a few vectors say what the c_k are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import grad
from pytensor.graph.basic import Variable
from scipy.linalg import block_diag

from pymc_austerity.compile.graph_compiler import interpret_log_density
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import ModelData

#: Effects that are tied to each other, at most, and matrices that their precision is made of.
MOST_TIED, _MOST_MATRICES = 1_000, 32
#: Points at which the precision is taken at first, and at which what was found is checked; their spread.
_FIRST_POINTS, _CHECKED, _SPREAD = 6, 3, 0.5
#: Parts of a precision below this share of all are rounding, and so are entries; what a product may differ by.
_PART, _ENTRY, _RELATIVE_ERROR = 1e-11, 1e-13, 1e-7
#: Vectors that the precision is multiplied with, at most, and how badly they may tell the matrices apart.
_MOST_PROBES, _WORST = 16, 1e7


class NotNormalError(ValueError):
    """A prior that is not known to be normal; the message says in what way."""


class Ties(NamedTuple):
    """The precision of effects that are tied to each other, as arrays for compiled code."""

    at: np.ndarray  # int64 (m,): the numbers g K + k of these effects
    probes: np.ndarray  # (p, m): vectors that the precision is multiplied with
    weights: np.ndarray  # (r, p m): what makes the c_k of the products
    own_at: np.ndarray  # int64 (B,): the places (g K + j) K + k of entries between effects of one group
    own: np.ndarray  # (r, B): these entries of the V_k
    #: int64 (M,): the numbers of two effects of two groups, of the later one first.
    row: np.ndarray
    column: np.ndarray
    between: np.ndarray  # (r, M): the entries of the V_k between them


class FactorTies(NamedTuple):
    """The same for one factor: entries (row, column) of the lower triangles of the V_k, shape (r, E)."""

    row: np.ndarray
    column: np.ndarray
    entries: np.ndarray
    probes: np.ndarray
    weights: np.ndarray


def find_ties(data: ModelData, log_prior: Variable, own: np.ndarray) -> FactorTies:
    """Find the matrices that the precision of effects is made of.

    `log_prior` is the sum of the prior terms that read the effects, in terms of θ; `own`, shape (G, K), says where they
    lie in θ. Raises NotNormalError where the prior is not normal given the rest, or its precision not made of
    few matrices.
    """
    places, likelihood = own.ravel(), data.likelihood
    if places.size > MOST_TIED:
        raise NotNormalError(f"ties {places.size:,} effects to each other, and at most {MOST_TIED:,} are moved")
    along = likelihood.theta.type("along")
    gradient = grad(log_prior, likelihood.theta, disconnected_inputs="ignore")
    product = grad((gradient * along).sum(), likelihood.theta, disconnected_inputs="ignore")
    inputs = [along, likelihood.theta, likelihood.others, *likelihood.fixed]
    compiled = interpret_log_density(inputs, [gradient[places], pt.as_tensor_variable(product)[places]])
    rng = np.random.default_rng(1945)

    def at(theta: np.ndarray, direction: np.ndarray) -> Any:
        whole = np.zeros(theta.size)
        whole[places] = direction
        return uninterrupted(compiled, whole, theta, data.others0, *data.fixed)

    def somewhere() -> np.ndarray:
        return np.asarray(data.theta0 + _SPREAD * rng.standard_normal(data.theta0.size))

    def require_linear(
        precision_times: Callable[[np.ndarray], np.ndarray], theta: np.ndarray, step: np.ndarray
    ) -> None:
        moved = theta.copy()
        moved[places] += step
        change = at(theta, step)[0] - at(moved, step)[0]
        size = np.abs(change).max() + np.abs(at(theta, step)[0]).max() * _ENTRY / _RELATIVE_ERROR
        if not np.abs(change - precision_times(step)).max() <= _RELATIVE_ERROR * size:
            raise NotNormalError("is not normal given the rest: its slope is not linear in the effects")

    # Before the matrices are looked for, which takes a hundred times as long.
    first = np.random.default_rng(1946)
    near = data.theta0 + _SPREAD * first.standard_normal(data.theta0.size)
    require_linear(lambda step: -at(near, step)[1], near, first.standard_normal(places.size))
    rows, columns = np.tril_indices(places.size)
    found: list[np.ndarray] = []
    kept, matrices = np.zeros(rows.size, bool), np.empty((0, 0))
    while len(found) < _FIRST_POINTS or (len(matrices) == len(found) and len(found) < _MOST_MATRICES):
        theta = somewhere()
        precision = -np.array([at(theta, unit)[1] for unit in np.eye(places.size)])
        largest = np.abs(precision).max()
        if not np.isfinite(largest) or not largest > 0:
            raise NotNormalError("has no precision at some points")
        found.append((precision / largest)[rows, columns])
        kept |= np.abs(found[-1]) > _ENTRY
        _, sizes, parts = np.linalg.svd(np.array(found)[:, kept], full_matrices=False)
        matrices = parts[sizes > _PART * sizes[0]]
    if len(matrices) == _MOST_MATRICES:
        raise NotNormalError(
            "is not normal given the rest, with a precision made of a few matrices as that of a random walk is"
        )
    row, column = rows[kept], columns[kept]
    probes, weights = _probes(row, column, matrices, places.size, rng)
    ties = FactorTies(row, column, matrices, probes, weights)
    for _ in range(_CHECKED):
        theta, step = somewhere(), rng.standard_normal(places.size)
        products = -np.array([at(theta, probe)[1] for probe in probes])
        entries = weights @ products.ravel() @ matrices
        require_linear(partial(_times, row, column, entries), theta, step)
    return ties


def _times(row: np.ndarray, column: np.ndarray, entries: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the product of a symmetric matrix, given by its lower triangle, with a vector."""
    out = np.bincount(row, entries * x[column], x.size)
    apart = row != column
    return np.asarray(out + np.bincount(column[apart], (entries * x[row])[apart], x.size))


def _probes(
    row: np.ndarray, column: np.ndarray, matrices: np.ndarray, size: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors whose products with the matrices tell these apart, and what makes their shares of the products."""
    for n in range(1, min(size, _MOST_PROBES) + 1):
        probes = rng.standard_normal((n, size))
        design = np.array([np.concatenate([_times(row, column, v, probe) for probe in probes]) for v in matrices]).T
        if len(design) >= len(matrices) and np.linalg.cond(design) < _WORST:
            return probes, np.linalg.pinv(design)
    raise NotNormalError("has a precision made of too many matrices")


def ties_together(factors: Sequence[tuple[FactorTies, int, int]], size: int, places: np.ndarray) -> Ties:
    """Put the ties of factors together.

    `factors` come with the number of the first group of each and the parameters of one of its groups; `size`: K, the
    parameters of a group; those of fewer are padded; `places`, int64 of shape (G + 1,): the `places_left`.
    """
    n_probes, none, nothing = (
        max((len(of.probes) for of, _, _ in factors), default=0),
        np.empty(0, np.int64),
        np.empty((0, 0)),
    )
    numbers, probes, own_at, row, column = [none], [np.empty((n_probes, 0))], [none], [none], [none]
    weights, own, between = [np.empty((0, n_probes, 0))], [nothing], [nothing]
    for ties, first, width in factors:
        groups, k = np.divmod(np.arange(ties.probes.shape[1]), width)
        groups += first
        numbers.append(groups * size + k)
        missing = n_probes - len(ties.probes)
        probes.append(np.pad(ties.probes, ((0, missing), (0, 0))))
        of_probes = ties.weights.reshape(len(ties.weights), *ties.probes.shape)
        weights.append(np.pad(of_probes, ((0, 0), (0, missing), (0, 0))))
        i, j, apart = ties.row, ties.column, groups[ties.row] != groups[ties.column]
        once, both_ways = ~apart, ~apart & (k[i] != k[j])
        for a, b, these in ((i, j, once), (j, i, both_ways)):
            own_at.append(((groups[a] * size + k[a]) * size + k[b])[these])
        own.append(np.hstack([ties.entries[:, once], ties.entries[:, both_ways]]))
        row.append((places[groups[i]] + k[i])[apart])
        column.append((places[groups[j]] + k[j])[apart])
        between.append(ties.entries[:, apart])
    of_all = [
        np.empty((sum(map(len, weights)), 0)),
        *(block_diag(*(w[:, p] for w in weights)) for p in range(n_probes)),
    ]
    return Ties(
        np.concatenate(numbers), np.concatenate(probes, axis=1), np.hstack(of_all),
        np.concatenate(own_at), block_diag(*own), np.concatenate(row), np.concatenate(column), block_diag(*between),
    )  # fmt: skip
