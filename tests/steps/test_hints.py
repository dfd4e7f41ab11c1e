"""A horseshoe is warned of before sampling, and scales that are none of single coefficients are not."""

import warnings

import numpy as np
import pymc as pm
import pytest

from pymc_austerity.steps.description import warn_of_local_scales

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
