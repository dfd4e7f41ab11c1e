"""One decision of scalable subsampling, number for number, of rows that are all there and of a pool."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pytest
from numba import njit

from pymc_austerity.acceptance import BAD_BOUND, BAD_ROW, DECIDED, Question, RowReader
from pymc_austerity.acceptance.decision import OUT_OF_REACH, ROWS_SPENT, Decision
from pymc_austerity.acceptance.scalable_subsampling import ScalableSubsampling, keep_probability, log_factor, thin
from pymc_austerity.rows import CHUNK
from pymc_austerity.rows.by_bounds import BoundedSource

N, TEMPERATURE, OFFSET, NOISE = CHUNK + 9, 2.0, -0.3, -0.5
ALWAYS = np.array([1, 7, N - 2])
TEST, RNG = ScalableSubsampling(), np.random.default_rng(8)
OLD, NEW = RNG.normal(size=(2, N)) / 100
LIMITS = np.abs(NEW - OLD) * RNG.uniform(1.01, 2.0, size=N)
NOTHING = pytest.approx(np.nan, nan_ok=True)


class State(NamedTuple):
    """Bounds for a span of one, rows that are always read, the rate, and rows that are left and that were used."""

    limits: np.ndarray
    always: np.ndarray
    rate: np.ndarray
    left: np.ndarray
    used: np.ndarray


@njit
def _rate(state, span):
    return state.rate[0] * span


@njit
def _choose(rng, state, span, start, stop):
    return rng.integers(2, N - 2, stop - start)


@njit
def _limits(state, span, numbers):
    return state.limits[numbers] * span


@njit
def _left(state):
    return state.left[0]


@njit
def _restore(state, n):
    state.used[0] = n


@njit
def _look_up(numbers, at):
    return at[0][numbers].copy(), at[1][numbers].copy()


@dataclass(frozen=True, eq=False)
class Table(BoundedSource):
    rate = staticmethod(_rate)
    choose = staticmethod(_choose)
    limits = staticmethod(_limits)
    left = staticmethod(_left)
    restore = staticmethod(_restore)


@dataclass(frozen=True, eq=False)
class Pool(Table):
    complete: ClassVar[bool] = False


@pytest.fixture(scope="module")
def conclude():
    """Decide on a table or on a pool; returns the decision and the rows that were reported used."""
    compiled = {source: TEST.for_rows(RowReader(_look_up, source())) for source in (Table, Pool)}

    def decide(source, rate, *, new=NEW, old=OLD, left=10**6, always=ALWAYS, seed=1, noise=NOISE):
        state = State(LIMITS, always, np.array([float(rate)]), np.array([left]), np.array([-1]))
        asked = Question((new, old), N, 1.0, OFFSET, N / TEMPERATURE, noise)
        found = compiled[source](np.random.default_rng(seed), state, TEST.looks(N), asked)
        return Decision(*found), state.used[0]

    return decide


def by_hand(rate, seed, always=ALWAYS):
    """Rows read and the log ratio: those always read exactly, and thinned ones."""
    rng = np.random.default_rng(seed)
    n_drawn, log_ratio = rng.poisson(rate / TEMPERATURE), OFFSET + (NEW - OLD)[always].sum() / TEMPERATURE
    start = always.size
    while start < always.size + n_drawn:
        stop = min(start + CHUNK, always.size + n_drawn)
        numbers = rng.integers(2, N - 2, stop - start)
        for v in (OLD - NEW)[numbers] / LIMITS[numbers]:
            if rng.random() < 1 + min(0, v):
                log_ratio += np.sign(v) * np.log1p(-abs(v))
        start = stop
    return always.size + n_drawn, log_ratio


@pytest.mark.slow
@pytest.mark.parametrize("source", [Table, Pool])
def test_drawn_rows_are_thinned_and_others_exact(conclude, source):
    verdicts = set()
    for seed in range(40):
        n, log_ratio = by_hand(5.0, seed)
        found, used = conclude(source, 5.0, seed=seed)
        accepted = log_ratio > NOISE
        verdicts.add(bool(accepted))
        assert found == (accepted, DECIDED, n, 1, pytest.approx(log_ratio, rel=1e-9), NOTHING, -1, False, NOISE)
        assert used == (n if source is Pool else -1)
    assert verdicts == {True, False}


def test_a_pool_is_read_in_batches_and_never_for_all_rows(conclude):
    n, log_ratio = by_hand(5.0 * N, 1)
    found, _ = conclude(Pool, 5.0 * N)
    assert n > 2 * CHUNK
    assert (found.n_rows, found.full_data, found.log_ratio) == (n, False, pytest.approx(log_ratio, rel=1e-9))


def test_where_as_many_rows_are_due_as_there_are_all_are_read(conclude):
    found, _ = conclude(Table, TEMPERATURE * (N - ALWAYS.size - 1))
    assert not found.full_data
    found, used = conclude(Table, TEMPERATURE * (N - ALWAYS.size))
    log_ratio = pytest.approx(OFFSET + (NEW - OLD).sum() / TEMPERATURE, rel=1e-9)
    assert found == (log_ratio.expected > NOISE, DECIDED, N, 1, log_ratio, 0.0, -1, True, NOISE)
    assert used == -1


def test_a_pool_that_holds_too_few_rows_says_so(conclude):
    n, _ = by_hand(50.0, 1)
    assert conclude(Pool, 50.0, left=n)[0].status == DECIDED
    spent = (False, ROWS_SPENT, 0, 0, NOTHING, NOTHING, -1, False, NOTHING)
    assert conclude(Pool, 50.0, left=n - 1) == (spent, -1)
    assert conclude(Pool, TEMPERATURE * 0.75 * 2.0**53)[0] == spent
    out_of_reach = (False, OUT_OF_REACH, 0, 0, NOTHING, NOTHING, -1, False, NOTHING)
    for rate in (TEMPERATURE * 2.0**53, np.inf):
        assert conclude(Pool, rate) == (out_of_reach, -1)


@pytest.mark.parametrize(("row", "read"), [(3, CHUNK), (N - 4, N)])
def test_an_impossible_row_ends_the_reading_of_all(conclude, row, read):
    impossible = np.where(np.arange(N) == row, -np.inf, OLD)
    found, _ = conclude(Table, np.inf, old=impossible)
    assert found == (False, BAD_ROW, read, 1, -np.inf, 0.0, row, read == N, NOTHING)
    found, _ = conclude(Table, np.inf, new=impossible)
    assert found == (False, DECIDED, read, 1, -np.inf, 0.0, -1, read == N, NOTHING)


def test_impossible_row_among_those_always_read(conclude):
    found, _ = conclude(Table, 5.0, new=np.where(np.arange(N) == 7, -np.inf, NEW))
    assert found == (False, DECIDED, ALWAYS.size, 1, -np.inf, NOTHING, -1, False, NOTHING)


@pytest.mark.parametrize("place", [0, 2])
def test_row_beyond_its_bound_is_named(conclude, place):
    rng = np.random.default_rng(1)
    n = ALWAYS.size + rng.poisson(10.0)
    row = rng.integers(2, N - 2, n - ALWAYS.size)[place]
    broken = np.where(np.arange(N) == row, 1.0, NEW)
    found, _ = conclude(Table, 10.0 * TEMPERATURE, new=broken)
    log_ratio = pytest.approx(OFFSET + (NEW - OLD)[ALWAYS].sum() / TEMPERATURE, rel=1e-9)
    assert found == (False, BAD_BOUND, n, 1, log_ratio, NOTHING, row, False, NOISE)
    found, _ = conclude(Table, 10.0 * TEMPERATURE, old=np.where(np.arange(N) == row, np.nan, OLD))
    assert (found.accepted, found.status, found.row) == (False, BAD_ROW, row)


def test_a_ratio_of_nothing_is_compared_with_the_noise(conclude):
    nothing = np.zeros(0, np.int64)
    for noise, accepted in ((OFFSET - 1e-9, True), (OFFSET + 1e-9, False)):
        found, _ = conclude(Table, 0.0, always=nothing, noise=noise)
        assert found == (accepted, DECIDED, 0, 1, OFFSET, NOTHING, -1, False, noise)


def test_a_change_as_large_as_its_bound_breaks_nothing():
    limits, zeros = np.array([0.5, 0.5]), np.zeros(2)
    # Upwards at the bound a row is never kept.
    assert thin(np.random.default_rng(2), limits, np.array([0.5, 0.5]), zeros) == (0.0, -1)
    for new in (0.501, -0.501):
        assert thin(np.random.default_rng(2), limits, np.array([0.0, new]), zeros) == (0.0, 1)


def test_a_row_is_kept_and_counts_as_the_formulas_say():
    assert [keep_probability(v) for v in (-1.0, -0.25, 0.0, 0.5)] == [0.0, 0.75, 1.0, 1.0]
    found = [log_factor(v) for v in (-0.25, 0.0, 0.5)]
    assert found == pytest.approx([-np.log(0.75), 0.0, np.log(0.5)])
    # A row that speaks against a move by all that its bound allows forbids it.
    with np.errstate(divide="ignore"):
        assert [log_factor(v) for v in (-1.0, 1.0)] == [np.inf, -np.inf]
