"""Random walks: symmetric, of the size and correlation asked for or learnt, whole numbers where that is asked for."""

import numpy as np
import pytest
from evidence import LEVEL, multinomial_p
from scipy import stats

import pymc_austerity as pma
from pymc_austerity.proposals import Target
from pymc_austerity.proposals.adaptation import adapt_moments, proposal_factor
from pymc_austerity.proxy import towards_target

METROPOLIS, BARKER = (Target(None, None, rate, {}) for rate in (1.0, 0.5))
COV = np.array([[1.0, 0.9], [0.9, 4.0]])
CONTINUOUS = np.zeros(2, dtype=bool)


def _increments(proposal, discrete=CONTINUOUS, theta=(3.0, -1.0), n=20_000):
    theta, rng = np.array(theta), np.random.default_rng(11)
    move = proposal.for_model(METROPOLIS)
    state = move.make_state(theta, discrete, 100)
    proposed = [move.propose(rng, theta, state, None) for _ in range(n)]
    assert {(log_ratio, n_read) for _, log_ratio, n_read in proposed} == {(0.0, 0)}
    assert np.array_equal(theta, [3.0, -1.0][: theta.size])
    return np.array([p for p, _, _ in proposed]) - theta


def _asymmetry_p(increments):
    """p-value of the number of steps upwards among those that move."""
    moved = increments[increments != 0]
    return stats.binomtest(int((moved > 0).sum()), moved.size).pvalue


def _normal_p(steps, cov):
    """Smallest p-value of tests of independence and of the normal law after whitening by `cov`."""
    white = np.linalg.solve(np.linalg.cholesky(cov), steps.T)
    radius = stats.kstest(np.sum(white**2, axis=0), stats.chi2(2).cdf)
    return min(t.pvalue for t in (*(stats.kstest(z, "norm") for z in white), radius, stats.pearsonr(*white)))


@pytest.mark.parametrize(
    ("proposal", "cov", "wrong"),
    [
        (pma.RandomWalk(scale=[1.0, 2.0]), np.diag([1.0, 4.0]), np.diag([1.0, 2.0])),
        (pma.RandomWalk(cov=COV), COV, np.diag([1.0, 4.0])),
    ],
)
def test_walk_is_the_normal_law_asked_for(proposal, cov, wrong):
    steps = _increments(proposal)
    assert _normal_p(steps, cov) > LEVEL
    assert _normal_p(steps, wrong) < LEVEL


@pytest.mark.parametrize(
    ("proposal", "discrete"),
    [(pma.RandomWalk(scale=0.7), True), (pma.AdaptiveMetropolis(), False), (pma.AdaptiveMetropolis(), True)],
)
def test_walk_goes_up_as_often_as_down(proposal, discrete):
    steps = _increments(proposal, np.full(2, discrete))
    assert all(_asymmetry_p(column) > LEVEL for column in steps.T)
    steps[::10] = np.abs(steps[::10])  # planted: one step in ten only goes up
    assert all(_asymmetry_p(column) < LEVEL for column in steps.T)


@pytest.mark.parametrize("proposal", [pma.RandomWalk(scale=1.5), pma.RandomWalk(cov=2.25 * np.eye(2))])
def test_discrete_variables_move_by_the_rounded_normal_law(proposal):
    steps = _increments(proposal, np.array([True, False]))
    assert np.array_equal(steps[:, 0], np.rint(steps[:, 0]))
    assert (steps[:, 1] != np.rint(steps[:, 1])).all()
    whole = np.arange(-9, 10)
    law = stats.norm.cdf((whole + 0.5) / 1.5) - stats.norm.cdf((whole - 0.5) / 1.5)
    counts = [(steps[:, 0] == w).sum() for w in whole]
    assert multinomial_p(counts, law / law.sum()) > LEVEL
    shifted = stats.norm.cdf((whole + 1) / 1.5) - stats.norm.cdf(whole / 1.5)  # truncated instead of rounded
    assert multinomial_p(counts, shifted / shifted.sum()) < LEVEL


def test_discrete_variables_still_move_when_the_scale_is_tiny():
    assert (_increments(pma.RandomWalk(scale=1e-6), np.full(2, True)) != 0).any(axis=0).all()


def _rate_of_acceptance(proposal, n_tune, n_draws):
    """Plain random-walk Metropolis on a correlated normal law around a compiled proposal."""
    rng, theta, accepted = np.random.default_rng(4), np.zeros(2), np.zeros(n_tune + n_draws, dtype=bool)
    move, precision = proposal.for_model(METROPOLIS), np.linalg.inv(COV)
    state = move.make_state(theta, CONTINUOUS, 1)
    for i in range(n_tune + n_draws):
        new, log_ratio, _ = move.propose(rng, theta, state, None)
        accepted[i] = np.log(rng.random()) < (theta @ precision @ theta - new @ precision @ new) / 2 + log_ratio
        theta = new if accepted[i] else theta
        if i < n_tune:
            move.adapt(state, theta, accepted[i])
    return accepted[n_tune:].mean()


@pytest.mark.parametrize(
    ("proposal", "rate"),
    [
        (pma.RandomWalk(scale=50.0, target_accept=0.3), 0.3),
        (pma.RandomWalk(cov=1e-4 * COV), 0.5),
        (pma.AdaptiveMetropolis(target_accept=0.3), 0.3),
    ],
)
def test_tuning_reaches_the_target_acceptance(proposal, rate):
    assert _rate_of_acceptance(proposal, 4_000, 4_000) == pytest.approx(rate, abs=0.06)


def test_untuned_walk_is_far_from_its_target():
    assert _rate_of_acceptance(pma.RandomWalk(scale=50.0), 0, 2_000) < 0.2


@pytest.mark.parametrize(("dimension", "target"), [(1, 0.5), (2, 0.5), (3, 0.25), (10, 0.25)])
def test_default_target_follows_the_dimension(dimension, target):
    for proposal in (pma.RandomWalk(), pma.AdaptiveMetropolis()):
        for of, rate in ((METROPOLIS, target), (BARKER, target / 2)):
            state = proposal.for_model(of).make_state(np.zeros(dimension), np.zeros(dimension, bool), 100)
            assert state.target == rate


@pytest.mark.parametrize("walk", [pma.RandomWalk, pma.AdaptiveMetropolis])
def test_a_rate_that_the_test_cannot_reach_is_refused(walk):
    with pytest.raises(ValueError, match=r"target_accept=0.5 is out of reach: the test accepts 0.5 .*0.5 or less"):
        walk(target_accept=0.5).for_model(BARKER)
    assert walk(target_accept=0.5).for_model(METROPOLIS).make_state(np.zeros(2), CONTINUOUS, 9).target == 0.5


def test_default_scale_shrinks_with_the_rows():
    start = pma.RandomWalk().for_model(METROPOLIS).make_state
    wide, narrow = (start(np.zeros(1), np.zeros(1, bool), n).factor for n in (100, 10_000))
    assert wide / narrow == pytest.approx(10)


def test_a_size_that_does_not_fit_is_refused():
    for size, shape in (({"scale": np.ones(3)}, r"\(3,\)"), ({"cov": np.eye(3)}, r"\(3, 3\)")):
        with pytest.raises(ValueError, match=f"shape {shape}.* moves 2 numbers"):
            pma.RandomWalk(**size).for_model(METROPOLIS).make_state(np.zeros(2), CONTINUOUS, 100)
    with pytest.raises(ValueError, match="both scale and cov"):
        pma.RandomWalk(scale=1.0, cov=np.eye(2))


def _from_afar(proposal, n_tune=2_000, dimension=10, sd=0.017):
    """Walk from 60 standard deviations away, as from a default start, and say where and how wide it proposes."""
    rng, theta = np.random.default_rng(7), np.full(dimension, 60 * sd / np.sqrt(dimension))
    move = proposal.for_model(METROPOLIS)
    state = move.make_state(theta, np.zeros(dimension, dtype=bool), int(sd**-2))
    for _ in range(n_tune):
        new, _, _ = move.propose(rng, theta, state, None)
        accepted = np.log(rng.random()) < 0.5 * (theta @ theta - new @ new) / sd**2
        theta = new if accepted else theta
        move.adapt(state, theta, bool(accepted))
    step = np.exp(state.log_scale[0]) * np.sqrt((np.atleast_2d(state.factor) ** 2).sum(axis=1)) * np.sqrt(dimension)
    return np.linalg.norm(theta) / (sd * np.sqrt(dimension)), step / (2.38 * sd)


def test_a_far_start_leaves_no_direction_behind():
    distance, width = _from_afar(pma.AdaptiveMetropolis())
    assert distance < 2
    assert (width > 1 / 3).all()
    assert (width < 3).all()
    assert _from_afar(pma.RandomWalk(scale=1e-5, target_accept=0.99))[0] > 2  # a walk that collapses on the way


# Adaptation


def test_scale_moves_less_and_less_but_without_end():
    gains = np.array([towards_target(0.0, True, 0.5, t) for t in range(1, 100_001)])
    assert (np.diff(gains) < 0).all()
    # Σ gain diverges and Σ gain² converges: by the last factor of ten the one still grows, the other hardly.
    assert gains[10_000:].sum() > gains[:10_000].sum()
    assert (gains[10_000:] ** 2).sum() < 0.1 * (gains[:10_000] ** 2).sum()


def test_moments_are_those_of_the_chain_and_forget_its_start():
    true = np.array([[2.0, 1.2, 0.0], [1.2, 1.0, -0.3], [0.0, -0.3, 0.5]])
    draws = np.random.default_rng(2).multivariate_normal([1.0, -2.0, 5.0], true, size=20_000)
    draws[:20] += 50.0
    mean, cov = draws[0].copy(), np.zeros((3, 3))
    for t, theta in enumerate(draws, start=1):
        adapt_moments(mean, cov, theta, t)
    assert mean == pytest.approx([1.0, -2.0, 5.0], abs=0.1)
    assert cov == pytest.approx(true, abs=0.15)
    assert np.abs(np.cov(draws.T) - true).max() > 1  # plain moments still remember the start


def test_running_covariance_is_never_indefinite():
    rng = np.random.default_rng(3)
    mean, cov = rng.normal(size=4), np.zeros((4, 4))
    for t in range(1, 200):
        adapt_moments(mean, cov, rng.standard_cauchy(size=4), t)
        assert np.linalg.eigvalsh(cov).min() > -1e-12 * np.abs(cov).max()
        assert cov == pytest.approx(cov.T)


def test_factor_is_the_scaled_covariance_even_at_the_start():
    cov = np.array([[2.0, 1.2], [1.2, 1.0]])
    factor = proposal_factor(cov, np.ones(2), 10**7)
    assert factor @ factor.T == pytest.approx(2.38**2 / 2 * cov, rel=1e-4)
    assert factor[0, 1] == 0
    assert (np.diag(proposal_factor(np.zeros((3, 3)), np.array([1.0, 0.1, 1e-3]), 20)) > 0).all()
