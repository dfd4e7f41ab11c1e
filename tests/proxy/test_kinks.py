"""Rows with kinks are expanded by what is rounded there, and decided as they are."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from known_sums import changes, error_of_log_ratios, sums_at

import pymc_austerity as pma
from pymc_austerity.likelihood.row_likelihood import row_likelihood
from pymc_austerity.proxy import with_kinks_rounded
from pymc_austerity.proxy.expansion import Expansion
from pymc_austerity.rows.storage import Rows

N = 20_000
RNG = np.random.default_rng(44)
X = RNG.normal(size=N)
Y = 0.5 + RNG.laplace(size=N)


def normal(mean, of_x):
    """Normal rows whose mean has a kink where x is 0.4."""
    values = of_x(X) + RNG.normal(size=N)
    return lambda b: pm.Normal("y", mean(b) + b[1], 1, observed=values)


KINKS = {
    "absolute": lambda b: pm.Laplace("y", b[0] + b[1] * X, 1, observed=Y),
    "asymmetric": lambda b: pm.AsymmetricLaplace("y", b=1, mu=b[0] + b[1] * X, q=0.8, observed=Y),
    "larger": normal(lambda b: pt.maximum(X - b[0], 0), lambda x: np.maximum(x - 0.4, 0)),
    "smaller": normal(lambda b: pt.minimum(b[0], X), lambda x: np.minimum(0.4, x)),
}


def huber(b):
    size = pt.abs(pm.Data("Y", Y) - b[0] - b[1] * pm.Data("X", X))
    pm.Potential("loss", -pt.switch(size < 1.5, 0.5 * size**2, 1.5 * size - 1.125))


def scale_of_all(b):
    pm.Normal("y", b[0], pt.abs(b[1]) + 0.5, observed=Y)


def rounded(rows):
    """Return the likelihood of a model with two coefficients, its rows rounded, and the data."""
    with pm.Model() as model:
        rows(pm.Normal("b", 0, 1, shape=2, initval=[0.3, 0.2]))
    likelihood, source, _ = row_likelihood(model)
    data = Rows(source.row_arrays())
    return with_kinks_rounded(likelihood, data, (), np.array([0.3, 0.2])), data


@pytest.mark.parametrize("kind", KINKS)
def test_remainders_and_known_sum_are_the_log_likelihood(kind):
    likelihood, data = rounded(KINKS[kind])
    assert likelihood.rounded is not None
    centre, ends = np.array([0.45, 0.05]), (np.array([0.5, 0.0]), np.array([0.47, 0.03]))

    def added_up(summed):
        sums = sums_at(summed, centre, data)
        return changes(likelihood, data, Expansion(centre, np.arange(2), sums.gradient, sums.hessian), ends)

    found, expected = added_up(likelihood)
    assert found == pytest.approx(expected, rel=1e-9)
    if kind == "absolute":  # planted: the known sum is that of the rows themselves
        assert added_up(replace(likelihood, rounded=None))[0] != pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize("rows", [huber, scale_of_all])
def test_rows_whose_sum_bends_as_much_without_stay_as_they_are(rows):
    likelihood, _ = rounded(rows)
    assert likelihood.rounded is None


@pytest.mark.slow
def test_a_median_is_decided_as_it_is_and_on_few_rows():
    with pm.Model() as model:
        pm.Laplace("y", pm.Normal("median", 0, 1), 1, observed=Y)
        step = pma.PenaltyMH(progressbar=False)
        on_all = pma.PenaltyMH(batch_size=N, rows=pma.Uniform(), proposal=pma.CrankNicolson())
        idata = pm.sample(500, tune=500, step=step, chains=1, cores=1, random_seed=5, progressbar=False)
    assert idata.sample_stats["n_rows"].mean() < 300
    assert on_all.decider.compiled.read.rounded is not None
    assert error_of_log_ratios(on_all, model) < 1e-6
