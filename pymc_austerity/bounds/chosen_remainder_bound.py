"""The bound on what an expansion leaves of each row that a user chose: read from the graph, or given as a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from pymc.model import Model

from pymc_austerity.bounds.row_bound import Bound, ZeroBound
from pymc_austerity.bounds.sums_of_squares import is_quadratic_in_data, rows_for_moments
from pymc_austerity.bounds.whitened_bound import REMAINDER_CHOICES, WhitenedBound, sizes_from_graph
from pymc_austerity.likelihood import ModelData, RowLikelihood
from pymc_austerity.unsupported_model import UnsupportedModelError

#: Rows on which the graph is tried.
_TRIED = 64


def _not_expanded(*region: Any) -> np.ndarray:
    raise RuntimeError("Rows that read discrete variables have no expansion whose remainder could be bounded.")


def find_remainder_bound(bound: str | Callable[..., Any], model: Model, data: ModelData) -> Bound:
    """Return the bound a row that a user asked for; that of zero where sums over the data determine the likelihood."""
    likelihood, size, n_rows = data.likelihood, data.likelihood.theta_size, len(data.rows)
    if single := [b.name for b in likelihood.blocks if np.dtype(b.dtype) == np.float32]:
        raise UnsupportedModelError(
            f"MHSS: {single} are of single precision (pytensor.config.floatX='float32'): every draw would be rounded "
            "to seven digits, and what an exact decision is about is smaller than that. Build the model with "
            "floatX='float64'; data may stay in single precision. Or use PenaltyMH."
        )
    if callable(bound):
        if names := sorted({b.name for b in likelihood.other_blocks} & likelihood.read):
            raise UnsupportedModelError(
                f"MHSS: the rows read {names}, which another step moves, and bounds on its rows hold while only its "
                "own variables move. Give it all that the rows read, or use PenaltyMH."
            )
        return WhitenedBound(_checked(bound, n_rows), size)
    if bound != "auto":
        raise (ValueError if isinstance(bound, str) else TypeError)(
            f"bound={bound!r} is not 'auto' or a function. {REMAINDER_CHOICES}"
        )
    if is_quadratic_in_data(likelihood) and n_rows > rows_for_moments(data.rows):
        return ZeroBound()

    def find(likelihood: RowLikelihood, centre: np.ndarray | None = None) -> WhitenedBound:
        return _from_graph(likelihood, data, np.zeros(likelihood.theta_size) if centre is None else centre)

    if any(np.dtype(b.dtype).kind != "f" for b in likelihood.blocks):  # only a model without them can be expanded
        return WhitenedBound(_not_expanded, size, find)
    return replace(find(likelihood, data.theta0), find=find)


def _from_graph(likelihood: RowLikelihood, data: ModelData, centre: np.ndarray) -> WhitenedBound:
    """Return the bounds that are read from the graph of the rows, tried on a few of them."""
    sizes = sizes_from_graph(likelihood)
    # An operation without a rule is told of before a pass over all rows.
    few = data.rows.take(np.arange(min(len(data.rows), _TRIED)))
    sizes(2, centre, 1e-3 * np.eye(likelihood.theta_size), 1.0, data.fixed, few)
    return WhitenedBound(sizes, likelihood.theta_size, likelihood=likelihood)


def _checked(bound: Callable[..., Any], n_rows: int) -> Callable[..., np.ndarray]:
    def sizes(order: int, centre: np.ndarray, factor: np.ndarray, radius: float, *data: Any) -> np.ndarray:
        found = np.asarray(bound(centre, factor, radius), dtype=float)
        if found.shape != (n_rows,) or not (np.isfinite(found).all() and (found >= 0).all()):
            raise ValueError(
                f"bound= returned an array of shape {found.shape} and must return {n_rows} finite numbers ≥ 0, one a "
                f"row. {REMAINDER_CHOICES}"
            )
        return found

    return sizes
