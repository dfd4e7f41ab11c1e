"""Log-likelihoods and posterior predictive draws of chosen rows."""

import warnings

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from draws_at_hand import (
    GROUP,
    REAL,
    SEEN,
    G,
    N,
    X,
    draws_of,
    groups,
    in_blocks,
    model_of,
    paired,
    run_of,
    two_outcomes,
    unknown_scale,
)

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import group
from pymc_austerity.prediction.log_likelihood import chosen_rows

QUIET = {"progressbar": False}


def in_full(model, idata):
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pm.compute_log_likelihood(idata, extend_inferencedata=False, **QUIET)


@pytest.mark.parametrize("define", [unknown_scale, groups, paired], ids=lambda one: one.__name__)
def test_log_likelihood_is_that_of_pymc(define):
    """Entries are those of PyMC's matrix, in the order in which rows were asked for."""
    model = model_of(define)
    idata = draws_of(model, 0.2, draws=20)
    full = in_full(model, idata)["y"].to_numpy()
    for rows in (slice(10, 40), np.array([7, 2, 2_999, 0]), 50):
        found = pma.log_likelihood(idata, model, rows=rows, random_seed=3, **QUIET)
        numbers = found["row"].to_numpy()
        if not isinstance(rows, int):
            np.testing.assert_array_equal(numbers, np.arange(N)[rows])
        assert found["y"].dims == ("chain", "draw", "row")
        np.testing.assert_allclose(found["y"], full[..., numbers], rtol=1e-8, atol=1e-9)


def test_log_likelihood_of_several_variables():
    """Rows of a second variable follow those of the first, unless one of them is named."""
    model = model_of(two_outcomes)
    idata = draws_of(model, 0.03, draws=20)
    full = in_full(model, idata)
    both = pma.log_likelihood(idata, model, rows=[5, N + 7], **QUIET)
    (name,) = both.data_vars
    assert set(name.split("+")) == {"y", "w"}
    np.testing.assert_allclose(both[name][..., 0], full["y"][..., 5])
    np.testing.assert_allclose(both[name][..., 1], full["w"][..., 7])
    one = pma.log_likelihood(idata, model, rows=[7], observed="w", **QUIET)
    np.testing.assert_allclose(one["w"][..., 0], full["w"][..., 7])


def test_rows_of_blocks_are_those_of_the_table():
    """In the order in which rows were asked for, with the outcomes of the table."""
    whole, example, table = in_blocks()
    idata = draws_of(whole, 0.05, draws=20)
    options = {"rows": [2_000, 3, 1_500], "random_seed": 1, **QUIET}
    in_memory = pma.log_likelihood(idata, whole, **options)
    xr.testing.assert_allclose(in_memory, pma.log_likelihood(idata, example, **options, data=table))
    for quantiles in (None, [0.1]):
        expected = pma.posterior_predictive(idata, whole, **options, quantiles=quantiles)
        found = pma.posterior_predictive(idata, example, **options, quantiles=quantiles, data=table)
        for name in ("posterior_predictive", "observed_data"):
            xr.testing.assert_equal(group(found, name), group(expected, name))


@pytest.mark.slow
def test_predictions_of_an_example_are_refused():
    """Rows of the containers are not those of the run; new rows are whatever they are."""
    _, example, table = in_blocks()
    with example:
        step = pma.PenaltyMH(data=table, progressbar=False)
        idata = pm.sample(20, tune=20, chains=2, cores=1, step=step, compute_convergence_checks=False, **QUIET)
    with pytest.raises(ValueError, match="on rows that the model does not hold.*as data="):
        pma.posterior_predictive(idata, example, rows=[3], **QUIET)
    new = {"new": {"x": X[:2]}, **QUIET}
    assert group(pma.posterior_predictive(idata, example, **new), "predictions")["y"].shape == (2, 20, 2)
    in_another_order = pma.Blocks({"x": X[::-1], "seen": SEEN[::-1].astype(int)})
    with pytest.raises(ValueError, match="made with other rows than .*, or its data="):
        pma.posterior_predictive(idata, example, rows=[3], data=in_another_order, **QUIET)
    with pytest.raises(ValueError, match="new= and data= both say"):
        pma.posterior_predictive(idata, example, data=table, **new)


def regression():
    """Return a model whose predictive distribution is known, and draws of it."""
    with pm.Model() as model:
        u = pm.Normal("u", shape=G)
        pm.Normal("y", u[GROUP], 1, observed=REAL)
    means = np.linspace(-2, 2, G)
    draws = means + 0.5 * np.random.default_rng(1).normal(size=(4, 500, G))
    return model, means, run_of(posterior=xr.Dataset({"u": (("chain", "draw", "group"), draws)}))


def test_predictions_have_their_law():
    """Draws of row i are N(mean of its group, 1 + 0.5²): no error of means or sds is beyond 4.5 of its own."""
    model, means, idata = regression()
    numbers = np.arange(2_960, N)[::-1]
    found = pma.posterior_predictive(idata, model, rows=numbers, random_seed=1, **QUIET)
    drawn = group(found, "posterior_predictive")["y"]
    np.testing.assert_array_equal(drawn["row"], numbers)
    np.testing.assert_array_equal(group(found, "observed_data")["y"], REAL[numbers])
    sd = np.sqrt(1.25)

    def score(of_rows):
        of_mean = (drawn.mean(["chain", "draw"]) - means[GROUP[of_rows]]) / (sd / np.sqrt(2_000))
        of_sd = (drawn.std(["chain", "draw"]) - sd) / (sd / np.sqrt(4_000))
        return max(np.abs(of_mean).max(), np.abs(of_sd).max())

    assert score(numbers) < 4.5
    assert score(numbers - 1) > 20  # as if the rows before them had been asked for


def test_rows_of_effects_that_are_repeated():
    drawn = []
    for write in (lambda u: pt.repeat(u, N // G), lambda u: u[np.repeat(np.arange(G), N // G)]):
        with pm.Model() as model:
            pm.Normal("y", write(pm.Normal("u", shape=G)), 1, observed=REAL)
        options = {"rows": [3, N - 1, 700], "random_seed": 1, **QUIET}
        found = pma.posterior_predictive(regression()[2], model, **options)
        drawn.append(group(found, "posterior_predictive")["y"].to_numpy())
    np.testing.assert_array_equal(*drawn)


def test_entries_of_a_table_are_its_rows():
    """Persons by items with an effect of each: predictions are those of the same rows written long."""
    i, j = np.indices((30, 20)).reshape(2, -1)
    drawn = []
    for table in (True, False):
        with pm.Model() as model:
            u, v = pm.Normal("u", shape=30), pm.Normal("v", shape=20)
            observed = REAL[:600].reshape(30, 20)
            if table:
                pm.Normal("y", u[:, None] + v, 1, observed=observed)
            else:
                pm.Normal("y", u[i] + v[j], 1, observed=observed.ravel())
        found = pma.posterior_predictive(draws_of(model, 0.1), model, rows=[3, 599, 40], random_seed=1, **QUIET)
        np.testing.assert_array_equal(group(found, "observed_data")["y"], observed.ravel()[[3, 599, 40]])
        drawn.append(group(found, "posterior_predictive")["y"].to_numpy())
    np.testing.assert_array_equal(*drawn)


def test_rows_and_draws_go_together():
    """The same seed takes the same rows for log-likelihoods and predictions, which ArviZ takes as one run."""
    model, _, idata = regression()
    options = {"rows": 200, "random_seed": 5, **QUIET}
    predicted, of_rows = pma.posterior_predictive(idata, model, **options), pma.log_likelihood(idata, model, **options)
    np.testing.assert_array_equal(group(predicted, "observed_data")["row"], of_rows["row"])
    names = "posterior_predictive", "observed_data"
    run = run_of(posterior=group(idata, "posterior"), log_likelihood=of_rows)
    for name in names:
        run[name] = predicted[name] if isinstance(predicted, xr.DataTree) else group(predicted, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pit = az.loo_pit(run, y="y") if hasattr(run, "add_groups") else az.loo_pit(run, var_names="y")["y"]
    assert np.asarray(pit).shape == (200,)
    assert 0.2 < float(np.mean(pit)) < 0.8


def test_several_lengths_want_a_name():
    model = model_of(two_outcomes)
    idata = draws_of(model, 0.03, draws=5)
    with pytest.raises(ValueError, match="Say in observed= which"):
        pma.posterior_predictive(idata, model, rows=3, **QUIET)
    with pytest.raises(ValueError, match=r"observed='v' must be one of \['y', 'w'\]"):
        pma.posterior_predictive(idata, model, rows=3, observed="v", **QUIET)
    found = pma.posterior_predictive(idata, model, rows=3, observed="y", random_seed=1, **QUIET)
    assert list(group(found, "posterior_predictive").data_vars) == ["y"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([3, 500], "rows= has 500, and rows have the numbers from 0 to 99"),
        ([-1], "rows= has -1"),
        (slice(100, None), "leaves none of 100 rows"),
        ([], "must be a whole number"),
        ("all", "f: rows='all' must be a whole number, of rows to draw at random, a slice"),
        (0.5, "must be a whole number"),
        ([[1, 2]], "must be a whole number"),
        (np.ones(100, bool), "must be a whole number"),
    ],
)
def test_wrong_rows(rows, message):
    with pytest.raises((TypeError, ValueError), match=message):
        chosen_rows(rows, 100, None, "f")


def test_sampled_rows_are_distinct_and_uniform():
    rng = np.random.default_rng(1)
    taken = np.concatenate([chosen_rows(10, 40, rng, "f") for _ in range(400)])
    counts = np.bincount(taken, minlength=40)
    assert all(len(set(taken[k : k + 10])) == 10 for k in range(0, 4_000, 10))
    assert ((counts - 100) ** 2).sum() / 75 < 80  # chi-squared of 39
