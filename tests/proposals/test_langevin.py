"""Langevin proposals: the density of the move and of the move back for the same rows, and where the chains go."""

import numpy as np
import pymc as pm
import pytest
from pytensor.gradient import undefined_grad
from scipy import special, stats
from toy import walk

import pymc_austerity as pma
from pymc_austerity.likelihood import Links, Surroundings, read_model
from pymc_austerity.proposals import langevin
from pymc_austerity.proposals.gradients import link_gradient
from pymc_austerity.proposals.proposal import Target
from pymc_austerity.rows.sources import draw_subset

pytestmark = pytest.mark.slow

ROWS = np.random.default_rng(60).normal(0.4, 1.0, size=600)
SD = 1 / np.sqrt(600 + 1 / 0.05**2)
POSTERIOR = stats.norm(ROWS.sum() * SD**2, SD)

X = np.random.default_rng(1).normal(size=(2_000, 3))
Y = (np.random.default_rng(2).random(2_000) < 1 / (1 + np.exp(-X @ [1.0, -0.5, 0.2]))).astype(int)
NOTHING = np.zeros(3, dtype=bool)


def logistic_model():
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=3)
        pm.Bernoulli("y", logit_p=X @ beta, observed=Y)
    return model


def logistic_slope(beta, numbers=slice(None), temperature=1.0):
    x, y = X[numbers], Y[numbers]
    return -beta + x.T @ (y - 1 / (1 + np.exp(-x @ beta))) * len(X) / len(x) / temperature


@pytest.fixture(scope="module")
def data():
    """A logistic regression as a proposal sees it, which is tried by itself."""
    model = logistic_model()
    return read_model(model, model.value_vars, None, None)


def target_of(data, prepared=None):
    return Target(data.likelihood, prepared, 1.0, {"mode": "NUMBA"})


def surroundings(data, reached, temperature):
    links = Links(**{name: r.address for name, r in reached.items()})
    data_at = data.likelihood.fixed_at(data.fixed), data.likelihood.rows_at(data.rows.arrays)
    return Surroundings(np.empty(0), *data_at, temperature, (), links)


@pytest.mark.parametrize(
    ("preconditioner", "temperature"),
    [([1.0, 2.0, 0.5], 1.0), ([[1.0, 0.5, 0.0], [0.5, 2.0, 0.1], [0.0, 0.1, 0.7]], 5.0)],
)
def test_the_ratio_is_that_of_two_gaussians_with_the_same_rows(data, preconditioner, temperature):
    a, n, theta = 2e-3, 50, np.array([0.6, -0.3, 0.4])
    move = pma.Langevin(a, n, preconditioner).for_model(target_of(data))
    state, around = move.make_state(theta, NOTHING, len(X)), surroundings(data, move.reached, temperature)
    M = np.asarray(preconditioner) * (np.eye(3) if np.ndim(preconditioner) == 1 else 1.0)
    for seed in range(5):
        theta_new, log_ratio, n_read = move.propose(np.random.default_rng(seed), theta, state, around)
        numbers = draw_subset(np.random.default_rng(seed), len(X), n)

        def log_q(to, at, rows):
            return stats.multivariate_normal(at + a / 2 * M @ logistic_slope(at, rows, temperature), a * M).logpdf(to)

        assert n_read == n
        assert log_ratio == pytest.approx(log_q(theta, theta_new, numbers) - log_q(theta_new, theta, numbers))
        other = draw_subset(np.random.default_rng(seed + 100), len(X), n)
        mistaken = log_q(theta, theta_new, other) - log_q(theta_new, theta, numbers)
        assert abs(log_ratio) > 0.01
        assert abs(log_ratio - mistaken) > 0.01


@pytest.fixture(scope="module")
def step_with_proxy():
    with logistic_model():
        return pma.PenaltyMH(proxy=pma.Taylor(), proposal=pma.Langevin(batch_size=50))


@pytest.mark.parametrize("order", [1, 2])
def test_gradient_with_a_proxy_is_unbiased(step_with_proxy, order):
    step = step_with_proxy
    expansion = step.decider.expansion
    if order == 1:
        expansion = expansion._replace(hessian=np.zeros((3, 3)))
    slope, reached = link_gradient(target_of(step.decider.parts, step.decider.parts.prepared._replace(order=order)))
    around = step.decider.surroundings(np.empty(0))._replace(temperature=2.0, expansion=expansion)
    around = around._replace(links=around.links._replace(**{name: r.address for name, r in reached.items()}))
    beta = expansion.centre + 0.05
    everything = slope(beta, np.arange(2_000), around)
    np.testing.assert_allclose(everything, logistic_slope(beta, temperature=2.0), atol=1e-8)
    rng = np.random.default_rng(5)
    batches = [draw_subset(rng, 2_000, 50) for _ in range(200)]
    ours = np.array([slope(beta, b, around) for b in batches]) - everything
    plain = np.array([logistic_slope(beta, b, 2.0) for b in batches]) - everything
    assert np.abs(ours.mean(0) / ours.std(0) * np.sqrt(200)).max() < 4.4
    assert (ours.std(0) < (0.1 if order == 1 else 0.01) * plain.std(0)).all()


def test_preconditioner_is_the_surrogate_covariance(step_with_proxy):
    factor = step_with_proxy.chain.state.factor
    curvature = np.eye(3) - step_with_proxy.decider.expansion.hessian
    np.testing.assert_allclose(factor @ factor.T @ curvature, np.eye(3), atol=0.5)


@pytest.mark.parametrize(
    ("probability", "target"),
    [(lambda r: np.exp(np.minimum(r, 0)), langevin._BEST_METROPOLIS), (special.expit, langevin._BEST_BARKER)],
)
def test_target_rates_are_the_most_efficient(probability, target):
    z, length = np.linspace(-8, 8, 4_001), np.linspace(0.5, 1.5, 2_001)
    tau = length[:, None] ** 3
    rate = stats.norm.pdf(z) @ probability(tau * z - tau**2 / 2).T * (z[1] - z[0])
    assert rate[np.argmax(length**2 * rate)] == pytest.approx(target, abs=2e-3)


SCALE = np.array([1.0, 0.1, 3.0])


def test_tuning_finds_covariance_and_best_rate(data):
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 10, shape=3)
        pm.Bernoulli("y", logit_p=(X[:400] / SCALE) @ beta, observed=Y[:400])
    step = pma.ExactMH(model=model, proxy=None, proposal=pma.Langevin(), rng=8)
    step.tune = True
    point, accepted = {"beta": np.zeros(3)}, []
    for _ in range(4_000):
        point, (stat,) = step.step(point)
        accepted.append(stat["accepted"])
    assert np.mean(accepted[1_000:]) == pytest.approx(0.574, abs=0.03)
    sd = np.sqrt(np.diag(step.chain.state.factor @ step.chain.state.factor.T))
    np.testing.assert_allclose(sd / sd[0], SCALE, rtol=0.4)
    # Barker's test accepts half of the proposals that are as likely as the present point.
    of_barker = pma.Langevin().for_model(target_of(data)._replace(best_rate=0.5)).make_state(np.zeros(3), NOTHING, 9)
    assert of_barker.target == 0.347


def test_sgld_on_all_rows_is_an_autoregression():
    """θ′ − m = (1 − a/2s²)(θ − m) + √a z, so that the variance is s²/(1 − a/4s²): a bias of the order of a."""
    a = SD**2
    with pm.Model():
        pm.Normal("y", pm.Normal("mu", 0, 0.05), 1, observed=ROWS)
        step = pma.SGLD(step_size=a, batch_size=1_000, rng=1)
    made = step.chain.draws(20_000, 1, np.array([POSTERIOR.mean()]), np.empty(0), 1.0)
    assert {(draw.outcome.n_rows, draw.outcome.accepted) for draw in made} == {(600, True)}
    draws = np.array([draw.outcome.theta[0] for draw in made])
    shift, expected = draws - POSTERIOR.mean(), SD**2 / (1 - a / (4 * SD**2))
    error = expected * np.sqrt(2 * (1 + 0.25) / (1 - 0.25) / 20_000)  # correlation ½, of squares ¼
    assert abs(np.mean(shift**2) - expected) < 4.4 * error
    assert abs(np.mean(shift**2) - SD**2) > 4.4 * error
    step.tune = True
    statistics = walk(step, {"mu": np.array(0.3)}, 20)[1]
    assert {round(s["scaling"] / SD, 9) for s in statistics} == {1.0}
    assert not any(s["full_data"] for s in statistics)
    assert np.isnan([s["log_ratio"] for s in statistics]).all()


@pytest.mark.parametrize(
    ("mean", "told"),
    [
        (lambda mu: mu + pm.Poisson("k", 2), r"\['k'\] is discrete.*vars="),
        (undefined_grad, r"no gradient.*AdaptiveMetropolis"),
    ],
)
def test_models_without_a_gradient_are_refused(mean, told):
    with pm.Model():
        pm.Normal("y", mean(pm.Normal("mu")), 1, observed=ROWS)
        with pytest.raises(ValueError, match=told):
            pma.ApproxMH(proposal=pma.Langevin(), proxy=None)


def test_a_preconditioner_of_another_size_is_refused(data):
    with pytest.raises(ValueError, match=r"shape \(2,\).* moves 3 numbers"):
        pma.Langevin(preconditioner=[1.0, 2.0]).for_model(target_of(data))
