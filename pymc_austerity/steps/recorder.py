"""The statistics of the draws of one chain, as its step has declared them to PyMC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_austerity.diagnostics import Watch
from pymc_austerity.groups import GroupChain
from pymc_austerity.kernel import TRANSITIONS, TUNED, Chain, TunedState
from pymc_austerity.kernel.chain import Draw
from pymc_austerity.steps.draw_statistics import DrawStats, RunningRates, statistics_of


class Recorder:
    """Returns the statistics of each draw of a chain.

    Parameters
    ----------
    chain
        That makes the draws.
    declared
        Type and shape of each statistic. Those that not every step has are recorded where they are declared: the
        transitions of a draw, the distinct rows, the tuned state, the warning at the end of the chain.
    of_run
        Statistics that are the same in all draws.
    name
        That of the step, for the warning.
    thin
        Transitions of a draw after tuning.
    length
        Draws after tuning; None where PyMC does not say it.
    """

    def __init__(
        self,
        chain: Chain | GroupChain,
        declared: Mapping[str, Any],
        of_run: Mapping[str, Any],
        *,
        name: str,
        thin: int,
        length: int | None,
    ):
        decider: Any = chain.decider
        self._chain, self._thin, self._rates = chain, thin, RunningRates()
        known = {
            "total_rows": decider.reported.n_table,
            "distinct_rows": decider.n_rows,
            "setup_passes": decider.reported.setup_passes,
            TRANSITIONS: 1,
            **of_run,
        }
        self._of_run = {statistic: value for statistic, value in known.items() if statistic in declared}
        self._watch = Watch(length, name, thin) if "warning" in declared else None
        self._tuned = TunedState(decider, declared[TUNED][0]) if TUNED in declared else None

    def stats(self, draw: Draw, others: np.ndarray, tuning: bool) -> DrawStats:
        """Return the statistics of a draw, made where the variables of other steps are at `others`."""
        chain, outcome = self._chain, draw.outcome
        n = 1 if tuning else self._thin
        stats = statistics_of(draw, chain.decider.test)
        stats.update(self._of_run)
        if self._watch is not None:
            stats["warning"] = None if tuning else self._watch.after(chain, outcome, others)
        if self._tuned is not None:
            stats.update(self._tuned.stats(chain, tuning))
        if n > 1:
            stats[TRANSITIONS] = n
        self._rates.update(stats, outcome.accepted, outcome.n_rows / (n * chain.decider.n_rows), tuning)
        return stats
