from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pymc as pm
import pytensor
import pytest
import xarray as xr

from pymc_austerity.paths.inner_samplers import NutpieNUTS, PyMCNUTS
from pymc_austerity.paths.partial_posterior import PartialPosteriorPaths

N_ROWS, PRECISION = 2_000, 100.0
X = np.random.default_rng(3).normal(2, 1, N_ROWS)
#: Mean of a Gaussian mean under the prior N(0, 1/100), which pulls small subsets far towards 0.
FULL = X.sum() / (N_ROWS + PRECISION)


def gaussian(x=X):
    with pm.Model(coords={"sign": ["plus", "minus"]}) as model:
        mu = pm.Normal("mu", 0, PRECISION**-0.5)
        pm.Deterministic("both", pm.math.stack([mu, -mu]), dims="sign")
        pm.Deterministic("per_row", mu - x)
        pm.Normal("y", mu, 1, observed=x)
    return model


@pytest.fixture(scope="module")
def by_nutpie():
    pytest.importorskip("nutpie", reason="needs nutpie")
    return PartialPosteriorPaths(gaussian(), ["mu", "both"], NutpieNUTS(draws=200, tune=150))


@pytest.fixture(scope="module")
def by_pymc():
    return PartialPosteriorPaths(gaussian(), "both", PyMCNUTS(draws=75, tune=150, chains=2))


def closed_form(model, rng):
    """Exact draws of the partial posterior, as a sampler of the user's own."""
    y = np.asarray(model.rvs_to_values[model["y"]].get_value())
    draws = rng.normal(y.sum() / (len(y) + PRECISION), (len(y) + PRECISION) ** -0.5, (1, 50))
    return xr.DataTree.from_dict({"/posterior": xr.Dataset({"mu": (("chain", "draw"), draws)})})


@pytest.mark.parametrize("name", ["by_nutpie", "by_pymc"])
def test_a_partial_posterior_is_that_of_its_rows(name, request):
    paths = request.getfixturevalue(name)
    for count in (10, 300):
        rows = np.arange(count) * 3
        value, again = (np.ravel(paths(rows, np.random.default_rng(count)))[0] for _ in range(2))
        assert value == again
        # 150 draws of a NUTS chain are worth about 50 independent ones.
        error = (count + PRECISION) ** -0.5 / np.sqrt(50)
        assert abs(value - X[rows].sum() / (count + PRECISION)) < 4 * error
        assert abs(value - FULL) > 4 * error


def test_one_name_keeps_its_shape_and_several_are_one_axis(by_pymc, by_nutpie):
    one, several = (paths(np.arange(50), np.random.default_rng(0)) for paths in (by_pymc, by_nutpie))
    assert one.dims == ("sign",)
    assert one.sign.values.tolist() == ["plus", "minus"]
    assert several["quantity"].values.tolist() == ["mu", "both[plus]", "both[minus]"]
    np.testing.assert_allclose(several.sel(quantity="both[minus]"), -several.sel(quantity="mu"))


@pytest.mark.parametrize("name", ["by_nutpie", "by_pymc"])
def test_nothing_is_compiled_after_the_first_call(name, request, monkeypatch):
    paths = request.getfixturevalue(name)
    paths(np.arange(10), np.random.default_rng(0))

    def compiles(*arguments, **keywords):
        raise AssertionError("compiled again")

    if name == "by_nutpie":
        monkeypatch.setattr("nutpie.compile_pymc_model", compiles)
    monkeypatch.setattr(pytensor, "function", compiles)
    for count in (7, 50, 1_000):
        paths(np.arange(count), np.random.default_rng(0))
    # Negative control: a new object does compile.
    with pytest.raises(AssertionError, match="compiled again"):
        PartialPosteriorPaths(gaussian_plain(), "mu", paths._sampler)(np.arange(7), np.random.default_rng(0))


def gaussian_plain():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), 1, observed=X)
    return model


class Recorder:
    """Sampler that draws nothing and keeps what it was asked for."""

    def __init__(self):
        self.asked = []

    def prepare(self, subset_model):
        def draw(subset, rng, tune=500, draws=500):
            self.asked.append((tune, draws, {len(array) for array in subset.values()}))
            return xr.DataTree.from_dict({"/posterior": xr.Dataset({"mu": (("chain", "draw"), np.zeros((1, 2)))})})

        return draw


def test_the_overhead_is_measured_on_the_fewest_steps():
    recorder = Recorder()
    assert PartialPosteriorPaths(gaussian_plain(), "mu", recorder).overhead(20, repeats=3) > 0
    assert recorder.asked == 3 * [(1, 2, {20})]
    with pytest.raises(TypeError, match="time a call"):
        PartialPosteriorPaths(gaussian(), "mu", closed_form).overhead(10)


def test_threads_give_the_same_result(by_nutpie):
    settings = {"min_batch": 100, "alpha": 0.6, "replications": 8, "random_seed": 5, "progressbar": False}
    here = by_nutpie.debias(**settings)
    with ThreadPoolExecutor(2) as executor:
        there = by_nutpie.debias(executor=executor, **settings)
    xr.testing.assert_identical(here.drop_vars("seconds"), there.drop_vars("seconds"))


@pytest.mark.contract
@pytest.mark.slow
def test_processes_compile_for_themselves_with_one_result():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, PRECISION**-0.5)
        pm.Normal("y", mu, 1, observed=pm.Data("x", X))
    paths = PartialPosteriorPaths(model, "mu", closed_form)
    settings = {"min_batch": 20, "alpha": 0.7, "replications": 300, "random_seed": 5, "progressbar": False}
    here = paths.debias(**settings)
    assert abs(float((here.estimate[-1] - FULL) / here.standard_error[-1])) < 3.9
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        there = paths.debias(executor=executor, **settings)
    xr.testing.assert_identical(here.drop_vars("seconds"), there.drop_vars("seconds"))


def test_expectation_may_be_a_function_of_the_draws():
    def spread(draws):
        return draws.posterior["mu"].std(("chain", "draw"))

    paths = PartialPosteriorPaths(gaussian_plain(), spread, closed_form)
    value = float(paths(np.arange(100), np.random.default_rng(1)))
    assert value == pytest.approx((100 + PRECISION) ** -0.5, rel=0.5)


@pytest.mark.parametrize(
    ("expectation", "sampler", "error", "message"),
    [
        ("nothing", None, ValueError, "does not have"),
        (["mu", "per_row"], None, ValueError, "one value per row"),
        ([], None, TypeError, "expectation"),
    ],
)
def test_bad_arguments_are_refused(expectation, sampler, error, message):
    with pytest.raises(error, match=message):
        PartialPosteriorPaths(gaussian(), expectation, sampler)
