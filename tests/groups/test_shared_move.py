"""What all groups share: what tuning learns of it, from which draws, and that proposals have the law they say."""

import numpy as np
import pytest

from pymc_austerity.groups.shared_move import (
    adapt_shared,
    learn_shared,
    propose_shared,
    share_on_surrogate,
    shared_state,
)

MEAN = np.array([1.0, -2.0, 0.5])
FACTOR = np.array([[0.5, 0.0, 0.0], [0.9, 1.2, 0.0], [-0.1, 0.3, 0.2]])


def tuned(n, ends=True, seed=4):
    """The state after n draws of tuning, from a centre that is off and twice the spread; draws are independent."""
    state = shared_state(MEAN + FACTOR @ np.ones(3), 2 * FACTOR, 2)
    for z in np.random.default_rng(seed).standard_normal((n, 3)):
        adapt_shared(MEAN + FACTOR @ z, True, True, state, 3.0)
    if ends:
        learn_shared(state)
    return state


def off(n, ends=True):
    """How far centre and covariance are from the true ones on average, in units of these."""
    found = []
    for seed in range(40):
        state = tuned(n, ends, seed)
        whitened = np.linalg.solve(FACTOR, state.factor)
        shift = np.linalg.solve(FACTOR, state.centre - MEAN)
        found.append([np.abs(shift).max(), np.abs(whitened @ whitened.T - np.eye(3)).max()])
    return np.mean(found, axis=0)


@pytest.mark.slow
def test_the_window_that_tuning_ends_in_counts():
    # Windows of 200 and 400 draws, and one of 800 that has 700.
    assert (off(1_300) < [0.05, 0.12]).all()
    assert (off(1_300, ends=False) > 1.4 * off(1_300)).all()


def test_what_was_known_before_is_forgotten_by_halves():
    first, second, third = (tuned(n).counts for n in (150, 350, 1_300))
    # (150 + 50) / 2, then (200 + 50) / 2 and (150 + 125) / 2, then with 262 from 400 draws (700 + 262) / 2.
    assert [of[3] for of in (first, second, third)] == [100, 137, 481]
    assert [of[1] for of in (first, second, third)] == [400, 800, 1_600]


def test_long_slices_make_the_next_ones_twice_as_wide():
    state = shared_state(MEAN, FACTOR, 2)
    for wider in ([2, 1], [2, 1], [4, 1]):
        state.lengths[:] = 17.0 if wider != state.wider.tolist() else 16.0, 16.0
        adapt_shared(MEAN, True, False, state, 3.0)
        assert (state.wider.tolist(), state.lengths.tolist()) == (wider, [0, 0])


def test_learning_from_no_draw_changes_nothing():
    state, before = tuned(1_300), tuned(1_300)
    learn_shared(state)
    assert all(np.array_equal(*of) for of in zip(state, before, strict=True))


@pytest.mark.parametrize("angle", [0.4, np.pi / 2, 1.9])
def test_the_ratio_is_that_of_the_densities_of_the_proposals(angle):
    state = tuned(1_300)
    state.log_angle[0] = np.log(angle)
    covariance = np.sin(angle) ** 2 * state.factor @ state.factor.T

    def log_density(new, old):
        away = new - state.centre - np.cos(angle) * (old - state.centre)
        return -away @ np.linalg.solve(covariance, away) / 2

    rng, phi = np.random.default_rng(1), np.array([0.3, 0.2, 0.1])
    for _ in range(40):
        new, log_ratio = propose_shared(rng, phi, state)
        assert log_ratio == pytest.approx(log_density(phi, new) - log_density(new, phi))


def test_the_kind_of_move_that_gets_further_is_made_more_often():
    """Either kind is always made where a model has both, and more on the surrogate where tails are heavy."""
    for accepted_on_surrogate, low, high in ((True, 0.8, 0.9), (False, 0.05, 0.25)):
        state = shared_state(MEAN, FACTOR, 2)
        assert share_on_surrogate(0.05, state) == 0.05
        for i in range(200):
            adapt_shared(MEAN, (i % 2 == 0) == accepted_on_surrogate, i % 2 == 1, state, 3.0)
        assert low - 1e-9 <= share_on_surrogate(0.05, state) <= high
        assert share_on_surrogate(0.9, state) == pytest.approx(0.9 if accepted_on_surrogate else 0.25)
        assert (share_on_surrogate(0.0, state), share_on_surrogate(1.0, state)) == (0.0, 1.0)


def test_a_move_that_takes_longer_is_made_less_often():
    shares = []
    for dearer in (3.0, 15.0):
        state = shared_state(MEAN, FACTOR, 2)
        for i in range(200):
            adapt_shared(MEAN, True, i % 2 == 1, state, dearer)
        shares.append(state.kinds[0])
    assert shares[1] < shares[0] / 10
