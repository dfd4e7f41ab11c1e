"""What the other steps are compared with: all rows at every draw, one batch that nothing corrects, no test at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from numpy.typing import ArrayLike
from pytensor.graph.basic import Variable

from pymc_austerity.acceptance import Exact, ExactBarker, FixedBatch
from pymc_austerity.acceptance.uncorrected import AlwaysAccept
from pymc_austerity.kernel import Schedule
from pymc_austerity.proposals import Langevin
from pymc_austerity.proxy import Taylor
from pymc_austerity.steps.groups_of_step import GroupPlan
from pymc_austerity.steps.options import CommonOptions, StepOptions, shows_options
from pymc_austerity.steps.row_step import RowStep


@shows_options
class MinibatchMH(RowStep):
    """Metropolis–Hastings on one batch of rows a decision: biased, as a baseline only.

    Parameters
    ----------
    vars
        As of every step.
    batch_size : int, default 500
        Rows a decision.
    **options
        As of every step.

    Notes
    -----
    The mean over the batch is taken for the mean over all rows.  Its noise makes the chain over-dispersed, by a
    factor that grew like (N/n)^0.3 where it was measured, and no setting but all rows removes that.  The other steps
    read more rows when the decision is unclear; use one of them.

    References
    ----------
    Y. Gao, Bayesian posterior sampling via mini-batch MCMC, section 2.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> with pm.Model():
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Bernoulli("y", p, observed=np.arange(100) % 4 == 0)
    ...     step = pma.MinibatchMH(batch_size=20)
    >>> step.name
    'minibatch_mh'
    """

    name = "minibatch_mh"

    def __init__(
        self, vars: Sequence[Variable] | None = None, *, batch_size: int = 500, **options: Unpack[StepOptions]
    ):
        super().__init__(FixedBatch(batch_size), vars, **options)


@shows_options
class ExactMH(RowStep):
    """Metropolis–Hastings on all rows: the same proposals and decisions as the other steps, without approximation.

    Parameters
    ----------
    vars
        As of every step.
    test : Exact or ExactBarker, optional
        `Exact` by default.  `ExactBarker` accepts with probability 1/(1 + exp(−Δ)), as `MinibatchBarker` does.
    **options
        As of every step.

    Notes
    -----
    The log-likelihood where the chain is was found by the decision that brought it there.  It is kept, and a draw
    evaluates every row once, at the proposal.  Where another step has moved variables since, rows are evaluated at both
    ends.  ``n_rows`` is the number of rows either way.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> with pm.Model():
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Bernoulli("y", p, observed=np.arange(100) % 4 == 0)
    ...     step = pma.ExactMH(proposal=pma.RandomWalk(scale=0.3))
    >>> step.name
    'exact_mh'
    """

    name = "exact_mh"

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        test: Exact | ExactBarker | None = None,
        **options: Unpack[StepOptions],
    ):
        if test is not None and not isinstance(test, Exact | ExactBarker):
            raise TypeError(
                f"ExactMH(test={test!r}) decides on all rows and knows Exact() and ExactBarker(). For a test that "
                "reads part of the rows use its own step, such as MinibatchBarker."
            )
        test = test or Exact()
        super().__init__(test, vars, by_groups=GroupPlan(test), **options)


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
    **options
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
