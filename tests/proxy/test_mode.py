"""The search for the mode: however far from zero it lies, in any units; refused where there is none."""

import numpy as np
import pymc as pm
import pytest
from cases import cases

from pymc_austerity.likelihood import read_model
from pymc_austerity.proxy import mode
from pymc_austerity.proxy.full_pass import FullPass, Sums, read_coordinates
from pymc_austerity.proxy.log_posterior import LogPosterior, PriorCurvature, draw_samples
from pymc_austerity.proxy.mode import ModeNotFoundError, find_mode
from pymc_austerity.proxy.scaling import Scaling, find_scaling

N = 3_000
RNG = np.random.default_rng(0)
Z, E = RNG.normal(size=(2, N))
FLAT = 1e6  # of the scale of what is estimated


def search_of(model):
    """Return the search for the mode, compiled once, given other data and a start."""
    data = read_model(model, model.value_vars, None, None)
    full_pass = FullPass(data.likelihood, read_coordinates(data.likelihood))
    prior = PriorCurvature(data.likelihood, {"mode": "NUMBA"})

    def run(start=None, **replaced):
        pm.set_data(replaced, model=model)
        now = read_model(model, model.value_vars, None, None)
        samples = draw_samples(now.rows, full_pass.coordinates.size)
        start = np.concatenate([now.theta0, now.others0]) if start is None else np.array(start, float)
        return find_mode(LogPosterior(full_pass, prior, now.fixed, now.rows, samples, 1.0), start, False)

    return run


@pytest.fixture(scope="module")
def regression():
    """Return the search for a, b and log s."""
    with pm.Model() as model:
        x, y, laws = pm.Data("x", Z), pm.Data("y", E), pm.Data("laws", np.ones(5))
        a, b = pm.Normal("a", laws[0], laws[1]), pm.Normal("b", laws[2], laws[3])
        pm.Normal("y_", a + b * x, pm.HalfNormal("s", laws[4]), observed=y)
    return search_of(model)


#: a, b, s and x of y = a + b x + s e.
FAR = {
    "25,000 dollars": (25_000, 90, 300, Z),
    "a pressure in Pa": (101_325, 1, 5, Z),
    "units of 1e9": (25e12, 90e9, 300e9, Z),
    "units of 1e-9": (25e-6, 90e-9, 300e-9, Z),
    "unix times as covariate": (10, 1e-7, 1, 1.7e9 + 3e7 * Z),
    "nanoseconds as covariate": (10, 1e-15, 1, 1.7e18 + 3e15 * Z),
    "R² of 1 − 1e-12": (1, 1, 1e-6, Z),
}


@pytest.mark.parametrize("near", [True, False], ids=["told by the prior", "flat prior"])
@pytest.mark.parametrize("name", cases(FAR, ["units of 1e9", "nanoseconds as covariate"]))
def test_a_mode_far_from_zero_is_found(regression, name, near):
    """Compared with least squares of the centred column, the prior being wide, in standard deviations."""
    a, b, s, x = FAR[name]
    y = a + b * x + s * E
    centred = x - x.mean()
    slope = centred @ y / (centred @ centred)
    middle, residual = y.mean(), y - y.mean() - slope * centred
    scale = np.sqrt(np.mean(residual**2))
    sds = scale / np.sqrt([N, centred @ centred])
    far = FLAT * (abs(a) + abs(b) * np.abs(x).max())
    laws = [a, 1e3 * s + 0.1 * abs(a), b, 1e3 * s / x.std()] if near else [0, far, 0, far / np.abs(x).max()]
    laws = [*laws, 3 * s if near else 1e3 * s]
    found = regression([laws[0], laws[2], np.log(laws[4])], x=x, y=y, laws=np.array(laws, float)).psi
    apart = np.array([found[0] + found[1] * x.mean() - middle, found[1] - slope]) / sds
    assert np.abs(apart).max() < 0.2
    assert abs(found[2] - np.log(scale)) * np.sqrt(2 * N) < 0.2


@pytest.mark.slow
def test_the_logarithm_of_a_large_mean():
    with pm.Model() as model:
        pm.Normal("y", pm.LogNormal("mean", 11, 2), pm.HalfNormal("s", 100), observed=101_325 + 50 * E)
    log_mean, log_s = search_of(model)().psi
    assert abs(np.exp(log_mean) - 101_325 - 50 * E.mean()) < 0.2 * 50 / np.sqrt(N)
    assert abs(log_s - np.log(50 * E.std())) < 0.2 / np.sqrt(2 * N)


@pytest.fixture(scope="module")
def logistic():
    with pm.Model() as model:
        x, labels = pm.Data("x", Z), pm.Data("labels", (Z > 0).astype(int))
        pm.Bernoulli("y", logit_p=pm.Flat("a") + pm.Flat("b") * x, observed=labels)
    return search_of(model)


@pytest.mark.parametrize("x", [Z, 1e6 * Z, Z + 1e4], ids=["one", "1e6", "offset"])
def test_separable_classes_in_any_unit(logistic, x):
    with pytest.raises(ModeNotFoundError, match="the mode lies at infinity, as for separable classes .* A prior that"):
        logistic(x=x, labels=(Z > 0).astype(int))
    labels = (RNG.random(N) < 1 / (1 + np.exp(-Z))).astype(int)
    b = logistic(x=x, labels=labels).psi[1] * x.std() / Z.std()
    assert abs(b - 1) < 0.3


def test_few_rows_without_events_are_not_separable(logistic):
    labels, x = np.zeros(60_000, int), RNG.normal(size=60_000)
    labels[[5, 17_000, 30_000, 44_444]] = 1
    a, b = logistic(x=x, labels=labels).psi
    p = 1 / (1 + np.exp(-a - b * x))
    information = np.array([[p.sum(), p @ x], [p @ x, p @ x**2]])
    slope = np.array([(labels - p).sum(), (labels - p) @ x])
    assert np.sqrt(slope @ np.linalg.solve(information, slope)) < 0.2


def test_the_mode_of_some_rows_may_lie_where_there_is_no_density():
    """Excesses of a bounded law (generalised Pareto with ξ < 0): all of them bound ξ more than a part does."""
    excess = (1 - np.random.default_rng(2).random(N) ** 0.3) / 0.3
    excess[7] = 4.0
    with pm.Model() as model:
        shape, z = pm.Normal("shape", 0.1, 0.1), pm.Data("z", excess)
        pm.Potential("y", -(1 + 1 / shape) * pm.math.log(1 + shape * z))
    found = search_of(model)().psi
    assert -1 / 4.0 < found[0] < -0.24


M = 4_000
_rng = np.random.default_rng(11)
TABLE = np.column_stack([np.ones(M), _rng.normal(size=(M, 3))])
LABELS = (_rng.random(M) < 1 / (1 + np.exp(-TABLE @ [-0.5, 0.7, -0.4, 0.3]))).astype(int)


def _mixed(**entries):
    return np.array([[entries.get(f"a{i}{j}", float(i == j)) for j in range(4)] for i in range(4)])


#: The columns are TABLE @ M: all the same model, with β = M⁻¹ times the coefficients of TABLE.
UNITS = {
    "1e8": _mixed(a11=1e8),
    "both": _mixed(a11=1e-8, a22=1e8),
    "many": np.diag([1, 1e-4, 1e3, 1e6]),
    "offset 1e6": _mixed(a01=1e6),
    "offset and unit": _mixed(a01=1e6, a11=1e3),
    "collinear, large": _mixed(a11=1e8, a12=1e8, a22=1e3),
}


@pytest.fixture(scope="module")
def of_table():
    """Return the search with the columns of the table in some units, and what it finds of them as they are."""
    with pm.Model() as model:
        eta = pm.math.dot(pm.Data("X", TABLE), pm.Flat("beta", shape=4))
        pm.Bernoulli("y", logit_p=eta, observed=LABELS)
    search = search_of(model)
    return lambda units: search(X=TABLE @ units), search()


@pytest.mark.parametrize("name", UNITS)
def test_mode_and_spread_as_of_standardised_columns(of_table, name):
    search, (expected, standardised, own, *_) = of_table
    assert own.matrix is None  # what is well scaled stays as it is, draw for draw
    psi, sums, scaling, *_ = search(UNITS[name])
    apart, curvature = UNITS[name] @ psi - expected, standardised.hessian
    assert np.sqrt(-apart @ curvature @ apart) < 0.2  # standard deviations: both searches end within 0.1
    same = scaling.inverse @ np.linalg.inv(UNITS[name])
    x = scaling.of_hessian(sums.hessian)
    np.testing.assert_allclose(same.T @ x @ same, curvature, rtol=0.02, atol=2e-3 * np.abs(curvature).max())


def test_in_the_coordinates_of_the_user_no_mode_would_be_found(of_table, monkeypatch):
    monkeypatch.setattr(mode, "find_scaling", lambda *arguments: Scaling())
    search, (expected, *_) = of_table
    failed = 0
    for name in ("1e8", "both", "offset 1e6"):
        try:
            failed += not np.allclose(UNITS[name] @ search(UNITS[name]).psi, expected, atol=0.05)
        except (ModeNotFoundError, ValueError):
            failed += 1
    assert failed >= 2


def test_what_the_rows_do_not_multiply_by_data_keeps_its_unit():
    """The logarithm of a scale has no unit, however far from its mode the search starts."""
    with pm.Model() as model:
        slope, sigma = pm.Flat("slope"), pm.HalfNormal("sigma", 1)
        pm.Normal("y", slope * TABLE[:, 1] * 1e8, sigma, observed=1e3 * TABLE[:, 2])
    data = read_model(model, model.value_vars, None, None)
    posterior = LogPosterior(
        FullPass(data.likelihood, np.arange(2)), None, data.fixed, data.rows, draw_samples(data.rows, 2), 1.0
    )

    def scaling_at(*curvature):
        return find_scaling(posterior, data.theta0, Sums(0.0, np.zeros(2), -M * np.diag(curvature)))

    found = scaling_at(1e16, 1e6)
    np.testing.assert_allclose(found.matrix, np.diag([1e-8, 1.0]))
    np.testing.assert_allclose(found.matrix @ found.inverse, np.eye(2), atol=1e-12)
    assert scaling_at(1.0, 1e9).matrix is None
