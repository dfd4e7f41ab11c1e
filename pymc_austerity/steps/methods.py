"""The steps that decide on a batch: by a penalty for its noise, by Barker's test, or by a concentration inequality."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Unpack

from pytensor.graph.basic import Variable

from pymc_austerity.acceptance import Barker, ConcentrationBound, NoisePenalty
from pymc_austerity.acceptance.concentration import Inequality, empirical_bernstein_serfling
from pymc_austerity.steps.groups_of_step import GroupPlan
from pymc_austerity.steps.options import StepOptions, shows_options
from pymc_austerity.steps.row_step import RowStep

#: Rows of the first look of `PenaltyMH` and of `MinibatchBarker`, and of a move that carries all groups.
_PENALTY_ROWS, _BARKER_ROWS, _ROWS_OF_GROUPS = 200, 100, 500


@shows_options
class PenaltyMH(RowStep):
    """Metropolis–Hastings on a batch estimate of the log ratio, with a penalty for its noise.

    To be preferred when a proxy is good: then the noise is small and acceptance close to that of all rows, where
    Barker's test accepts at most half.

    Parameters
    ----------
    vars
        As of every step.
    batch_size : int, default 200
        Rows of the first look.
    max_variance : float, default 1.0
        Variance of the log ratio up to which a batch decides; above it more rows are read.
    **options
        As of every step.

    Raises
    ------
    NotRowWiseError, ValueError
        As in `ApproxMH`.

    Notes
    -----
    Exact for a normal estimate of known variance; the variance is estimated, and the penalty corrected for that.

    References
    ----------
    D. M. Ceperley and M. Dewing, The penalty method for random walks with uncertain energies, Journal of Chemical
    Physics 110, 9812, 1999.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> with pm.Model():
    ...     mu = pm.Normal("mu", 0, 10)
    ...     y = pm.Normal("y", mu, 1, observed=np.random.default_rng(0).normal(size=5_000))
    ...     step = pma.PenaltyMH(proposal=pma.RandomWalk(scale=0.01))
    >>> step.name
    'penalty_mh'
    """

    name = "penalty_mh"

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        batch_size: int = _PENALTY_ROWS,
        max_variance: float = 1.0,
        **options: Unpack[StepOptions],
    ):
        test = NoisePenalty(batch_size, max_variance)
        of_groups = replace(test, batch_size=_ROWS_OF_GROUPS) if batch_size == _PENALTY_ROWS else test
        super().__init__(test, vars, by_groups=GroupPlan(of_groups), **options)


@shows_options
class MHSubLhd(RowStep):
    """Metropolis–Hastings that reads rows until a concentration inequality settles the decision.

    Parameters
    ----------
    vars
        As of every step.
    delta : float, default 0.01
        Largest probability of a wrong decision, all looks together.
    gamma : float, default 2.0
        Factor from one look to the next.
    p : float, default 2.0
        How fast the looks use up `delta`: look k gets (p − 1)/(p k^p) of it.
    inequality : callable, optional
        `empirical_bernstein_serfling` by default, `empirical_bernstein` or `hoeffding_serfling`.
    bound : {"lipschitz", "scan"} or callable, default "lipschitz"
        A number that no row's change of log-likelihood exceeds.

        ``"lipschitz"`` finds it from the model where the slope of the log-likelihood has a limit: Bernoulli, Binomial
        and Categorical by logits, and Laplace, Student-t, Cauchy and Logistic errors of a fixed scale.  Other models
        are refused with the reason.

        ``"scan"`` takes the maximum over all rows at every draw; these N evaluations are counted in ``n_rows``.

        A function of two flat vectors θ and θ′ (the step's variables in the unconstrained space) gives it otherwise,
        as a PyTensor expression or compiled by numba.  A row that breaks it stops the run with an error.
    batch_size : int, default 50
        Rows of the first look.
    **options
        As of every step.

    Raises
    ------
    ValueError
        No bound is known for the model, or an argument is out of range.
    NotRowWiseError
        As in `ApproxMH`.

    Notes
    -----
    The acceptance probability is off by at most `delta` for any data (Lemma 3.1).  The price is that decisions usually
    take nearly all rows once the chain has reached the posterior.

    References
    ----------
    R. Bardenet, A. Doucet and C. Holmes, Towards scaling up Markov chain Monte Carlo: an adaptive subsampling approach,
    ICML 2014, Figure 3.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2_000)
    >>> with pm.Model():
    ...     slope = pm.Normal("slope", 0, 1)
    ...     y = pm.Bernoulli("y", logit_p=slope * x, observed=rng.random(2_000) < 0.5)
    ...     step = pma.MHSubLhd()
    >>> step.name
    'mh_sub_lhd'
    """

    name = "mh_sub_lhd"

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        delta: float = 0.01,
        gamma: float = 2.0,
        p: float = 2.0,
        inequality: Inequality = empirical_bernstein_serfling,
        bound: str | Callable[..., Any] = "lipschitz",
        batch_size: int = 50,
        **options: Unpack[StepOptions],
    ):
        if bound is None:
            raise TypeError(
                "MHSubLhd: bound=None, and its test needs a bound on every row: 'lipschitz', 'scan' or a function."
            )
        test = ConcentrationBound(delta, gamma=gamma, p=p, batch_size=batch_size, inequality=inequality)
        super().__init__(test, vars, bound=bound, **options)


@shows_options
class MinibatchBarker(RowStep):
    """Barker's test on a minibatch that grows until its noise is smaller than that of the test.

    Parameters
    ----------
    vars
        As of every step.
    batch_size : int, default 100
        Rows of the first look.
    sigma : float, default 1.0
        Rows are read until the standard error of the log ratio is below it; from 0.3 to below
        π/√3 = 1.81.  The probability to accept is off by at most 1e-7 up to 1, 2e-5 at 1.2, .002 at 1.5, .011 at 1.7.
    normality_tol : float, optional
        Read on until the distance of the batch mean from a normal variable is bounded by this.  A worst case: 0.1
        takes fourteen thousand rows even where they are normal.
    growth : float, default 1.5
        Factor from one look to the next.
    skewness : bool, default True
        Correct the decision for the skewness of the rows, to first order.  Without it the algorithm is that of the
        paper.
    **options
        As of every step.

    Raises
    ------
    NotRowWiseError, ValueError
        As in `ApproxMH`.

    Notes
    -----
    The acceptance probability is 1/(1 + exp(−Δ)), at most half where Metropolis–Hastings accepts surely, up to the
    error of taking the batch mean for normal with the estimated variance.  That error is of order skewness/√n: reading
    stops when the sample variance is small, and for skewed rows the sample mean is then off, which ``skewness=True``
    mends in part, and not for rows with heavy tails.  The rows needed grow with the square of the step size over the
    temperature.

    References
    ----------
    D. Seita, X. Pan, H. Chen and J. Canny, An efficient minibatch acceptance test for Metropolis–Hastings,
    UAI 2017, Algorithm 1.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> with pm.Model():
    ...     mu = pm.Normal("mu", 0, 10)
    ...     y = pm.Normal("y", mu, 1, observed=np.random.default_rng(0).normal(size=5_000))
    ...     step = pma.MinibatchBarker(proposal=pma.RandomWalk(scale=0.005))
    ...     idata = pm.sample(
    ...         step=step, tune=100, draws=100, chains=2, cores=1,
    ...         random_seed=1, progressbar=False, compute_convergence_checks=False,
    ...     )
    >>> bool((idata.sample_stats["n_rows"] < 5_000).any())
    True
    """

    name = "minibatch_barker"

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        batch_size: int = _BARKER_ROWS,
        sigma: float = 1.0,
        normality_tol: float | None = None,
        growth: float = 1.5,
        skewness: bool = True,
        **options: Unpack[StepOptions],
    ):
        test = Barker(batch_size, sigma=sigma, growth=growth, normality_tol=normality_tol, skewness=skewness)
        of_groups = replace(test, batch_size=_ROWS_OF_GROUPS) if batch_size == _BARKER_ROWS else test
        super().__init__(test, vars, by_groups=GroupPlan(of_groups), **options)
