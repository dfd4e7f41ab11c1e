"""One transition, number for number: what needs no rows, what the rows say, and what is told of both."""

import numpy as np
import pytest
from numba import njit, types

from pymc_austerity.acceptance import BAD_PRIOR, DECIDED
from pymc_austerity.acceptance.all_rows import Exact
from pymc_austerity.compile.addresses import addresses, arrays_at
from pymc_austerity.kernel.transition import TransitionArguments, build_transition, pack_generators
from pymc_austerity.likelihood import Surroundings
from pymc_austerity.likelihood.density import LinkedDensity
from pymc_austerity.proxy.expansion import Expansion, expanded_sum
from pymc_austerity.rows.sources import InOrder

N, TEMPERATURE, N_READ, N_SCANNED, WALL = 6, 2.0, 3, 5, 4.0
VALUES = np.random.default_rng(3).normal(size=N) / N
OTHERS, FIXED = np.array([0.7]), (np.array([1.3, -0.4]),)
VECTORS = types.Tuple((types.float64[::1],))
EXPANSION = Expansion(
    np.array([0.5, 0.1, 0.0]), np.array([0, 1]), np.array([0.3, -0.8]), np.array([[-1.0, 0.2], [0.2, -2.0]])
)


@njit
def _log_prior(links, theta, others, fixed):
    if theta[0] > WALL:
        return -np.inf
    if theta[1] > WALL:
        return np.nan
    return -0.5 * np.dot(theta - others[0], theta - others[0])


@njit
def _both_sides(links, theta_new, theta, others, centre, fixed, arrays, numbers):
    at = arrays_at(fixed, VECTORS)[0][0] * others[0] + centre.size + centre.sum()
    rows = arrays_at(arrays, VECTORS)[0][numbers] * at
    return rows * theta_new[0], rows * theta[0]


@njit
def _propose(rng, theta, state, surroundings):
    return theta + state[:2] * (1.0 + rng.random()), state[2], N_READ


@njit
def _bound(constants, at):
    return constants[0], N_SCANNED


@pytest.fixture(scope="module")
def run():
    """A transition, which only compiled code calls, with everything that does not differ between these tests."""
    density = LinkedDensity(_log_prior, _both_sides, expanded_sum)
    transition = build_transition(density, _propose, Exact(), InOrder(), _bound)
    data_at = addresses(FIXED, VECTORS), addresses((VALUES,), VECTORS)
    around = Surroundings(OTHERS, *data_at, TEMPERATURE, EXPANSION)

    @njit
    def call(theta, generators, given):
        return transition(theta, generators, given)

    def run(theta, jump, log_q_ratio=0.25, seed=1, bound=np.inf):
        generators = [np.random.default_rng(seed + k) for k in range(3)]
        state, theta = np.array([*jump, log_q_ratio]), np.asarray(theta)
        packed = pack_generators(*generators)
        given = TransitionArguments(around, InOrder().state(N), state, Exact().looks(N), (bound,))
        return call(theta, packed, given), generators

    return run


def log_ratio(theta, theta_new, log_q_ratio):
    """The log ratio of prior, proposal, remainders and what is known of the rows."""
    centre, h_new, h = EXPANSION.centre, theta_new - EXPANSION.centre[:2], theta - EXPANSION.centre[:2]
    rows = (VALUES * (theta_new[0] - theta[0]) * (FIXED[0][0] * OTHERS[0] + centre.size + centre.sum())).sum()
    known = EXPANSION.gradient @ (h_new - h) + (h_new @ EXPANSION.hessian @ h_new - h @ EXPANSION.hessian @ h) / 2
    prior = -0.5 * ((theta_new - OTHERS) ** 2).sum() + 0.5 * ((theta - OTHERS) ** 2).sum()
    return prior + log_q_ratio + (rows + known) / TEMPERATURE


def test_prior_proposal_and_rows_decide(run):
    theta, verdicts = np.array([0.4, -0.2]), set()
    for seed in range(20):
        jump = np.array([0.6, -0.3])
        found, _ = run(theta, jump, seed=seed)
        theta_new = theta + jump * (1 + np.random.default_rng(seed).random())
        log_u = np.log1p(-np.random.default_rng(seed + 1).random())
        expected = log_ratio(theta, theta_new, 0.25)
        accepted = log_u < expected
        verdicts.add(bool(accepted))
        assert found[0] == pytest.approx(theta_new if accepted else theta, rel=1e-12)
        told = (DECIDED, accepted, N + N_SCANNED + N_READ, 1, pytest.approx(expected, rel=1e-9), 0.0, -1, True)
        assert found[1:9] == told
        assert found[9] == pytest.approx(log_u)
    assert verdicts == {True, False}


def test_the_bound_on_rows_is_that_of_the_model(run):
    found, _ = run([0.4, -0.2], [0.6, -0.3], bound=1e-6)
    assert not found[2]
    assert found[5] == -np.inf
    assert 0 <= found[7] < N


def test_proposal_in_place_decides_nothing(run):
    found, generators = run([0.4, -0.2], [0.0, 0.0])
    np.testing.assert_array_equal(found[0], [0.4, -0.2])
    assert found[1:9] == (DECIDED, False, N_READ, 0, 0.0, 0.0, -1, False)
    assert np.isnan(found[9])
    _, decided = run([0.4, -0.2], [0.6, -0.3])
    assert [g.random() for g in generators] == [g.random() for g in decided]
    # One coordinate that moves is a move.
    assert run([0.4, -0.2], [0.0, 0.1])[0][4] == 1


@pytest.mark.parametrize(
    ("jump", "log_q_ratio"),
    [([5.0, 0.0], 0.25), ([0.0, 5.0], 0.25), ([0.6, 0.0], -np.inf)],
    ids=["prior", "no number", "proposal"],
)
def test_what_is_impossible_is_rejected_without_a_row(run, jump, log_q_ratio):
    found, _ = run([0.4, -0.2], jump, log_q_ratio)
    np.testing.assert_array_equal(found[0], [0.4, -0.2])
    assert found[1:9] == (DECIDED, False, N_READ, 0, -np.inf, 0.0, -1, False)
    assert np.isnan(found[9])


def test_a_point_without_a_prior_is_an_error_of_the_model(run):
    found, _ = run([5.0, -0.2], [-4.0, 0.0])
    assert found[0][0] == 5.0
    assert found[1:5] == (BAD_PRIOR, False, N_READ, 0)
    assert np.isnan(found[5:7]).all()
    assert found[7:9] == (-1, False)
