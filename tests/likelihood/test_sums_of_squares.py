import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode

from pymc_austerity.likelihood import is_quadratic_in_data, moment_rows
from pymc_austerity.likelihood.row_likelihood import row_likelihood
from pymc_austerity.rows import Rows

RNG = np.random.default_rng(9)
X = RNG.normal(size=(300, 3)) @ RNG.normal(size=(3, 3)) + 1
Y = X @ [1.0, 2.0, -1.0] + RNG.normal(size=300)


def unknown_scale():
    pm.Normal("y", X @ pm.Normal("b", 0, 1, shape=3), pm.HalfNormal("s", 1), observed=Y)


def one_column():
    pm.Normal("y", pm.Normal("a") + pm.Normal("b") * X[:, 0], pt.exp(pm.Normal("log_s")), observed=Y)


def student_t():
    pm.StudentT("y", nu=4, mu=X @ pm.Normal("b", 0, 1, shape=3), sigma=pm.HalfNormal("s", 1), observed=Y)


def scale_with_a_predictor():
    pm.Normal("y", X @ pm.Normal("b", 0, 1, shape=3), pt.exp(X @ pm.Normal("c", shape=3)), observed=Y)


def cubic():
    pm.Normal("y", pm.Normal("b") * pt.as_tensor(X[:, 0]) ** 2, pm.HalfNormal("s", 1), observed=Y)


def logistic():
    pm.Bernoulli("y", logit_p=X @ pm.Normal("b", 0, 1, shape=3), observed=(Y > 0).astype(int))


def of(build):
    with pm.Model() as model:
        build()
    return row_likelihood(model)[:2]


@pytest.mark.parametrize("build", [unknown_scale, one_column])
def test_a_few_rows_stand_for_all_where_the_log_likelihood_is_quadratic_in_the_data(build):
    likelihood, source = of(build)
    assert is_quadratic_in_data(likelihood)
    rows = Rows(source.row_arrays())
    few, weight = moment_rows(rows)
    assert len(few) * weight == len(rows)
    assert len(few) < 10
    inputs = [likelihood.theta, *likelihood.fixed, *likelihood.batches]
    total = pytensor.function(inputs, likelihood.row_log_likelihood.sum(), mode=Mode("py", "fast_compile"))
    for theta in RNG.normal(size=(20, likelihood.theta_size)):
        exact = total(theta, *source.fixed_arrays(), *rows.arrays)
        np.testing.assert_allclose(weight * total(theta, *source.fixed_arrays(), *few.arrays), exact, rtol=1e-11)


@pytest.mark.parametrize("build", [student_t, scale_with_a_predictor, cubic, logistic])
def test_other_likelihoods_are_not_taken_for_sums_of_squares(build):
    assert not is_quadratic_in_data(of(build)[0])
