"""The statistics of a draw of steps that read rows: what they are, how they are recorded, what the bar shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pymc.stats.convergence import SamplerWarning
from rich.progress import TextColumn
from rich.table import Column

from pymc_austerity.diagnostics import Watch
from pymc_austerity.diagnostics.same_data import DATA_DIGEST, MODEL_DIGEST
from pymc_austerity.groups import GroupChain
from pymc_austerity.kernel import TRANSITIONS, TUNED, Chain, TunedState
from pymc_austerity.kernel.chain import Draw

#: The statistic that names the step and what moves its parameters.
METHOD = "method"
#: Statistics of a draw that say how it was made, and which model and which data it belongs to.
OF_ITS_ORIGIN: dict[str, Any] = {
    METHOD: (np.dtype("S40"), []),
    MODEL_DIGEST: (np.int64, []),
    DATA_DIGEST: (np.int64, []),
}
#: Weight of the newest draw in the running rates, about the last 50 draws.
_MEMORY = 0.02
#: Whether the run that this process makes has draws after tuning.
_run = {"has_draws": False}
#: Types and shapes of the statistics of a decision, and of what went before the first draw.
OF_A_DECISION: dict[str, Any] = {
    "accepted": (np.float64, []),  # as PyMC's Metropolis declares it, which may stand beside
    "n_rows": (np.int64, []),
    "n_stages": (np.int64, []),
    "full_data": (bool, []),
    "log_ratio": (np.float64, []),
    "log_ratio_sd": (np.float64, []),
    "accept": (np.float64, []),
    "scaling": (np.float64, []),
    "threshold": (np.float64, []),
    "setup_passes": (np.float64, []),
    "setup_seconds": (np.float64, []),
    "total_rows": (np.int64, []),
    **OF_ITS_ORIGIN,
}
#: Of a draw that is one decision.
OF_A_DRAW: dict[str, Any] = {**OF_A_DECISION, "warning": (SamplerWarning, None)}
#: Of one that is decisions on the shared parameters and on groups.
OF_GROUPS: dict[str, Any] = {
    **OF_A_DECISION,
    "about_centre": (bool, []),
    "n_rows_carried": (np.int64, []),
    "n_rows_refreshed": (np.int64, []),
    "n_refreshed": (np.int64, []),
    "refresh_accept": (np.float64, []),
    "shift_accept": (np.float64, []),
}
#: And where rows of the table were merged.
OF_MERGED_ROWS: dict[str, Any] = {"distinct_rows": (np.int64, [])}
#: And where a draw is more than one transition.
OF_SEVERAL: dict[str, Any] = {TRANSITIONS: (np.int64, [])}


class DrawStats(dict[str, Any]):
    """Sample statistics of one draw, with the running rates of their chain: PyMC hands the bar nothing else of it."""

    acceptance: float = 0.0
    share: float = 0.0
    tuning: bool = True

    def items(self) -> Any:
        """Return all statistics to who records the draw, which the run then has."""
        _run["has_draws"] |= not self.tuning
        return super().items()


def begin_run() -> None:
    """Note that a run begins in this process."""
    _run["has_draws"] = False


def run_has_draws() -> bool:
    """Whether a draw after tuning was recorded since, of this process's or of chains in others."""
    return _run["has_draws"]


@dataclass
class RunningRates:
    """Exponentially weighted acceptance rate and share of rows read of one chain."""

    draws: int = 0
    acceptance: float = 0.0
    share: float = 0.0

    def update(self, stats: DrawStats, accepted: float, share: float, tuning: bool) -> None:
        """Take one draw in, with the share of it that was accepted, and write the rates into its statistics."""
        stats.tuning = tuning
        self.draws += 1
        weight = max(_MEMORY, 1 / self.draws)
        self.acceptance += weight * (accepted - self.acceptance)
        self.share += weight * (share - self.share)
        stats.acceptance, stats.share = self.acceptance, self.share


class Recorder:
    """Returns the statistics of each draw of a chain, as far as the step has `declared` their types and shapes to PyMC.

    `of_run` are the same in all draws; `name` is that of the step, for its warning; `length` counts draws after tuning,
    None where PyMC does not say it.
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
        stats = DrawStats(
            accepted=outcome.accepted,
            accept=chain.decider.test.probability(outcome.log_ratio) if outcome.full_data else np.nan,
            n_rows=outcome.n_rows,
            n_stages=outcome.n_stages,
            full_data=outcome.full_data,
            log_ratio=outcome.log_ratio,
            log_ratio_sd=outcome.log_ratio_sd,
            scaling=np.exp(draw.log_scale),
            threshold=outcome.threshold,
            **draw.more,
            **self._of_run,
        )
        if self._watch is not None:
            stats["warning"] = None if tuning else self._watch.after(chain, outcome, others)
        if self._tuned is not None:
            stats.update(self._tuned.stats(chain, tuning))
        if n > 1:
            stats[TRANSITIONS] = n
        self._rates.update(stats, outcome.accepted, outcome.n_rows / (n * chain.decider.n_rows), tuning)
        return stats


def progress_columns(n_chains: int) -> tuple[list[TextColumn], dict[str, list[Any]]]:
    """Return the columns of the progress bar of a run that begins, and their values before the first draw."""
    begin_run()
    columns = [
        TextColumn("{task.fields[acceptance]:.2f}", table_column=Column("Accepted", ratio=1)),
        TextColumn("{task.fields[share]:.2%}", table_column=Column("Rows read", ratio=1)),
    ]
    return columns, {"acceptance": [0.0] * n_chains, "share": [0.0] * n_chains}


def progress_fields(stats: DrawStats) -> dict[str, Any]:
    """Return the fields of `progress_columns` for one draw."""
    return {"acceptance": stats.acceptance, "share": stats.share, "failing": False}
