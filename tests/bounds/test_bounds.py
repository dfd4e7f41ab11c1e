"""Bounds on the log ratio of a row: found from the graph, given, scanned for; and what is refused."""

import pickle

import numpy as np
import pymc as pm
import pytest
from compilations import compilations
from evidence import MAX_Z, moment_z, moments_on_grid
from numba import njit
from pymc.exceptions import SamplingError
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.bounds.chosen_bound import find_bound
from pymc_austerity.bounds.row_bound import Cubic
from pymc_austerity.compile.graph_compiler import interpret_log_density
from pymc_austerity.likelihood import Links, Place
from pymc_austerity.likelihood.density import compile_density
from pymc_austerity.likelihood.model_data import read_model
from pymc_austerity.proxy.expansion import row_remainder

N = 60
RNG = np.random.default_rng(14)
X = RNG.normal(size=(N, 3)) * [1.0, 0.2, 3.0]
GROUP, SEEN, REAL = RNG.integers(0, 4, N), RNG.random(N) < 0.5, RNG.normal(size=N)


def _slopes(size=3):
    return pm.Normal("slopes", 0, 1, shape=size)


def _groups():
    effects = pm.Normal("effects", 0, 1, shape=4)
    pm.Bernoulli("y", logit_p=effects[GROUP] - (X * _slopes()).sum(axis=1), observed=SEEN)


def _two_outcomes():
    slopes = _slopes()
    pm.Bernoulli("seen", logit_p=X @ slopes, observed=SEEN)
    pm.Laplace("y", X @ slopes, 0.5, observed=REAL)


#: Models with a known bound.
FOUND = {
    "logistic": lambda: pm.Bernoulli("y", logit_p=2 + pm.Normal("intercept") + X @ _slopes(), observed=SEEN),
    "groups": _groups,
    "softmax": lambda: pm.Categorical("y", logit_p=X @ _slopes((3, 4)), observed=GROUP),
    "Student": lambda: pm.StudentT("y", nu=3, mu=X @ _slopes(), sigma=np.linspace(0.5, 2, N), observed=REAL),
    "two outcomes": _two_outcomes,
}


def _normal():
    pm.Normal("y", X @ _slopes(), 1, observed=REAL)


def _mixture():
    pm.Mixture("y", [0.5, 0.5], [pm.Normal.dist(m, 1) for m in (0, pm.Normal("mu"))], observed=REAL)


def _read(write):
    with pm.Model() as model:
        write()
    return read_model(model, model.value_vars, None, None)


def _built(write, bound, centre=None):
    """Bound as a function of two points, and the largest |l_i| between them: of remainders about a centre, if given."""
    data = _read(write)
    likelihood, arrays, fixed = data.likelihood, data.rows.arrays, data.fixed
    found, graph, at, about = find_bound(bound, data), likelihood.row_log_likelihood, [], []
    if centre is not None:
        found, (graph, *at), about = found.of_remainder(2), row_remainder(likelihood, 2), [centre]
    inputs = [likelihood.theta, likelihood.others, *at, *likelihood.fixed, *likelihood.batches]
    rows = interpret_log_density(inputs, [graph])
    density = compile_density(likelihood).linked(likelihood) if bound == "scan" else None  # no other reads rows
    links = Links() if density is None else density.links
    constants, none = found.constants(data.rows, fixed), np.empty(0)
    evaluate = found.build(constants)
    data_at = likelihood.fixed_at(fixed), likelihood.rows_at(arrays)

    def bounded(theta, theta_new):
        assert density is None or density.reached  # whose code lives as long
        return evaluate(constants, Place(links, theta_new, theta, none, none if centre is None else centre, *data_at))

    def largest(theta, theta_new):
        new, old = (rows(at, none, *about, *fixed, *arrays)[0] for at in (theta_new, theta))
        return np.abs(new - old).max()

    return bounded, largest, likelihood.theta_size


@pytest.mark.parametrize("write", FOUND.values(), ids=FOUND)
def test_no_row_exceeds_its_lipschitz_bound_and_some_are_near(write):
    bounded, largest, size = _built(write, "lipschitz")
    rng, shares = np.random.default_rng(1), []
    for k in range(400):
        theta = rng.normal(size=size) * rng.choice([0.1, 1.0])
        step = rng.normal(size=size) * 10.0 ** rng.uniform(-4, 0)
        if k % 2:
            step = np.where(np.arange(size) == rng.integers(size), step, 0.0)
        bound, n_rows = bounded(theta, theta + step)
        assert n_rows == 0
        shares.append(largest(theta, theta + step) / bound)
    assert max(shares) <= 1 + 1e-9
    assert max(shares) > 0.5  # a bound that is never approached would cost rows for nothing


@pytest.mark.usefixtures("nothing_on_disk")
def test_slopes_are_found_without_compiling():
    data = _read(FOUND["logistic"])
    with compilations() as names:
        found = find_bound("lipschitz", data).constants(data.rows, data.fixed)
    assert names == []
    assert found[0][0] == pytest.approx(np.sqrt(1 + (X**2).sum(axis=1)).max(), rel=1e-6)


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (_normal, "there is no limit as ..slopes.. move"),
        (
            lambda: pm.StudentT("y", nu=3, mu=X @ _slopes(), sigma=pm.HalfNormal("s"), observed=REAL),
            "there is no limit",
        ),
        (lambda: pm.Bernoulli("y", logit_p=X @ _slopes() ** 2, observed=SEEN), "takes the operation Dot"),
        (_mixture, "No bound on the log ratio of a row is known"),
    ],
)
def test_a_model_without_a_known_bound_is_refused(write, reason):
    with pytest.raises(ValueError, match=reason) as refusal:
        find_bound("lipschitz", _read(write))
    assert "bound='scan'" in str(refusal.value)
    assert "function of (theta, theta_new)" in str(refusal.value)


def test_a_scan_finds_the_maximum_and_counts_its_rows():
    bounded, largest, size = _built(_normal, "scan")
    theta, new = np.random.default_rng(3).normal(size=(2, size))
    assert bounded(theta, new) == (largest(theta, new), N)


@njit
def _compiled(theta, new):
    return 7.0 * np.linalg.norm(new - theta)


@pytest.mark.parametrize(
    "bound",
    [
        _compiled,
        lambda theta, new: 7.0 * np.linalg.norm(new - theta),
        lambda theta, new: 7 * ((new - theta) ** 2).sum() ** 0.5,
    ],
    ids=["njit", "numpy", "pytensor"],
)
def test_a_bound_can_be_given_as_graph_or_function(bound):
    bounded, _, size = _built(_normal, bound)
    theta, new = np.random.default_rng(3).normal(size=(2, size))
    assert bounded(theta, new) == (pytest.approx(7 * np.linalg.norm(new - theta)), 0)


@pytest.mark.parametrize(
    ("bound", "error", "message"),
    [
        ("maximum", ValueError, "not 'lipschitz', 'scan' or a function"),
        (3.0, TypeError, "not 'lipschitz', 'scan' or a function"),
        (lambda theta, new: new - theta, ValueError, "must return one number"),
        (lambda theta, new: -1.0, ValueError, "must return one number"),
        (lambda theta, new: {}.missing, TypeError, "neither builds a PyTensor expression"),
    ],
)
def test_what_is_no_bound_is_refused(bound, error, message):
    with pytest.raises(error, match=message):
        _built(_normal, bound)


@pytest.fixture(scope="module")
def data_model():
    with pm.Model() as model:
        x = pm.Data("x", X[:, 0])
        slope = pm.Normal("slope")
        pm.Bernoulli("y", logit_p=slope * x, observed=(RNG.random(N) < 0.5).astype(int))
    return model


def _run(model, bound):
    return sampled(model, pma.MHSubLhd(proxy=None, bound=bound, model=model), 60, tune=20, seed=5, chains=1)


@pytest.mark.slow
def test_rows_of_a_scan_count_and_a_broken_bound_stops_the_run(data_model):
    rows = _run(data_model, "scan").sample_stats["n_rows"].to_numpy()
    assert (rows > N).all()
    assert (rows <= 2 * N).all()
    with pytest.raises(SamplingError, match="more than the bound of the step"):
        _run(data_model, lambda theta, new: 1e-3 * abs(new[0] - theta[0]))


@pytest.mark.contract
def test_the_bound_follows_new_data_and_a_pickled_step_keeps_it(data_model):
    with data_model:
        step = pma.MHSubLhd(proxy=None)
        first = [np.copy(c) for c in step.decider.bound_constants]
        copy = pickle.loads(pickle.dumps(step))
        pm.set_data({"x": 10 * X[:, 0]})
        step.set_rng(np.random.default_rng(1))
        second = step.decider.bound_constants
        pm.set_data({"x": X[:, 0]})
    assert second[0] == pytest.approx(10 * first[0])
    assert second[1] == pytest.approx(10 * first[1])
    assert copy.decider.bound_constants[0] == first[0]


def _steepest():
    # One entry of 1 a row, and a centre where the third derivative of the logistic function is largest.
    pm.Bernoulli("y", logit_p=np.ones((N, 1)) @ _slopes(1), observed=np.arange(N) % 2 == 0)


def test_no_remainder_exceeds_the_cubic_bound():
    p = (3 - np.sqrt(3)) / 6
    centre = np.array([np.log(p / (1 - p))])
    bounded, largest, _ = _built(_steepest, "lipschitz", centre)
    rng, shares = np.random.default_rng(3), []
    for scale in 10.0 ** rng.uniform(-1.5, 0.5, 200):
        theta, new = centre + scale * rng.normal(size=(2, 1))
        shares.append(largest(theta, new) / bounded(theta, new)[0])
    assert max(shares) <= 1 + 1e-6
    # Taylor's bound is reached next to the centre: a constant too small by a twentieth would be found.
    assert largest(centre, centre + 0.02) > 0.95 * bounded(centre, centre + 0.02)[0]


@pytest.mark.slow
def test_the_cubic_bound_saves_rows_and_keeps_the_posterior():
    rng = np.random.default_rng(21)
    x = rng.normal(size=20_000)
    y = (rng.random(20_000) < 1 / (1 + np.exp(-x))).astype(int)
    with pm.Model() as model:
        slope = pm.Normal("slope")
        pm.Bernoulli("y", logit_p=slope * x, observed=y)
        step = pma.MHSubLhd()
    idata = sampled(model, step, 2_000, tune=100, seed=5)
    assert idata.sample_stats["n_rows"].mean() < 500
    grid = np.linspace(0.8, 1.2, 201)
    log_density = (y @ x) * grid - np.array([np.logaddexp(0, at * x).sum() for at in grid]) - grid**2 / 2
    expected = moments_on_grid(grid, log_density)
    assert np.abs(moment_z(idata.posterior["slope"].to_numpy(), *expected)).max() < MAX_Z
    # The bound is the one from the third derivative.
    data = read_model(model, model.value_vars, None, None)
    bound = find_bound("lipschitz", data).of_remainder(2)
    assert isinstance(step.decider.bound, Cubic)
    for known, expected in zip(step.decider.bound_constants, bound.constants(data.rows, data.fixed), strict=True):
        np.testing.assert_array_equal(known, expected)


@pytest.mark.slow
def test_no_proxy_where_no_bound_on_the_remainder_is_known():
    with pm.Model():
        pm.Laplace("y", X @ _slopes(), 0.3, observed=REAL)
        assert pma.MHSubLhd().decider.parts.prepared is None
        with pytest.raises(ValueError, match="no bound is known on what it leaves.*bound='scan'"):
            pma.MHSubLhd(proxy=pma.Taylor())
