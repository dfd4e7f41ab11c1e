"""Horseshoes and estimated matrices are warned of before sampling, and what one decision moves well is not."""

import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_austerity.steps.description import warn_of_estimated_matrices, warn_of_local_scales

X = np.random.default_rng(2).normal(size=(200, 20))


def centred(local):
    return pm.Normal("b", 0, pm.HalfCauchy("tau", 1) * local("local", 20), shape=20)


def not_centred(local):
    return pm.Normal("z", 0, 1, shape=20) * pm.HalfCauchy("tau", 1) * local("local", 20)


def half_student(name, size):
    return pm.HalfStudentT(name, nu=3, sigma=1, shape=size)


def half_cauchy(name, size):
    return pm.HalfCauchy(name, 1, shape=size)


def with_rows(coefficients):
    with pm.Model() as model:
        pm.Normal("y", X @ coefficients(), 1, observed=np.zeros(200))
    return model


@pytest.mark.parametrize("local", [half_cauchy, half_student])
@pytest.mark.parametrize("written", [centred, not_centred])
def test_the_scales_of_a_horseshoe_are_warned_of(written, local):
    model = with_rows(lambda: written(local))
    with pytest.warns(UserWarning, match="'local' has a scale .* for each of 20 coefficients.*pm.NUTS"):
        warn_of_local_scales(model, "PenaltyMH")


@pytest.mark.parametrize(
    "coefficients",
    [
        lambda: pm.Normal("b", 0, pm.HalfCauchy("tau", 1), shape=20),
        lambda: centred(lambda name, size: pm.HalfNormal(name, 1, shape=size)),
    ],
)
def test_other_scales_are_not_warned_of(coefficients):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warn_of_local_scales(with_rows(coefficients), "PenaltyMH")
    assert [str(warning.message) for warning in said] == []


def factor(size=20):
    sd = pm.Exponential.dist(1.0, shape=size)
    return pm.LKJCholeskyCov("L", n=size, eta=2.0, sd_dist=sd, compute_corr=True)[0]


def gaussian_process():
    distance = np.abs(np.subtract.outer(np.arange(20), np.arange(20)))
    cov = pt.exp(-distance / pm.HalfNormal("length", 1)) + 1e-3 * pt.eye(20)
    return pt.linalg.cholesky(cov) @ pm.Normal("z", shape=20)


@pytest.mark.parametrize(
    "coefficients",
    [lambda: factor() @ pm.Normal("z", shape=20), lambda: pm.Normal("z", shape=20) @ factor().T, gaussian_process],
)
def test_products_with_an_estimated_matrix_are_warned_of(coefficients):
    with pytest.warns(
        UserWarning, match=r"a matrix that is estimated, of \['(L|length)'\], and of \['z'\].*pm.NUTS.*HSGP"
    ):
        warn_of_estimated_matrices(with_rows(coefficients), "PenaltyMH")


@pytest.mark.parametrize(
    "coefficients",
    [
        lambda: pm.MvNormal("b", 0, chol=factor(), shape=20),
        lambda: pm.HalfNormal("tau", 1) * (np.eye(20) @ pm.Normal("z", shape=20)),
        lambda: pt.tanh(pm.Normal("layer", shape=(20, 3))) @ pm.Normal("out", shape=3),
    ],
    ids=["as what it is", "a matrix of data", "a network"],
)
def test_other_products_are_not_warned_of(coefficients):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warn_of_estimated_matrices(with_rows(coefficients), "PenaltyMH")
    assert [str(warning.message) for warning in said] == []
