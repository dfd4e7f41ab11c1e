"""Coordinates in which a search for the mode is well scaled, whatever the units of the columns of the data.

Where rows read ψ through predictors η_i = x_iᵀψ + …, the units and the origin of the columns of x are the user's
choice.  In ψ = Sx, with S a root of the inverse of the mean curvature of a row, one unit in any direction changes a
predictor by about as much as matters to a row: as if the columns had been standardised and made uncorrelated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytensor
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors, io_toposort
from scipy import linalg

from pymc_austerity.cholesky import is_positive_definite
from pymc_austerity.compat import pushforward
from pymc_austerity.compile.graph_compiler import BY_NUMPY
from pymc_austerity.likelihood import keeps_affine
from pymc_austerity.proxy.full_pass import Sums
from pymc_austerity.proxy.linear_maps import WIDE
from pymc_austerity.proxy.log_posterior import LogPosterior

#: Units of parameters, as rows see them, that a search in the user's own coordinates copes with.
_SMALLEST_UNIT, _LARGEST_UNIT = 1e-3, 1e3
#: An eigenvalue of the matrix of correlations below this means columns that are nearly collinear, or far from zero.
_COLLINEAR = 1e-6
#: Smaller eigenvalues are rounding: of correlations of columns that are the same to seven digits.
_ROUNDING = 1e-14


class Scaling(NamedTuple):
    """The map ψ = Sx along the coordinates that the rows read; x = ψ where there is no matrix."""

    matrix: np.ndarray | None = None  # S, shape (E, E)
    inverse: np.ndarray | None = None  # S⁻¹

    def outward(self, x: np.ndarray) -> np.ndarray:
        """Return ψ = Sx."""
        return x if self.matrix is None else self.matrix @ x

    def inward(self, psi: np.ndarray) -> np.ndarray:
        """Return x = S⁻¹ψ."""
        return psi if self.inverse is None else self.inverse @ psi

    def of_hessian(self, hessian: np.ndarray) -> np.ndarray:
        """Return a Hessian by x, given that by ψ."""
        if self.matrix is None:
            return hessian
        scaled = self.matrix.T @ hessian @ self.matrix
        return (scaled + scaled.T) / 2

    def to_hessian(self, hessian: np.ndarray) -> np.ndarray:
        """Return a Hessian by ψ, given that by x."""
        return hessian if self.inverse is None else self.inverse.T @ hessian @ self.inverse

    def of_sums(self, sums: Sums) -> Sums:
        """Return value, gradient and Hessian by x, given those by ψ."""
        if self.matrix is None:
            return sums
        return Sums(sums.value, self.matrix.T @ sums.gradient, self.of_hessian(sums.hessian))

    def entry(self, direction: np.ndarray) -> int:
        """Return the coordinate of ψ that has most part in a direction of x, in its own units."""
        share = np.abs(self.outward(direction))
        return int(np.argmax(share if self.matrix is None else share / linalg.norm(self.matrix, axis=1)))

    def of_theta(self, coordinates: np.ndarray, d: int) -> Scaling:
        """Return the map for all entries of θ: those that the rows do not read stay as they are."""
        if self.matrix is None or self.inverse is None:
            return self
        own = coordinates < d
        maps = []
        for part in (self.matrix, self.inverse):
            whole = np.eye(d)
            whole[np.ix_(coordinates[own], coordinates[own])] = part[np.ix_(own, own)]
            maps.append(whole)
        return Scaling(*maps)


def find_scaling(posterior: LogPosterior, psi: np.ndarray, total: Sums, before: Scaling | None = None) -> Scaling:
    """Return coordinates that are well scaled; those in use before, or the user's own, where these are.

    `total` are the log posterior and its derivatives at `psi`.  On a few rows it is looked at what predictors read.
    """
    before = Scaling() if before is None else before
    curvature = -total.hessian / posterior.rows.n_table
    if not np.isfinite(curvature).all() or _is_well_scaled(before.of_hessian(curvature)):
        return before
    chosen = _read_by_predictors(posterior, psi) & (np.diag(curvature) != 0)
    block = curvature[np.ix_(chosen, chosen)]
    if not chosen.any() or _is_well_scaled(block):
        return before
    units = 1 / np.sqrt(np.abs(np.diag(block)))
    values, vectors = linalg.eigh(block * units * units[:, None])
    roots = np.sqrt(np.maximum(np.abs(values), _ROUNDING))
    matrix, inverse = np.eye(chosen.size), np.eye(chosen.size)
    matrix[np.ix_(chosen, chosen)] = units[:, None] * vectors / roots
    inverse[np.ix_(chosen, chosen)] = (vectors * roots).T / units
    return Scaling(matrix, inverse)


def _is_well_scaled(curvature: np.ndarray) -> bool:
    diagonal = np.abs(np.diag(curvature))
    known = diagonal > 0
    units = 1 / np.sqrt(diagonal[known])
    if units.size == 0:
        return True
    if units.min() < _SMALLEST_UNIT or units.max() > _LARGEST_UNIT:
        return False
    correlations = curvature[np.ix_(known, known)] * units * units[:, None]
    if len(correlations) > WIDE and is_positive_definite(correlations - _COLLINEAR * np.eye(len(correlations))):
        return True
    return bool(np.abs(linalg.eigvalsh(correlations)).min() > _COLLINEAR)


def _read_by_predictors(posterior: LogPosterior, psi: np.ndarray) -> np.ndarray:
    """Return which coordinates are entries of θ that some row multiplies by its data in an affine predictor."""
    likelihood, coordinates = posterior.full_pass.likelihood, posterior.coordinates
    theta, d = likelihood.theta, likelihood.theta_size
    predictors = _last_affine(likelihood.row_log_likelihood, theta, likelihood.batches)
    found = np.zeros(coordinates.size, dtype=bool)
    if not predictors:
        return found
    along = theta.type("along")
    slopes = [pushforward(eta, theta, along) for eta in predictors]
    inputs = [along, theta, likelihood.others, *likelihood.fixed, *likelihood.batches]
    options: dict[str, Any] = {"mode": BY_NUMPY, "on_unused_input": "ignore"}
    slopes_along = pytensor.function(inputs, slopes, **options)
    data = (*posterior.fixed, *posterior.samples.few.arrays)
    for k in np.flatnonzero(coordinates < d):
        direction = 1.0 * (np.arange(d) == coordinates[k])
        found[k] = any(np.any(x) for x in slopes_along(direction, psi[:d], psi[d:], *data))
    return found


def _last_affine(rows: Variable, theta: Variable, batches: Sequence[Variable]) -> list[Variable]:
    """Return what is affine in θ, reads data of the rows, and is read by what is not affine."""
    affine, data = {theta}, set(batches)
    depends, last = {theta}, dict[Variable, None]()
    for node in io_toposort([theta], [rows]):
        which = [i for i, var in enumerate(node.inputs) if var in depends]
        if not which:
            continue
        depends.update(node.outputs)
        if all(node.inputs[i] in affine for i in which) and keeps_affine(node.op, which):
            affine.update(node.outputs)
        else:
            last |= dict.fromkeys(node.inputs[i] for i in which if node.inputs[i] in affine)
    return [eta for eta in last if data & set(ancestors([eta]))]
