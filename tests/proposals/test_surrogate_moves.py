"""Moves on the surrogate: reversible for what they say, tuned by what they reach."""

from types import SimpleNamespace

import numpy as np
import pytest
from numba import njit
from scipy import stats
from toy import surrogate_state

import pymc_austerity as pma
from pymc_austerity.proposals import Target
from pymc_austerity.proposals.surrogate_hmc import _TRIALS, adapt_path
from pymc_austerity.proxy.linearisation import Linearisation
from pymc_austerity.proxy.surrogate import path_search

D, NU, PAIRS = 3, 4.0, 40_000


def state(fresh=0.6, paths=((1.0, 1),)):
    """A state of a move about a normal approximation that is neither centred nor white."""
    nothing = Linearisation(np.zeros(D), np.arange(0), np.empty(0), np.empty((0, 0)))
    return surrogate_state(np.log(fresh), path_search(paths, D), nothing)


def crank_nicolson(degrees_of_freedom=None):
    target = Target(None, SimpleNamespace(normal=state()), 1.0, {})
    return pma.CrankNicolson(degrees_of_freedom=degrees_of_freedom).for_model(target).propose


NORMAL, STUDENT = crank_nicolson(), crank_nicolson(NU)


@njit
def forgets_the_scale(rng, theta, state, surroundings):
    """Planted mistake: the scale of the noise is drawn from its prior, whatever θ."""
    fresh = np.exp(state.log_scale[0])
    x = np.dot(state.whiten, theta - state.centre)
    w = 0.5 * NU / rng.standard_gamma(0.5 * NU)
    moved = np.sqrt(1 - fresh * fresh) * x + fresh * np.sqrt(w) * rng.standard_normal(D)
    return state.centre + np.dot(state.factor, moved), 0.0, 0


def asymmetry(propose, nu):
    """z-score of E[f(x, x′) − f(x′, x)] with x from the distribution that the move should keep, x whitened."""
    rng, at = np.random.default_rng(1), state()
    x = rng.standard_normal((PAIRS, D))
    if np.isfinite(nu):
        x *= np.sqrt(nu / rng.chisquare(nu, size=(PAIRS, 1)))
    moved = np.array([propose(rng, theta, at, None)[0] for theta in at.centre + x @ at.factor.T])
    moved = (moved - at.centre) @ at.whiten.T
    size, size_moved = np.log1p((x**2).sum(axis=1)), np.log1p((moved**2).sum(axis=1))
    differences = (size > 2) * size_moved - (size_moved > 2) * size
    return differences.mean() / (differences.std() / np.sqrt(PAIRS))


@pytest.mark.parametrize(("propose", "nu"), [(NORMAL, np.inf), (STUDENT, NU)])
def test_moves_are_reversible_for_their_law(propose, nu):
    assert abs(asymmetry(propose, nu)) < 4


@pytest.mark.slow
@pytest.mark.parametrize("propose", [forgets_the_scale, NORMAL])
def test_move_with_wrong_noise_or_law_is_caught(propose):
    assert abs(asymmetry(propose, NU)) > 8


@pytest.mark.parametrize(
    ("propose", "log_density"),
    [
        (NORMAL, lambda x: stats.multivariate_normal(np.zeros(D)).logpdf(x)),
        (STUDENT, lambda x: stats.multivariate_t(np.zeros(D), df=NU).logpdf(x)),
    ],
    ids=["normal", "student"],
)
def test_the_log_ratio_is_that_of_the_distribution(propose, log_density):
    rng, at = np.random.default_rng(2), state()
    for _ in range(20):
        x = 2 * rng.standard_normal(D)
        theta_new, log_ratio, n_read = propose(rng, at.centre + at.factor @ x, at, None)
        x_new = at.whiten @ (theta_new - at.centre)
        assert log_ratio == pytest.approx(log_density(x) - log_density(x_new))
        assert n_read == 0


def tuned_choice(reached, move):
    """Path that tuning settles on when path k of a move gets `reached[k]` further in the whitened space."""
    paths = move.choices(np.pi / 2)
    at, theta = state(paths=paths), np.zeros(D)
    for _ in range(len(paths) * _TRIALS + 1):
        theta = theta + reached[at.search.choice[0]] * at.factor[:, 0]
        adapt_path(at, theta, True)
    return paths[int(at.search.choice[0])]


def test_the_path_is_as_long_as_it_pays():
    move, quarter = pma.SurrogateHMC(), np.pi / 2
    assert tuned_choice([1.0, 0.5, 0.25, 0.125], move) == (quarter, 1)
    assert tuned_choice([0.0, 0.5, 0.25, 0.125], move) == (quarter / 2, 1)  # long ones end where the test rejects
    assert tuned_choice([0.0, 0.0, 0.0, 0.125], move) == (quarter / 8, 1)


def test_transitions_are_as_many_as_pay():
    move, quarter = pma.SurrogateHMC(transitions="adapt"), np.pi / 2
    # As the jumps of a random walk add up, a test is worth more steps; where one step reaches everything, it is not.
    assert tuned_choice([1.0, 2**0.5, 2.0, 0.5, 0.25, 0.125], move) == (quarter, 4)
    assert tuned_choice([1.0, 1.0, 1.0, 0.5, 0.25, 0.125], move) == (quarter, 1)
    assert tuned_choice([0.0, 0.0, 0.0, 0.0, 0.25, 0.0], move) == (quarter / 4, 1)
    assert pma.SurrogateHMC(path_length=1.0, transitions=np.int64(2)).choices(quarter) == [(1.0, 2)]
    fixed = pma.SurrogateHMC(path_length=1.0, transitions="adapt")
    assert tuned_choice([1.0, 2**0.5, 1.4], fixed) == (1.0, 2)
