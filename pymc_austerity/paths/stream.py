"""The estimator for a stream of rows that are seen once.

Every replication takes fresh rows from the stream and forgets them.  With n_max, the most rows that can be
held at a time, in place of N, the estimate is unbiased for φ on n_max rows; what remains towards φ on an
endless stream is estimated from the last increments of the paths (section 5.3 of the paper).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from typing import Literal

import numpy as np
import xarray as xr
from numpy.random import SeedSequence
from numpy.typing import ArrayLike, NDArray

from pymc_austerity.paths.block_reader import Block, BlockReader, StreamEndedError, StreamError
from pymc_austerity.paths.convergence_rate import choose
from pymc_austerity.paths.replicates import Replicate, Settings, result_dataset, warn
from pymc_austerity.paths.replication import Phi, ReplicationError, level_of, telescope, walk, wants_rng
from pymc_austerity.paths.runs import Seed, Stopping, as_seed, replicate
from pymc_austerity.paths.truncation import FloatArray, path_sizes
from pymc_austerity.paths.workers import JobError, complaint
from pymc_austerity.user_input import takes

#: φ on nested batches.
Path = list[NDArray[np.float64] | xr.DataArray]
#: A mean increment from fewer paths says nothing about what remains.
_MIN_PATHS = 10


@takes()
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
        Blocks of rows of any length, rows first.  The rows must be exchangeable: a drift over the stream is not seen.
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
        As from `debias`, and further along ``batch`` the mean ``increment`` = E(φ_t − φ_{t−1}) with
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
        replication favours short paths; with many replications the effect is of the order of one of them.  When the
        standard error may be too small, as in `debias`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> stream = (rng.normal(2, 1, 1_000) for _ in range(150))
    >>> result = debias_stream(stream, lambda x: x.sum() / (len(x) + 5), n_max=10_000, min_batch=20,
    ...                        replications=300, random_seed=2, progressbar=False)
    >>> bool(abs(result.estimate[-1] - 2) < 4 * result.standard_error[-1])
    True
    """
    stopping = Stopping(replications, tolerance, max_seconds)
    sizes = path_sizes(n_max, min_batch, ratio)
    seed = as_seed(random_seed)
    walker = _Walker(phi, BlockReader(batches), seed)
    choice = choose(alpha, sizes, ratio, cost, pilot_paths, partial(_pilot, walker, pilot_paths))
    settings = Settings(n_max, min_batch, ratio, sizes, choice, seed)
    done: dict[int, Replicate] = {}
    begin = partial(walker.replications, settings, stopping.deadline)
    try:
        stopped = replicate(begin, settings, stopping, done, progressbar, resumable=False)
    except StreamEndedError:
        stopped = _end_of_stream(walker.reader, len(done), stopping.never)
    result = result_dataset(done, settings, stopped)
    warn(result.attrs["doubts"])
    return _with_remaining_bias(result, walker.paths, settings, walker.reader.rows_read)


class _Walker:
    """φ along nested beginnings of fresh rows."""

    def __init__(self, phi: Phi, reader: BlockReader, seed: SeedSequence):
        self._phi, self.reader = phi, reader
        self._wants_rng = wants_rng(phi)
        # Apart from the truncations, which `level_of` draws.
        self._inner = SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 2))
        self.paths: list[Path] = []

    def path(self, sizes: Sequence[int], index: int) -> Path:
        """Return φ on batches of `sizes` for replication `index`."""
        rows = self.reader.take(sizes[-1])
        try:
            return list(walk(self._phi, rows, sizes, self._inner.spawn(1)[0], self._wants_rng))
        except Exception as error:
            raise JobError(complaint(index, error)) from error

    def replications(
        self, settings: Settings, deadline: float, indices: Iterable[int]
    ) -> Generator[tuple[int, Replicate], None, None]:
        """Yield replications, of which the first begins whatever the time."""
        law = settings.truncation
        for index in indices:
            if index and time.monotonic() >= deadline:
                return
            begun, level = time.perf_counter(), level_of(law, settings.seed, index)
            path = self.path(settings.sizes[:level], index)
            value = telescope(path, law)
            seconds = time.perf_counter() - begun
            self.paths.append(path)
            yield index, Replicate(level, law.rows(level), seconds, value)


def _pilot(walker: _Walker, count: int, sizes: tuple[int, ...]) -> NDArray[np.float64]:
    """Walk `count` pilot paths over batches of `sizes`, shape (count, m, ...)."""
    try:
        return np.stack([np.stack([np.asarray(v) for v in walker.path(sizes, i)]) for i in range(count)])
    except StreamEndedError:
        raise ValueError(
            f"The stream ended after {walker.reader.rows_read} rows, within the pilot for alpha='auto'. Give alpha."
        ) from None
    except (JobError, StreamError) as error:
        raise ReplicationError(f"In the pilot for alpha='auto': {error}", None) from error


def _end_of_stream(reader: BlockReader, finished: int, expected: bool) -> str:
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


def _mean_increments(paths: Sequence[Path], levels: int) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
    """Return how many paths reached each level, and the mean of φ_t − φ_{t−1} there with its standard error.

    Means have shape (L, ...), and are NaN at levels that no path reached.
    """
    counts = np.array([sum(len(path) > t for path in paths) for t in range(levels)])
    mean, error = np.full((2, levels, *np.shape(paths[0][0])), np.nan)
    for t in range(max(map(len, paths))):
        ends = [(np.asarray(path[t]), np.asarray(path[t - 1]) if t else 0.0) for path in paths if len(path) > t]
        steps = np.array([here - before for here, before in ends])
        mean[t] = steps.mean(axis=0)
        if len(steps) > 1:
            error[t] = steps.std(axis=0) / np.sqrt(len(steps) - 1)
    return counts, mean, error


def _with_remaining_bias(result: xr.Dataset, paths: Sequence[Path], settings: Settings, rows_read: int) -> xr.Dataset:
    """Add the increments, and the bias that they let expect, to the result of a run."""
    counts, mean, error = _mean_increments(paths, len(settings.sizes))
    inner = result.replicate.dims[1:]
    result["increment"] = (("batch", *inner), mean)
    result["increment_error"] = (("batch", *inner), error)
    result["paths"] = ("batch", counts)
    seen = np.flatnonzero(counts[1:] >= _MIN_PATHS) + 1
    if len(seen):
        last = int(seen[-1])
        n = np.asarray(settings.sizes, dtype=float)
        # A bias b/n steps by b/n_s − b/n_{s−1} and ends at b/n_max.
        scale = 1 / n[-1] / (1 / n[last] - 1 / n[last - 1])
        bias, bias_error = mean[last] * scale, error[last] * abs(scale)
        reason = (
            f"The estimate is unbiased for phi on n_max = {settings.n_rows} rows. Towards an endless stream a bias "
            f"remains, estimated from the mean increment between {settings.sizes[last - 1]} and {settings.sizes[last]} "
            f"rows ({counts[last]} paths), if the bias falls like 1/n from there on."
        )
    else:
        bias = bias_error = np.full_like(mean[0], np.nan)
        reason = (
            f"The estimate is unbiased for phi on n_max = {settings.n_rows} rows. Fewer than {_MIN_PATHS} paths went "
            "beyond the first batch, too few to tell what bias remains towards an endless stream."
        )
    result["remaining_bias"] = (inner, bias)
    result["remaining_bias_error"] = (inner, bias_error)
    result.attrs |= {"remaining_bias_reason": reason, "rows_read": rows_read, "n_max": settings.n_rows}
    return result
