"""One replication: a random ordering of the rows, φ along its nested subsets, and their telescoping sum."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import xarray as xr
from numpy.random import SeedSequence
from numpy.typing import ArrayLike, NDArray

from pymc_austerity.paths.block_reader import Block
from pymc_austerity.paths.replicates import Replicate
from pymc_austerity.paths.truncation import Truncation

Phi = Callable[..., ArrayLike]


class ReplicationError(RuntimeError):
    """φ, or the stream that feeds it, failed in a replication.

    Parameters
    ----------
    message : str
        What went wrong, and where.
    finished : xarray.Dataset or None
        The replications finished before, ready for ``append=``; kept as an attribute.
    """

    def __init__(self, message: str, finished: xr.Dataset | None):
        super().__init__(message)
        self.finished = finished


#: Streams of random numbers: pilot paths must not be the replications whose truncation they chose.
_PILOT, _REPLICATION = 0, 1


def pilot_path(
    phi: Phi, index: int, *, sizes: tuple[int, ...], n_rows: int, seed: SeedSequence, wants_rng: bool
) -> NDArray[np.float64]:
    """Return φ along pilot path `index`, shape (m, ...)."""
    _, order, inner = _streams(seed, _PILOT, index)
    path = walk(phi, draw_rows(n_rows, sizes[-1], order), sizes, inner, wants_rng)
    return np.stack([np.asarray(value) for value in path])


def replication(
    phi: Phi, index: int, *, law: Truncation, n_rows: int, seed: SeedSequence, wants_rng: bool
) -> Replicate:
    """Walk replication `index` to its truncation and sum it up."""
    begun = time.perf_counter()
    of_level, order, inner = _streams(seed, _REPLICATION, index)
    level = law.draw(np.random.default_rng(of_level))
    sizes = law.sizes[:level]
    value = telescope(walk(phi, draw_rows(n_rows, sizes[-1], order), sizes, inner, wants_rng), law)
    return Replicate(level, law.rows(level), time.perf_counter() - begun, value)


def _streams(seed: SeedSequence, kind: int, index: int) -> list[SeedSequence]:
    """Seeds of the truncation, the ordering and φ: one for each purpose, none used twice."""
    return SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, kind, index)).spawn(3)


def level_of(truncation: Truncation, seed: SeedSequence, index: int) -> int:
    """Return the T of a replication, which its seed fixes."""
    return truncation.draw(np.random.default_rng(_streams(seed, _REPLICATION, index)[0]))


def draw_rows(n_rows: int, count: int, seed: SeedSequence) -> NDArray[np.int64]:
    """Draw the first `count` entries of a random ordering of all row numbers, in O(count) where count ≪ N."""
    return np.random.default_rng(seed).choice(n_rows, size=count, replace=False, shuffle=True)


def walk(
    phi: Phi, rows: Block, sizes: Sequence[int], seed: SeedSequence, wants_rng: bool
) -> Iterator[NDArray[np.float64] | xr.DataArray]:
    """Yield φ on the first n_1, n_2, … rows (or row numbers), each with a generator of its own if φ wants one."""
    # Not spawned for a φ that wants none: a seed takes longer than a mean over a thousand rows.
    extras: Iterable[dict[str, np.random.Generator]] = (
        ({"rng": np.random.default_rng(inner)} for inner in seed.spawn(len(sizes))) if wants_rng else repeat({})
    )
    for size, extra in zip(sizes, extras):
        first = tuple(a[:size] for a in rows) if isinstance(rows, tuple) else rows[:size]
        try:
            value = checked_value(phi(first, **extra), size)
        except Exception as error:
            error.add_note(f"while phi read {size} rows")
            raise
        yield value


def telescope(
    path: Iterable[NDArray[np.float64] | xr.DataArray], truncation: Truncation
) -> NDArray[np.float64] | xr.DataArray:
    """Return Σ_t (φ_t − φ_{t−1}) / P(T ≥ t) along a truncated path, with φ_0 = 0 (Lemma 1)."""
    total = before = None
    for value, probability, size in zip(path, truncation.tail, truncation.sizes):
        here = np.asarray(value)
        if before is None:
            total = here / probability
        elif here.shape != before.shape:
            raise ValueError(
                f"phi returned shape {before.shape} for fewer rows and {here.shape} for {size}: the shape "
                "must not depend on the rows. Return a summary, not one value per row."
            )
        else:
            total = total + (here - before) / probability
        before, last = here, value
    return last.copy(data=total) if isinstance(last, xr.DataArray) else np.asarray(total)


def checked_value(value: Any, size: int) -> NDArray[np.float64] | xr.DataArray:
    """Return what φ returned as floats, or say what is wrong with it."""
    taken = {"replication", "batch"}.intersection(value.dims) if isinstance(value, xr.DataArray) else ()
    if taken:
        raise ValueError(f"phi returns a DataArray with the dimension {min(taken)!r}, which is taken. Rename it.")
    numbers = np.asarray(value)
    if numbers.dtype.kind not in "fiub":
        raise TypeError(f"phi must return real numbers, found dtype {numbers.dtype} ({type(value).__name__}).")
    numbers = numbers.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError(
            f"phi returned {np.size(numbers) - int(np.isfinite(numbers).sum())} of {numbers.size} values "
            f"that are not finite, for {size} rows. Where a subset is too small for phi, raise min_batch."
        )
    return value.astype(np.float64) if isinstance(value, xr.DataArray) else numbers


def wants_rng(phi: Phi) -> bool:
    """Whether φ takes a generator of its own."""
    try:
        return "rng" in inspect.signature(phi).parameters
    except (TypeError, ValueError):  # builtins may have no signature
        return False
