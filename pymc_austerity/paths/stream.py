"""The estimator for a stream of rows that are seen once.

Every replication takes fresh rows from the stream and forgets them.  With n_max, the most rows that can be
held at a time, in place of N, the estimate is unbiased for φ on n_max rows; what remains towards φ on an
endless stream is estimated from the last steps of the paths (section 5.3 of the paper).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
import xarray as xr
from numpy.random import SeedSequence
from numpy.typing import ArrayLike, NDArray

from pymc_austerity.paths.convergence_rate import choose
from pymc_austerity.paths.debias import (
    MIN_REPLICATIONS,
    ReplicationError,
    Seed,
    as_seed,
    check_alpha,
    check_phi,
    check_stopping,
)
from pymc_austerity.paths.progress import ReplicationProgress
from pymc_austerity.paths.replicates import Replicate, Settings, result_dataset
from pymc_austerity.paths.replication import checked_value, level_of, telescope, wants_rng
from pymc_austerity.paths.truncation import FloatArray, path_sizes
from pymc_austerity.paths.workers import JobError, complaint

Block: TypeAlias = NDArray[Any] | tuple[NDArray[Any], ...]

#: A mean increment from fewer paths says nothing about what remains.
_MIN_PATHS = 10


class _StreamEndedError(Exception):
    """No more rows."""


class _StreamError(Exception):
    """The stream raised an error, or its blocks do not fit together."""


def debias_stream(
    batches: Iterable[Block],
    phi: Callable[..., ArrayLike],
    *,
    n_max: int,
    min_batch: int,
    ratio: float = 2,
    alpha: float | Literal["auto"] = "auto",
    replications: int | None = None,
    tolerance: ArrayLike | None = None,
    max_seconds: float | None = None,
    random_seed: Seed = None,
    cost: Callable[[int], float] = float,
    pilot_paths: int = 24,
    progressbar: bool = True,
) -> xr.Dataset:
    """Estimate φ on `n_max` rows of a stream whose rows are read once, in their order.

    Parameters
    ----------
    batches : iterable of array, or of tuples of arrays
        Blocks of rows of any length, rows first.  The rows must be exchangeable: a drift over the stream
        is not seen.
    phi : callable
        ``phi(rows)`` on the rows themselves, an array or a tuple of arrays like the blocks, of length
        `min_batch` to `n_max`.  With a parameter ``rng`` it is handed a Generator.
    n_max : int
        The most rows φ can take at a time; it stands for N.
    min_batch, ratio, alpha
        As in `debias`.
    replications, tolerance, max_seconds : optional
        When to stop, as in `debias`; without any of them, at the end of the stream.
    random_seed : optional
        Fixes the truncations.
    cost, pilot_paths, progressbar
        As in `debias`.

    Returns
    -------
    xarray.Dataset
        As from `debias`, and further along ``batch`` the mean step ``increment`` = E(φ_t − φ_{t−1}) with
        ``increment_error`` and ``paths`` that reached it; ``remaining_bias`` and ``remaining_bias_error``
        (of the shape of φ), an estimate of E φ on n_max rows − φ on an endless stream.
        ``attrs["remaining_bias_reason"]`` describes it, ``attrs["rows_read"]`` counts rows of the stream.

    Raises
    ------
    ValueError
        For arguments out of range, or a stream that ends before the first replication does.
    TypeError
        For a φ or a stream of the wrong kind.
    ReplicationError
        When φ raises, or returns something not finite or of changing shape; when the stream raises, or its blocks
        do not fit together.  It holds what was finished.

    Warns
    -----
    UserWarning
        When the stream ended within a replication, or before the number asked for.  To drop an unfinished
        replication favours short paths; with many replications the effect is of the order of one of them.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> stream = (rng.normal(2, 1, 1_000) for _ in range(100))
    >>> result = debias_stream(stream, lambda x: x.sum() / (len(x) + 5), n_max=10_000, min_batch=20,
    ...                        replications=300, random_seed=2, progressbar=False)
    >>> bool(abs(result.estimate[-1] - 2) < 4 * result.standard_error[-1])
    True
    """
    check_phi(phi, "rows")
    if replications is not None or tolerance is not None or max_seconds is not None:
        check_stopping(replications, tolerance, max_seconds)
    sizes = path_sizes(n_max, min_batch, ratio)
    check_alpha(alpha, sizes, ratio)
    deadline = time.monotonic() + max_seconds if max_seconds is not None else float("inf")
    seed = as_seed(random_seed)
    reader = _Reader(batches)
    walker = _Walker(phi, reader, seed)
    choice = choose(alpha, sizes, ratio, cost, pilot_paths, partial(_pilot, walker, pilot_paths))
    settings = Settings(n_max, min_batch, ratio, sizes, choice, seed)
    done: dict[int, Replicate] = {}
    steps = _Steps(len(sizes))
    stopped = _replicate(walker, settings, done, steps, replications, tolerance, deadline, progressbar)
    return _with_remaining_bias(result_dataset(done, settings, stopped), steps, settings, reader.rows_read)


def _pilot(walker: _Walker, count: int, sizes: tuple[int, ...]) -> NDArray[np.float64]:
    """Walk `count` pilot paths over batches of `sizes`, shape (count, m, ...)."""
    try:
        return np.stack([np.stack([np.asarray(v) for v in walker.path(sizes, i)]) for i in range(count)])
    except _StreamEndedError:
        raise ValueError(
            f"The stream ended after {walker.reader.rows_read} rows, within the pilot for alpha='auto'. Give alpha."
        ) from None
    except (JobError, _StreamError) as error:
        raise ReplicationError(f"In the pilot for alpha='auto': {error}", None) from error


def _replicate(
    walker: _Walker,
    settings: Settings,
    done: dict[int, Replicate],
    steps: _Steps,
    replications: int | None,
    tolerance: ArrayLike | None,
    deadline: float,
    progressbar: bool,
) -> str:
    """Fill `done` with replications until a stopping rule holds or the stream ends, and say which it was."""
    with ReplicationProgress(replications, done, tolerance, MIN_REPLICATIONS, progressbar) as progress:
        try:
            while not done or time.monotonic() < deadline:
                index = len(done)
                begun = time.perf_counter()
                level = level_of(settings.truncation, settings.seed, index)
                path = walker.path(settings.sizes[:level], index)
                value = telescope(path, settings.truncation)
                seconds = time.perf_counter() - begun
                precise = progress.add(index, Replicate(level, settings.truncation.rows(level), seconds, value))
                steps.add(path)
                if precise:
                    return "tolerance reached"
                if replications is not None and len(done) >= replications:
                    return "replications done"
        except _StreamEndedError:
            endless = replications is None and tolerance is None and deadline == float("inf")
            return _end_of_stream(walker.reader, len(done), endless)
        except KeyboardInterrupt:
            if not done:
                raise
            why = "interrupted by the user"
            warnings.warn(
                f"Run stopped, {why}: {len(done)} finished replications are returned.", UserWarning, stacklevel=3
            )
            return why
        except (JobError, ValueError, _StreamError) as error:
            who = "stream failed" if isinstance(error, _StreamError) else "phi failed"
            finished = result_dataset(done, settings, who) if done else None
            raise ReplicationError(str(error), finished) from error
    return "max_seconds reached"


def _end_of_stream(reader: _Reader, finished: int, expected: bool) -> str:
    if not finished:
        raise ValueError(
            f"The stream ended after {reader.rows_read} rows, within the first replication. Lower n_max."
        ) from None
    if reader.cut or not expected:
        warnings.warn(
            f"The stream ended after {reader.rows_read} rows and {finished} replications; {reader.cut} rows of an "
            "unfinished one are not used.",
            UserWarning,
            stacklevel=4,
        )
    return "stream ended"


class _Reader:
    """Takes rows off a stream of blocks."""

    def __init__(self, batches: Iterable[Block]):
        if not isinstance(batches, Iterable):
            raise TypeError(
                f"batches must be an iterable of arrays, or of tuples of arrays, found {type(batches).__name__}. Pass "
                "[array] for a single one."
            )
        self._blocks: Iterator[Block] = iter(batches)
        self._held: list[tuple[NDArray[Any], ...]] = []
        self._single = True
        self._arrays_per_block: int | None = None
        self.rows_read = 0
        self.cut = 0

    def take(self, count: int) -> Block:
        """Return the next `count` rows.

        Raises
        ------
        _StreamEndedError
            When fewer are left; `cut` says how many.
        _StreamError
            When the stream fails.
        """
        have = sum(len(block[0]) for block in self._held)
        while have < count:
            try:
                block = next(self._blocks)
            except StopIteration:
                self.cut = have
                raise _StreamEndedError from None
            except Exception as error:
                text = f"The stream failed after {self.rows_read + have} rows: {type(error).__name__}: {error}"
                raise _StreamError(text) from error
            self._held.append(self._arrays_of(block))
            have += len(self._held[-1][0])
        columns = [np.concatenate(parts) if len(parts) > 1 else parts[0] for parts in zip(*self._held)]
        self._held = [tuple(column[count:] for column in columns)] if have > count else []
        self.rows_read += count
        taken = tuple(column[:count] for column in columns)
        return taken[0] if self._single else taken

    def _arrays_of(self, block: Block) -> tuple[NDArray[Any], ...]:
        self._single = not isinstance(block, tuple)
        arrays = tuple(np.asarray(a) for a in (block if isinstance(block, tuple) else (block,)))
        if self._arrays_per_block is None:
            self._arrays_per_block = len(arrays)
        same_length = all(a.ndim for a in arrays) and len({len(a) for a in arrays}) == 1
        if not same_length or len(arrays) != self._arrays_per_block:
            raise _StreamError(
                "Every block must be the same number of arrays, all of the same length, rows first; found shapes "
                f"{[a.shape for a in arrays]}."
            )
        return arrays


class _Walker:
    """φ along nested beginnings of fresh rows."""

    def __init__(self, phi: Callable[..., ArrayLike], reader: _Reader, seed: SeedSequence):
        self._phi, self.reader = phi, reader
        self._wants_rng = wants_rng(phi)
        # Apart from the truncations, which `level_of` draws.
        self._inner = SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 2))

    def path(self, sizes: Sequence[int], index: int) -> list[NDArray[np.float64] | xr.DataArray]:
        """Return φ on batches of `sizes` for replication `index`."""
        rows = self.reader.take(sizes[-1])
        seeds = self._inner.spawn(1)[0].spawn(len(sizes))
        values = []
        for size, seed in zip(sizes, seeds):
            extra = {"rng": np.random.default_rng(seed)} if self._wants_rng else {}
            part = tuple(a[:size] for a in rows) if isinstance(rows, tuple) else rows[:size]
            try:
                values.append(checked_value(self._phi(part, **extra), size))
            except Exception as error:
                error.add_note(f"while phi read {size} rows")
                raise JobError(complaint(index, f"{type(error).__name__}: {error}")) from error
        return values


class _Steps:
    """Mean and standard error of φ_t − φ_{t−1}, level by level."""

    def __init__(self, levels: int):
        self.paths = np.zeros(levels, dtype=np.int64)
        self._sums: list[Any] = [0.0] * levels
        self._squares: list[Any] = [0.0] * levels

    def add(self, path: Sequence[NDArray[np.float64] | xr.DataArray]) -> None:
        before = np.zeros_like(np.asarray(path[0]))
        for level, value in enumerate(path):
            step = np.asarray(value) - before
            self.paths[level] += 1
            self._sums[level] = self._sums[level] + step
            self._squares[level] = self._squares[level] + step**2
            before = np.asarray(value)

    def means(self) -> tuple[FloatArray, FloatArray]:
        shape = np.shape(self._sums[0])
        counts = self.paths.reshape(-1, *[1] * len(shape)).astype(float)
        sums = np.stack([np.broadcast_to(s, shape) for s in self._sums])
        squares = np.stack([np.broadcast_to(s, shape) for s in self._squares])
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = sums / counts
            error = np.sqrt(np.maximum(squares / counts - mean**2, 0) / (counts - 1))
        return mean, error


def _with_remaining_bias(result: xr.Dataset, steps: _Steps, settings: Settings, rows_read: int) -> xr.Dataset:
    mean, error = steps.means()
    inner = result.replicate.dims[1:]
    result["increment"] = (("batch", *inner), mean)
    result["increment_error"] = (("batch", *inner), error)
    result["paths"] = ("batch", steps.paths)
    seen = np.flatnonzero(steps.paths[1:] >= _MIN_PATHS) + 1
    if len(seen):
        last = int(seen[-1])
        n = np.asarray(settings.sizes, dtype=float)
        # A bias b/n steps by b/n_s − b/n_{s−1} and ends at b/n_max.
        scale = 1 / n[-1] / (1 / n[last] - 1 / n[last - 1])
        bias, bias_error = mean[last] * scale, error[last] * abs(scale)
        reason = (
            f"The estimate is unbiased for phi on n_max = {settings.n_rows} rows. Towards an endless stream a bias "
            f"remains, estimated from the mean step between {settings.sizes[last - 1]} and {settings.sizes[last]} rows "
            f"({steps.paths[last]} paths), if the bias falls like 1/n from there on."
        )
    else:
        bias, bias_error = np.full_like(mean[0], np.nan), np.full_like(mean[0], np.nan)
        reason = (
            f"The estimate is unbiased for phi on n_max = {settings.n_rows} rows. Fewer than {_MIN_PATHS} paths went "
            "beyond the first batch, too few to tell what bias remains towards an endless stream."
        )
    result["remaining_bias"] = (inner, bias)
    result["remaining_bias_error"] = (inner, bias_error)
    result.attrs |= {"remaining_bias_reason": reason, "rows_read": rows_read, "n_max": settings.n_rows}
    return result
