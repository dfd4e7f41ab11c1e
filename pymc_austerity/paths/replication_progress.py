"""When a run ends, its progress bar, and the point where it has become precise enough."""

from __future__ import annotations

import time
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from types import TracebackType

import numpy as np
from numpy.typing import ArrayLike
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pymc_austerity.paths.replicates import Replicate

#: A standard error from fewer replications is too uncertain (15 % at 25) to stop a run.
_MIN_REPLICATIONS = 25


@dataclass(frozen=True)
class Stopping:
    """When a run ends: at a number of replications, a standard error, or seconds from now, whichever comes first."""

    replications: int | None
    tolerance: ArrayLike | None
    max_seconds: float | None
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        replications, tolerance, max_seconds = self.replications, self.tolerance, self.max_seconds
        if replications is not None and replications < 1:
            raise ValueError(f"replications must be a whole number of at least 1, found {replications}.")
        if tolerance is not None and not (np.asarray(tolerance) > 0).all():
            raise ValueError(
                f"tolerance is a standard error in the unit of phi and must be positive, found {tolerance}."
            )
        if max_seconds is not None and not max_seconds > 0:
            raise ValueError(f"max_seconds must be positive, found {max_seconds}.")

    @property
    def never(self) -> bool:
        """Whether nothing ends the run."""
        return self.replications is None and self.tolerance is None and self.max_seconds is None

    @property
    def deadline(self) -> float:
        """Value of `time.monotonic` after which no replication begins."""
        return float("inf") if self.max_seconds is None else self.began + self.max_seconds

    def complete(self, finished: int) -> bool:
        """Whether `finished` replications are those asked for."""
        return self.replications is not None and finished >= self.replications


class ReplicationProgress:
    """Follows the replications in their order, whatever order they arrive in; `add` puts them into `done`.

    `precise_at` is the smallest number of replications, counted from the first without a gap, whose standard error is
    within the tolerance in every component.
    """

    def __init__(self, stopping: Stopping, done: MutableMapping[int, Replicate], show: bool):
        self._done = done
        self._tolerance = None if stopping.tolerance is None else np.asarray(stopping.tolerance, dtype=float)
        self._count = 0
        self._mean = self._squares = np.zeros(())
        self.precise_at: int | None = None
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        self._bar = Progress(*columns, disable=not show)
        self._task = self._bar.add_task("replications", total=stopping.replications)

    def __enter__(self) -> ReplicationProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._bar.stop()

    def add(self, index: int, replicate: Replicate) -> bool:
        """Put a replication into `done`, and say whether the estimate is precise enough."""
        shape = np.shape(replicate.value)
        before = np.shape(next(iter(self._done.values())).value) if self._done else shape
        if shape != before:
            raise ValueError(
                f"phi returned the shape {shape} in replication {index} and {before} before: its shape must not depend "
                "on the rows (or append= holds a run with another phi)."
            )
        if self._tolerance is not None and self._tolerance.shape not in ((), shape):
            raise ValueError(
                f"The tolerance of shape {self._tolerance.shape} does not fit phi, which returns the shape {shape}. "
                "Give one number, or one for each component."
            )
        self._done[index] = replicate
        return self.update()

    def update(self) -> bool:
        """Take in what has been added to `done`, and say whether the estimate is precise enough."""
        while self._count in self._done and self.precise_at is None:
            # Welford's recursion.
            value = np.asarray(self._done[self._count].value)
            self._count += 1
            step = value - self._mean
            self._mean = self._mean + step / self._count
            self._squares = self._squares + step * (value - self._mean)
            if self._count >= _MIN_REPLICATIONS and self._precise():
                self.precise_at = self._count
        self._bar.update(self._task, completed=len(self._done), description=self.summary())
        return self.precise_at is not None

    def _precise(self) -> bool:
        return self._tolerance is not None and bool((self._error() <= self._tolerance).all())

    def _error(self) -> np.ndarray:
        return np.sqrt(self._squares / max(self._count - 1, 1) / max(self._count, 1))

    def summary(self) -> str:
        """Return the estimate ± its standard error, or the largest error where φ is an array."""
        if self._count < 2:
            return "replications"
        error = self._error()
        if error.size == 1:
            return f"estimate {float(self._mean.item()):.5g} ± {float(error.item()):.2g}"
        return f"{error.size} estimates, each ± {float(error.max()):.2g} or less"
