"""Variable selection that is exact on a handful of rows: a bound for the full model holds in every sub-model."""

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z, mean_z
from scipy import special
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.diagnostics.spot_check import evaluate_pair

N = 400
RNG = np.random.default_rng(12)
X = RNG.normal(size=(N, 2))
LABELS = (RNG.random(N) < special.expit(X @ [0.6, 0.2])).astype(int)


def selection():
    with pm.Model() as model:
        included = pm.Bernoulli("included", 0.4, shape=2)
        beta = pm.Normal("beta", 0, 1, shape=2)
        pm.Bernoulli("y", logit_p=pm.math.dot(X, included * beta), observed=LABELS)
    return model


def posterior():
    """Inclusion probabilities and means of the effects, by sums over a grid in each of the four models."""
    grid = np.linspace(-1.5, 1.5, 121)
    a, b = (g.ravel() for g in np.meshgrid(grid, grid))
    models = np.array([(0, 0), (0, 1), (1, 0), (1, 1)])
    evidence, means = np.empty(4), np.zeros((4, 2))
    for k, gamma in enumerate(models):
        effects = np.column_stack([a, b]) * gamma
        eta = X @ effects.T
        log_density = LABELS @ eta - np.logaddexp(0, eta).sum(axis=0) - (a**2 + b**2) / 2
        evidence[k] = special.logsumexp(log_density) + (np.log(0.4) * gamma + np.log(0.6) * (1 - gamma)).sum()
        means[k] = special.softmax(log_density) @ effects
    weight = special.softmax(evidence)
    return weight @ models, weight @ means


@pytest.fixture(scope="module")
def run():
    model = selection()
    step = pma.MHSS(proposal=pma.ReversibleJump("beta", "included", transitions=4), model=model)
    return step, sampled(model, step, 4_000, tune=100, seed=1)


@pytest.mark.slow
def test_models_and_effects_from_part_of_the_rows(run):
    step, idata = run
    inclusion, means = posterior()
    gamma, effects = (v.to_numpy() for v in (idata.posterior["included"], idata.posterior["beta"]))
    z = [mean_z(gamma[..., j].astype(float), inclusion[j]) for j in range(2) if gamma[..., j].std() > 0]
    z += [mean_z((gamma * effects)[..., j], means[j]) for j in range(2)]
    assert np.abs(z).max() < MAX_Z
    assert 0.1 < inclusion[1] < 0.9
    assert abs(mean_z(gamma[..., 1].astype(float), 0.4)) > MAX_Z  # planted: the prior in place of the posterior
    partial = idata.sample_stats["n_rows"].where(~idata.sample_stats["full_data"])
    assert 0 < float(partial.mean()) < 50
    assert 0.3 < step.predicted_rows / float(idata.sample_stats["n_rows"].mean()) < 3


@pytest.mark.slow
def test_no_row_breaks_its_bound_in_any_sub_model(run):
    decider, rng, shares = run[0].decider, np.random.default_rng(3), []
    sizes, state, theta = decider.bound_constants[1].size, decider.new_state(), decider.parts.theta0
    drawn = sizes > 0
    for _ in range(60):
        proposed = decider.propose(theta, np.empty(0), state, rng)
        theta = proposed.theta_new
        pair = evaluate_pair(decider, proposed)
        if pair is not None and np.isfinite(pair.bound):
            shares.append(np.max(np.abs(pair.terms[drawn]) / (sizes[drawn] * pair.bound)))
    assert len(shares) > 20
    assert 0.02 < max(shares) <= 1


def test_a_bound_of_ones_own_is_none_on_effects():
    with selection(), pytest.raises(ValueError, match="not for products.*PenaltyMH"):
        pma.MHSS(proposal=pma.ReversibleJump("beta", "included"), bound=lambda *region: np.ones(N))
