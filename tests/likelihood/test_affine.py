"""Where rows read one linear predictor alone, through which their Hessian is computed."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from rowwise import built

from pymc_austerity.likelihood.affine import row_predictor
from pymc_austerity.likelihood.row_likelihood import row_likelihood

RNG = np.random.default_rng(31)
X, GROUP, LABELS = RNG.normal(size=(60, 3)), RNG.integers(0, 4, 60), RNG.integers(0, 2, 60)
EXPOSURE = RNG.uniform(0.5, 1, 60)


def slopes(shape=3):
    return pm.Normal("b", 0, 1, shape=shape)


def normal(scale):
    return lambda: pm.Normal("y", X @ (b := slopes()), scale(b), observed=X[:, 0])


def logistic(eta):
    return lambda: pm.Bernoulli("y", logit_p=eta(slopes()), observed=LABELS)


def filled(size):
    """The number of rows is the only length of a shape; to look for it ended in an error of Python's."""
    return lambda: pm.Normal("y", pt.zeros(size) + pt.full(size, pm.Normal("mu")), 1, observed=X[:, 0])


WITH_A_PREDICTOR = {
    "grouped logistic": logistic(lambda b: pm.Normal("a", 0, pm.HalfNormal("scale", 1), shape=4)[GROUP] + X @ b),
    "known scale": normal(lambda b: EXPOSURE),
    "filled": filled(60),
    "filled to a shape": filled((60,)),
}
WITHOUT = {
    "scale with a predictor": normal(lambda b: pt.exp(X @ b[::-1])),
    "softmax": lambda: pm.Categorical("y", logit_p=pt.dot(X, slopes((3, 3))), observed=GROUP % 3),
    "squared coefficients": logistic(lambda b: X @ b**2),
    "product of coefficients": logistic(lambda b: pm.Normal("c", 0, 1) * (X @ b)),
}


@pytest.mark.parametrize("name", [*WITH_A_PREDICTOR, *WITHOUT])
def test_a_predictor_is_found_where_rows_read_one_alone(name):
    likelihood, *_ = row_likelihood(built({**WITH_A_PREDICTOR, **WITHOUT}[name]))
    rows, psi = likelihood.of_psi(likelihood.row_log_likelihood)
    found = row_predictor(rows, psi, likelihood.batches)
    assert (found is not None) == (name in WITH_A_PREDICTOR)
