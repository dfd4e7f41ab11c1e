"""Covariances with an LKJ prior, moved in standard deviations and partial correlations."""

import numpy as np
import pymc as pm
import pytest
from scipy.optimize import approx_fprime

from pymc_austerity.groups.centred_model import centred_model


def lkj(size, deviations="one law"):
    """An LKJ prior beside effects that no row reads by it."""
    with pm.Model() as model:
        if deviations == "a law of each":
            sds = pm.HalfNormal.dist(np.arange(1.0, size + 1), shape=size)
        elif deviations == "a rate that is estimated":
            sds = pm.Exponential.dist(pm.Gamma("rate", 3.0, 2.0))
        else:
            sds = pm.Exponential.dist(2.0)
        pm.LKJCholeskyCov("chol", n=size, eta=1.7, sd_dist=sds)
    return model


def packed_name(model):
    return next(value.name for value in model.value_vars if value.name.startswith("chol"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "deviations"), [(2, "a law of each"), (3, "a rate that is estimated"), (5, "one law")]
)
def test_the_density_is_pymcs(size, deviations):
    """Control: without the Jacobian it differs, and not by a constant."""
    model = lkj(size, deviations)
    found, name, rng = centred_model(model), packed_name(model), np.random.default_rng(2009)
    users, new = model.compile_logp(), found.model.compile_logp()
    off, without = [], []
    for _ in range(3):
        point = {known: np.asarray(rng.normal(size=np.shape(of))) for known, of in model.initial_point().items()}

        def moved(packed, point=point):
            return found.to_effects({**point, name: packed})[name]

        jacobian = approx_fprime(point[name], moved, 1e-7)
        at = found.to_effects(point)
        without.append(float(users(point) - new(at)))
        off.append(without[-1] - np.linalg.slogdet(jacobian)[1])
    np.testing.assert_allclose(off, 0.0, atol=1e-4)
    assert np.ptp(without) > 0.1


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_the_maps_are_inverse_where_units_differ(unit):
    """Standard deviations of 1 and of the unit, and of a thousandth of it."""
    model = lkj(3)
    found, name = centred_model(model), packed_name(model)
    correlation = np.array([[1.0, 0.3, -0.5], [0.3, 1.0, 0.1], [-0.5, 0.1, 1.0]])
    sds = np.array([1.0, unit, unit / 1000])
    chol = sds[:, None] * np.linalg.cholesky(correlation)
    packed = chol[np.tril_indices(3)]
    packed[[0, 2, 5]] = np.log(packed[[0, 2, 5]])
    y = found.to_effects({name: packed})[name]
    np.testing.assert_allclose(y[[0, 2, 5]], np.log(sds), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.tanh(y[[1, 3]]), correlation[0, 1:], rtol=1e-12)
    np.testing.assert_allclose(found.from_effects({name: y})[name], packed, rtol=1e-11)
    assert np.isfinite(found.model.compile_logp()({name: y}))


@pytest.mark.slow
def test_the_density_falls_where_a_deviation_is_zero():
    """In the packed factor that of three coefficients rises without a limit, and a search for the mode follows it."""
    model = lkj(3)
    found, name = centred_model(model), packed_name(model)
    smaller = [np.array([0.0, 0.2, 0.0, 0.2, -0.1, log_sd]) for log_sd in (-3.0, -6.0, -9.0)]
    new, users = found.model.compile_logp(), model.compile_logp()
    assert (np.diff([new({name: y}) for y in smaller]) < -2).all()
    assert (np.diff([users(found.from_effects({name: y})) for y in smaller]) > 2).all()
