"""The step methods for ``pm.sample``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymc.blocking import PointType
from pymc.model import Model
from pymc.util import RandomGenerator
from pytensor.graph.basic import Variable

from pymc_austerity.acceptance import Exact, SequentialT
from pymc_austerity.proposals import Proposal
from pymc_austerity.row_step import RowStep


class ApproxMH(RowStep):
    """Metropolis–Hastings with a sequential t-test that reads rows until it is confident of the decision.

    Parameters
    ----------
    vars : sequence of Variable, optional
        Free variables to move; all of the model by default.  Other steps may move the rest.
    epsilon : float, default 0.01
        Error allowed at each look of the test, in [0, 0.5].  Smaller is closer to the exact chain and reads more
        rows; 0 reads all rows and decides exactly.
    batch_size : int, default 500
        Rows a look.
    proposal : RandomWalk or AdaptiveMetropolis, optional
        `AdaptiveMetropolis` by default, `RandomWalk` above 200 parameters.
    observed : str or sequence of str, optional
        Names of the observed variables or potentials whose rows are subsampled; those with most rows by default.
    temperature : float, default 1.0
        Every row's log-likelihood is divided by it; the prior is not.
    tune : bool, default True
        Whether the proposal adapts while tuning.
    model, rng, initial_point, compile_kwargs, blocked
        As in every PyMC step method.

    Raises
    ------
    NotRowWiseError
        The likelihood does not split into rows.
    ValueError
        An argument out of range, no rows, missing or non-finite data.

    Notes
    -----
    The chain is approximate: each decision may differ from the exact one.  The bias shrinks with `epsilon`.
    Without control variates a well-scaled random walk at temperature 1 needs a fixed share of the rows.

    References
    ----------
    A. Korattikara, Y. Chen and M. Welling, Austerity in MCMC land: cutting the Metropolis–Hastings budget,
    ICML 2014, Algorithm 1.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> with pm.Model():
    ...     mu = pm.Normal("mu", 0, 10)
    ...     y = pm.Normal("y", mu, 1, observed=np.random.default_rng(0).normal(size=5_000))
    ...     idata = pm.sample(
    ...         step=pma.ApproxMH(epsilon=0.05), tune=200, draws=100, chains=2, cores=1,
    ...         random_seed=1, progressbar=False, compute_convergence_checks=False,
    ...     )
    >>> bool((idata.sample_stats["n_rows"] <= 5_000).all())
    True
    """

    name = "approx_mh"

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        epsilon: float = 0.01,
        batch_size: int = 500,
        proposal: Proposal | None = None,
        observed: str | Sequence[str] | None = None,
        temperature: float = 1.0,
        tune: bool = True,
        model: Model | None = None,
        rng: RandomGenerator = None,
        initial_point: PointType | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
    ):
        super().__init__(
            SequentialT(epsilon, batch_size),
            vars,
            proposal=proposal,
            observed=observed,
            temperature=temperature,
            tune=tune,
            model=model,
            rng=rng,
            initial_point=initial_point,
            compile_kwargs=compile_kwargs,
            blocked=blocked,
        )


class ExactMH(RowStep):
    """Metropolis–Hastings on all rows: the same proposals and decisions as the other steps, without approximation.

    Parameters
    ----------
    vars, proposal, observed, temperature, tune, model, rng, initial_point, compile_kwargs, blocked
        See `ApproxMH`.

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
        proposal: Proposal | None = None,
        observed: str | Sequence[str] | None = None,
        temperature: float = 1.0,
        tune: bool = True,
        model: Model | None = None,
        rng: RandomGenerator = None,
        initial_point: PointType | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
    ):
        super().__init__(
            Exact(),
            vars,
            proposal=proposal,
            observed=observed,
            temperature=temperature,
            tune=tune,
            model=model,
            rng=rng,
            initial_point=initial_point,
            compile_kwargs=compile_kwargs,
            blocked=blocked,
        )
