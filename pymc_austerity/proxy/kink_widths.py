"""How wide the number is that is zero at a kink of the rows, under the posterior."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pytensor.gradient import grad
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from scipy import optimize

from pymc_austerity.compile.graph_compiler import interpret_log_density
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import RowLikelihood
from pymc_austerity.proxy.full_pass import read_coordinates
from pymc_austerity.rows import Table

#: Rows on which widths are found, the width that the search begins with, in typical sizes of the argument, and the
#: steps of the search; of more parameters than so many no matrix of curvatures is held.
_SAMPLE, _BEGIN, _STEPS, _MANY = 20_000, 0.3, 100, 500
#: Relative change of a curvature from which on rounding matters: a square of |r| has no kink.  Of very many parameters
#: so many are looked at, by steps of this many of their standard deviations.
_MATTERS, _LOOKED_AT, _STEP = 0.05, 30, 1e-3


def find_widths(
    likelihood: RowLikelihood, widths: Mapping[Variable, Variable], table: Table, fixed: Sequence[np.ndarray],
    start: np.ndarray,
) -> np.ndarray | None:  # fmt: skip
    """Return the standard deviations of the numbers under the posterior, or None where rounding does not matter.

    `widths` is from a number that is zero at a kink to its h in what is rounded; `start` is ψ = (θ, others).
    """
    rows = _Rows(likelihood, widths, table, fixed, start)
    x, h = rows.x0, _BEGIN * rows.sizes(rows.x0, np.ones(len(widths)))
    if not np.isfinite(rows.density(x, h)[0]):
        return None
    method: Literal["BFGS", "L-BFGS-B"] = "BFGS" if x.size <= _MANY else "L-BFGS-B"

    def falls(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = rows.density(x, h)
        return -value, -slope

    found = optimize.minimize(falls, x, jac=True, method=method, options={"maxiter": _STEPS})
    # Of D coefficients of N rows the argument of a row has about this as its standard deviation.
    h = rows.sizes(found.x, h) * np.sqrt(x.size / rows.n)
    if not (np.isfinite(h).all() and (h > 0).all()):
        return None
    curvatures, matters = [], False
    for k in range(0, x.size, -(-x.size // _LOOKED_AT)):
        one = 1.0 * (np.arange(x.size) == k)
        step = _STEP * np.sqrt((found.hess_inv @ one)[k])
        below, above = found.x - step * one, found.x + step * one
        plain = (rows.slope(below, h) - rows.slope(above, h)) / (2 * step)
        curvatures.append((rows.density(below, h)[1] - rows.density(above, h)[1]) / (2 * step))
        matters = matters or not abs(curvatures[-1][k] - plain[k]) <= _MATTERS * abs(curvatures[-1][k])
    if not matters:
        return None
    if x.size > _LOOKED_AT:
        return h
    values, vectors = np.linalg.eigh((np.array(curvatures) + np.array(curvatures).T) / 2)
    if not (values > 0).all():
        return h
    return rows.spreads(found.x, vectors / np.sqrt(values), h)


class _Rows:
    """Functions of some rows, their density scaled up to that of all, by the entries x of ψ that rows read and by h."""

    def __init__(
        self, likelihood: RowLikelihood, widths: Mapping[Variable, Variable], table: Table,
        fixed: Sequence[np.ndarray], start: np.ndarray,
    ):  # fmt: skip
        self.n, self._start, self._read = len(table), start, read_coordinates(likelihood)
        some = np.sort(np.random.default_rng(2021).choice(self.n, min(_SAMPLE, self.n), replace=False))
        (sample,) = table.samples([some])
        self._data, d, psi = [*fixed, *sample.arrays], likelihood.theta_size, likelihood.psi_vector("psi")
        graphs = [likelihood.log_prior, likelihood.row_log_likelihood.sum(), likelihood.expanded.sum(), *widths]
        prior, rows, rounded, *numbers = graph_replace(
            graphs, {likelihood.theta: psi[:d], likelihood.others: psi[d:]}, strict=False
        )
        inputs = [psi, *widths.values(), *likelihood.fixed, *likelihood.batches]
        density, plain = (prior + self.n / len(sample) * of_rows for of_rows in (rounded, rows))
        self._density = interpret_log_density(inputs, [density, grad(density, psi)])
        self._slope = interpret_log_density(inputs, [grad(plain, psi)])
        self._numbers = interpret_log_density(inputs, numbers)

    @property
    def x0(self) -> np.ndarray:
        """The start."""
        return self._start[self._read]

    def _at(self, function: Callable[..., Any], x: np.ndarray, h: np.ndarray) -> list[np.ndarray]:
        psi = self._start.copy()
        psi[self._read] = x
        with np.errstate(all="ignore"):
            return list(uninterrupted(function, psi, *h, *self._data))

    def density(self, x: np.ndarray, h: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log posterior with its kinks rounded, and its slope."""
        value, slope = self._at(self._density, x, h)
        return float(value), slope[self._read]

    def slope(self, x: np.ndarray, h: np.ndarray) -> np.ndarray:
        """Return the slope of the log posterior as it is."""
        return self._at(self._slope, x, h)[0][self._read]

    def sizes(self, x: np.ndarray, h: np.ndarray) -> np.ndarray:
        """Return the mean absolute value of each number."""
        return np.array([np.abs(number).mean() for number in self._at(self._numbers, x, h)])

    def spreads(self, x: np.ndarray, factor: np.ndarray, h: np.ndarray) -> np.ndarray:
        """Return the standard deviation of each number, as root mean square over the rows.

        `factor`, of shape (D, D), is one of the covariance of x, whose columns lead from `x` to both sides.
        """
        variances = np.zeros(h.size)
        for along in factor.T:
            ends = zip(*(self._at(self._numbers, end, h) for end in (x - along, x + along)), strict=True)
            variances += [np.mean((above - below) ** 2) / 4 for below, above in ends]
        return np.sqrt(variances)
