"""Effects of two factors whose product has the same posterior at several places, as in a matrix factorisation.

With (U[u] * V[i]).sum(-1) the signs of a column of U and of V may change together, or two columns may change places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.scalar import Add, Sub

from pymc_austerity.compile.graph_compiler import interpret_log_density
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import ModelData
from pymc_austerity.unsupported_model import UnsupportedModelError

#: Columns of which every set is tried with its signs changed; of more only one of each factor.
_MOST_COLUMNS = 10
#: Rows that are compared, how far from the start, and by what log densities may differ, relative to their size.
_ROWS, _SPREAD, _RELATIVE_ERROR = 200, 0.3, 1e-9


class SeveralModesError(UnsupportedModelError):
    """The posterior is the same at several places, between which chains do not move."""


class Effects(NamedTuple):
    """The effects of a factor."""

    names: tuple[str, ...]
    values: frozenset[Variable]  # the value variables of the model
    own: np.ndarray  # int64 (G, K): where they lie in θ


def multiplied(rows: Sequence[Variable], a: Effects, b: Effects) -> bool:
    """Whether rows read something else than sums of what is computed from the effects of one factor or the other."""
    for node in dict.fromkeys(v.owner for v in ancestors(rows) if v.owner is not None):
        if len(node.inputs) < 2 or isinstance(getattr(node.op, "scalar_op", None), Add | Sub):
            continue
        above = [set(ancestors([side])) for side in node.inputs]
        if any(a.values & x and b.values & y and not (b.values & x and a.values & y) for x, y in product(above, above)):
            return True
    return False


def refuse_mirrored(data: ModelData, a: Effects, b: Effects, shared: np.ndarray) -> None:
    """Raise SeveralModesError where a change of the effects of two factors leaves the posterior as it is.

    `shared` says where parameters lie in θ whose signs may change with them.  The log prior and some rows are compared
    at a point at random.
    """
    likelihood = data.likelihood
    inputs = [likelihood.theta, likelihood.others, *likelihood.fixed, *likelihood.batches]
    density = interpret_log_density(inputs, [likelihood.log_prior, likelihood.row_log_likelihood])
    rng = np.random.default_rng(1958)
    some = rng.choice(len(data.rows), min(_ROWS, len(data.rows)), replace=False)
    batch = data.rows.take(np.sort(some)).arrays

    def log_density(theta: np.ndarray) -> np.ndarray:
        prior, rows = uninterrupted(density, theta, data.others0, *data.fixed, *batch)
        return np.append(rows, prior)

    theta = data.theta0 + _SPREAD * rng.standard_normal(data.theta0.size)
    at = log_density(theta)
    for what, changed in [*_with_signs_changed(theta, a, b, shared), *_with_places_changed(theta, a, b)]:
        if np.isfinite(at).all() and np.allclose(log_density(changed), at, rtol=_RELATIVE_ERROR, atol=_RELATIVE_ERROR):
            raise SeveralModesError(
                f"Rows read the product of {_named(a)} and {_named(b)}, effects of two factors. With {what} the "
                "posterior is the same, so that it has several modes, and a chain stays in one of them. Pin what is "
                "free: make the effects of one factor positive (pm.LogNormal, pm.HalfNormal) where there is one a "
                "group, and where there are several fix some, as loadings that are lower triangular with a positive "
                "diagonal. proposal= samples around one mode all the same."
            )


def _named(of: Effects) -> str:
    return ", ".join(of.names)


def _with_signs_changed(
    theta: np.ndarray, a: Effects, b: Effects, shared: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    columns = [*a.own.T, *b.own.T]
    n_a, n = a.own.shape[1], len(columns)
    if n > _MOST_COLUMNS:
        chosen = [(j, n_a + k) for j, k in product(range(n_a), range(n - n_a))] + [tuple(range(n))]
    else:
        columns += [np.array([p]) for p in shared[: _MOST_COLUMNS - n]]
        chosen = [c for size in range(2, len(columns) + 1) for c in combinations(range(len(columns)), size)]
    for some in chosen:
        if some[0] < n_a and any(n_a <= k < n for k in some):
            changed = theta.copy()
            for k in some:
                changed[columns[k]] *= -1
            yield f"the signs of {_named(a)} and {_named(b)} changed", changed


def _with_places_changed(theta: np.ndarray, a: Effects, b: Effects) -> Iterator[tuple[str, np.ndarray]]:
    pairs = [list(combinations(range(of.own.shape[1]), 2)) for of in (a, b)]
    for (i, j), (k, m) in product(*pairs):
        changed = theta.copy()
        changed[a.own[:, [i, j]]] = theta[a.own[:, [j, i]]]
        changed[b.own[:, [k, m]]] = theta[b.own[:, [m, k]]]
        yield f"two columns of {_named(a)} and of {_named(b)} in each other's places", changed
