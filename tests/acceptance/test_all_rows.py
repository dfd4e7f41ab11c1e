"""Decisions on all rows: how often rows are evaluated, what makes a chain forget, and how exact the sums are."""

import math

import numpy as np
import pytest
from numba import njit, types
from toy import AnyTest, Toggle, shift_model

from pymc_austerity.acceptance import BAD_ROW, DECIDED, Exact
from pymc_austerity.compile.addresses import addresses, arrays_at
from pymc_austerity.kernel.transition import TransitionArguments, build_transition, pack_generators
from pymc_austerity.likelihood import Surroundings
from pymc_austerity.likelihood.density import LinkedDensity
from pymc_austerity.rows import CHUNK, InOrder

N = 2 * CHUNK + 5
VECTORS = types.Tuple((types.float64[::1],))
TABLE = types.Tuple((types.float64[::1], types.float64[::1]))
ABYSS = 100.0


@njit
def _flat(links, theta, others, fixed):
    return 0.0


@njit
def _one_side(links, theta, others, fixed, arrays, numbers):
    """Rows x_i θ + o, and −∞ in the middle of the table far out; writes down that it was called."""
    values, calls = arrays_at(arrays, TABLE)
    calls[0] += 1
    terms = values[numbers] * theta[0] + others[0]
    if theta[0] > ABYSS and numbers[0] == CHUNK:
        terms[3] = -np.inf
    return terms


@njit
def _jump(rng, theta, state, surroundings):
    return theta + state[0], 0.0, 0


@pytest.fixture(scope="module")
def chain():
    """A transition by hand that remembers, and a function that makes one and says how often rows were asked for."""
    values, calls = np.random.default_rng(1).normal(size=N), np.zeros(N)
    transition = build_transition(LinkedDensity(_flat, one_side=_one_side), _jump, Exact(), InOrder())
    at = addresses((values, calls), TABLE)

    @njit
    def call(theta, generators, given):
        return transition(theta, generators, given)

    row_state = InOrder().for_points(2).state(N)
    rng = [np.random.default_rng(k) for k in range(3)]

    def make(theta, jump, other=0.0, temperature=1.0, size=N):
        calls[0] = 0
        nowhere, state = addresses((np.zeros(1),), VECTORS), np.array([jump])
        around = Surroundings(np.array([other]), nowhere, at, temperature, ())
        given = TransitionArguments(around, row_state, state, Exact().looks(size), ())
        fields = call(np.array([theta]), pack_generators(*rng), given)
        return fields, int(calls[0])

    return make, values, row_state


def test_rows_are_evaluated_at_the_proposal_alone(chain):
    make, values, _ = chain
    uphill = 0.1 * np.sign(values.sum())
    assert make(0.0, uphill)[1] == 6  # three chunks at both ends
    found, n_calls = make(uphill, uphill)  # the move before was accepted
    assert (found[2], n_calls) == (True, 3)
    found, n_calls = make(2 * uphill, -1e3 * uphill)
    assert (found[2], n_calls) == (False, 3)
    assert make(2 * uphill, uphill)[1] == 3  # and nothing has changed by a rejection
    assert make(3 * uphill, uphill, temperature=7.0)[1] == 3  # which divides sums, and is in none
    assert make(4 * uphill, uphill, other=1.0)[1] == 6
    assert make(5 * uphill, uphill, other=1.0)[1] == 3
    assert make(0.5, uphill, other=1.0)[1] == 6


@pytest.mark.parametrize("size", [N - 1, 7])
def test_look_at_fewer_rows_is_not_kept(chain, size):
    make, values, _ = chain
    make(0.0, 1e-3)
    found, n_calls = make(0.0, 2.0, temperature=4.0, size=size)
    assert n_calls == 2 * -(-size // CHUNK)
    terms = 2.0 * values[:size]
    sd = N / 4 * terms.std(ddof=1) * np.sqrt((1 - (size - 1) / (N - 1)) / size)
    assert found[3:8] == (size, 1, pytest.approx(N / 4 * terms.mean(), rel=1e-9), pytest.approx(sd, rel=1e-9), -1)
    assert not found[8]
    for start in (0.0, 2.0):
        found, n_calls = make(start, 1e-3)
        assert n_calls == 6
        assert found[5] == pytest.approx(1e-3 * values.sum(), rel=1e-9)
        assert (found[6], found[8]) == (0.0, True)


def test_impossible_row_ends_the_reading(chain):
    make, values, row_state = chain
    downhill = -50 * np.sign(values.sum())
    assert not make(1.0, downhill)[0][2]
    told = (DECIDED, False, 2 * CHUNK, 1, -np.inf, 0.0, -1, False)
    found, n_calls = make(1.0, 2 * ABYSS)
    assert found[1:9] == told
    assert n_calls == 2
    row_state.point[:] = np.nan
    found, n_calls = make(1.0, 2 * ABYSS)  # some chunks of the present point are known now, and others are not
    assert found[1:9] == told
    assert n_calls == 4
    found, n_calls = make(1.0, downhill)
    assert n_calls == 6
    assert found[5] == pytest.approx(downhill * values.sum(), rel=1e-12)


def test_impossible_current_point_names_the_row(chain):
    make, _, _ = chain
    found, _ = make(2 * ABYSS, 1.0)
    assert found[1:9] == (BAD_ROW, False, 2 * CHUNK, 1, -np.inf, 0.0, CHUNK + 3, False)


def test_log_ratio_of_a_million_rows_is_exact():
    n = 1_000_000
    values = np.random.default_rng(8).normal(size=n) / np.sqrt(n)
    step = AnyTest(Exact(), proposal=Toggle(), model=shift_model(values), rng=0)
    y = values + 0.5
    rows = (-0.5 * (y - mu) ** 2 - 0.5 * np.log(2 * np.pi) for mu in (1.0, 0.0))
    expected = math.fsum(next(rows) - next(rows)) - 0.5
    point = {"mu": np.array(0.0)}
    for sign in (1, -1, 1, -1):  # from sums that are kept, too
        start = np.array(0.0 if sign > 0 else 1.0)
        (stat,) = step.step({**point, "mu": start})[1]
        assert stat["log_ratio"] == pytest.approx(sign * expected, abs=1e-9)
