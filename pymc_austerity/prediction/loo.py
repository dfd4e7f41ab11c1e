"""Leave-one-out cross-validation of a run, from a sample of the rows."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr
from pymc.model import Model
from pymc.util import RandomGenerator, get_random_generator

from pymc_austerity.blocks import Blocks
from pymc_austerity.diagnostics import SamplingResult
from pymc_austerity.prediction.arviz_loo import LeftOut, effective_share, filled_result, leave_out
from pymc_austerity.prediction.groups_left_out import GroupsOfRun, read_groups_of_run
from pymc_austerity.prediction.loo_surrogate import SurrogateOfRows
from pymc_austerity.prediction.row_strata import Strata, draw_strata, estimate_sum, fill_in
from pymc_austerity.prediction.rows_of_run import read_rows_of_run, rows_of_step
from pymc_austerity.prediction.single_rows import SingleRows, sampled_without
from pymc_austerity.user_input import check_seed, model_of, takes

_log = logging.getLogger("pymc_austerity")

#: Rows that can be evaluated at least: fewer say nothing of how much the surrogate misses.
_FEWEST = 50


@takes(data=Blocks)
def loo(
    idata: SamplingResult,
    model: Model | None = None,
    *,
    step: Any = None,
    rows: int = 1_000,
    by: Any = None,
    refit: Callable[[], Any] | None = None,
    data: Blocks | None = None,
    observed: str | Sequence[str] | None = None,
    random_seed: RandomGenerator = None,
    progressbar: bool = True,
) -> Any:
    """Estimate the expected log predictive density by leave-one-out, without a matrix of rows and draws.

    An expansion of every row's log-likelihood about the mean of the draws gives a surrogate for each row in one pass.
    Some rows, drawn where the surrogate may err most, are evaluated at all draws by ArviZ's Pareto-smoothed importance
    sampling, and correct the sum.  The result estimates what ``arviz.loo`` would return for the same draws.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What ``pm.sample`` returned, with any step: the draws of all free variables are needed, a group
        ``log_likelihood`` is not.
    model : pymc.Model, optional
        The model that was sampled; that of the context by default.
    step : step of this package, optional
        The step that made the draws, or one built for the same model and data.  What it has read of them is not read
        again: with ``data=`` its table is that of the run, whose first pass is not done again.
    rows : int, default 1,000
        Rows that are evaluated at all draws, at least 50; all of them where there are no more.  With `by` groups.
    by : str or array_like, optional
        Leaves out whole groups of rows in place of single rows.  The name of a variable with effects of groups, or of
        the dimension along which the groups lie: each group is then predicted as a new one, whose effects are drawn
        from their prior given everything else.  Or a label for each row, of shape (N,); where these are the groups of
        such a variable they are taken for it, otherwise rows of one label are left out together.
    refit : callable, optional
        Samples the model again, without arguments, as ``lambda: pm.sample(step=pma.MHSS())``: once for each row, or
        group, whose Pareto k is larger than ArviZ's ``good_k``, within a copy of the model that lacks it.  The density
        at these draws replaces that of importance sampling, and Pareto k becomes 0; it stays where a few of these draws
        make up the density, as of a row beyond all predictions.
    data : Blocks, optional
        The rows of a run with ``data=``, where its step is not at hand.  They are read in three passes, and with `step`
        in two.
    observed : str or sequence of str, optional
        Names of the observed variables or potentials whose rows are left out, as for the steps; by default all that
        split into rows and have more than 300, or are the longest.
    random_seed : int or Generator, optional
        For drawing the rows.
    progressbar : bool, default True
        Whether what takes more than a moment shows a bar.

    Returns
    -------
    arviz.ELPDData
        As ``arviz.loo(..., pointwise=True)`` returns it, for ``arviz.compare`` and plots.  ``elpd_i`` has an entry for
        every row: that of rows which were evaluated, and of others the surrogate with what it misses on average among
        rows like them, so that the entries add up to the estimate.  ``pareto_k`` is that of the evaluated rows, with
        their numbers as coordinate.  Beside ArviZ's own there are ``subsampling_se``, the standard error of the
        estimate for having evaluated some of the rows only, in the same units, and ``subsample_size``, the number of
        those.  ``se`` is, as ArviZ's, the standard error over data sets.

    Raises
    ------
    NotRowWiseError
        For a likelihood that does not split into rows.
    TypeError, ValueError
        For draws, or a step, of another model or of other data, draws that were not kept, fewer than 50 `rows`, a run
        with ``data=`` where neither it nor its step is given, and a row without a finite log-likelihood at a draw.  For
        `by` that names no groups of the model, or groups whose prior is not one for each given the rest.

    Warns
    -----
    UserWarning
        Where Pareto k of evaluated rows is larger than ArviZ's ``good_k``: importance sampling does not tell what the
        posterior without these rows would be.

    Notes
    -----
    A row is what steps of this package take for one: with several outcomes a row, ``arviz.loo`` leaves out each by
    itself and this function the row.

    Surrogates are right to second order in the width of the posterior; effects of groups take their covariance with
    what all rows read into account.  Up to 64 parameters that all rows read are expanded one by one, 64 random
    combinations of more.  Rows whose surrogate says that they have large influence are all evaluated, up to half of
    `rows`; the others are drawn in strata by influence.  Estimates and standard errors are those of Magnusson et al.
    in strata.  They hold whatever the surrogate: where it is poor, ``subsampling_se`` is large.

    The likelihood of a group that is left out has its effects integrated out, by Gauss–Hermite quadrature about their
    mode given each draw, for up to five effects a group: with those of the draws, which were fitted to the group,
    weights would have no finite variance.  Time is that of 20 evaluations of its rows a draw, of 70 with two effects.

    Time is that of 1 + 2 D evaluations of all rows, D the parameters that a row reads, and of `rows` rows at all draws;
    memory 30 bytes a row and 40 `rows` × draws.  What `step` keeps are sums over rows, which say nothing of each, so
    that it saves a pass for reading and none for evaluating.

    References
    ----------
    M. Magnusson, M. Riis Andersen, J. Jonasson and A. Vehtari, Bayesian leave-one-out cross-validation for large data,
    ICML 2019; Leave-one-out cross-validation for Bayesian model comparison in large data, AISTATS 2020.
    A. Vehtari, A. Gelman and J. Gabry, Practical Bayesian model evaluation using leave-one-out cross-validation and
    WAIC, Statistics and Computing 27, 2017.
    E. C. Merkle, D. Furr and S. Rabe-Hesketh, Bayesian comparison of latent variable models: conditional versus
    marginal likelihoods, Psychometrika 84, 2019.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=20_000)
    >>> with pm.Model():
    ...     slope = pm.Normal("slope")
    ...     y = pm.Bernoulli("y", logit_p=slope * x, observed=rng.random(20_000) < 1 / (1 + np.exp(-x)))
    ...     idata = pm.sample(
    ...         500, tune=300, chains=2, cores=1, step=pma.MHSS(), random_seed=1, progressbar=False,
    ...         compute_convergence_checks=False,
    ...     )
    ...     found = pma.loo(idata, rows=200, random_seed=1, progressbar=False)
    >>> int(found["n_data_points"]), found["subsampling_se"] < 0.1
    (20000, True)
    """
    model = model_of(model, "loo")
    check_seed(random_seed, "loo", "random_seed")
    if rows < _FEWEST:
        raise ValueError(
            f"loo: rows={rows} must be at least {_FEWEST}. So many rows are evaluated at all draws, and fewer do not "
            "tell how much the surrogate misses."
        )
    known = None if step is None else rows_of_step(step, model, data, observed)
    in_blocks = data is not None or (known is not None and known[1] is not None)
    if in_blocks and (by is not None or refit is not None):
        argument, why = ("by", "the rows of a group are") if by is not None else ("refit", "all other rows are")
        raise ValueError(
            f"loo: {argument}= does not go with data=, since {why} needed, in the model. Leave {argument}= out."
        )
    of_strata, of_directions = get_random_generator(random_seed, copy=False).spawn(2)
    left_out: SingleRows | GroupsOfRun
    if by is None:
        left_out = SingleRows(read_rows_of_run(idata, model, data, observed, progressbar, known=known))
    else:
        left_out = read_groups_of_run(idata, model, by, observed, progressbar)
    surrogate = left_out.surrogate(of_directions, progressbar)
    strata = draw_strata(surrogate.influence, rows, of_strata)
    evaluated = _evaluate(left_out, strata.rows, effective_share(idata), progressbar)
    if refit is not None:
        evaluated = sampled_without(left_out, strata.rows, evaluated, model, refit, progressbar)
    return _combined(left_out, surrogate, strata, evaluated)


def _evaluate(left_out: SingleRows | GroupsOfRun, numbers: np.ndarray, r_eff: float, progressbar: bool) -> LeftOut:
    """Return the leave-one-out of the rows or groups with these numbers, by importance sampling."""
    log_likelihood = left_out.at_draws(numbers, progressbar)
    if not np.isfinite(log_likelihood).all():
        draw, which = np.argwhere(~np.isfinite(log_likelihood))[0]
        raise ValueError(
            f"loo: {left_out.unit} {left_out.labels[numbers[which]]} of {list(left_out.run.names)} has the "
            f"log-likelihood {log_likelihood[draw, which]} at draw {draw}, and importance sampling needs a finite one "
            "at every draw. Limits of an outcome that depend on parameters do this; fit the model without such rows, "
            "and compare."
        )
    return leave_out(log_likelihood, left_out.run.n_chains, r_eff)


def _combined(
    left_out: SingleRows | GroupsOfRun, surrogate: SurrogateOfRows, strata: Strata, evaluated: LeftOut
) -> Any:
    """Return ArviZ's result for all rows or groups."""
    n, numbers, unit, labels = len(surrogate.elpd), strata.rows, left_out.unit, left_out.labels
    total = estimate_sum(surrogate.elpd, strata, evaluated.elpd)
    p = estimate_sum(surrogate.p, strata, evaluated.lpd - evaluated.elpd)
    pointwise = fill_in(surrogate.elpd, strata, evaluated.elpd, total)
    squares = estimate_sum(surrogate.elpd**2, strata, evaluated.elpd**2)
    over_rows = squares.total - (total.total**2 - total.variance) / n
    good_k = float(evaluated.result["good_k"])
    n_large = int((evaluated.pareto_k > good_k).sum())
    if n_large:
        warnings.warn(
            f"loo: Pareto k of {n_large:,} of the {len(numbers):,} {unit}s that were evaluated is larger than "
            f"{good_k:.2f}. The draws do not tell what the posterior without these {unit}s is, and the estimate is off "
            "by an unknown amount. More draws help where k is only just too large; otherwise use a model with heavier "
            f"tails, or pass refit=, which samples without each of them (coordinate {unit!r} of pareto_k).",
            UserWarning,
            stacklevel=4,
        )
    _log.info(
        f"Leave-one-out of {n:,} {unit}s from {len(numbers):,} of them at {evaluated.result['n_samples']:,} draws: "
        f"elpd {total.total:,.1f}, of which the sample leaves {np.sqrt(total.variance):,.2g} unknown."
    )
    k = xr.DataArray(evaluated.pareto_k, dims=[unit], coords={unit: labels[numbers]}, name="pareto_k")
    numbers_of_result = {
        "elpd": total.total,
        "se": float(np.sqrt(over_rows if over_rows > 0 else n * pointwise.var())),
        "p": p.total,
        "n_data_points": n,
        "warning": n_large > 0,
        "subsampling_se": float(np.sqrt(total.variance)),
        "subsample_size": len(numbers),
    }
    elpd_i = xr.DataArray(pointwise, dims=[unit], coords={unit: labels}, name="elpd_i")
    return filled_result(evaluated.result, numbers_of_result, elpd_i, k)
