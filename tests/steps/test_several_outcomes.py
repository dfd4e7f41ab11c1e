"""Steps on models whose outcomes have different lengths: decisions, rows and posteriors are those of all outcomes."""

import numpy as np
import pymc as pm
import pytest
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


@pytest.mark.contract
def test_decisions_are_those_of_the_log_density_of_all_outcomes():
    model, rng = two_groups(FIRST, SECOND), np.random.default_rng(2)
    step = pma.ExactMH(proxy=None, proposal=Toggle(), tune=False, observed=["first", "second"], model=model, rng=3)
    whole, second = (
        model.compile_logp(mode="FAST_COMPILE"),
        model.compile_logp(vars=model["second"], mode="FAST_COMPILE"),
    )
    verdicts, wrongly_weighted, without = [], [], []
    for _ in range(60):
        point = {k: 0.5 + 0.05 * rng.standard_normal(np.shape(v)) for k, v in model.initial_point().items()}
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


@pytest.mark.slow
def test_the_posterior_of_two_unequal_groups_is_that_of_nuts():
    n, m = 4_000, 1_500
    options = {"chains": 2, "cores": 1, "random_seed": 6, "progressbar": False, "compute_convergence_checks": False}
    with two_groups(n, m):
        exact = pm.sample(2_000, tune=500, **options)
        ours = pm.sample(4_000, tune=500, step=pma.PenaltyMH(progressbar=False), **options)
    usage = pma.data_usage(ours)
    assert usage["total_rows"] == n + m
    assert usage["mean"] < 0.1 * (n + m)
    table = pma.compare({"ours": ours, "exact": exact}, reference="exact").xs("ours", level="run")
    assert (table["shift"].abs() < 4.5 * table["shift_mcse"]).all()
    assert ((table["sd_ratio"] - 1).abs() < 4.5 * table["sd_ratio_mcse"]).all()
    # Rows of the second group that counted as much as the first group's many would have narrowed what they speak of.
    of_second = table.loc["mu[1]"]
    assert abs(of_second["sd_ratio"] - np.sqrt(m / n)) > 4.5 * of_second["sd_ratio_mcse"]
