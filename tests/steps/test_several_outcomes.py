"""Steps on models whose outcomes have different lengths: decisions, rows and posteriors are those of all outcomes."""

import arviz as az
import numpy as np
import pymc as pm
import pytest
from evidence import mean_z
from grouped import mean_and_sd
from scipy import stats
from toy import Toggle, sampled

import pymc_austerity as pma

FIRST, SECOND = 60, 40


def two_groups(n, m):
    rng = np.random.default_rng(1)
    with pm.Model() as model:
        mu, sigma = pm.Normal("mu", 0, 10, shape=2), pm.HalfNormal("sigma", 5, shape=2)
        nu = pm.Exponential("nu", 1 / 29) + 1
        pm.StudentT("first", nu=nu, mu=mu[0], sigma=sigma[0], observed=2 * rng.standard_t(4, n) + 1)
        pm.StudentT("second", nu=nu, mu=mu[1], sigma=sigma[1], observed=rng.standard_t(4, m) + 0.3)
    return model


@pytest.mark.slow
@pytest.mark.contract
def test_decisions_are_those_of_the_log_density_of_all_outcomes():
    model, rng = two_groups(FIRST, SECOND), np.random.default_rng(2)
    step = pma.ExactMH(proxy=None, proposal=Toggle(), tune=False, observed=["first", "second"], model=model, rng=3)
    whole, second = (model.compile_logp(vars, mode="FAST_COMPILE") for vars in (None, model["second"]))
    start, verdicts, wrongly_weighted, without = model.initial_point(), [], [], []
    for _ in range(60):
        point = {k: 0.5 + 0.05 * rng.standard_normal(np.shape(v)) for k, v in start.items()}
        other = {k: 1 - v for k, v in point.items()}
        (stat,) = step.step(point)[1]
        expected, of_second = whole(other) - whole(point), second(other) - second(point)
        assert stat["log_ratio"] == pytest.approx(expected, rel=1e-7)
        assert stat["n_rows"] == FIRST + SECOND
        verdicts.append(expected > stat["threshold"])
        assert bool(stat["accepted"]) == verdicts[-1]
        wrongly_weighted.append(expected + (FIRST / SECOND - 1) * of_second > stat["threshold"])
        without.append(expected - of_second > stat["threshold"])
    assert 10 < sum(verdicts) < 50
    assert verdicts != wrongly_weighted
    assert verdicts != without


def lifetimes(n=1_500):
    """Return times, and which of them are of an end that was seen."""
    rng = np.random.default_rng(6)
    time, limit = 9.0 * rng.weibull(1.1, n), rng.uniform(3, 5, n)
    return np.minimum(time, limit), time < limit


def accelerated(time, ended):
    """Weibull lifetimes as the gallery writes them: those that were censored are a Potential."""
    with pm.Model() as model:
        scale, shape = pm.Normal("scale", 0, 10), pm.math.exp(pm.Normal("log_shape", 0, 1))
        beta = pm.math.exp(scale / shape)
        pm.Weibull("ended", alpha=shape, beta=beta, observed=time[ended])
        pm.Potential("censored", -((time[~ended] / beta) ** shape))
    return model


def moments_by_quadrature(time, ended):
    """Return means and standard deviations of (scale, log_shape) from SciPy's densities on a grid."""
    scale, log_shape = np.meshgrid(np.linspace(0.6, 3.6, 67), np.linspace(-0.3, 0.8, 50), indexing="ij")
    density = stats.norm(0, 10).logpdf(scale) + stats.norm(0, 1).logpdf(log_shape)
    shape = np.exp(log_shape)
    law = stats.weibull_min(shape, scale=np.exp(scale / shape))
    density += sum(law.logpdf(t) for t in time[ended]) + sum(law.logsf(t) for t in time[~ended])
    weight = np.exp(density - density.max())
    assert max(weight[[0, -1]].max(), weight[:, [0, -1]].max()) < 1e-6
    return mean_and_sd(density.ravel(), np.column_stack([scale.ravel(), log_shape.ravel()]))


@pytest.mark.slow
def test_censored_lifetimes_are_rows_as_those_that_ended():
    """A gallery model that gave 9 effective draws of 4,000 while only the rows that ended were subsampled."""
    time, ended = lifetimes()
    mean, sd = moments_by_quadrature(time, ended)
    model = accelerated(time, ended)
    idata = sampled(model, pma.PenaltyMH(model=model), 4_000, seed=1)
    draws = [idata.posterior[name].to_numpy() for name in ("scale", "log_shape")]

    def off(mean):
        return np.abs([mean_z(*of) for of in zip(draws, mean, 0.03 * sd)])

    usage = pma.data_usage(idata)
    assert usage["total_rows"] == time.size
    assert usage["mean"] < 0.3 * time.size
    assert min(float(v) for v in az.ess(idata).data_vars.values()) > 1_000
    assert off(mean).max() < 4
    np.testing.assert_allclose(np.std(draws, axis=(1, 2)) / sd, 1, atol=0.06)
    # Negative control: the posterior of a model that forgets what was censored.
    assert off(moments_by_quadrature(time[ended], ended[ended])[0]).max() > 20


def test_gibbs_reads_one_length_and_says_what_to_do():
    with pm.Model():
        label = pm.Bernoulli("label", 0.5, shape=30)
        for name, n in (("many", 900), ("fewer", 600)):
            pm.Normal(name, label[np.arange(n) % 30], 1.0, observed=np.arange(n) / n)
        with pytest.raises(ValueError, match=r"'many': 900, 'fewer': 600.*one set of rows.*with observed=\[...\]"):
            pma.ApproxGibbs([label], factors=np.arange(900).reshape(-1, 4).T)
