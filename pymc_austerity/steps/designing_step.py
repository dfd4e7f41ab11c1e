"""A step method that designs its sequential test when tuning ends."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from pymc.blocking import PointType, StatsType
from pymc.step_methods.state import dataclass_state
from pytensor.graph.basic import Variable

from pymc_austerity.acceptance import SequentialT
from pymc_austerity.diagnostics import collect, default_sizes, design_test
from pymc_austerity.likelihood import flatten
from pymc_austerity.steps.row_step import RowStep, RowStepState

_log = logging.getLogger("pymc_austerity")

#: Error of a look while the chain tunes, when the test that will be used is not known yet.
TUNING_EPSILON = 0.002
#: Proposals that are looked at on all rows when tuning ends.
_PAIRS = 200
#: Fewer rows leave nothing to design: no t-test decides on a part of so few.
_FEWEST_ROWS = 20
#: Looks that a designed test takes at most; more would lengthen the search and save few rows.
_MOST_LOOKS = 250


@dataclass_state
class DesigningStepState(RowStepState):
    """What a chain needs to go on where it stopped, the test that it designed included."""

    designed: Any = field(default=None)


class DesigningStep(RowStep):
    """A step that tunes with one test and then draws with the one that a tolerance asks for.

    Not meant to be used itself: `ApproxMH` with ``epsilon="auto"`` is.

    Parameters
    ----------
    test : SequentialT
        Test while tuning, and afterwards where no tolerance is given.
    variables : sequence of Variable or None
    tolerance : float or None
        Mean error in the acceptance probability to design for.  The design is made before the first draw that is not
        for tuning, and kept to the end of the chain.
    **options
        See `RowStep`.
    """

    _state_class = DesigningStepState
    designed_stats: ClassVar[dict[str, Any]] = {
        "epsilon": (np.float64, []),
        "batch_size": (np.int64, []),
        "alpha": (np.float64, []),
        "design_rows": (np.int64, []),
    }

    def __init__(
        self, test: SequentialT, variables: Sequence[Variable] | None, *, tolerance: float | None, **options: Any
    ):
        self._tolerance, self._first = tolerance, test
        self._designed: SequentialT | None = None
        super().__init__(test, variables, **options)
        if tolerance is not None:
            self._declare_stats(self.designed_stats)

    @property
    def designed(self) -> SequentialT | None:
        """The test that was designed when tuning ended; None before, and where none was asked for."""
        return self._designed

    @designed.setter
    def designed(self, test: SequentialT | None) -> None:
        self._designed = test
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
        if len(self.decider.rows) < _FEWEST_ROWS:
            self.designed = self._first  # which reads all of them
            return 0
        likelihood = self.decider.likelihood
        theta, others = (flatten(point, blocks) for blocks in (likelihood.blocks, likelihood.other_blocks))
        trial, _, rows_read = collect(self.chain, theta, others, _PAIRS)
        sizes = default_sizes(len(self.decider.rows), _MOST_LOOKS)
        design = design_test(trial, tolerance=self._tolerance, batch_sizes=sizes)
        self.designed = SequentialT(**design, replacement=trial.replacement)
        _log.info(f"{type(self).__name__} decides from here on with {design}.")
        return rows_read
