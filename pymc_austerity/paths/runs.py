"""What runs over rows and over streams share: when they end, their progress, and what becomes of their replications."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Generator, Iterable, MutableMapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import ArrayLike
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pymc_austerity.paths.block_reader import StreamError
from pymc_austerity.paths.replicates import Replicate, Settings, result_dataset
from pymc_austerity.paths.replication import ReplicationError, level_of
from pymc_austerity.paths.workers import JobError, WorkersLostError
from pymc_austerity.user_input import shown

#: A standard error from fewer replications is too uncertain (15 % at 25) to stop a run.
_MIN_REPLICATIONS = 25
Seed = int | Sequence[int] | SeedSequence | np.random.Generator | None
Results = Generator[tuple[int, Replicate], None, None]


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
        self.bar = Progress(*columns, disable=not show)
        self._task = self.bar.add_task("replications", total=stopping.replications)

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
            enough = self._tolerance is not None and self._count >= _MIN_REPLICATIONS
            if enough and bool((self._error() <= self._tolerance).all()):
                self.precise_at = self._count
        self.bar.update(self._task, completed=len(self._done), description=self.summary())
        return self.precise_at is not None

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


def as_seed(seed: Seed) -> SeedSequence:
    """Turn any accepted seed into a `SeedSequence` of its own."""
    if isinstance(seed, SeedSequence):
        return seed
    if isinstance(seed, np.random.Generator):
        return SeedSequence([int(word) for word in seed.integers(2**32, size=4)])
    try:
        return SeedSequence(seed)
    except (TypeError, ValueError):
        raise TypeError(
            f"random_seed= wants whole numbers from 0 on, a SeedSequence or a Generator, and got {shown(seed)}."
        ) from None


def replicate(
    begin: Callable[[Iterable[int]], Results],
    settings: Settings,
    stopping: Stopping,
    done: dict[int, Replicate],
    progressbar: bool,
    *,
    resumable: bool,
) -> str:
    """Fill `done` with replications until a stopping rule holds, and say which one did.

    ``begin(indices)`` runs the replications of these numbers.  A run that is not `resumable` cannot be appended to.
    """
    had = frozenset(done)
    everything: Iterable[int] = itertools.count() if stopping.replications is None else range(stopping.replications)
    progress = ReplicationProgress(stopping, done, progressbar)
    with progress.bar:
        try:
            _collect(begin(() if progress.update() else (i for i in everything if i not in had)), progress)
        except (KeyboardInterrupt, WorkersLostError) as error:
            if not done:
                raise
            lost = isinstance(error, WorkersLostError)
            return _warn_cut(done, settings, f"workers lost: {error}" if lost else "interrupted by the user", resumable)
        except (JobError, ValueError, StreamError) as error:
            who = "stream failed" if isinstance(error, StreamError) else "phi failed"
            finished = result_dataset(done, settings, who) if done else None
            raise ReplicationError(str(error), finished) from error
    if progress.precise_at is not None:
        # Replications run ahead on other workers are dropped: the result must not depend on their number.
        for index in [i for i in done if i >= progress.precise_at]:
            del done[index]
        return "tolerance reached"
    asked = stopping.replications
    return "max_seconds reached" if asked is None or len(done) < asked else "replications done"


def _collect(todo: Results, progress: ReplicationProgress) -> None:
    """Take replications in until they are precise enough or done."""
    # Apart from the `try` of an interrupt: where a loop jumps back, CPython's table of exceptions leaves its own out.
    with closing(todo) as results:
        for index, found in results:
            if progress.add(index, found):
                break


def _warn_cut(done: dict[int, Replicate], settings: Settings, why: str, resumable: bool) -> str:
    missing = sorted(set(range(max(done))) - set(done))
    text = f"Run stopped, {why}: {len(done)} finished replications are returned."
    if missing:
        levels = [level_of(settings.truncation, settings.seed, i) for i in missing]
        text += (
            f" {len(missing)} replications begun earlier are not among them (truncated at batches {levels}); to leave "
            "out long ones biases the estimate."
        )
    if resumable:
        text += " Pass the result as append= to go on and fill the gaps."
    warnings.warn(text, UserWarning, stacklevel=5)
    return why
