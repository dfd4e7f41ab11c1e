"""Rows with kinks are expanded by what is rounded there, and decided as they are."""

from dataclasses import replace

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from known_sums import changes, error_of_log_ratios, sums_at
from pytensor.graph.traversal import toposort

import pymc_austerity as pma
from pymc_austerity.likelihood.row_likelihood import row_likelihood
from pymc_austerity.proxy import comparisons, kinks, with_kinks_rounded
from pymc_austerity.proxy.expansion import Expansion
from pymc_austerity.proxy.kink_widths import find_widths
from pymc_austerity.rows.storage import Rows

N = 20_000
RNG = np.random.default_rng(44)
X = RNG.normal(size=N)
Y = 0.5 + RNG.laplace(size=N)


def hinge(of_x):
    """Laplace rows whose mean has a kink where x is 0.4."""
    return lambda b: pm.Laplace("y", of_x(b[0]) + b[1], 1, observed=np.maximum(X - 0.4, 0) + Y)


#: Rows, and the numbers that are zero at their kinks.
KINKS = {
    "absolute": (lambda b: pm.Laplace("y", b[0] + b[1] * X, 1, observed=Y), 1),
    "asymmetric": (lambda b: pm.AsymmetricLaplace("y", b=1, mu=b[0] + b[1] * X, q=0.8, observed=Y), 1),
    "larger": (hinge(lambda knot: pt.maximum(X - knot, 0)), 2),
    "smaller": (hinge(lambda knot: -pt.minimum(0, knot - X)), 2),
    "clipped": (hinge(lambda knot: pt.clip(X - knot, 0, np.inf)), 2),
    "clipped twice": (hinge(lambda knot: pt.clip(X - knot, 0, 1)), 3),
    "by cases": (hinge(lambda knot: pt.switch(knot < X, X - knot, 0)), 2),
    "compared": (hinge(lambda knot: (X - knot) * (knot < X)), 2),
    "compared as whole numbers": (hinge(lambda knot: (X - knot) * pt.cast(knot <= X, "int64")), 2),
    "between": (hinge(lambda knot: pt.switch((knot < X) & (knot + 1 >= X), X - knot, 1.0 * (knot < X))), 3),
    "several knots": (lambda b: pm.Laplace("y", ((X[:, None] - b) * (X[:, None] > b)).sum(1), 1, observed=Y), 2),
    "a loss": (lambda b: quantile_loss(b, lambda r: r * (0.8 - (r < 0))), 1),
    "a loss by cases": (lambda b: quantile_loss(b, lambda r: pt.switch(r >= 0, 0.8 * r, -0.2 * r)), 1),
}


def quantile_loss(b, loss):
    pm.Potential("loss", -loss(pm.Data("Y", Y) - b[0] - b[1] * pm.Data("X", X)))


def huber(b):
    size = pt.abs(pm.Data("Y", Y) - b[0] - b[1] * pm.Data("X", X))
    pm.Potential("loss", -pt.switch(size < 1.5, 0.5 * size**2, 1.5 * size - 1.125))


def scale_of_all(b):
    pm.Normal("y", b[0], pt.abs(b[1]) + 0.5, observed=Y)


def jump(b):
    pm.Normal("y", pt.switch(b[0] < X, b[1], 0), 1, observed=Y)


def one_function_by_cases(b):
    """PyMC writes the logarithm of a normal tail by cases."""
    pm.Censored("y", pm.Normal.dist(b[0] + b[1] * X, 1), lower=0, upper=None, observed=np.maximum(Y, 0))


def categories(b):
    """PyMC 5 limits the number of the category by the shape of what depends on the parameters."""
    pm.Categorical("y", logit_p=pt.stack([b[0] * X, b[1] + X], axis=1), observed=(Y > 0.5).astype(int))


def no_number_on_the_other_side(b):
    x = pm.Data("X", X)
    pm.Potential("y", -pt.switch(x > b[0], pt.sqrt(x - b[0]), 0) + b[1])


def rounded(rows):
    """Return the likelihood of a model with two coefficients, its rows rounded, and the data."""
    with pm.Model() as model:
        rows(pm.Normal("b", 0, 1, shape=2, initval=[0.3, 0.2]))
    likelihood, source, _ = row_likelihood(model)
    data = Rows(source.row_arrays())
    return with_kinks_rounded(likelihood, data, (), np.array([0.3, 0.2])), data


@pytest.mark.parametrize("kind", KINKS)
def test_remainders_and_known_sum_are_the_log_likelihood(kind, monkeypatch):
    widths = []
    monkeypatch.setattr(kinks, "find_widths", lambda *given: widths.append(find_widths(*given)) or widths[0])
    rows, n_numbers = KINKS[kind]
    likelihood, data = rounded(rows)
    assert len(widths[0]) == n_numbers
    centre, ends = np.array([0.45, 0.05]), (np.array([0.5, 0.0]), np.array([0.47, 0.03]))

    def added_up(summed):
        sums = sums_at(summed, centre, data)
        return changes(likelihood, data, Expansion(centre, np.arange(2), sums.gradient, sums.hessian), ends)

    found, expected = added_up(likelihood)
    assert found == pytest.approx(expected, rel=1e-9)
    if kind == "absolute":  # planted: the known sum is that of the rows themselves
        assert added_up(replace(likelihood, rounded=None))[0] != pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize(
    "rows", [huber, scale_of_all, jump, one_function_by_cases, no_number_on_the_other_side, categories]
)
def test_rows_without_a_kink_that_matters_stay_as_they_are(rows):
    likelihood, _ = rounded(rows)
    assert likelihood.rounded is None


def test_kinks_are_found_in_rows_that_are_sorted():
    """The first rows lie all on one side of the knot."""
    x = np.sort(X)
    with pm.Model() as model:
        knot, slope = pm.Normal("knot", 0, 1), pm.Normal("slope", 0, 1, initval=1.0)
        pm.Laplace("y", slope * pt.switch(x > knot, x - knot, 0), 1, observed=np.maximum(x - 0.4, 0) + Y)
    likelihood, source, _ = row_likelihood(model)
    compared = [node for node in toposort([likelihood.row_log_likelihood]) if str(node.op).lower().startswith("gt")]
    start = np.array([0.4, 1.0])
    assert comparisons.with_kinks(compared, likelihood, Rows(source.row_arrays()), (), start) == compared
    first = Rows(tuple(a[:1_000] for a in source.row_arrays()))
    assert not comparisons.with_kinks(compared, likelihood, first, (), start)  # planted: the first rows are looked at


def test_a_jump_is_known_by_rows_at_two_distances(monkeypatch):
    monkeypatch.setattr(comparisons, "_OF_A_KINK", 0.0)
    assert rounded(jump)[0].rounded is not None  # planted: a comparison on whose sides rows differ is taken for a kink


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_widths_are_those_of_the_posterior(unit):
    """Of a median the posterior variance is s / (2 n f(0)), with s the scale and f the density of the rows."""
    with pm.Model() as model:
        pm.Laplace("y", pm.Normal("median", 0, unit), unit, observed=Y * unit)
    likelihood, source, _ = row_likelihood(model)
    with pytest.MonkeyPatch.context() as patch:
        found = []
        patch.setattr(kinks, "find_widths", lambda *given: found.append(find_widths(*given)))
        with_kinks_rounded(likelihood, Rows(source.row_arrays()), (), np.array([0.0]))
    assert found[0] / unit == pytest.approx(1 / np.sqrt(N), rel=0.3)


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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["asymmetric", "a loss", "a loss by cases"])
def test_a_quantile_is_decided_on_few_rows_however_it_is_written(kind):
    """The posterior as quadrature has it; that of the median is off by many of its standard deviations."""
    with pm.Model():
        b = pm.Normal("b", 0, 1, shape=2)
        KINKS[kind][0](b)
        step = pma.PenaltyMH(progressbar=False)
        idata = pm.sample(1_000, tune=500, step=step, chains=2, cores=1, random_seed=6, progressbar=False)
    assert idata.sample_stats["n_rows"].mean() < 600
    draws = idata.posterior["b"].to_numpy()
    assert min(az.ess(draws[..., k]) for k in range(2)) > 200
    for q, right in ((0.8, True), (0.79, False)):
        means = posterior_means(q, 2.5 if kind == "asymmetric" else 1.0)
        z = [(draws[..., k].mean() - means[k]) / az.mcse(draws[..., k]) for k in range(2)]
        assert (np.abs(z).max() < 4) == right, z


def posterior_means(q, weight):
    """Return the posterior means of both coefficients by quadrature, where rows are `weight` times the loss."""
    intercepts, slopes = np.linspace(1.2, 1.7, 81), np.linspace(-0.15, 0.15, 41)
    residuals = Y[:, None] - slopes * X[:, None]
    log_p = np.array([-weight * np.where((r := residuals - a) > 0, q * r, (q - 1) * r).sum(0) for a in intercepts])
    p = np.exp(log_p - log_p.max() - (intercepts[:, None] ** 2 + slopes**2) / 2)
    return np.array([p.sum(1) @ intercepts, p.sum(0) @ slopes]) / p.sum()
