"""The log prior, the log posterior and their derivatives along some coordinates, and samples of rows for searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from pytensor.gradient import grad

from pymc_austerity.compat import pushforward
from pymc_austerity.compile.graph_compiler import compile_part
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import RowLikelihood
from pymc_austerity.proxy.full_pass import FullPass, Sums
from pymc_austerity.rows import Rows, Table

#: Rows of the first search: enough for 20 a parameter, or this many.
_SUBSET_ROWS, _SUBSET_PER_PARAMETER = 20_000, 20
#: Rows that are searched from several starts.
_FEW_ROWS = 1_000
#: With this many rows a pass is dear, and so many of them are enough beside the expansion of all: what D parameters add
#: to the gradient is of the order of D posterior standard deviations over √N, its noise of D over √(N × part).
_MAX_ROWS, _PART = 100_000, 20_000


class Samples(NamedTuple):
    """Rows drawn uniformly from all over the data, the same whatever the seed of the chains."""

    search: Rows  # on which the mode is searched first
    few: Rows  # some of these, on which it is searched from several starts
    average: Rows  # over which derivatives are averaged: all rows, or of very many a part


def draw_samples(rows: Table, n_coordinates: int) -> Samples:
    """Draw the samples for a model whose rows read some number of parameters, in one pass."""
    n = len(rows)
    size = min(n, max(_SUBSET_ROWS, _SUBSET_PER_PARAMETER * n_coordinates))
    # The same subset whatever the seed of the chains: the centre is no part of their randomness.
    numbers = np.random.default_rng(2014).choice(n, size, replace=False)
    averaged = min(n, max(_PART, _SUBSET_PER_PARAMETER * n_coordinates))
    part = None if n < _MAX_ROWS else np.random.default_rng(2016).choice(n, averaged, replace=False)
    search, average = rows.samples([numbers, part])
    few = np.sort(numbers[: max(_FEW_ROWS, _SUBSET_PER_PARAMETER * n_coordinates)])
    return Samples(search, search.take(np.searchsorted(np.sort(numbers), few)), average)


class PriorCurvature:
    """The log prior, its gradient and its Hessian along some coordinates of ψ = (θ, others)."""

    def __init__(self, likelihood: RowLikelihood, compile_kwargs: dict[str, Any]):
        along = likelihood.psi_vector("along")
        value, psi = likelihood.of_psi(likelihood.log_prior)
        gradient = grad(value, psi, disconnected_inputs="ignore")
        # One function: the product along a direction computes most of the gradient anyway.
        outputs = [value, gradient, pushforward(gradient, psi, along)]
        self._derivatives = compile_part([along, psi, *likelihood.fixed], outputs, **compile_kwargs)

    def value(self, psi: np.ndarray, fixed: Sequence[np.ndarray]) -> float:
        """Return the log prior at `psi`."""
        return float(uninterrupted(self._derivatives, np.zeros(psi.size), psi, *fixed)[0])

    def __call__(self, psi: np.ndarray, fixed: Sequence[np.ndarray], c: np.ndarray) -> Sums:
        """Return value, gradient and Hessian at `psi` along the coordinates `c`."""
        value, gradient, _ = uninterrupted(self._derivatives, np.zeros(psi.size), psi, *fixed)
        columns = []
        for k in c:
            direction = np.zeros(psi.size)
            direction[k] = 1.0
            columns.append(uninterrupted(self._derivatives, direction, psi, *fixed)[2][c])
        hessian = np.array(columns).reshape(c.size, c.size)
        return Sums(float(value), gradient[c], (hessian + hessian.T) / 2)


class LogPosterior(NamedTuple):
    """What the search for a mode and the tuning of moves evaluate."""

    full_pass: FullPass
    prior: PriorCurvature
    fixed: Sequence[np.ndarray]  # data that are not indexed by row
    rows: Table
    samples: Samples
    temperature: float  # that the log-likelihood is divided by

    @property
    def coordinates(self) -> np.ndarray:
        """Entries of ψ = (θ, others) that derivatives are taken along, those that the rows read; shape (E,)."""
        return self.full_pass.coordinates

    def total(self, psi: np.ndarray, likelihood: Sums, part: Table) -> Sums:
        """Return the log posterior and its derivatives at `psi`, given the log-likelihood of some rows there."""
        scale = len(self.rows) / len(part) / self.temperature
        return likelihood.scaled(scale) + self.prior(psi, self.fixed, self.coordinates)
