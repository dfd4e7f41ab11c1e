"""Several sets of rows of different length are one population, whose log-likelihood is the model's own."""

from contextlib import nullcontext

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from rowwise import built, evaluated, moved
from zoo import COUNT, POSITIVE, REAL, N, X, slopes

from pymc_austerity.likelihood import row_check
from pymc_austerity.likelihood.axis import NotRowWiseError
from pymc_austerity.likelihood.density import Density, interpret_rows
from pymc_austerity.likelihood.layout import flatten
from pymc_austerity.likelihood.model_data import read_model
from pymc_austerity.likelihood.row_likelihood import row_likelihood

FEW = 40


def unequal_groups():
    mu, sigma, nu = pm.Normal("mu", shape=2), pm.HalfNormal("sigma", shape=2), pm.Exponential("nu", 1 / 29)
    pm.StudentT("first", nu=nu + 1, mu=mu[0], sigma=sigma[0], observed=REAL)
    pm.StudentT("second", nu=nu + 1, mu=mu[1], sigma=sigma[1], observed=2 * REAL[:FEW])


def observed_and_censored():
    rate = pm.Exponential("rate", 1.0)
    pm.Exponential("ended", rate, observed=POSITIVE)
    pm.Potential("censored", -rate * POSITIVE[:FEW])


def three_sources():
    beta = slopes()
    pm.Normal("many", X @ beta, 1.0, observed=REAL)
    pm.Normal("pairs", X[:50] @ pm.Normal("both", 0, 1, shape=(3, 2)) + beta[0], 1.0, observed=X[10:, :2])
    pm.Poisson("counts", pt.exp(X[:FEW] @ beta), observed=COUNT[:FEW])


MODELS = {f.__name__: f for f in (unequal_groups, observed_and_censored, three_sources)}


def names_of_outcomes(model):
    """All outcomes: unless they are named, such short ones are part of the prior."""
    return [term.name for term in (*model.observed_RVs, *model.potentials)]


@pytest.mark.parametrize("name", MODELS)
def test_prior_and_rows_of_all_sets_add_up_to_the_full_graph(name):
    model, rng = built(MODELS[name]), np.random.default_rng(3)
    likelihood, source, terms = row_likelihood(model, observed=names_of_outcomes(model))
    assert len(terms.sets) == (3 if name == "three_sources" else 2)
    lengths = [s.n_rows for s in terms.sets]
    assert likelihood.n_rows == sum(lengths)
    rows = likelihood.row_log_likelihood
    outputs = [likelihood.log_prior, rows, pytensor.grad(rows.sum() + likelihood.log_prior, likelihood.theta)]
    evaluate = evaluated(likelihood, outputs)
    full, slope = model.compile_logp(mode="FAST_COMPILE"), model.compile_dlogp(mode="FAST_COMPILE")
    by_set = [model.compile_logp(vars=list(s.all), mode="FAST_COMPILE") for s in terms.sets]
    arrays, empty = source.row_arrays(), np.empty(0)
    for seed in (1, 2):
        point = moved(model.initial_point(), seed=seed)
        theta = flatten(point, likelihood.blocks)
        log_prior, values, gradient = evaluate(theta, empty, *arrays)
        np.testing.assert_allclose(log_prior + values.sum(), full(point), rtol=1e-8)
        np.testing.assert_allclose(gradient, slope(point), rtol=1e-6, atol=1e-8)
        for part, of_set in zip(np.split(values, np.cumsum(lengths)[:-1]), by_set, strict=True):
            np.testing.assert_allclose(part.sum(), of_set(point), rtol=1e-8)
        numbers = rng.integers(0, likelihood.n_rows, 23)
        _, batch, _ = evaluate(theta, empty, *(a[numbers] for a in arrays))
        np.testing.assert_allclose(batch, values[numbers], rtol=1e-9, atol=1e-12)


def test_padding_of_other_sets_keeps_the_density_finite():
    """Zeros there, as scales, would spoil the rows of all sets."""
    with pm.Model() as model:
        mu, scale = pm.Normal("mu"), pm.HalfNormal("scale")
        pm.Normal("y", mu, 1.0, observed=REAL)
        pm.Normal("measured", mu, scale * POSITIVE[:FEW], observed=REAL[:FEW])
    likelihood, source, _ = row_likelihood(model, observed=names_of_outcomes(model))
    rows = likelihood.row_log_likelihood
    outputs = [rows.sum(), pytensor.grad(rows.sum(), likelihood.theta)]
    evaluate = evaluated(likelihood, outputs, mode="FAST_COMPILE")  # in which PyMC's checks give −∞
    (y, *measured, number) = source.row_arrays()
    zeros = [np.where(number == 1, a, 0.0) for a in measured]
    value, gradient = evaluate(np.full(2, 0.1), np.empty(0), y, *measured, number)
    same, spoilt = evaluate(np.full(2, 0.1), np.empty(0), y, *zeros, number)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    assert not np.isfinite(same) or not np.isfinite(spoilt).all()


@pytest.mark.slow
@pytest.mark.parametrize("taken_for_the_first", [False, True])
def test_rows_of_the_second_set_counted_wrongly_are_seen(taken_for_the_first):
    model = built(unequal_groups)
    data = read_model(model, model.value_vars, names_of_outcomes(model), None)
    density = Density(None, interpret_rows(data.likelihood))

    def planted(theta_new, theta, others, *batch, number):
        if taken_for_the_first:
            return density.both_sides(theta_new, theta, others, *batch, np.zeros_like(number))
        return [np.where(number == 1, 0.0, s) for s in density.both_sides(theta_new, theta, others, *batch, number)]

    row_check.check_rows(model, data, density)
    wrong = Density(density.log_prior, lambda *given: planted(*given[:-1], number=given[-1]))
    with pytest.raises(NotRowWiseError, match=r"\['first', 'second'\] at row"):
        row_check.check_rows(model, data, wrong)


def test_new_data_may_have_other_lengths_in_each_set():
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Normal("y", mu, 1.0, observed=pm.Data("y_data", REAL))
        pm.Normal("z", mu * pm.Data("x", X[:FEW, 0]), 2.0, observed=pm.Data("z_data", REAL[:FEW]))
    likelihood, source, _ = row_likelihood(model, observed=["y", "z"])
    evaluate = evaluated(likelihood, [likelihood.log_prior, likelihood.row_log_likelihood])
    full = model.compile_logp(mode="FAST_COMPILE")
    for n, m in ((N, FEW), (7, 50), (N, 1)):
        with model:
            pm.set_data({"y_data": REAL[:n], "z_data": REAL[-m:], "x": X[:m, 1]})
        log_prior, rows = evaluate(np.array([0.4]), np.empty(0), *source.fixed_arrays(), *source.row_arrays())
        assert rows.shape == (n + m,)
        np.testing.assert_allclose(log_prior + rows.sum(), full({"mu": 0.4}))
    with model:
        pm.set_data({"x": X[:2, 0]})
    with pytest.raises(ValueError, match="differ in length.*one pm.set_data call"):
        source.row_arrays()


def test_data_of_another_length_than_total_size_are_refused():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=pm.Data("y_data", REAL), total_size=N)
    _, source, _ = row_likelihood(model)
    with model:
        pm.set_data({"y_data": REAL[:FEW]})
    with pytest.raises(ValueError, match="'y' was given total_size=60 and now has 40 rows"):
        source.row_arrays()


def test_a_shorter_set_that_does_not_split_is_evaluated_in_full(caplog):
    """What is measured of the groups themselves belongs to the entries of the groups, and to no row."""
    x, level = np.tile(X, (15, 1)), np.tile(REAL, 6)
    with pm.Model() as model:
        u = pm.Normal("u", shape=level.size)
        pm.Normal("y", u[np.arange(len(x)) % level.size] + x @ slopes(), 1.0, observed=x[:, 0])
        pm.Normal("level", u, 1.0, observed=level)
    with caplog.at_level("INFO", logger="pymc_austerity"):
        likelihood, _, terms = row_likelihood(model)
    assert ([t.name for t in terms.all], likelihood.n_rows) == (["y"], 900)
    assert "The 360 rows of ['level'] are evaluated in full at every draw: 'level' does not split" in caplog.text
    with pytest.raises(NotRowWiseError, match="'level' does not split"):
        row_likelihood(model, observed=["y", "level"])


def test_few_rows_are_evaluated_in_full_unless_they_are_named(caplog):
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Normal("y", mu, 1.0, observed=REAL)
        pm.Normal("z", mu, 2.0, observed=REAL[:20])
        pm.Normal("many", mu, 2.0, observed=np.tile(REAL, 10))
        pm.Normal("most", mu, 2.0, observed=np.tile(REAL, 11))
    with caplog.at_level("INFO", logger="pymc_austerity"):
        assert row_likelihood(model)[0].n_rows == 21 * N
        assert row_likelihood(model, observed=["y", "z"])[0].n_rows == N + 20
    assert "The 60 rows of ['y'] are evaluated in full at every draw: there are fewer than" in caplog.text
    assert "The 20 rows of ['z'] are evaluated in full at every draw: there are fewer than" in caplog.text
    assert "one population of 80: 60 of ['y'], 20 of ['z']" in caplog.text


@pytest.mark.parametrize("n_effects", [10, 6_000])
def test_a_potential_longer_than_its_variables_is_warned_of(n_effects):
    """One of as many entries as a variable is a prior, which groups read in part."""
    with pm.Model() as model:
        u = pm.Normal("u", shape=n_effects)
        pm.Normal("y", u[np.arange(10 * N) // 2 % n_effects], 1.0, observed=np.tile(REAL, 10))
        pm.Potential("more", -(u[np.arange(6_000) % n_effects] ** 2).cumsum()[::-1])
    with nullcontext() if n_effects == 6_000 else pytest.warns(UserWarning, match="more.*6000.*evaluated in full"):
        row_likelihood(model, observed="y")
