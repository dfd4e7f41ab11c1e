"""Jumps on the surrogate: the kernel against enumeration with a planted mistake, and the steps that are made of it."""

from itertools import product

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z, mean_z
from numba import njit
from scipy import special, stats

import pymc_austerity as pma
from pymc_austerity.compile.addresses import NOWHERE
from pymc_austerity.likelihood import Surroundings
from pymc_austerity.likelihood.prior_laws import NORMAL
from pymc_austerity.proposals.jumps import model_changes
from pymc_austerity.proposals.jumps.sub_models import SurrogateJumpState
from pymc_austerity.proposals.jumps.surrogate_jump import build_surrogate_jump
from pymc_austerity.proposals.jumps.tableau import conditional, log_evidence_gain, sweep, swept_tableau

# θ = (γ_0..γ_3, a, β_0..β_3): four coefficients and one parameter that is always in, plus one of another step.
D = 4
LOC, SD, LOG_ODDS, ALWAYS_SD, TEMPERATURE, OTHER = 0.2, 0.8, np.array([-1.0, 0.3, -0.5, 0.4]), 1.5, 1.7, np.array([0.4])


@njit
def log_prior(links, theta, others, fixed):
    value = -0.5 * (theta[D] / ALWAYS_SD) ** 2
    for j in range(D):
        value += theta[j] * LOG_ODDS[j] - 0.5 * ((theta[D + 1 + j] - LOC) / SD) ** 2
    return value


@njit
def prior_law(links, theta, others, fixed):
    return np.full(D, LOC), np.full(D, SD), np.ones(D)


def surrogate():
    """A quadratic log-likelihood with strong correlations; the working prior is deliberately not the prior."""
    rng = np.random.default_rng(8)
    factor = np.array([[1, 0, 0, 0, 0], [0.9, 0.4, 0, 0, 0], [0.5, -0.6, 0.6, 0, 0], [0.7, 0.2, 0.1, 0.5, 0],
                       [0.4, 0.4, -0.3, 0.2, 0.7]])  # fmt: skip
    curvature = 9.0 * factor @ factor.T
    own = np.array([-1, 0, 1, 2, 3])
    return SurrogateJumpState(
        log_scale=np.zeros(1),
        places=np.array([D, D + 1, D + 2, D + 3, D + 4]),
        switches=own,
        limits=np.array([0, D]),
        curvature=curvature,
        linear=curvature @ np.array([0.3, 0.5, -0.2, 0.4, 0.1]),
        cross=rng.normal(size=(5, 1)),
        other_places=np.array([0]),
        other_centre=np.array([0.1]),
        prior_loc=np.where(own < 0, 0.0, -0.1),
        prior_precision=np.where(own < 0, 0.0, 0.7),
        prior_log_odds=np.append(0.0, LOG_ODDS + 0.5),
        kinds=np.array([0.5, 0.3, 0.2]),
    )


def enumerate_surrogate(state):
    """Probability of every model, mean and mean square of the effects, and mean of the parameter that is always in."""
    linear = state.linear - state.cross @ (OTHER - state.other_centre)
    models = np.array(list(product([0, 1], repeat=D)))
    log_weight, means, squares = np.empty(len(models)), np.zeros((len(models), D + 1)), np.zeros((len(models), D + 1))
    prior_precision = np.append(1 / ALWAYS_SD**2, np.full(D, 1 / SD**2))
    prior_mean = np.append(0.0, np.full(D, LOC))
    for m, gamma in enumerate(models):
        g = np.flatnonzero(np.append(1, gamma))
        A = state.curvature[np.ix_(g, g)] / TEMPERATURE + np.diag(prior_precision[g])
        b = linear[g] / TEMPERATURE + prior_precision[g] * prior_mean[g]
        mean, covariance = np.linalg.solve(A, b), np.linalg.inv(A)
        log_weight[m] = 0.5 * (b @ mean - np.linalg.slogdet(A)[1]) + gamma @ LOG_ODDS
        log_weight[m] += 0.5 * np.sum(np.log(prior_precision[g]) - prior_precision[g] * prior_mean[g] ** 2)
        means[m, g], squares[m, g] = mean, mean**2 + np.diag(covariance)
    weight = special.softmax(log_weight)
    return weight, weight @ means, weight @ squares


def run(n):
    """Distance from the truth, in Monte Carlo standard errors, and the values of coefficients that are left out."""
    propose = build_surrogate_jump.__wrapped__(NORMAL, True, 1, log_prior, prior_law)

    @njit
    def chain(rng, state, surroundings, n):
        theta, draws = np.zeros(2 * D + 1), np.empty((n, 2 * D + 1))
        for i in range(n):
            theta = propose(rng, theta, state, surroundings)[0]
            for k in range(theta.size):
                draws[i, k] = theta[k]
        return draws

    state, surroundings = surrogate(), Surroundings(OTHER, NOWHERE, NOWHERE, TEMPERATURE, ())
    draws = chain(np.random.default_rng(4), state, surroundings, n)
    weight, means, squares = enumerate_surrogate(state)
    gamma = draws[:, :D]
    effects = np.column_stack([draws[:, D], gamma * draws[:, D + 1 :]])
    code = (gamma @ (2 ** np.arange(D)[::-1])).astype(int)
    assert np.sum(weight > 0.02) >= 7  # the question is not trivial
    z = [mean_z((code == m)[None].astype(float), weight[m]) for m in np.flatnonzero(weight > 0.02)]
    z += [mean_z(effects[None, :, j], means[j]) for j in range(D + 1)]
    z += [mean_z(effects[None, :, j] ** 2, squares[j]) for j in range(D + 1)]
    return np.abs(z).max(), [draws[gamma[:, j] == 0, D + 1 + j] for j in range(D)]


@pytest.mark.slow
def test_models_and_effects_are_those_of_the_surrogate():
    z, left_out = run(300_000)
    assert z < MAX_Z
    for values in left_out:  # excluded coefficients are draws from their prior
        assert stats.kstest(values[::40], stats.norm(LOC, SD).cdf).pvalue > 1e-4


@njit
def _nothing(log_weights, k):
    return 0.0


@pytest.mark.slow
def test_the_choice_of_the_flip_forgotten_is_caught(monkeypatch):
    """Planted mistake: the chances of choosing the way there and the way back are left out of the ratio."""
    monkeypatch.setattr(model_changes, "log_share", _nothing)
    assert run(75_000)[0] > 1.5 * MAX_Z


def test_sweep_gives_the_sub_model_and_back():
    state = surrogate()
    A, b = state.curvature + np.diag(state.prior_precision), state.linear
    g, e = np.array([0, 2, 3]), np.array([1, 4])
    tableau = swept_tableau(A, b, np.isin(np.arange(5), g))
    inverse = np.linalg.inv(A[np.ix_(g, g)])
    np.testing.assert_allclose(tableau[np.ix_(g, g)], -inverse)
    np.testing.assert_allclose(tableau[g, 5], inverse @ b[g])
    np.testing.assert_allclose(tableau[np.ix_(g, e)], inverse @ A[np.ix_(g, e)])
    np.testing.assert_allclose(tableau[np.ix_(e, e)], A[np.ix_(e, e)] - A[np.ix_(e, g)] @ inverse @ A[np.ix_(g, e)])
    before, prior = tableau.copy(), (-0.1, 0.7)
    gain = log_evidence_gain(tableau, 4, False, prior)
    mean, precision = conditional(tableau, 4)
    sweep(tableau, 4, 1.0)
    larger = np.sort(np.append(g, 4))
    np.testing.assert_allclose(tableau[4, 5], np.linalg.solve(A[np.ix_(larger, larger)], b[larger])[-1])
    np.testing.assert_allclose([tableau[4, 5], -1 / tableau[4, 4]], [mean, precision])
    assert log_evidence_gain(tableau, 4, True, prior) == pytest.approx(gain)
    sweep(tableau, 4, -1.0)
    np.testing.assert_allclose(tableau, before, atol=1e-12)


def leaky(included, beta, X):
    return pm.math.dot(X, included * beta) + 0.1 * included.sum()


@pytest.mark.parametrize(
    ("rate", "make", "told"),
    [
        (leaky, lambda jump: pma.PenaltyMH(proposal=jump, proxy=pma.Taylor()), "more of the coefficients and the ind"),
        (None, lambda jump: pma.MHSubLhd(proposal=jump, proxy=pma.Taylor(), bound=lambda *at: 1.0), "not for products"),
        (None, lambda jump: (pm.Normal("unread"), pma.PenaltyMH(proposal=jump)), r"do not read \['unread'\]"),
    ],
)
def test_bad_input_is_named_before_sampling(rate, make, told):
    X = np.random.default_rng(2).normal(size=(300, 2))
    with pm.Model():
        included, beta = pm.Bernoulli("included", 0.5, shape=2), pm.Normal("beta", 0, 1, shape=2)
        eta = rate(included, beta, X) if rate else pm.math.dot(X, included * beta)
        pm.Poisson("y", pm.math.exp(eta), observed=np.arange(300) % 3)
        with pytest.raises(ValueError, match=told):
            make(pma.ReversibleJump("beta", "included"))
