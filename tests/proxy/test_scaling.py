"""The units in which a user writes the columns of the data cost nothing: same mode, same spread, same rows a draw."""

import numpy as np
import pymc as pm
import pytest

from pymc_austerity.likelihood import read_model
from pymc_austerity.proxy import mode
from pymc_austerity.proxy.full_pass import FullPass, Sums, read_coordinates
from pymc_austerity.proxy.log_posterior import LogPosterior, PriorCurvature, draw_samples
from pymc_austerity.proxy.mode import ModeNotFoundError, find_mode
from pymc_austerity.proxy.scaling import Scaling, find_scaling

N = 4_000
_rng = np.random.default_rng(11)
Z = np.column_stack([np.ones(N), _rng.normal(size=(N, 3))])
ETA = Z @ [-0.5, 0.7, -0.4, 0.3]
LABELS = (_rng.random(N) < 1 / (1 + np.exp(-ETA))).astype(int)
COUNTS = _rng.poisson(np.exp(0.5 * ETA))
RESPONSE = ETA + _rng.normal(size=N)
OPTIONS = {"mode": "NUMBA"}


def _mixed(**entries):
    found = np.eye(4)
    for place, value in entries.items():
        found[int(place[1]), int(place[2])] = value
    return found


#: The columns are Z @ M: all the same model, with β = M⁻¹ times the coefficients of Z.
UNITS = {
    "standardised": np.eye(4),
    "1e-8": _mixed(a11=1e-8),
    "1e8": _mixed(a11=1e8),
    "both": _mixed(a11=1e-8, a22=1e8),
    "many": np.diag([1, 1e-4, 1e3, 1e6]),
    "offset 1e3": _mixed(a01=1e3),
    "offset 1e6": _mixed(a01=1e6),
    "offset and unit": _mixed(a01=1e6, a11=1e3),
    "nearly collinear": _mixed(a12=1.0, a22=1e-4),
    "collinear, large": _mixed(a11=1e8, a12=1e8, a22=1e3),
}


def _write(kind, X):
    beta = pm.Flat("beta", shape=4)
    eta = pm.math.dot(pm.Data("X", X), beta)
    if kind == "logistic":
        pm.Bernoulli("y", logit_p=eta, observed=LABELS)
    elif kind == "poisson":
        pm.Poisson("y", pm.math.exp(0.5 * eta), observed=COUNTS)
    else:
        pm.Normal("y", eta, pm.HalfNormal("sigma", 3), observed=RESPONSE)


@pytest.fixture(scope="module", params=["logistic", "poisson", "normal"])
def search(request):
    """Return the search for the mode, compiled once: the design is an argument."""
    with pm.Model() as model:
        _write(request.param, Z)
    data = read_model(model, model.value_vars, None, None)
    likelihood = data.likelihood
    full_pass = FullPass(likelihood, read_coordinates(likelihood))
    prior, start = PriorCurvature(likelihood, OPTIONS), np.concatenate([data.theta0, data.others0])

    def run(units):
        arrays = tuple(a @ units if a.ndim == 2 else a for a in data.rows.arrays)
        rows = type(data.rows)(arrays)
        samples = draw_samples(rows, full_pass.coordinates.size)
        posterior = LogPosterior(full_pass, prior, data.fixed, rows, samples, 1.0)
        psi, sums, scaling = find_mode(posterior, start, False)
        return psi, sums.hessian + prior(psi, data.fixed, full_pass.coordinates).hessian, scaling

    return run


def _of_standardised(units, size):
    """Return the map from the parameters of a model in some units to those for the columns of Z."""
    found = np.eye(size)
    found[:4, :4] = units
    return found


@pytest.mark.parametrize("name", UNITS)
def test_mode_and_spread_as_of_standardised_columns(search, name):
    expected, curvature, own = search(UNITS["standardised"])
    assert own.matrix is None  # what is well scaled stays as it is, draw for draw
    psi, found, scaling = search(UNITS[name])
    back = _of_standardised(UNITS[name], psi.size)
    apart = back @ psi - expected
    assert np.sqrt(-apart @ curvature @ apart) < 0.2  # standard deviations: both searches end within 0.1
    x = scaling.of_hessian(found)
    map_to_x = np.linalg.solve(back, np.eye(psi.size)) if scaling.matrix is None else scaling.inverse
    same = map_to_x @ np.linalg.inv(back)
    np.testing.assert_allclose(same.T @ x @ same, curvature, rtol=0.02, atol=2e-3 * np.abs(curvature).max())


def test_in_the_coordinates_of_the_user_no_mode_would_be_found(search, monkeypatch):
    monkeypatch.setattr(mode, "find_scaling", lambda *arguments: Scaling())
    failed = 0
    for name in ("1e-8", "1e8", "both", "offset 1e6"):
        try:
            psi = search(UNITS[name])[0]
        except (ModeNotFoundError, ValueError):
            failed += 1
        else:
            failed += not np.allclose(UNITS[name] @ psi[:4], search(UNITS["standardised"])[0][:4], atol=0.05)
    assert failed >= 2


def test_what_the_rows_do_not_multiply_by_data_keeps_its_unit():
    """The logarithm of a scale has no unit, however far from its mode the search starts."""
    with pm.Model() as model:
        slope, sigma = pm.Flat("slope"), pm.HalfNormal("sigma", 1)
        pm.Normal("y", slope * Z[:, 1] * 1e8, sigma, observed=1e3 * RESPONSE)
    data = read_model(model, model.value_vars, None, None)
    posterior = LogPosterior(
        FullPass(data.likelihood, np.arange(2)), None, data.fixed, data.rows, draw_samples(data.rows, 2), 1.0
    )

    def scaling_at(*curvature):
        return find_scaling(posterior, data.theta0, Sums(0.0, np.zeros(2), -N * np.diag(curvature)))

    found = scaling_at(1e16, 1e6)
    np.testing.assert_allclose(found.matrix, np.diag([1e-8, 1.0]))
    np.testing.assert_allclose(found.matrix @ found.inverse, np.eye(2), atol=1e-12)
    assert scaling_at(1.0, 1e9).matrix is None
