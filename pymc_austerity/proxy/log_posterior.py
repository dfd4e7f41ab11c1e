"""The log posterior and its derivatives along the coordinates to expand in, and samples of rows for searches."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from pytensor.gradient import grad

from pymc_austerity.compat import pushforward
from pymc_austerity.compile.graph_compiler import compile_part
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import RowLikelihood
from pymc_austerity.likelihood.row_entries import reads_few_entries
from pymc_austerity.proxy.full_pass import FullPass, Sums, read_coordinates
from pymc_austerity.proxy.linear_maps import WIDE
from pymc_austerity.rows import Rows, Table

_log = logging.getLogger("pymc_austerity")

#: Rows of the first search: enough for 20 a parameter, or this many.
_SUBSET_ROWS, _SUBSET_PER_PARAMETER = 20_000, 20
#: Rows that are searched from several starts.
_FEW_ROWS = 1_000
#: With this many rows a pass is dear, and so many of them are enough beside the expansion of all: what D parameters add
#: to the gradient is of the order of D posterior standard deviations over √N, its noise of D over √(N × part).
_MAX_ROWS, _PART = 100_000, 20_000

#: Matrices of that size that a step holds while it is set up.
_COPIES = 8
#: A Hessian of more parameters than this takes minutes to sum over whole rows and hours over very many.  By the entries
#: of rows that read few it takes seconds; what limits these is a draw, of some tens of milliseconds at the second.
_MAX_EXPANDED, _MAX_BY_ENTRIES = WIDE, 6_000


class NoProxyError(RuntimeError):
    """A proxy cannot be built for this model."""


class DiscreteError(NoProxyError):
    """The model has discrete variables, for which there is no proxy."""


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
        directions = (1.0 * (np.arange(psi.size) == k) for k in c)
        columns = [uninterrupted(self._derivatives, direction, psi, *fixed)[2][c] for direction in directions]
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


def expanded_coordinates(likelihood: RowLikelihood) -> np.ndarray:
    """Return the entries of ψ to expand in, or refuse discrete ones and too many."""
    discrete = [b.name for b in likelihood.psi_blocks if b.name in likelihood.read and np.dtype(b.dtype).kind != "f"]
    discrete += [b.name for b in likelihood.blocks if np.dtype(b.dtype).kind != "f" and b.name not in discrete]
    if discrete:
        raise DiscreteError(f"{discrete} is discrete and has no derivative")
    coordinates = read_coordinates(likelihood)
    if (n_parameters := coordinates.size) <= _MAX_EXPANDED:
        return coordinates
    few = reads_few_entries(likelihood)
    limit = _MAX_BY_ENTRIES if few else _MAX_EXPANDED
    if n_parameters > limit:
        rows = "rows that read few of them" if few else "rows that read them all"
        remedy = "" if few else f" Sparse tables (pytensor.sparse.dot) may have {_MAX_BY_ENTRIES:,} columns."
        raise NoProxyError(
            f"the rows read {n_parameters:,} parameters, and a Hessian of {rows} serves up to {limit:,}: give this "
            f"step fewer vars and the rest to another, or drop columns with few entries.{remedy}"
        )
    _log.warning(
        f"The rows read few of {n_parameters:,} parameters each. The Hessian of all rows takes "
        f"{8 * n_parameters**2 / 1e6:,.0f} MB, the step some {_COPIES} times as much, and every draw some products "
        "with it, which cost more than its rows. Set-up takes minutes."
    )
    return coordinates
