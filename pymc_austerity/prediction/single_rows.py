"""The rows of a run as what is left out one by one, and the model sampled again without those that need it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from pymc.model import Model
from scipy.special import logsumexp

from pymc_austerity.diagnostics import SamplingResult
from pymc_austerity.likelihood.derived_model import with_rows_taken
from pymc_austerity.paths.subset_model import subset_model
from pymc_austerity.prediction.arviz_loo import LeftOut
from pymc_austerity.prediction.groups_left_out import GroupsOfRun
from pymc_austerity.prediction.loo_surrogate import SurrogateOfRows, surrogate_of_rows
from pymc_austerity.prediction.rows_of_run import ROW, RowsOfRun
from pymc_austerity.progress import setup_progress

#: Draws, by the Kish number of the densities, that a mean of densities has to rest on.
_FEWEST = 50


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
        return self.run.at_numbers(numbers, progressbar, "Leave-one-out")

    def rows_of(self, number: int) -> np.ndarray:
        """Return the numbers of the rows that are left out together: one."""
        return np.array([number])


def sampled_without(
    left_out: SingleRows | GroupsOfRun,
    numbers: np.ndarray,
    evaluated: LeftOut,
    model: Model,
    refit: Callable[[], SamplingResult],
    progressbar: bool,
) -> LeftOut:
    """Return what was found, with log E[p(y_i)] over the draws of a run without row i where its Pareto k is large.

    `numbers` are those of the rows or groups that were evaluated. Pareto k of those sampled without is 0, as ArviZ's
    ``reloo`` has it; it stays where that mean rests on few draws, as of a row that is far from all predictions.
    """
    large = np.flatnonzero(evaluated.pareto_k > float(evaluated.result["good_k"]))
    if not len(large):
        return evaluated
    n_rows = len(left_out.run.table)
    by_rows = with_rows_taken(model, None, model.initial_point())
    subset, elpd, k = subset_model(by_rows, n_rows), evaluated.elpd.copy(), evaluated.pareto_k.copy()
    with setup_progress(progressbar) as progress:
        task = progress.add_task("Sampling without", total=len(large), what=f"each of {len(large):,} {left_out.unit}s")
        for which in large:
            of_rows = left_out.rows_of(numbers[which])
            subset.put(subset.take(np.setdiff1d(np.arange(n_rows), of_rows)))
            with subset.model:
                run = refit()
            without = replace(left_out, run=left_out.run.with_draws(run, model))
            values = without.at_draws(numbers[which : which + 1], False)[:, 0]
            elpd[which] = logsumexp(values) - np.log(len(values))
            if np.exp(2 * logsumexp(values) - logsumexp(2 * values)) >= _FEWEST:
                k[which] = 0.0
            progress.advance(task)
    return evaluated._replace(elpd=elpd, pareto_k=k)
