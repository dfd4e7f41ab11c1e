"""One compiled transition: propose, draw batches, accumulate, decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pymc_austerity.acceptance import (
    ACCEPT,
    NO_SHAPE,
    REJECT,
    UNDECIDED,
    AcceptanceTest,
    Moments,
    Shape,
    add_shape,
    standard_error,
)
from pymc_austerity.kernel.generators import DECIDE, PROPOSE, ROWS
from pymc_austerity.likelihood import CHUNK, Density, Surroundings, no_bound
from pymc_austerity.proposals import Propose
from pymc_austerity.rows import RowSource, build_gather, draw_in_order

#: Size of the population that rows drawn with replacement come from, for the finite-population correction.
WITH_REPLACEMENT = 2**62

DECIDED, BAD_PRIOR, BAD_ROW, BAD_BOUND = 0, 1, 2, 3
#: Rounding of l_i that is no evidence against a bound.
_BOUND_SLACK = 1e-9


class Outcome(NamedTuple):
    """What happened in one transition.

    Attributes
    ----------
    theta : numpy.ndarray, shape (D,)
        The next draw.
    status : int
        DECIDED, or that the log prior (BAD_PRIOR) or a row's log-likelihood (BAD_ROW) is not finite at the
        current point, or that a row broke the bound on all rows (BAD_BOUND).
    accepted : bool
    n_rows : int
        Row likelihoods evaluated, both sides of the ratio counted once, those of a scan for a bound and those that
        the proposal read included.
    n_stages : int
        Looks at the data.
    log_ratio, log_ratio_sd : float
        Estimate of the log acceptance ratio of all rows, and its standard error (0 at full data).  Not a number where
        no row was read.
    row : int
        The offending row where status is BAD_ROW or BAD_BOUND.
    full_data : bool
        Whether the decision was made on all rows.
    threshold : float
        What `log_ratio` had to exceed; NaN where the test does not tell or did not have to decide.
    """

    theta: np.ndarray
    status: int
    accepted: bool
    n_rows: int
    n_stages: int
    log_ratio: float
    log_ratio_sd: float
    row: int
    full_data: bool
    threshold: float


class Reading(NamedTuple):
    """What has been read of the rows at one transition.

    Attributes
    ----------
    n : int
        Rows read.
    mean, m2 : float
        Mean of l_i, and sum of its squared deviations from it.
    shape : Shape
        Higher moments, where the test reads them.
    status : int
        See `Outcome`.
    settled : bool
        Whether a row alone settles the decision: it is impossible under θ′, or an error.
    row : int
        The row that stops the chain, or −1.
    """

    n: int
    mean: float
    m2: float
    shape: Shape
    status: int
    settled: bool
    row: int


NOTHING_READ = Reading(0, 0.0, 0.0, NO_SHAPE, DECIDED, False, -1)


@njit
def examine(
    numbers: np.ndarray, new: np.ndarray, old: np.ndarray, total_new: float, total_old: float, limit: float
) -> tuple[int, bool, int]:
    """Return status, settled and row of a `Reading`, after a batch whose |l_i| should not exceed a limit."""
    if not np.isfinite(total_old):
        return BAD_ROW, True, int(numbers[np.flatnonzero(~np.isfinite(old))[-1]])
    if not np.isfinite(total_new):
        return DECIDED, True, -1
    if limit < np.inf:
        for i in range(new.size):
            if abs(new[i] - old[i]) > limit:
                return BAD_BOUND, True, int(numbers[i])
    return DECIDED, False, -1


@njit
def merge_batch(
    n: int, mean: float, m2: float, batch_mean: float, new: np.ndarray, old: np.ndarray
) -> tuple[float, float]:
    """Return mean and sum of squares of `n` differences and a batch of them (Chan, Golub and LeVeque)."""
    k, squares = new.size, 0.0
    for i in range(k):
        squares += (new[i] - old[i] - batch_mean) ** 2
    shift, stop = batch_mean - mean, n + k
    return mean + shift * k / stop, m2 + (squares + shift * shift * n * k / stop)


@njit
def moments_of(reading: Reading, n_total: int, row_bound: float) -> Moments:
    """Return what a test is told of the rows that were read."""
    sd = np.sqrt(reading.m2 / (reading.n - 1))
    return Moments(reading.n, n_total, reading.mean, sd, row_bound, reading.shape)


def build_offset(density: Density) -> Callable[..., Any]:
    """Compile the part of a decision that needs no rows.

    Returns
    -------
    callable
        ``offset_of(theta_new, theta, log_q_ratio, others, fixed, temperature, expansion)`` returns a status, DECIDED or
        BAD_PRIOR, and the log ratio of prior, proposal and proxy: −∞ where θ′ is impossible whatever the rows say.
    """
    log_prior, known_sum = density.log_prior, density.known_sum

    @njit
    def offset_of(theta_new, theta, log_q_ratio, others, fixed, temperature, expansion):  # type: ignore[no-untyped-def]
        prior = log_prior(theta, others, *fixed)[0].item()
        prior_new = log_prior(theta_new, others, *fixed)[0].item()
        if not np.isfinite(prior):
            return BAD_PRIOR, np.nan
        if not np.isfinite(prior_new) or log_q_ratio == -np.inf:
            return DECIDED, -np.inf
        offset = prior_new - prior + log_q_ratio
        offset += (known_sum(theta_new, others, expansion) - known_sum(theta, others, expansion)) / temperature
        return DECIDED, offset

    return offset_of


def build_reader(
    density: Density, array_ndims: tuple[int, ...], test: AcceptanceTest, rows: RowSource
) -> Callable[..., Any]:
    """Compile the reading of rows up to the next look.

    Returns
    -------
    callable
        ``read(rng, row_state, size, all_rows, theta_new, theta, others, inputs, arrays, limit, reading)`` returns a
        `Reading` of `size` rows, or of fewer where one of them settles the decision.
    """
    both_sides, reads_shape = density.both_sides, test.reads_shape
    draw, weigh, weighted = rows.draw, rows.weigh, rows.weighted
    gather = build_gather(array_ndims)

    @njit
    def read(rng, row_state, size, all_rows, theta_new, theta, others, inputs, arrays, limit, reading):  # type: ignore[no-untyped-def]
        n, mean, m2, shape, status, settled, row = reading
        while n < size and not settled:
            stop = min(n + CHUNK, size)
            if weighted and all_rows:  # rows drawn with replacement never add up to all rows
                numbers = draw_in_order(rng, row_state, n, stop)
            else:
                numbers = draw(rng, row_state, n, stop)
            new, old = both_sides(theta_new, theta, others, *(inputs + gather(arrays, numbers)))
            if weighted and not all_rows:
                weigh(row_state, numbers, new, old)
            total_new, total_old = new.sum(), old.sum()
            status, settled, row = examine(numbers, new, old, total_new, total_old, limit)
            batch_mean = (total_new - total_old) / (stop - n)
            if reads_shape:
                shape = add_shape(shape, n, batch_mean, new, old)
            mean, m2 = merge_batch(n, mean, m2, batch_mean, new, old)
            n = stop
        return Reading(n, mean, m2, shape, status, settled, row)

    return read


def build_transition(
    density: Density,
    array_ndims: tuple[int, ...],
    propose: Propose,
    test: AcceptanceTest,
    rows: RowSource,
    bound: Callable[..., Any] = no_bound,
) -> Callable[..., Any]:
    """Compose a proposal, a test and a way to draw rows into one compiled function.

    Parameters
    ----------
    density : Density
    array_ndims : tuple of int
        Number of dimensions of each data array.
    propose, test, rows
        The parts; see `Propose`, `AcceptanceTest` and `RowSource`.
    bound : callable, optional
        Compiled ``bound(constants, theta_new, theta, others, fixed, arrays)``, which returns a number C with
        |l_i| ≤ C for all rows and how many rows it evaluated to find it.  With a proxy l_i is a remainder, and the
        centre comes first in ``fixed``.

    Returns
    -------
    callable
        ``transition(theta, others, fixed, arrays, row_state, state, looks, temperature, generators, bound_constants,
        expansion)``, which returns the fields of an `Outcome`, as a plain tuple because Python makes the named ones;
        the generators as `pack_generators` gives them.
    """
    offset_of, expands = build_offset(density), density.expands
    read = build_reader(density, array_ndims, test, rows)
    draw_noise, decide, threshold_of = test.draw_noise, test.decide, test.threshold
    restore, weighted = rows.restore, rows.weighted

    @njit
    def transition(  # type: ignore[no-untyped-def]
        theta, others, fixed, arrays, row_state, state, looks, temperature, generators, bound_constants, expansion
    ):
        n_total = len(arrays[0])
        scale = n_total / temperature
        noise = draw_noise(generators[DECIDE])
        around = Surroundings(others, fixed, arrays, temperature, expansion)
        theta_new, log_q_ratio, n_read = propose(generators[PROPOSE], theta, state, around)
        if not np.any(theta_new != theta):  # nothing moved, nothing to decide
            return Outcome(theta, DECIDED, False, n_read, 0, 0.0, 0.0, -1, False, np.nan)[:]
        status, offset = offset_of(theta_new, theta, log_q_ratio, others, fixed, temperature, expansion)
        if status == BAD_PRIOR or offset == -np.inf:
            sd = np.nan if status == BAD_PRIOR else 0.0
            return Outcome(theta, status, False, n_read, 0, offset, sd, -1, False, np.nan)[:]
        inputs = (expansion[0],) + fixed if expands else fixed
        row_bound, n_scanned = bound(bound_constants, theta_new, theta, others, inputs, arrays)
        limit = row_bound * (1 + _BOUND_SLACK) + _BOUND_SLACK
        reading, n_before, verdict, look = NOTHING_READ, 0, UNDECIDED, 0
        mean, log_ratio_sd, threshold = 0.0, 0.0, np.nan
        while verdict == UNDECIDED:
            size = looks.sizes[look]
            all_rows = size == n_total
            if weighted and all_rows:  # the last look reads them one by one, from the first on
                n_before, reading = reading.n, NOTHING_READ
            reading = read(
                generators[ROWS], row_state, size, all_rows, theta_new, theta, others, inputs, arrays, limit, reading
            )
            if reading.settled:
                verdict, mean, log_ratio_sd = REJECT, -np.inf, 0.0
            else:
                moments = moments_of(reading, n_total if all_rows or not weighted else WITH_REPLACEMENT, row_bound)
                verdict = decide(looks, look, moments, offset, scale, noise)
                mean, log_ratio_sd = moments.mean, scale * standard_error(moments) if reading.n else np.nan
                if verdict != UNDECIDED:
                    threshold = threshold_of(looks, look, moments, scale, noise)
            look += 1
        restore(row_state, reading.n)
        accepted, n_rows = verdict == ACCEPT, reading.n + n_before + n_scanned + n_read
        log_ratio = scale * mean + offset if reading.n else np.nan
        return Outcome(
            theta_new if accepted else theta, reading.status, accepted, n_rows, look, log_ratio, log_ratio_sd,
            reading.row, reading.n == n_total, threshold,
        )[:]  # fmt: skip

    return transition
