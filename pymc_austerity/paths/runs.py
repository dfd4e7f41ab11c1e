"""What runs over rows and over streams share: seeds, batch sizes, and what becomes of replications when one ends."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from typing import Literal

import numpy as np
from numpy.random import SeedSequence

from pymc_austerity.paths.block_reader import StreamError
from pymc_austerity.paths.replicates import Replicate, Settings, result_dataset
from pymc_austerity.paths.replication import ReplicationError, level_of
from pymc_austerity.paths.replication_progress import ReplicationProgress, Stopping
from pymc_austerity.paths.truncation import Truncation, path_sizes
from pymc_austerity.paths.workers import JobError, WorkersLostError
from pymc_austerity.user_input import shown

Seed = int | Sequence[int] | SeedSequence | np.random.Generator | None
Results = Generator[tuple[int, Replicate], None, None]


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


def checked_sizes(n_rows: int, min_batch: int, ratio: float, alpha: float | Literal["auto"]) -> tuple[int, ...]:
    """Return the batch sizes of a path; refuse an α for which these have no law of truncation."""
    sizes = path_sizes(n_rows, min_batch, ratio)
    if alpha != "auto":
        Truncation(sizes, alpha, ratio)
    return sizes


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
    with ReplicationProgress(stopping, done, progressbar) as progress:
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
    return "replications done" if stopping.complete(len(done)) else "max_seconds reached"


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
