"""Stochastic-gradient Langevin dynamics: the proposal without a test, as a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from numpy.typing import ArrayLike
from pytensor.graph.basic import Variable

from pymc_austerity.acceptance.uncorrected import AlwaysAccept
from pymc_austerity.kernel import Schedule
from pymc_austerity.proposals import Langevin
from pymc_austerity.proxy import Taylor
from pymc_austerity.steps.options import CommonOptions, shows_options
from pymc_austerity.steps.row_step import RowStep


@shows_options
class SGLD(RowStep):
    """Stochastic-gradient Langevin dynamics with a constant step: biased, as a baseline only.

    Every `Langevin` proposal is taken.  What that does to the posterior depends on the step size and is not seen in the
    draws; ``ApproxMH(proposal=Langevin(...))`` decides on the same proposals.

    Parameters
    ----------
    vars
        As of every step.
    step_size : float
        The step size a of θ′ = θ + (a/2) M ∇log π̂(θ) + √a M^{1/2} z.  Nothing tunes it: there are no rejections to tune
        by.
    batch_size : int, default 500
        Rows of the gradient.
    preconditioner : float or array_like of shape (D,) or (D, D), optional
        M, the identity by default, or the covariance of the surrogate where there is a proxy.
    proxy : Taylor, optional
        Control variates for the gradient (Baker et al. 2019).
    merge_rows, temperature, observed, thin, model, rng, initial_point, compile_kwargs, blocked, progressbar
        As of every step.

    Raises
    ------
    ValueError
        As in `Langevin`.

    Notes
    -----
    The noise of the gradient adds (a N/2)²/n times the variance of a row's gradient to the variance a of a move, and
    the discretisation adds an error of the order of a.  Neither is corrected.

    References
    ----------
    M. Welling and Y. W. Teh, Bayesian learning via stochastic gradient Langevin dynamics, ICML 2011.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> with pm.Model():
    ...     mu = pm.Normal("mu", 0, 10)
    ...     y = pm.Normal("y", mu, 1, observed=np.random.default_rng(0).normal(size=5_000))
    ...     step = pma.SGLD(step_size=1e-5, batch_size=100)
    ...     idata = pm.sample(
    ...         step=step, tune=100, draws=100, chains=2, cores=1,
    ...         random_seed=1, progressbar=False, compute_convergence_checks=False,
    ...     )
    >>> bool(idata.sample_stats["accepted"].all())
    True
    """

    name = "sgld"

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        step_size: float,
        batch_size: int = 500,
        preconditioner: ArrayLike | None = None,
        proxy: Taylor | None = None,
        merge_rows: bool = True,
        temperature: float | Schedule = 1.0,
        **options: Unpack[CommonOptions],
    ):
        super().__init__(
            AlwaysAccept(),
            vars,
            proposal=Langevin(step_size, batch_size, preconditioner),
            proxy=proxy,
            merge_rows=merge_rows,
            temperature=temperature,
            tune=False,
            **options,
        )
