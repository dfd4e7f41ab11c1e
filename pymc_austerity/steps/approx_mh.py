"""The step that decides by a sequential t-test, and can design that test when tuning ends."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import field
from typing import Any, ClassVar, Literal, Unpack

import numpy as np
from pymc.blocking import PointType, StatsType
from pymc.step_methods.state import dataclass_state
from pytensor.graph.basic import Variable

from pymc_austerity.acceptance import SequentialT
from pymc_austerity.argument_kinds import is_number
from pymc_austerity.diagnostics import collect, design_test
from pymc_austerity.diagnostics.design import check_tolerance, default_sizes
from pymc_austerity.likelihood import flatten
from pymc_austerity.steps.groups_of_step import GroupPlan
from pymc_austerity.steps.options import StepOptions, shows_options
from pymc_austerity.steps.row_step import RowStep, RowStepState

_log = logging.getLogger("pymc_austerity")

#: Draws of a regression with ten coefficients came out 3% wider than the posterior.
_DEFAULT_TOLERANCE = 0.005
#: Error of a look while the chain tunes, when the test that will be used is not known yet.
TUNING_EPSILON = 0.002
#: Proposals that are looked at on all rows when tuning ends.
_PAIRS = 200
#: Fewer rows leave nothing to design: no t-test decides on a part of so few.
_FEWEST_ROWS = 20
#: Looks that a designed test takes at most; more would lengthen the search and save few rows.
_MOST_LOOKS = 250


@dataclass_state
class ApproxMHState(RowStepState):
    """What a chain needs to go on where it stopped, the test that it designed included."""

    designed: Any = field(default=None)


@shows_options
class ApproxMH(RowStep):
    """Metropolis–Hastings with a sequential t-test that reads rows until it is confident of the decision.

    Parameters
    ----------
    vars
        As of every step.
    epsilon : float or "auto", default 0.01
        Error allowed at each look of the test, in [0, 0.5].  Smaller is closer to the exact chain and reads more
        rows; 0 reads all rows and decides exactly.

        ``"auto"`` chooses `epsilon`, `batch_size` and `alpha` when tuning ends, by `design_test` from 200 proposals
        that are looked at on all rows, and keeps them for all draws of the chain.  Without tuning that is at the
        start of the chain, which should then be in the posterior.  They are in ``sample_stats`` under
        these names, the rows that the choice read under ``design_rows`` of the first draw.
    batch_size : int, default 500
        Rows a look; while tuning, with ``epsilon="auto"``.
    alpha : float, default 0.5
        Shape of the boundary, in [0.5, 1].  0.5 asks the same confidence at every look (Pocock); 1 hardly ever stops
        early and asks least at the end (O'Brien and Fleming).
    tolerance : float, default 0.005
        With ``epsilon="auto"``: mean error in the acceptance probability to design for.
    **options
        As of every step.

    Raises
    ------
    NotRowWiseError
        The likelihood does not split into rows.
    ValueError
        An argument out of range, no rows, missing or non-finite data.

    Notes
    -----
    The chain is approximate: each decision may differ from the exact one.  The bias shrinks with `epsilon`, which
    bounds the error of one look; with many looks a tie is decided wrongly far more often, and draws are too wide.
    `design_test` says by how much.
    Without a proxy a well-scaled random walk at temperature 1 needs a fixed share of the rows.

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
    _state_class = ApproxMHState
    designed_stats: ClassVar[dict[str, Any]] = {
        "epsilon": (np.float64, []),
        "batch_size": (np.int64, []),
        "alpha": (np.float64, []),
        "design_rows": (np.int64, []),
    }

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        epsilon: float | Literal["auto"] = 0.01,
        batch_size: int = 500,
        alpha: float = 0.5,
        tolerance: float | None = None,
        **options: Unpack[StepOptions],
    ):
        if epsilon != "auto" and not is_number(epsilon):
            raise ValueError(f"epsilon={epsilon!r} must be a number between 0 and 0.5, or 'auto'.")
        if tolerance is not None and epsilon != "auto":
            raise ValueError(
                f"tolerance={tolerance} is what epsilon='auto' designs for, and epsilon={epsilon} is a choice already. "
                "Leave one of them out."
            )
        if epsilon == "auto":
            tolerance, epsilon = _DEFAULT_TOLERANCE if tolerance is None else tolerance, TUNING_EPSILON
            check_tolerance(tolerance)
        test = SequentialT(epsilon, batch_size, alpha=alpha)
        self._tolerance, self._first = tolerance, test
        self._designed: SequentialT | None = None
        # No test is designed for groups.
        super().__init__(test, vars, by_groups=GroupPlan(test) if tolerance is None else None, **options)

    @property
    def own_stats(self) -> dict[str, Any]:
        """Type and shape of what is recorded of the test that was designed."""
        return self.designed_stats if self.designs else {}

    @property
    def designs(self) -> bool:
        """Whether a test is designed when tuning ends."""
        return self._tolerance is not None

    @property
    def error(self) -> str:
        """How the chain errs, in a few words."""
        if self._tolerance is None:
            return super().error
        return f"its test is designed to err by {self._tolerance:g} on average"

    @property
    def designed(self) -> SequentialT | None:
        """The test that was designed when tuning ended; None before, and where none was asked for."""
        return self._designed

    @designed.setter
    def designed(self, test: SequentialT | None) -> None:
        self._designed = test
        if self._tolerance is not None:
            self.chain.decide_by(test or self.test)

    def start_chain(self, rng: np.random.Generator) -> None:
        """Forget the previous chain and its test."""
        self._designed = None
        super().start_chain(rng)

    def step(self, point: PointType) -> tuple[PointType, StatsType]:
        """Make one transition from `point`, after designing the test where tuning has just ended."""
        if self._tolerance is None:
            return super().step(point)
        rows_read = self._design(point) if self._designed is None and not self.tune else 0
        test = self._designed or self._first
        point, (stats, *_) = super().step(point)
        stats.update(epsilon=test.epsilon, batch_size=test.batch_size, alpha=test.alpha, design_rows=rows_read)
        return point, [stats]

    def _design(self, point: PointType) -> int:
        """Run a trial chain from `point`, design a test, and return how many rows that read."""
        assert self._tolerance is not None
        if len(self.decider.parts.stored) < _FEWEST_ROWS:
            self.designed = self._first  # which reads all of them
            return 0
        likelihood = self.decider.parts.likelihood
        theta, others = (flatten(point, blocks) for blocks in (likelihood.blocks, likelihood.other_blocks))
        trial, _, rows_read = collect(self.chain, theta, others, _PAIRS)
        sizes = default_sizes(len(self.decider.parts.stored), _MOST_LOOKS)
        design = design_test(trial, tolerance=self._tolerance, batch_sizes=sizes)
        self.designed = SequentialT(**design, replacement=trial.replacement)
        _log.info(f"{type(self).__name__} decides from here on with {design}.")
        return rows_read
