"""What a user sees while chains run, in PyMC's own bar: acceptance and share of the rows read."""

from __future__ import annotations

from typing import Any

from rich.progress import TextColumn
from rich.table import Column

#: Whether the run that this process makes has draws after tuning.
_run = {"has_draws": False}
_MEMORY = 0.02  # weight of the newest draw in the running rates, about the last 50 draws


class DrawStats(dict[str, Any]):
    """Sample statistics of one draw that carry the running rates of their chain along.

    PyMC hands the progress bar the statistics of a draw but not the number of the chain, and a chain may run
    in another process; so the rates travel with the statistics.
    """

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


class RunningRates:
    """Exponentially weighted acceptance rate and share of rows read of one chain."""

    def __init__(self) -> None:
        self._draws = 0
        self._acceptance = 0.0
        self._share = 0.0

    def update(self, stats: DrawStats, accepted: float, share: float, tuning: bool) -> None:
        """Take one draw in, with the share of it that was accepted, and write the rates into its statistics."""
        stats.tuning = tuning
        self._draws += 1
        weight = max(_MEMORY, 1 / self._draws)
        self._acceptance += weight * (accepted - self._acceptance)
        self._share += weight * (share - self._share)
        stats.acceptance, stats.share = self._acceptance, self._share


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
