"""What a user sees: passes over all rows while a step is built; acceptance and share of the rows read while chains run.

The first has a bar of its own, the second is shown in PyMC's.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

_MEMORY = 0.02  # weight of the newest draw in the running rates, about the last 50 draws


def setup_progress(shown: bool) -> Progress:
    """Return a bar for passes over the data, each task with a field ``what`` that says what is read."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[what]}"), TimeElapsedColumn())
    # On the error stream, where it does not mix with what a program prints; as a widget only where there are widgets.
    console = Console(stderr=True, force_jupyter=None if find_spec("ipywidgets") else False)
    return Progress(*columns, console=console, disable=not shown)


class DrawStats(dict[str, Any]):
    """Sample statistics of one draw that carry the running rates of their chain along.

    PyMC hands the progress bar the statistics of a draw but not the number of the chain, and a chain may run
    in another process; so the rates travel with the statistics.
    """

    acceptance: float = 0.0
    share: float = 0.0


class RunningRates:
    """Exponentially weighted acceptance rate and share of rows read of one chain."""

    def __init__(self) -> None:
        self._draws = 0
        self._acceptance = 0.0
        self._share = 0.0

    def update(self, stats: DrawStats, accepted: float, share: float) -> None:
        """Take one draw in, with the share of it that was accepted, and write the rates into its statistics."""
        self._draws += 1
        weight = max(_MEMORY, 1 / self._draws)
        self._acceptance += weight * (accepted - self._acceptance)
        self._share += weight * (share - self._share)
        stats.acceptance, stats.share = self._acceptance, self._share


def progress_columns(n_chains: int) -> tuple[list[TextColumn], dict[str, list[Any]]]:
    """Return the columns of the progress bar and their values before the first draw."""
    columns = [
        TextColumn("{task.fields[acceptance]:.2f}", table_column=Column("Accepted", ratio=1)),
        TextColumn("{task.fields[share]:.2%}", table_column=Column("Rows read", ratio=1)),
    ]
    return columns, {"acceptance": [0.0] * n_chains, "share": [0.0] * n_chains}


def progress_fields(stats: DrawStats) -> dict[str, Any]:
    """Return the fields of `progress_columns` for one draw."""
    return {"acceptance": stats.acceptance, "share": stats.share, "failing": False}
