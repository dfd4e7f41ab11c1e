"""Leave-one-out of rows that importance sampling cannot do: the model is sampled again without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from pymc.model import Model
from scipy.special import logsumexp

from pymc_austerity.diagnostics import SamplingResult
from pymc_austerity.paths.subset_model import subset_model
from pymc_austerity.prediction.arviz_loo import LeftOut
from pymc_austerity.progress import setup_progress

#: Draws, by the Kish number of the densities, that a mean of densities has to rest on.
_FEWEST = 50

if TYPE_CHECKING:
    from pymc_austerity.prediction.groups_left_out import GroupsOfRun
    from pymc_austerity.prediction.single_rows import SingleRows


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
    subset, elpd, k = subset_model(model, n_rows), evaluated.elpd.copy(), evaluated.pareto_k.copy()
    with setup_progress(progressbar) as progress:
        task = progress.add_task("Sampling without", total=len(large), what=f"each of {len(large):,} {left_out.unit}s")
        for which in large:
            of_rows = left_out.rows_of(numbers[which])
            subset.put(subset.take(np.setdiff1d(np.arange(n_rows), of_rows)))
            with subset.model:
                run = refit()
            values = left_out.at_draws_of(run, model, numbers[which])
            elpd[which] = logsumexp(values) - np.log(len(values))
            if np.exp(2 * logsumexp(values) - logsumexp(2 * values)) >= _FEWEST:
                k[which] = 0.0
            progress.advance(task)
    return evaluated._replace(elpd=elpd, pareto_k=k)
