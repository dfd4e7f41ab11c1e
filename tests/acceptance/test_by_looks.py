"""Reading by looks, number for number: what is read, what the test is told of it, and what comes back."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from numba import njit
from scipy import stats

from pymc_austerity.acceptance import ACCEPT, REJECT, UNDECIDED, Looks
from pymc_austerity.acceptance.by_looks import WITH_REPLACEMENT, read_by_looks
from pymc_austerity.acceptance.decision import BAD_BOUND, DECIDED, ROWS_SPENT, Decision, Question, RowReader
from pymc_austerity.acceptance.moments import third_central_moment
from pymc_austerity.rows import CHUNK
from pymc_austerity.rows.sources import RowSource

N, SCALE, OFFSET = CHUNK + 9, 3.0, 0.25
NOTHING = pytest.approx(np.nan, nan_ok=True)
_RNG = np.random.default_rng(12)
NEW, OLD, WEIGHT = _RNG.exponential(size=N), _RNG.normal(size=N), _RNG.uniform(0.5, 2.0, size=N)
TERMS = NEW - OLD


@njit
def _terms(numbers, at):
    return at[0][numbers], at[1][numbers]


@njit
def _backwards(rng, state, start, stop):
    return state.size - 1 - np.arange(start, stop)


@njit
def _note(state, n_drawn):
    state[0] = n_drawn


@njit
def _weigh(state, numbers, new, old):
    new *= state[numbers]
    old *= state[numbers]


@njit
def _six(state):
    return 6


@dataclass(frozen=True)
class Backwards(RowSource):
    """The rows from the last to the first; the state is an array with an entry for each."""

    draw = staticmethod(_backwards)
    restore = staticmethod(_note)


@dataclass(frozen=True)
class Weighed(RowSource):
    """The same with weights, which are the state."""

    draw = staticmethod(_backwards)
    weigh = staticmethod(_weigh)
    weighted: ClassVar[bool] = True


@dataclass(frozen=True)
class SixOfMany(RowSource):
    """Six rows are left of those that are stored, which are not all."""

    draw = staticmethod(_backwards)
    left = staticmethod(_six)
    complete: ClassVar[bool] = False


@njit
def _at_look(looks, look, moments, offset, scale, noise):
    if look < noise:
        return UNDECIDED
    return ACCEPT if offset > 0 else REJECT


@njit
def _n_total(looks, look, moments, scale, noise):
    return float(moments.n_total)


@njit
def _third(looks, look, moments, scale, noise):
    return third_central_moment(moments.shape, moments.n, moments.mean, moments.sd)


def read(
    sizes, *, source=None, look=0, terms=(NEW, OLD), bound=np.inf, offset=OFFSET, n_total=N, tell=_n_total, shape=False
):
    """Read up to a look, and return the decision and the state of the rows."""
    source = source or Backwards()
    conclude = read_by_looks(RowReader(_terms, source), _at_look, tell, shape)
    state, looks = WEIGHT.copy(), Looks(np.array(sizes), np.zeros(len(sizes)))
    found = conclude(
        np.random.default_rng(1), state, looks, Question(terms, n_total, bound, offset, SCALE, float(look))
    )
    return Decision(*found), state


def of_mean(rows, n_total):
    """The estimate of the log ratio, and its standard error among `n_total` rows."""
    n = rows.size
    error = rows.std(ddof=1) * np.sqrt((1 - (n - 1) / (n_total - 1)) / n)
    return pytest.approx(SCALE * rows.mean() + OFFSET, rel=1e-12), pytest.approx(SCALE * error, rel=1e-9)


@pytest.mark.parametrize(("look", "n"), [(0, 5), (1, CHUNK + 3)])
def test_look_returns_mean_and_standard_error(look, n):
    found, state = read([5, CHUNK + 3, N], look=look)
    assert found == (True, DECIDED, n, look + 1, *of_mean(TERMS[::-1][:n], N), -1, False, N)
    assert state[0] == n
    assert not read([5, CHUNK + 3, N], look=look, offset=-1.0)[0].accepted


@pytest.mark.parametrize(("source", "n_rows"), [(Backwards(), N), (Weighed(), 5 + N)])
def test_the_last_look_is_all_rows_without_an_error(source, n_rows):
    found, _ = read([5, N], source=source, look=1)
    assert found == (True, DECIDED, n_rows, 2, of_mean(TERMS, N)[0], 0.0, -1, True, N)


def test_weighed_rows_come_from_a_population_without_end():
    found, _ = read([5, N], source=Weighed())
    rows = (WEIGHT * TERMS)[::-1][:5]
    assert found == (True, DECIDED, 5, 1, *of_mean(rows, np.inf), -1, False, WITH_REPLACEMENT)


def test_incomplete_rows_are_read_to_their_end():
    found, _ = read([4, 6], source=SixOfMany(), look=1, n_total=6)
    assert found == (True, DECIDED, 6, 2, of_mean(TERMS[::-1][:6], 6)[0], 0.0, -1, False, 6)
    spent, _ = read([4, 7], source=SixOfMany(), look=1)
    assert spent == (False, ROWS_SPENT, 4, 1, NOTHING, NOTHING, -1, False, NOTHING)


@pytest.mark.parametrize("bound", [0.0, 1.0, 1_000.0])
def test_a_row_beyond_its_bound_and_rounding_ends_the_reading(bound):
    limit = bound * (1 + 1e-9) + 1e-9
    for beyond, status in ((0.95, DECIDED), (1.05, BAD_BOUND)):
        new = np.zeros(N)
        new[-3] = -(bound + beyond * (limit - bound))
        found, _ = read([N], terms=(new, np.zeros(N)), bound=bound)
        assert found.status == status
    # The row is in the first of two batches; the second is not read.
    assert found == (False, BAD_BOUND, CHUNK, 1, -np.inf, 0.0, N - 3, False, NOTHING)


def test_nothing_read_is_no_estimate():
    assert read([0])[0] == (True, DECIDED, 0, 1, NOTHING, NOTHING, -1, False, N)


def test_third_moments_are_read_where_a_test_asks_for_them():
    asked, _ = read([5, CHUNK + 3], look=1, tell=_third, shape=True)
    assert asked.threshold == pytest.approx(stats.moment(TERMS[::-1][: CHUNK + 3], 3), rel=1e-9)
    not_asked, _ = read([5, CHUNK + 3], look=1, tell=_third)
    assert not_asked.threshold != pytest.approx(asked.threshold, rel=0.1)
