"""The rows of a run, as what is left out one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pymc.model import Model

from pymc_austerity.diagnostics import SamplingResult
from pymc_austerity.prediction.loo_surrogate import SurrogateOfRows, surrogate_of_rows
from pymc_austerity.prediction.rows_of_run import ROW, RowsOfRun


@dataclass(frozen=True, eq=False)
class SingleRows:
    """The rows of a run, as what is left out."""

    run: RowsOfRun
    unit: ClassVar[str] = ROW

    @property
    def labels(self) -> np.ndarray:
        """The numbers of the rows."""
        return np.arange(len(self.run.table))

    def surrogate(self, rng: np.random.Generator, progressbar: bool) -> SurrogateOfRows:
        """Return the surrogate of every row."""
        return surrogate_of_rows(self.run, rng, progressbar)

    def at_draws(self, numbers: np.ndarray, progressbar: bool) -> np.ndarray:
        """Return the log-likelihood of the rows with these numbers at all draws, shape (S, n)."""
        order = np.argsort(numbers)  # in which a table returns its rows
        (some,) = self.run.table.samples([numbers[order]])
        return self.run.at_draws(some, progressbar, "Leave-one-out")[:, np.argsort(order)]

    def rows_of(self, number: int) -> np.ndarray:
        """Return the numbers of the rows that are left out together: one."""
        return np.array([number])

    def at_draws_of(self, idata: SamplingResult, model: Model, number: int) -> np.ndarray:
        """Return the log-likelihood of a row at the draws of another run, shape (S,)."""
        (row,) = self.run.table.samples([self.rows_of(number)])
        return self.run.with_draws(idata, model).at_draws(row, False, "")[:, 0]
