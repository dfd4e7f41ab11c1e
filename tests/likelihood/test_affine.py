"""The Hessian by structure: where a linear predictor is found, and that it changes no number."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_austerity.likelihood.affine import row_predictor
from pymc_austerity.likelihood.row_likelihood import row_likelihood
from pymc_austerity.proxy import row_sums
from pymc_austerity.proxy.full_pass import FullPass, read_coordinates
from pymc_austerity.rows.storage import Rows

RNG = np.random.default_rng(31)
X, GROUP, LABELS = RNG.normal(size=(60, 3)), RNG.integers(0, 4, 60), RNG.integers(0, 2, 60)
EXPOSURE = RNG.uniform(0.5, 1, 60)


def slopes(shape=3):
    return pm.Normal("b", 0, 1, shape=shape)


def normal(scale):
    return lambda: pm.Normal("y", X @ (b := slopes()), scale(b), observed=X[:, 0])


def logistic(eta):
    return lambda: pm.Bernoulli("y", logit_p=eta(slopes()), observed=LABELS)


GROUPED = logistic(lambda b: pm.Normal("a", 0, pm.HalfNormal("scale", 1), shape=4)[GROUP] + X @ b)
WITH_A_PREDICTOR = {
    "grouped logistic": GROUPED,
    "known scale": normal(lambda b: EXPOSURE),
}
WITHOUT = {
    "scale with a predictor": normal(lambda b: pt.exp(X @ b[::-1])),
    "softmax": lambda: pm.Categorical("y", logit_p=pt.dot(X, slopes((3, 3))), observed=GROUP % 3),
    "squared coefficients": logistic(lambda b: X @ b**2),
    "product of coefficients": logistic(lambda b: pm.Normal("c", 0, 1) * (X @ b)),
}


def of(build):
    with pm.Model() as model:
        build()
    likelihood, source, _ = row_likelihood(model)
    return likelihood, Rows(source.row_arrays())


@pytest.mark.parametrize("name", [*WITH_A_PREDICTOR, *WITHOUT])
def test_a_predictor_is_found_where_rows_read_one_alone(name):
    likelihood, _ = of({**WITH_A_PREDICTOR, **WITHOUT}[name])
    assert likelihood.other_blocks == ()
    found = row_predictor(likelihood.row_log_likelihood, likelihood.theta, likelihood.batches)
    assert (found is not None) == (name in WITH_A_PREDICTOR)


@pytest.mark.slow
def test_the_hessian_through_a_predictor_is_that_of_any_graph(monkeypatch):
    likelihood, rows = of(GROUPED)
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
    rows, psi = likelihood.of_psi(likelihood.row_log_likelihood)
    assert row_predictor(rows, psi, likelihood.batches) is not None
