"""The unbiased estimator from paths of partial posteriors (Strathmann, Sejdinovic and Girolami 2015).

A replication draws a random ordering of the rows and a truncation T, evaluates φ on nested subsets
n_1 < … < n_T of that ordering, and returns Σ_{t ≤ T} (φ_t − φ_{t−1}) / P(T ≥ t).  Its expectation is φ on
all rows (Lemma 1), although it mostly reads a few hundred of them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Literal

import numpy as np
import xarray as xr
from numpy.random import SeedSequence
from numpy.typing import ArrayLike, NDArray

from pymc_austerity.paths.convergence_rate import choose
from pymc_austerity.paths.replicates import Replicate, Settings, finished_replicates, result_dataset, settings_of, warn
from pymc_austerity.paths.replication import Phi, ReplicationError, pilot_path, replication, wants_rng
from pymc_austerity.paths.runs import Seed, Stopping, as_seed, replicate
from pymc_austerity.paths.truncation import path_sizes
from pymc_austerity.paths.workers import JobError, Workers
from pymc_austerity.user_input import takes


@takes(append=xr.Dataset)
def debias(
    phi: Phi,
    n_rows: int,
    *,
    min_batch: int,
    ratio: float = 2,
    alpha: float | Literal["auto"] = "auto",
    replications: int | None = None,
    tolerance: ArrayLike | None = None,
    max_seconds: float | None = None,
    executor: Executor | None = None,
    random_seed: Seed = None,
    append: xr.Dataset | None = None,
    cost: Callable[[int], float] = float,
    pilot_paths: int = 24,
    progressbar: bool = True,
) -> xr.Dataset:
    """Estimate φ on all rows, without bias, from φ on random subsets of rows.

    Parameters
    ----------
    phi : callable
        ``phi(row_numbers)`` returns a number, an array or an `xarray.DataArray` of fixed shape for any
        array of distinct row numbers (int64, shape (n,), random order).  A φ with a parameter named
        ``rng`` gets its own `numpy.random.Generator`; one that draws random numbers must use it.
    n_rows : int
        Number of rows N of the whole data.
    min_batch : int
        Size a of the smallest subset: large enough for φ to be sane on it.
    ratio : float
        Growth r of the subsets along a path.
    alpha : float or "auto"
        Exponent of P(T = t) ∝ r^(−αt).  The variance stays bounded as N grows where α < β, with
        E|φ_t − φ_N|² ≤ c·n_t^(−β).  "auto" estimates β from pilot paths.
    replications : int, optional
        Number R of replications, those of `append` included.
    tolerance : float or array, optional
        Stop as soon as no component of the standard error exceeds this, in the unit of φ (at least 25
        replications).  With `replications` whichever comes first.
    max_seconds : float, optional
        Begin no replication after this time.  What is then under way is finished, since to drop the slow
        ones would favour short paths.
    executor : concurrent.futures.Executor, optional
        Where replications run: threads, processes, or ``dask.distributed.Client.get_executor()``.  By
        default here, one after the other.
    random_seed : int, sequence of int, SeedSequence or Generator, optional
        The same seed gives the same replications on any executor.
    append : xarray.Dataset, optional
        Result of an earlier run to continue, in memory or loaded from disk.  Its settings and seed are
        taken over; missing replications are made up first.
    cost : callable
        Cost of φ on n rows, in any unit, for the choice of α: rows by default. ``lambda n: 1_000 + n`` suits a φ with
        an overhead worth 1,000 rows, ``lambda n: n**3`` an exact Gaussian process.
    pilot_paths : int
        Number of pilot paths for ``alpha="auto"``.
    progressbar : bool
        Show a progress bar with the estimate and its error.

    Returns
    -------
    xarray.Dataset
        Along the dimension ``replication``: ``replicate`` (× shape of φ), ``level`` (T), ``rows_touched``,
        ``seconds``, and the running ``estimate`` and ``standard_error`` (NaN for the first).  Along
        ``batch``: ``batch_size`` and ``tail_probability`` P(T ≥ t).  ``attrs`` holds the settings, α and the
        reason for it, why the run stopped, ``unseen_variance``, the share of the variance that comes from
        truncations deeper than any that occurred, for the fitted β (1 where there is none, or where it is larger), and
        ``doubts``, the reasons why the standard error may be too small, which are empty where there are none.

    Raises
    ------
    ValueError
        For arguments out of range, before φ is called.
    TypeError
        For a φ or an executor of the wrong kind.
    ReplicationError
        When φ raises, or returns something not finite or of changing shape; it holds what was finished.

    Warns
    -----
    UserWarning
        When the run was interrupted or workers were lost: replications may then be missing.  When the standard error
        may be too small: most of the variance is unseen, the fitted rate is not positive, or α is not below it, so that
        the variance need not exist.

    Notes
    -----
    Lemma 1 and Algorithm 1 of H. Strathmann, D. Sejdinovic and M. Girolami, *Unbiased Bayes for Big Data:
    Paths of Partial Posteriors*, arXiv:1501.03326 (2015); C. Rhee and P. Glynn (2012, 2013).
    Pilot paths are extra replications that do not enter the estimate: T would otherwise depend on φ.

    Examples
    --------
    The posterior mean of a Gaussian mean, prior N(0, 1), from a million rows:

    >>> import numpy as np
    >>> x = np.random.default_rng(1).normal(2, 1, 1_000_000)
    >>> result = debias(lambda rows: x[rows].sum() / (1 + len(rows)), len(x), min_batch=20,
    ...                 replications=200, random_seed=2, progressbar=False)
    >>> estimate, error = float(result.estimate[-1]), float(result.standard_error[-1])
    >>> bool(abs(estimate - x.sum() / (1 + len(x))) < 4 * error)
    True
    >>> int(result.rows_touched.sum()) < len(x)
    True
    """
    if not callable(phi):
        raise TypeError(f"phi must be a function of row numbers, found {type(phi).__name__}.")
    stopping = Stopping(replications, tolerance, max_seconds)
    if stopping.never:
        raise ValueError("Nothing says when to stop. Give replications=, tolerance= or max_seconds=.")
    seed = as_seed(random_seed)
    done: dict[int, Replicate] = {}
    if append is not None:
        settings = settings_of(append)
        settings.require_match(n_rows=n_rows, min_batch=min_batch, ratio=ratio, alpha=alpha)
        if random_seed is not None:
            settings.require_seed(seed)
        done = finished_replicates(append)
    else:
        sizes = path_sizes(n_rows, min_batch, ratio)
    with Workers(phi, executor) as workers:
        if append is None:
            pilot = partial(_pilot, workers, phi, n_rows, seed, pilot_paths)
            choice = choose(alpha, sizes, ratio, cost, pilot_paths, pilot)
            settings = Settings(n_rows, min_batch, ratio, sizes, choice, seed)
        law = settings.truncation
        job = partial(replication, law=law, n_rows=n_rows, seed=settings.seed, wants_rng=wants_rng(phi))
        begin = partial(workers.run, job, deadline=stopping.deadline)
        stopped = replicate(begin, settings, stopping, done, progressbar, resumable=True)
    result = result_dataset(done, settings, stopped)
    warn(result.attrs["doubts"])
    return result


def _pilot(
    workers: Workers, phi: Phi, n_rows: int, seed: SeedSequence, count: int, sizes: tuple[int, ...]
) -> NDArray[np.float64]:
    """Walk `count` pilot paths over batches of `sizes`, shape (count, m, ...)."""
    job = partial(pilot_path, sizes=sizes, n_rows=n_rows, seed=seed, wants_rng=wants_rng(phi))
    try:
        paths = dict(workers.run(job, range(count)))
    except JobError as error:
        raise ReplicationError(f"In the pilot for alpha='auto': {error}", None) from error
    return np.stack([paths[i] for i in sorted(paths)])
