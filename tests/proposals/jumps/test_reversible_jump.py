"""Reversible jump without a proxy: against enumeration, with planted mistakes, and the priors it draws from."""

from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytest
from evidence import LEVEL, MAX_Z, mean_z
from numba import njit
from scipy import special, stats

import pymc_austerity as pma
from pymc_austerity.likelihood.row_likelihood import row_likelihood
from pymc_austerity.proposals.jumps.excluded_law import compile_law
from pymc_austerity.proposals.jumps.jump_moves import JumpState, adapt_updates, draw_law, log_law
from pymc_austerity.proposals.proposal import Move, Proposal, Target

D, SPREAD, PRIOR = 4, 0.5, np.array([0.5, 0.3, 0.4, 0.6])


class BiasedState(NamedTuple):
    log_scale: np.ndarray
    jump: JumpState
    mistake: np.ndarray


@njit
def _adapt(state, theta, accepted):
    adapt_updates(state.jump, theta, accepted)


@dataclass(frozen=True, eq=False)
class Biased(Proposal):
    """The jump with a number added to the log ratio of a birth from k, which the state holds: zeros, or a mistake."""

    jump: pma.ReversibleJump

    def for_model(self, target):
        move = self.jump.for_model(target)
        propose, gamma = move.propose, places(target.likelihood)["gamma"]
        start, stop = gamma.start, gamma.stop

        @njit
        def biased(rng, theta, state, surroundings):
            theta_new, log_ratio, n_rows = propose(rng, theta, state.jump, surroundings)
            k, k_new = int(theta[start:stop].sum()), int(theta_new[start:stop].sum())
            return theta_new, log_ratio + np.sign(k_new - k) * state.mistake[min(k, k_new)], n_rows

        def make_state(theta, discrete, n_rows):
            state = move.make_state(theta, discrete, n_rows)
            return BiasedState(state.log_scale, state, np.zeros(D + 1))

        return Move(biased, _adapt, make_state, reached=move.reached)


def gaussian_rows(n_rows, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, D)) @ np.linalg.cholesky(0.6 * np.eye(D) + 0.4).T
    return X, X @ (np.array([2.5, 0.0, 1.5, -1.0]) / np.sqrt(n_rows)) + rng.normal(size=n_rows)


def gaussian_model(X, y):
    with pm.Model() as model:
        gamma = pm.Bernoulli("gamma", PRIOR, shape=D, initval=np.ones(D, int))
        beta = pm.Normal("beta", 0.1, 0.7, shape=D)
        pm.Normal("y", pm.math.dot(X, gamma * beta), 1, observed=y)
    return model


def enumerate_models(X, y):
    """Posterior probability of every model but the empty one, and the mean of γ∘β, in closed form."""
    models = np.array(list(product([0, 1], repeat=D)))
    log_weight, means = np.empty(len(models)), np.zeros((len(models), D))
    for m, gamma in enumerate(models):
        Z, k = X[:, gamma == 1], gamma.sum()
        precision = Z.T @ Z + np.eye(k) / 0.49
        mean = np.linalg.solve(precision, Z.T @ y + 0.1 / 0.49)
        # log p(y|γ) up to a number that all models share: |I + .49ZᵀZ| is that of the covariance of the rows.
        misfit = np.sum((y - Z @ mean) ** 2) + np.sum((mean - 0.1) ** 2) / 0.49
        log_weight[m] = -0.5 * (misfit + np.linalg.slogdet(0.49 * precision)[1])
        log_weight[m] += np.log(np.where(gamma, PRIOR, 1 - PRIOR)).sum()
        means[m, gamma == 1] = mean
    log_weight[0] = -np.inf
    weight = special.softmax(log_weight)
    return models, weight, weight @ means


def places(likelihood):
    """Where a variable of the model is in θ, by its name."""
    return {block.name: slice(block.start, block.stop) for block in likelihood.blocks}


def run(step, mistake, n_draws=60_000):
    """Draws of γ∘β and γ, from the step itself."""
    step.start_chain(np.random.default_rng(1))
    step.chain.state.mistake[:] = mistake
    at = places(step.decider.parts.likelihood)
    made = step.chain.draws(n_draws, 1, step.decider.parts.theta0, np.empty(0), 1.0)
    draws = np.array([draw.outcome.theta for draw in made])
    included = draws[:, at["gamma"]]
    assert included.sum(axis=1).min() == 1  # the smallest
    return included * draws[:, at["beta"]], included.astype(int)


def distances(effects, included, truth):
    """Distances of model probabilities and posterior means from the truth, in Monte Carlo standard errors."""
    _, weight, means = truth
    code = included @ (2 ** np.arange(D)[::-1])
    found = [mean_z((code == m)[None].astype(float), weight[m]) for m in np.flatnonzero(weight > 0.02)]
    return np.abs(found + [mean_z(effects[None, :, j], means[j]) for j in range(D)])


@pytest.fixture(scope="module")
def exact():
    X, y = gaussian_rows(60)
    model = gaussian_model(X, y)
    sizes = {"birth_scale": SPREAD, "birth_centre": 0.2, "update_scale": 0.3, "excluded": 0.8}
    with model:
        jump = pma.ReversibleJump("beta", "gamma", smallest=1, weights=(1, 2, 1), **sizes)
        step = pma.ExactMH(proposal=Biased(jump), tune=False)
    return step, enumerate_models(X, y)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(0.0, id="right"),
        pytest.param(-np.log(SPREAD), id="no Jacobian of β = centre + spread·u"),
        pytest.param(np.log(np.append((np.arange(D) + 1) / (D - np.arange(D)), 1)), id="no probability of picking one"),
        pytest.param(np.log(2.0), id="no probability of the kind of move"),
    ],
)
def test_every_model_is_visited_as_often_as_its_evidence_says(exact, mistake):
    step, truth = exact
    assert np.sum(truth[1] > 0.02) >= 8  # the question is not trivial
    assert (distances(*run(step, mistake), truth).max() < MAX_Z) == (not np.any(mistake))


PRIORS = {
    "normal": (lambda scale: pm.Normal("beta", 0.3, scale, shape=2), stats.norm(0.3, 0.5)),
    "Laplace": (lambda scale: pm.Laplace("beta", 0.3, scale, shape=2), stats.laplace(0.3, 0.5)),
    "Student": (lambda scale: pm.StudentT("beta", 4, mu=0.3, sigma=scale, shape=2), stats.t(4, 0.3, 0.5)),
}


@pytest.mark.parametrize(("declare", "law"), PRIORS.values(), ids=PRIORS)
def test_excluded_coefficients_are_drawn_from_their_prior(declare, law):
    """With a scale that another step moves."""
    with pm.Model() as model:
        beta = declare(pm.HalfNormal("scale"))
        pm.Normal("y", np.ones((9, 2)) @ beta, 1, observed=np.arange(9.0))
    likelihood = row_likelihood(model, [model.rvs_to_values[beta]])[0]
    prior = likelihood.laws["beta"]
    found = compile_law(prior, likelihood, likelihood.blocks[0], {"mode": "NUMBA"})(np.zeros(2), np.log([0.5]))
    entries = prior.family, *(float(part[1]) for part in found)
    at = np.linspace(-3, 4, 15)
    assert [log_law(x, *entries) for x in at] == pytest.approx(law.logpdf(at))
    rng = np.random.default_rng(3)
    draws = np.array([draw_law(rng, *entries) for _ in range(5_000)])
    assert stats.kstest(draws, law.cdf).pvalue > LEVEL
    assert stats.kstest(draws + 0.1, law.cdf).pvalue < LEVEL


@pytest.fixture(scope="module")
def with_odd_ones():
    """The rows of the model with other variables beside its own, which are taken for coefficients or indicators."""
    model = gaussian_model(*gaussian_rows(10))
    with model:
        pm.HalfNormal("positive", shape=D)
        pm.Normal("alone")
        pm.Logistic("odd", 0, 1, shape=D)
    return cache(lambda *names: row_likelihood(model, [model.rvs_to_values[model[n]] for n in names] or None)[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pma.ReversibleJump("beta", "gamma", smallest=3, largest=2), "0 ≤ smallest < largest"),
        (lambda: pma.ReversibleJump("beta", "gamma", birth_scale=[1.0, 1.0]), "shape"),
        (lambda: pma.ReversibleJump("beta", "gamma", smallest=1), "initval"),
        (lambda: pma.ReversibleJump("betta", "gamma"), "not among"),
        (lambda: pma.ReversibleJump("positive", "gamma"), "transform"),
        (lambda: pma.ReversibleJump("gamma", "beta"), "continuous"),
        (lambda: pma.ReversibleJump("alone", "gamma"), "one indicator"),
        (lambda: pma.ReversibleJump("odd", "gamma"), "excluded="),
        (lambda: pma.ReversibleJump("beta", "gamma"), "vars="),
    ],
)
def test_bad_input_is_named_before_sampling(with_odd_ones, make, message):
    special_case = {"vars=": (), "excluded=": ("odd", "gamma"), "transform": (), "one indicator": ()}
    likelihood = with_odd_ones(*special_case.get(message, ("beta", "gamma")))
    target = Target(likelihood, None, 1.0, {"mode": "NUMBA"})
    with pytest.raises(ValueError, match=message):
        make().for_model(target).make_state(np.zeros(likelihood.theta_size), np.zeros(0, bool), 10)
