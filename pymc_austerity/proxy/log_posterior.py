"""The log prior, and the log posterior over all rows, with their derivatives along some coordinates."""

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
from pymc_austerity.proxy.samples import Samples
from pymc_austerity.rows import Table


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
