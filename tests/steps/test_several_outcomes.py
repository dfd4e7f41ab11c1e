"""Steps on models whose outcomes have different lengths: decisions, rows and posteriors are those of all outcomes."""

import arviz as az
import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z, moment_z
from scipy import interpolate, special, stats
from toy import Toggle

import pymc_austerity as pma

FIRST, SECOND = 60, 40


def two_groups(n, m, seed=1):
    rng = np.random.default_rng(seed)
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
    whole, second = (
        model.compile_logp(mode="FAST_COMPILE"),
        model.compile_logp(vars=model["second"], mode="FAST_COMPILE"),
    )
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


def moments_of_two_groups(first, second, weight=1.0):
    """Return means and standard deviations of (nu, mu, sigma) on a grid, with `weight` for rows of the second group.

    Given nu the groups are independent: the two numbers of each are a grid by themselves.
    """
    excess = np.exp(np.linspace(0.7, 1.6, 31))  # of nu over one
    nu = 1 + excess
    log_p, groups = stats.expon(scale=29).logpdf(excess) + np.log(excess), []
    for rows, count in ((first, 1.0), (second, weight)):
        mu = np.median(rows) + 7 * stats.iqr(rows) / np.sqrt(rows.size * count) * np.linspace(-1, 1, 25)
        log_sigma = np.log(stats.iqr(rows) / 1.48) + 10 / np.sqrt(rows.size * count) * np.linspace(-1, 1, 31)
        log_width = np.log(nu)[:, None] + 2 * log_sigma
        # Of nu and sigma the rows know the width alone, and their sum is a smooth function of its logarithm.
        knots = np.linspace(log_width.min(), log_width.max(), 40)
        of_knots = [np.log1p((rows - m) ** 2 / np.exp(knots)[:, None]).sum(axis=-1) for m in mu]
        logs = np.moveaxis(interpolate.CubicSpline(knots, of_knots, axis=1)(log_width), 0, 1)
        of_a_row = special.gammaln((nu + 1) / 2) - special.gammaln(nu / 2) - 0.5 * np.log(nu * np.pi)
        density = rows.size * (of_a_row[:, None, None] - log_sigma) - (nu[:, None, None] + 1) / 2 * logs
        prior = stats.norm(0, 10).logpdf(mu)[:, None] + stats.halfnorm(scale=5).logpdf(np.exp(log_sigma)) + log_sigma
        joint = np.exp(count * density + prior - (count * density + prior).max(axis=(1, 2), keepdims=True))
        log_p += np.log(joint.sum(axis=(1, 2))) + (count * density + prior).max(axis=(1, 2))
        groups.append((joint / joint.sum(axis=(1, 2), keepdims=True), mu, np.exp(log_sigma)))
    p = special.softmax(log_p)
    marginals = [(excess, p)]
    for axis in (1, 2):  # of mu, then of sigma
        marginals += [(group[axis], p @ group[0].sum(axis=3 - axis)) for group in groups]
    found = []
    for x, of_x in marginals:
        mean = x @ of_x
        found.append((mean, np.sqrt((x - mean) ** 2 @ of_x)))
        # A grid that is finer than the standard deviation integrates what falls off like a normal density.
        assert np.diff(x).max() < found[-1][1]
        assert of_x[[0, -1]].max() < 1e-6
    return found


@pytest.mark.slow
def test_the_posterior_of_two_unequal_groups():
    n, m = 4_000, 1_500
    with two_groups(n, m) as model:
        ours = pm.sample(
            4_000, tune=500, step=pma.PenaltyMH(progressbar=False), chains=2, cores=1, random_seed=6,
            progressbar=False, compute_convergence_checks=False,
        )  # fmt: skip
    usage = pma.data_usage(ours)
    assert usage["total_rows"] == n + m
    assert usage["mean"] < 0.1 * (n + m)
    posterior = ours.posterior
    draws = [posterior["nu"], *(posterior[name][..., k] for name in ("mu", "sigma") for k in (0, 1))]
    rows = [model.rvs_to_values[model[name]].data for name in ("first", "second")]

    def largest_z(weight=1.0):
        expected = moments_of_two_groups(*rows, weight)
        return max(np.abs(moment_z(x.to_numpy(), *of_x)).max() for x, of_x in zip(draws, expected, strict=True))

    assert largest_z() < MAX_Z
    # Negative control: rows of the second group that count as much as the first group's many.
    assert largest_z(n / m) > 3 * MAX_Z


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
    grid = np.stack([scale, log_shape])
    mean = np.average(grid, axis=(1, 2), weights=np.broadcast_to(weight, grid.shape))
    squares = (grid - mean[:, None, None]) ** 2
    return mean, np.sqrt(np.average(squares, axis=(1, 2), weights=np.broadcast_to(weight, grid.shape)))


@pytest.mark.slow
def test_censored_lifetimes_are_rows_as_those_that_ended():
    """A gallery model that gave 9 effective draws of 4,000 while only the rows that ended were subsampled."""
    time, ended = lifetimes()
    mean, sd = moments_by_quadrature(time, ended)
    with accelerated(time, ended):
        idata = pm.sample(
            4_000, tune=500, step=pma.PenaltyMH(), chains=2, cores=1, random_seed=1, progressbar=False, quiet=True,
            compute_convergence_checks=False,
        )  # fmt: skip
    draws = np.array([idata.posterior[name].to_numpy() for name in ("scale", "log_shape")])
    error = np.array([float(az.mcse(idata, method="mean")[name]) for name in ("scale", "log_shape")])

    def off(mean):
        return np.abs(draws.mean(axis=(1, 2)) - mean) / np.hypot(error, 0.03 * sd)

    assert int(idata.sample_stats["total_rows"][0, 0]) == time.size
    assert min(float(v) for v in az.ess(idata).data_vars.values()) > 1_000
    assert off(mean).max() < 4
    np.testing.assert_allclose(draws.std(axis=(1, 2)) / sd, 1, atol=0.06)
    # Negative control: the posterior of a model that forgets what was censored.
    assert off(moments_by_quadrature(time[ended], ended[ended])[0]).max() > 20


def outcomes_of_groups():
    rng = np.random.default_rng(9)
    with pm.Model() as model:
        slope, level = pm.Normal("slope"), pm.Normal("level", 0, pm.HalfNormal("spread"), shape=30)
        for name, n in (("many", 900), ("fewer", 600)):
            predictor = slope * rng.normal(size=n) + level[np.arange(n) % 30]
            pm.Bernoulli(name, logit_p=predictor, observed=rng.integers(0, 2, n))
    return model


def outcomes_of_labels():
    rng = np.random.default_rng(9)
    with pm.Model() as model:
        label = pm.Bernoulli("label", 0.5, shape=4)
        for name, n in (("many", 900), ("fewer", 600)):
            pm.Normal(name, label[np.arange(n) % 4], 1.0, observed=rng.normal(size=n))
    return model


FACTORS = np.arange(900).reshape(-1, 4).T
ONE_SET = r"'many': 900, 'fewer': 600.*one set of rows.*with observed=\[...\]"


@pytest.mark.parametrize(
    ("step", "build", "remedy"),
    [
        (lambda model: pma.GroupMH(), outcomes_of_groups, ONE_SET),
        (lambda model: pma.ApproxGibbs([model["label"]], factors=FACTORS), outcomes_of_labels, ONE_SET),
    ],
)
def test_steps_that_read_one_length_say_what_to_do(step, build, remedy):
    with build() as model, pytest.raises(ValueError, match=remedy):
        step(model)
