"""Models that bambi builds: those that split into rows, and those that are refused in words."""

import numpy as np
import pandas as pd
import pytest

import pymc_austerity as pma
from pymc_austerity.likelihood.density import Density, interpret_rows
from pymc_austerity.likelihood.model_data import read_model
from pymc_austerity.likelihood.row_check import check_rows

bmb = pytest.importorskip("bambi", exc_type=ImportError)

N = 400
rng = np.random.default_rng(5)
x = rng.normal(size=N)
group = rng.integers(0, 8, N)
DATA = pd.DataFrame(
    {
        "x": x,
        "z": rng.normal(size=N),
        "g": pd.Categorical([f"g{k}" for k in group]),
        "level": 1 + 0.5 * x + 0.3 * rng.normal(size=N),
        "yes": rng.binomial(1, 1 / (1 + np.exp(-x))),
        "count": rng.poisson(np.exp(0.3 * x)) * rng.binomial(1, 0.7, N),
        "choice": pd.Categorical(rng.choice(["a", "b", "c"], N)),
    }
)


def built(formula, **options):
    model = bmb.Model(formula, DATA, **options)
    model.build()
    return model


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("yes ~ x + (1|g)", "bernoulli"),
        ("count ~ x", "zero_inflated_poisson"),
        ("choice ~ x", "categorical"),
        ("level ~ z + bs(x, df=5)", "gaussian"),
        ("level ~ hsgp(x, m=8, c=1.5)", "gaussian"),
    ],
)
def test_rows_are_those_of_the_model(formula, family):
    model = built(formula, family=family).backend.model
    data = read_model(model, model.value_vars, None, None)
    check_rows(model, data, Density(None, interpret_rows(data.likelihood)))
    assert data.likelihood.n_rows == N


@pytest.mark.slow
def test_fit_takes_a_step_that_was_given_the_model():
    model = built("yes ~ x", family="bernoulli")
    step = pma.PenaltyMH(model=model.backend.model, progressbar=False)
    found = model.fit(
        draws=300, tune=200, chains=2, cores=1, random_seed=1, step=step, progressbar=False,
        compute_convergence_checks=False,
    )  # fmt: skip
    assert {"Intercept", "x"} <= set(found.posterior.data_vars)
    # A slope of 1, known to within a seventh from 400 rows.
    assert 0.5 < float(found.posterior["x"].mean()) < 1.5
    assert not bool(found.sample_stats["full_data"].all())
