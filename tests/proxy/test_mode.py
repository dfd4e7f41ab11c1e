"""The search for the mode: however far from zero it lies, in any units; refused where there is none."""

import numpy as np
import pymc as pm
import pytest

from pymc_austerity.likelihood import read_model
from pymc_austerity.proxy.full_pass import FullPass, read_coordinates
from pymc_austerity.proxy.log_posterior import LogPosterior, PriorCurvature, draw_samples
from pymc_austerity.proxy.mode import ModeNotFoundError, find_mode

N = 3_000
RNG = np.random.default_rng(0)
Z, E = RNG.normal(size=(2, N))
OPTIONS = {"mode": "NUMBA"}
FLAT = 1e6  # of the scale of what is estimated


def search_of(model):
    """Return the search for the mode, compiled once, given other data and a start."""
    data = read_model(model, model.value_vars, None, None)
    full_pass = FullPass(data.likelihood, read_coordinates(data.likelihood))
    prior = PriorCurvature(data.likelihood, OPTIONS)

    def run(start=None, **replaced):
        pm.set_data(replaced, model=model)
        now = read_model(model, model.value_vars, None, None)
        samples = draw_samples(now.rows, full_pass.coordinates.size)
        start = np.concatenate([now.theta0, now.others0]) if start is None else np.array(start, float)
        return find_mode(LogPosterior(full_pass, prior, now.fixed, now.rows, samples, 1.0), start, False).psi

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
    "12,000": (12_000, 10, 80, Z),
    "a pressure in Pa": (101_325, 1, 5, Z),
    "x from 0 to a million": (3, 2, 0.1, RNG.uniform(0, 1e6, N)),
    "units of 1e9": (25e12, 90e9, 300e9, Z),
    "units of 1e-9": (25e-6, 90e-9, 300e-9, Z),
    "unix times as outcome": (1.7e9, 1e5, 1e6, Z),
    "unix times as covariate": (10, 1e-7, 1, 1.7e9 + 3e7 * Z),
    "nanoseconds as covariate": (10, 1e-15, 1, 1.7e18 + 3e15 * Z),
    "R² of 1 − 1e-12": (1, 1, 1e-6, Z),
}


@pytest.mark.parametrize("near", [True, False], ids=["told by the prior", "flat prior"])
@pytest.mark.parametrize("name", FAR)
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
    found = regression([laws[0], laws[2], np.log(laws[4])], x=x, y=y, laws=np.array(laws, float))
    apart = np.array([found[0] + found[1] * x.mean() - middle, found[1] - slope]) / sds
    assert np.abs(apart).max() < 0.2
    assert abs(found[2] - np.log(scale)) * np.sqrt(2 * N) < 0.2


def test_the_logarithm_of_a_large_mean():
    with pm.Model() as model:
        pm.Normal("y", pm.LogNormal("mean", 11, 2), pm.HalfNormal("s", 100), observed=101_325 + 50 * E)
    log_mean, log_s = search_of(model)()
    assert abs(np.exp(log_mean) - 101_325 - 50 * E.mean()) < 0.2 * 50 / np.sqrt(N)
    assert abs(log_s - np.log(50 * E.std())) < 0.2 / np.sqrt(2 * N)


@pytest.fixture(scope="module")
def logistic():
    with pm.Model() as model:
        x, labels = pm.Data("x", Z), pm.Data("labels", (Z > 0).astype(int))
        pm.Bernoulli("y", logit_p=pm.Flat("a") + pm.Flat("b") * x, observed=labels)
    return search_of(model)


@pytest.mark.parametrize("x", [Z, 1e-6 * Z, 1e6 * Z, Z + 1e4], ids=["one", "1e-6", "1e6", "offset"])
def test_separable_classes_in_any_unit(logistic, x):
    with pytest.raises(
        ModeNotFoundError, match="the mode lies at infinity, as for separable classes .* A prior that says"
    ):
        logistic(x=x, labels=(Z > 0).astype(int))
    labels = (RNG.random(N) < 1 / (1 + np.exp(-Z))).astype(int)
    b = logistic(x=x, labels=labels)[1] * x.std() / Z.std()
    assert abs(b - 1) < 0.3


def test_few_rows_without_events_are_not_separable(logistic):
    labels, x = np.zeros(60_000, int), RNG.normal(size=60_000)
    labels[[5, 17_000, 30_000, 44_444]] = 1
    a, b = logistic(x=x, labels=labels)
    p = 1 / (1 + np.exp(-a - b * x))
    information = np.array([[p.sum(), p @ x], [p @ x, p @ x**2]])
    slope = np.array([(labels - p).sum(), (labels - p) @ x])
    assert np.sqrt(slope @ np.linalg.solve(information, slope)) < 0.2


def test_the_mode_of_some_rows_may_be_where_others_have_no_density():
    """Excesses of a bounded law (generalised Pareto with ξ < 0): all of them bound ξ more than a part does."""
    excess = (1 - np.random.default_rng(2).random(N) ** 0.3) / 0.3
    excess[7] = 4.0
    with pm.Model() as model:
        shape, z = pm.Normal("shape", 0.1, 0.1), pm.Data("z", excess)
        pm.Potential("y", -(1 + 1 / shape) * pm.math.log(1 + shape * z))
    found = search_of(model)()
    assert -1 / 4.0 < found[0] < -0.24
