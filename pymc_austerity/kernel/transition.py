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
    add_shape,
    standard_error,
)
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


@njit
def find_beyond(limit: float, new: np.ndarray, old: np.ndarray) -> int:
    """Return the position of a row with |l_i| above a limit, or −1."""
    for i in range(new.size):
        if abs(new[i] - old[i]) > limit:
            return i
    return -1


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
        ``transition(theta, others, fixed, arrays, row_state, state, stages, temperature, rng_propose, rng_decide,
        rng_rows, bound_constants=(), expansion=())``, which returns an `Outcome`.  It compiles at its first call.
    """
    offset_of, both_sides, expands = build_offset(density), density.both_sides, density.expands
    draw_noise, decide, threshold_of = test.draw_noise, test.decide, test.threshold
    reads_shape, bounded = test.reads_shape, bound is not no_bound
    draw, restore = rows.draw, rows.restore
    weigh, weighted = rows.weigh, rows.weighted
    gather = build_gather(array_ndims)

    @njit
    def transition(  # type: ignore[no-untyped-def]
        theta, others, fixed, arrays, row_state, state, stages, temperature, rng_propose, rng_decide, rng_rows,
        bound_constants=(), expansion=(),
    ):  # fmt: skip
        n_total = len(arrays[0])
        scale = n_total / temperature
        noise = draw_noise(rng_decide)
        surroundings = Surroundings(others, fixed, arrays, temperature, expansion)
        theta_new, log_q_ratio, n_read = propose(rng_propose, theta, state, surroundings)
        if not np.any(theta_new != theta):  # nothing moved, nothing to decide
            return Outcome(theta, DECIDED, False, n_read, 0, 0.0, 0.0, -1, False, np.nan)
        status, offset = offset_of(theta_new, theta, log_q_ratio, others, fixed, temperature, expansion)
        if status == BAD_PRIOR:
            return Outcome(theta, BAD_PRIOR, False, n_read, 0, np.nan, np.nan, -1, False, np.nan)
        if offset == -np.inf:
            return Outcome(theta, DECIDED, False, n_read, 0, -np.inf, 0.0, -1, False, np.nan)
        row_inputs = (expansion[0],) + fixed if expands else fixed
        row_bound, n_scanned = bound(bound_constants, theta_new, theta, others, row_inputs, arrays)
        n, n_before, mean, m2, shape = 0, 0, 0.0, 0.0, NO_SHAPE
        bad_row, verdict, stage = -1, UNDECIDED, 0
        log_ratio_sd, threshold = 0.0, np.nan
        while verdict == UNDECIDED:
            everything = stages.sizes[stage] == n_total
            if weighted and everything:
                # Rows drawn with replacement never add up to all rows: the last look reads them one by one.
                n, n_before, mean, m2, shape = 0, n, 0.0, 0.0, NO_SHAPE
            while n < stages.sizes[stage]:
                stop = min(n + CHUNK, stages.sizes[stage])
                if weighted and everything:
                    numbers = draw_in_order(rng_rows, row_state, n, stop)
                else:
                    numbers = draw(rng_rows, row_state, n, stop)
                batch = gather(arrays, numbers)
                new, old = both_sides(theta_new, theta, others, *(row_inputs + batch))
                if weighted and not everything:
                    weigh(row_state, numbers, new, old)
                total_new, total_old = new.sum(), old.sum()
                if not np.isfinite(total_old):
                    status, verdict = BAD_ROW, REJECT
                    for i in range(old.size):
                        if not np.isfinite(old[i]):
                            bad_row = int(numbers[i])
                elif not np.isfinite(total_new):
                    verdict = REJECT
                # Chan, Golub and LeVeque's update of mean and sum of squares by a whole batch.
                k = stop - n
                batch_mean = (total_new - total_old) / k
                squares = 0.0
                for i in range(k):
                    squares += (new[i] - old[i] - batch_mean) ** 2
                if bounded and verdict == UNDECIDED:
                    outlier = find_beyond(row_bound * (1 + _BOUND_SLACK) + _BOUND_SLACK, new, old)
                    if outlier >= 0:
                        status, verdict, bad_row = BAD_BOUND, REJECT, int(numbers[outlier])
                if reads_shape:
                    shape = add_shape(shape, n, batch_mean, new, old)
                shift = batch_mean - mean
                m2 += squares + shift * shift * n * k / stop
                mean += shift * k / stop
                n = stop
                if verdict == REJECT:
                    break
            if verdict == UNDECIDED:
                of = n_total if everything or not weighted else WITH_REPLACEMENT
                moments = Moments(n, of, mean, np.sqrt(m2 / (n - 1)), row_bound, shape)
                verdict = decide(stages, stage, moments, offset, scale, noise)
                log_ratio_sd = scale * standard_error(moments) if n else np.nan
                if verdict != UNDECIDED:
                    threshold = threshold_of(stages, stage, moments, scale, noise)
                stage += 1
            else:
                mean, log_ratio_sd = -np.inf, 0.0  # a row that is impossible under θ′ settles it
                stage += 1
        restore(row_state, n)
        accepted = verdict == ACCEPT
        log_ratio = scale * mean + offset if n else np.nan
        n_rows = n + n_before + n_scanned + n_read
        return Outcome(
            theta_new if accepted else theta, status, accepted, n_rows, stage, log_ratio, log_ratio_sd, bad_row,
            n == n_total, threshold,
        )  # fmt: skip

    return transition
