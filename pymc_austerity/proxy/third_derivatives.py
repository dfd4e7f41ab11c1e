"""The third derivatives of all rows at the centre, one number for each triple of coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import grad
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace

from pymc_austerity.compat import pushforward
from pymc_austerity.compile.graph_compiler import compile_part
from pymc_austerity.likelihood import RowLikelihood, numba_options, row_predictor
from pymc_austerity.progress import setup_progress
from pymc_austerity.proxy.expansion import Expansion
from pymc_austerity.proxy.full_pass import read_coordinates
from pymc_austerity.rows import CHUNK, Rows
from pymc_austerity.unsupported_model import UnsupportedModelError

#: Coordinates whose triples are stored: 1.4 million numbers, 11 MB, read twice a draw.
_MAX_COORDINATES = 200
#: Where the rows read more than one predictor every pair of coordinates takes a pass over all rows.
_MAX_WITHOUT_PREDICTOR = 40


def check_triples(likelihood: RowLikelihood) -> None:
    """Check that the triples of the coordinates that the rows read can be summed and stored."""
    size, eta = read_coordinates(likelihood).size, _predictor(likelihood)[2]
    limit = _MAX_WITHOUT_PREDICTOR if eta is None else _MAX_COORDINATES
    if size > limit:
        raise UnsupportedModelError(
            f"Taylor(order=3) keeps a number for every triple of the entries that the rows read: "
            f"{size * (size + 1) * (size + 2) // 6:,} for the {size} entries of {sorted(likelihood.read)}. It serves "
            f"up to {limit} entries where the rows {'do not read' if eta is None else 'read'} them through one linear "
            "predictor. Use order=2, or PenaltyMH, which reads a few hundred rows in any number of dimensions."
        )


def _predictor(likelihood: RowLikelihood) -> tuple[Variable, Variable, Variable | None]:
    """Return the rows as a graph of ψ, ψ, and the linear predictor through which they read it."""
    rows, psi = likelihood.of_psi(likelihood.expanded)
    return rows, psi, row_predictor(rows, psi, likelihood.batches)


def third_derivatives(
    likelihood: RowLikelihood,
    expansion: Expansion,
    rows: Rows,
    fixed: Sequence[np.ndarray],
    compile_kwargs: dict[str, Any] | None,
    progressbar: bool,
) -> np.ndarray:
    """Return `Expansion.cubic` at the centre of the expansion, in one pass over the rows.

    Where the rows read ψ through one linear predictor η = x_iᵀψ + …, as in a generalised linear model, the sum is
    Σ ℓ_i‴(η_i) x_ia x_ib x_ic; otherwise it is built by differentiating the gradient along each pair of coordinates.
    """
    psi, coordinates = expansion.centre, expansion.coordinates
    of_rows, of, eta = _predictor(likelihood)
    inputs, options = [of, *likelihood.fixed, *likelihood.batches], numba_options(compile_kwargs)
    if eta is None:
        add = _along_pairs(of_rows, of, inputs, options)
    else:
        add = _through_predictor(of_rows, eta, of, inputs, options)
    size = coordinates.size
    total = np.zeros((size, size, size))
    with setup_progress(progressbar) as progress:
        task = progress.add_task("Third derivatives", total=len(rows), what=f"{len(rows):,} rows")
        for start in range(0, len(rows), CHUNK):
            stop = min(start + CHUNK, len(rows))
            batch = tuple(np.array(a[start:stop], order="C") for a in rows.arrays)
            add(total, psi, (*fixed, *batch), coordinates)
            progress.advance(task, stop - start)
    return _triples(total)


def _triples(total: np.ndarray) -> np.ndarray:
    """Return the entries a ≤ b ≤ c, times the number of their orders over 6."""
    found = []
    for a in range(len(total)):
        b, c = np.triu_indices(len(total) - a)
        equal = (b == 0).astype(int) + (b == c)
        found.append(total[a, a:, a:][b, c] * np.array([1.0, 1 / 2, 1 / 6])[equal])
    return np.concatenate(found)


def _through_predictor(
    rows: Variable, eta: Variable, psi: Variable, inputs: Sequence[Variable], options: dict[str, Any]
) -> Callable[..., None]:
    """Return ``add(total, psi, data, coordinates)``, which adds the derivatives of a chunk where a ≤ b ≤ c."""
    along, value = psi.type("along"), eta.type()
    (derivative,) = graph_replace([rows], {eta: value}, strict=False)
    for _ in range(3):
        derivative = pushforward(derivative, value, pt.ones_like(value))
    (third,) = graph_replace([derivative], {value: eta}, strict=False)
    weight = compile_part(inputs, third, **options)
    covariate = compile_part([along, *inputs], pushforward(eta, psi, along), **options)

    def add(total: np.ndarray, psi: np.ndarray, data: tuple[np.ndarray, ...], coordinates: np.ndarray) -> None:
        w = weight(psi, *data)[0]
        X = np.array([covariate(1.0 * (np.arange(psi.size) == k), psi, *data)[0] for k in coordinates])
        for a in range(len(X)):
            total[a, a:, a:] += (X[a:] * (w * X[a])) @ X[a:].T

    return add


def _along_pairs(
    rows: Variable, psi: Variable, inputs: Sequence[Variable], options: dict[str, Any]
) -> Callable[..., None]:
    """Return the same."""
    first, second = psi.type("first"), psi.type("second")
    curved = pushforward(grad(rows.sum(), psi), psi, first)
    third = compile_part([first, second, *inputs], pushforward(curved, psi, second), **options)

    def add(total: np.ndarray, psi: np.ndarray, data: tuple[np.ndarray, ...], coordinates: np.ndarray) -> None:
        directions = [1.0 * (np.arange(psi.size) == k) for k in coordinates]
        for a, one in enumerate(directions):
            for b, other in enumerate(directions[a:], start=a):
                total[a, b, b:] += third(one, other, psi, *data)[0][coordinates[b:]]

    return add
