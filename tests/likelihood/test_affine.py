"""The Hessian by structure: where a linear predictor is found, and that it changes no number."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.replace import graph_replace

from pymc_austerity.likelihood.affine import row_predictor
from pymc_austerity.likelihood.row_likelihood import row_likelihood
from pymc_austerity.proxy import row_sums
from pymc_austerity.proxy.full_pass import FullPass, read_coordinates
from pymc_austerity.rows.storage import Rows

RNG = np.random.default_rng(31)
X, GROUP, LABELS = RNG.normal(size=(60, 3)), RNG.integers(0, 4, 60), RNG.integers(0, 2, 60)
COUNTS, EXPOSURE = RNG.poisson(1.0, 60), RNG.uniform(0.5, 1, 60)


def grouped_logistic():
    a, b = pm.Normal("a", 0, pm.HalfNormal("scale", 1), shape=4), pm.Normal("b", 0, 1, shape=3)
    pm.Bernoulli("y", logit_p=a[GROUP] + X @ b, observed=LABELS)


def poisson_with_exposure():
    base, b = pm.Normal("base", 0, 1), pm.Normal("b", 0, 1, shape=3)
    pm.Poisson("y", EXPOSURE * pt.exp(base + X @ b), observed=COUNTS)


def known_scale():
    pm.Normal("y", X @ pm.Normal("b", 0, 1, shape=3), EXPOSURE, observed=X[:, 0])


def unknown_scale():
    pm.Normal("y", X @ pm.Normal("b", 0, 1, shape=3), pm.HalfNormal("s", 1), observed=X[:, 0])


def scale_with_a_predictor():
    b = pm.Normal("b", 0, 1, shape=3)
    pm.Normal("y", X @ b, pt.exp(X @ b[::-1]), observed=X[:, 0])


def softmax():
    pm.Categorical("y", logit_p=pt.dot(X, pm.Normal("b", 0, 1, shape=(3, 3))), observed=GROUP % 3)


def squared_coefficients():
    pm.Bernoulli("y", logit_p=X @ pm.Normal("b", 0, 1, shape=3) ** 2, observed=LABELS)


def product_of_coefficients():
    pm.Bernoulli("y", logit_p=pm.Normal("c", 0, 1) * (X @ pm.Normal("b", 0, 1, shape=3)), observed=LABELS)


def of(build):
    with pm.Model() as model:
        build()
    likelihood, source, _ = row_likelihood(model)
    return likelihood, Rows(source.row_arrays())


def predictor(likelihood):
    assert likelihood.other_blocks == ()
    return row_predictor(likelihood.row_log_likelihood, likelihood.theta, likelihood.batches)


@pytest.mark.parametrize(
    "build", [unknown_scale, scale_with_a_predictor, softmax, squared_coefficients, product_of_coefficients]
)
def test_no_predictor_where_rows_read_more_than_one(build):
    assert predictor(of(build)[0]) is None


@pytest.mark.parametrize("build", [grouped_logistic, poisson_with_exposure, known_scale])
def test_a_predictor_is_found(build):
    assert predictor(of(build)[0]) is not None


@pytest.mark.slow
def test_the_hessian_through_a_predictor_is_that_of_any_graph(monkeypatch):
    likelihood, rows = of(grouped_logistic)
    coordinates, psi = read_coordinates(likelihood), 0.3 * RNG.normal(size=likelihood.theta_size)
    by_structure = FullPass(likelihood, coordinates)(psi, (), rows)
    monkeypatch.setattr(row_sums, "row_predictor", lambda *arguments: None)
    by_columns = FullPass(likelihood, coordinates)(psi, (), rows)
    np.testing.assert_allclose(by_structure.hessian, by_columns.hessian, rtol=1e-9, atol=1e-12)
    assert by_structure.value == by_columns.value
    # What a predictor that is wrongly taken for linear would do.
    with monkeypatch.context() as patch:
        patch.setattr(row_sums, "row_predictor", lambda rows, psi, batches: rows)
        wrong = FullPass(likelihood, coordinates)(psi, (), rows)
    assert not np.allclose(wrong.hessian, by_columns.hessian)


@pytest.mark.parametrize("size", [60, (60,)])
def test_a_parameter_filled_into_all_rows_is_a_predictor(size):
    """The number of rows is the only length of a shape; to look for it ended in an error of Python's."""
    with pm.Model() as model:
        pm.Normal("y", pt.zeros(size) + pt.full(size, pm.Normal("mu")), 1, observed=X[:, 0])
    likelihood, *_ = row_likelihood(model)
    psi = likelihood.psi_vector("psi")
    (rows,) = graph_replace([likelihood.row_log_likelihood], {likelihood.theta: psi}, strict=False)
    assert row_predictor(rows, psi, likelihood.batches) is not None
