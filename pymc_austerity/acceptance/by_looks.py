"""Reading of rows in batches that grow from look to look until the test decides."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pymc_austerity.acceptance.decision import (
    ACCEPT,
    DECIDED,
    REJECT,
    ROWS_SPENT,
    UNDECIDED,
    Conclude,
    Decision,
    RowReader,
    Terms,
    examine,
)
from pymc_austerity.acceptance.moments import NO_SHAPE, Decide, Moments, Shape, Threshold, add_shape, standard_error
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.rows import CHUNK, RestoreRows, RowsLeft, draw_in_order
from pymc_austerity.rows.sources import DrawRows, WeighRows

#: Size of the population that rows drawn with replacement come from, for the finite-population correction.
WITH_REPLACEMENT = 2**62

#: Rounding of l_i that is no evidence against a bound.
_BOUND_SLACK = 1e-9


#: ``read(rng, row_state, size, all_rows, at, limit, reading)``: a reading of `size` rows, or of fewer where one of them
#: settles the decision.
ReadRows = Callable[..., "Reading"]


class Reading(NamedTuple):
    """What has been read of the rows at one transition."""

    n: int  # rows read
    mean: float  # of l_i
    m2: float  # sum of the squared deviations of l_i from it
    shape: Shape  # higher moments, where the test reads them
    status: int  # see `Decision`
    settled: bool  # whether a row alone settles the decision: it is impossible under θ′, or an error
    row: int  # the row that stops the chain, or −1


NOTHING_READ = Reading(0, 0.0, 0.0, NO_SHAPE, DECIDED, False, -1)


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


@built_once
def _batch_of(terms: Terms, draw: DrawRows, weigh: WeighRows, weighted: bool, reads_shape: bool) -> ReadRows:
    add = _adding(reads_shape)

    @njit
    def read(rng, row_state, size, all_rows, at, limit, reading):  # type: ignore[no-untyped-def]
        while reading.n < size and not reading.settled:
            n, stop = reading.n, min(reading.n + CHUNK, size)
            if weighted and all_rows:  # rows drawn with replacement never add up to all rows
                numbers = draw_in_order(rng, row_state, n, stop)
            else:
                numbers = draw(rng, row_state, n, stop)
            new, old = terms(numbers, at)
            if weighted and not all_rows:
                weigh(row_state, numbers, new, old)
            reading = add(reading, numbers, new, old, limit)
        return reading

    return read


# Compiled once for data of all types: it is given row terms and no data.
@built_once
def _adding(reads_shape: bool) -> Callable[..., Reading]:
    @njit
    def add(reading, numbers, new, old, limit):  # type: ignore[no-untyped-def]
        total_new, total_old = new.sum(), old.sum()
        status, settled, row = examine(numbers, new, old, total_new, total_old, limit)
        n, shape, batch_mean = reading.n, reading.shape, (total_new - total_old) / new.size
        if reads_shape:
            shape = add_shape(shape, n, batch_mean, new, old)
        mean, m2 = merge_batch(n, reading.mean, reading.m2, batch_mean, new, old)
        return Reading(n + new.size, mean, m2, shape, status, settled, row)

    return add


@built_once
def _judging(decide: Decide, threshold_of: Threshold) -> Callable[..., tuple[int, float, float, float]]:
    @njit
    def judge(looks, look, reading, n_known, asked):  # type: ignore[no-untyped-def]
        if reading.settled:
            return REJECT, -np.inf, 0.0, np.nan
        scale, noise = asked.scale, asked.noise
        sd = np.sqrt(reading.m2 / (reading.n - 1)) if reading.n > 1 else 0.0  # one row is all there are
        moments = Moments(reading.n, n_known, reading.mean, sd, asked.row_bound, reading.shape)
        verdict = decide(looks, look, moments, asked.offset, scale, noise)
        threshold = np.nan
        if verdict != UNDECIDED:
            threshold = threshold_of(looks, look, moments, scale, noise)
        return verdict, moments.mean, scale * standard_error(moments) if reading.n else np.nan, threshold

    return judge


def read_by_looks(reader: RowReader, decide: Decide, threshold_of: Threshold, reads_shape: bool) -> Conclude:
    """Compile the reading of ever larger batches until one decides; `reads_shape` if `decide` uses higher moments."""
    source = reader.source
    read = _batch_of(reader.terms, source.draw, source.weigh, source.weighted, reads_shape)
    judge = _judging(decide, threshold_of)
    return _concluding(read, judge, source.restore, source.left, source.weighted, source.complete)


@built_once
def _concluding(
    read: ReadRows,
    judge: Callable[..., tuple[int, float, float, float]],
    restore: RestoreRows,
    left: RowsLeft,
    weighted: bool,
    complete: bool,
) -> Conclude:
    @njit
    def conclude(rng, row_state, looks, asked):  # type: ignore[no-untyped-def]
        n_total, limit = asked.n_total, asked.row_bound * (1 + _BOUND_SLACK) + _BOUND_SLACK
        # A plain 0 would have a type of its own at the first look, for which the decision were compiled as well.
        look: Any = np.int64(0)
        reading, n_before, verdict = NOTHING_READ, 0, UNDECIDED
        mean, log_ratio_sd, threshold = 0.0, 0.0, np.nan
        while verdict == UNDECIDED:
            size = looks.sizes[look]
            if size > left(row_state):
                return Decision(False, ROWS_SPENT, reading.n, look, np.nan, np.nan, -1, False, np.nan)
            all_rows = complete and size == n_total
            if weighted and all_rows:  # the last look reads them one by one, from the first on
                n_before, reading = reading.n, NOTHING_READ
            reading = read(rng, row_state, size, all_rows, asked.at, limit, reading)
            n_known = n_total if all_rows or not weighted else WITH_REPLACEMENT
            verdict, mean, log_ratio_sd, threshold = judge(looks, look, reading, n_known, asked)
            look += 1
        restore(row_state, reading.n)
        log_ratio = asked.scale * mean + asked.offset if reading.n else np.nan
        return Decision(
            verdict == ACCEPT, reading.status, reading.n + n_before, look, log_ratio, log_ratio_sd, reading.row,
            complete and reading.n == n_total, threshold,
        )  # fmt: skip

    return conclude
