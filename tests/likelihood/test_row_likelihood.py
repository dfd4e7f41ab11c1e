"""The row-wise likelihood is the model's own: batch by batch, against the full graph, for every kind of model."""

from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from rowwise import AS_WRITTEN, built, by_numpy, evaluated, moved
from zoo import COUNT, REAL, REFUSED, SPLIT, N, X, slopes

import pymc_austerity as pma
from pymc_austerity.likelihood.density import compile_log_prior, compile_one_side
from pymc_austerity.likelihood.layout import flatten
from pymc_austerity.likelihood.model_data import read_model
from pymc_austerity.likelihood.moving_support import require_fixed_support
from pymc_austerity.likelihood.row_check import check_rows
from pymc_austerity.likelihood.row_likelihood import row_likelihood

pytestmark = pytest.mark.versions


def kinds_of(data):
    return {(array.dtype.name, array.ndim) for array in data.rows.arrays}


def compiled(likelihood):
    return evaluated(likelihood, [likelihood.log_prior, likelihood.row_log_likelihood])


@cache
def read(name):
    """A model, the data as a step reads them and PyMC's own log-probability, for all tests of the model."""
    with by_numpy:
        model = next(case for case in SPLIT if case.name == name).build()
        data = read_model(model, model.value_vars, None, None).merged()
        assert data.likelihood.counts is None  # merged rows are others than the model's
        return model, data, model.compile_logp(mode=AS_WRITTEN)


@pytest.mark.parametrize("case", SPLIT, ids=lambda case: case.name)
def test_prior_and_rows_add_up_to_the_full_graph(case):
    (_, data, full), rng = read(case.name), np.random.default_rng(1)
    likelihood, fixed, arrays = data.likelihood, data.fixed, data.rows.arrays
    assert kinds_of(data) <= KINDS.keys()
    require_fixed_support(likelihood, "a step")
    evaluate = compiled(likelihood)
    for seed in (1, 2):
        point = moved(data.point, seed=seed)
        theta, others = flatten(point, likelihood.blocks), flatten(point, likelihood.other_blocks)
        log_prior, rows = evaluate(theta, others, *fixed, *arrays)
        assert rows.shape == (likelihood.n_rows,) == (N,)
        # PyMC takes the root of 2 in a normal distribution function in single precision.
        np.testing.assert_allclose(log_prior + rows.sum(), full(point), rtol=1e-8)
        # Any rows, in any order, with repeats and in any number: each keeps its own log-likelihood.
        for size in (1, 17, 100):
            numbers = rng.integers(0, N, size)
            _, batch = evaluate(theta, others, *fixed, *(a[numbers] for a in arrays))
            np.testing.assert_allclose(batch, rows[numbers], rtol=1e-9, atol=1e-12)


#: Types and dimensions of data arrays, which are all that a transition knows of a model's rows, and a model of each.
KINDS = {
    ("float64", 1): "linear, constants",
    ("float64", 2): "linear, constants",
    ("int64", 1): "logistic, logits",
    ("int64", 2): "multinomial",
    ("int32", 1): "varying intercepts, not centred, dims",
    ("bool", 1): "rows by their numbers, and a stretch of rows, set to parameters",
}
READ_BY_A_STEP = [*dict.fromkeys(KINDS.values()), "no covariates", "a discrete switch"]
#: Models whose graphs are unlike the others: they are compiled as a step compiles them.
COMPILED = [
    "multivariate normal regression, LKJ", "censored, a limit per row", "mixture of regressions", "truncated",
    "zero-inflated Poisson", "Student-t", "ordered logistic", "small neural network", "columns set one by one",
    "bins by searchsorted", "Hilbert-space Gaussian process in two dimensions", "a scan that maps rows",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(pm.__version__.startswith("5."), reason="the models that a step reads are enough on PyMC 5")
@pytest.mark.parametrize("name", COMPILED)
def test_the_compiled_rows_pass_the_numerical_check(name):
    model, data, full = read(name)
    # Of one side, which takes less than half of the time that both do.
    density = compile_one_side(data.likelihood, compile_log_prior(data.likelihood))
    check_rows(model, data, density)  # to PyMC's own log-probability
    prior = density.log_prior(data.theta0, data.others0, *data.fixed)[0]
    rows = density.one_side(data.theta0, data.others0, *data.fixed, *data.rows.arrays)[0]
    assert prior + rows.sum() == pytest.approx(full(data.point), rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", READ_BY_A_STEP)
def test_a_step_reads_the_compiled_rows(name):
    # Building a step compiles the rows by numba and compares them to PyMC's own log-probability.
    model, data, _ = read(name)
    assert {kind for kind, of in KINDS.items() if of == name} <= kinds_of(data)
    # PyMC, which is asked for an initial point where none is given, compiles for each model what draws it.
    step = pma.ApproxMH(proxy=None, epsilon=0.3, batch_size=10, initial_point=data.point, model=model)
    point, n_read = data.point, []
    for _ in range(20):  # a proposal outside the support of the prior reads nothing
        point, stats = step.step(point)
        n_read.append(stats[0]["n_rows"])
    assert set(point) == set(data.point)
    assert 0 < max(n_read) <= N


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_what_does_not_split_is_refused_in_words(case):
    with pytest.raises(ValueError) as error:
        row_likelihood(case.build())
    for word in case.words:
        assert word in str(error.value)
    assert "batch_" not in str(error.value)


def test_a_large_term_outside_the_rows_is_announced():
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Normal("y", mu, 1.0, observed=np.zeros(9_000))
        pm.Normal("z", mu, 1.0, observed=np.zeros(6_000))
    with pytest.warns(UserWarning, match="'z': 6000.*evaluated in full at every draw"):
        row_likelihood(model, observed="y")


def test_an_observed_variable_for_each_group_is_warned_of(caplog):
    with pm.Model() as model:
        for k in range(13):
            pm.Normal(f"y{k}", pm.Normal(f"mu{k}"), 1.0, observed=np.arange(9.0))
    row_likelihood(model)
    assert "13 observed variables or potentials are read by row" in caplog.text
    assert "mu[g]" in caplog.text


def total_of(likelihood, source, theta, others=()):
    """The prior and all rows at a point of a model with one or two variables."""
    data = *source.fixed_arrays(), *source.row_arrays()
    log_prior, rows = compiled(likelihood)(np.array(theta), np.array(others), *data)
    return log_prior + rows.sum()


def test_the_user_chooses_between_row_counts():
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Normal("y", mu, 1.0, observed=REAL)
        pm.Poisson("z", pt.exp(mu), observed=COUNT[:40])
    full = model.compile_logp(mode=AS_WRITTEN)
    for name, n_rows in (("y", 60), ("z", 40)):
        likelihood, source, terms = row_likelihood(model, observed=name)
        assert (likelihood.n_rows, [t.name for t in terms.all]) == (n_rows, [name])
        np.testing.assert_allclose(total_of(likelihood, source, [0.3]), full({"mu": 0.3}))


def test_variables_of_other_steps_and_small_data_are_inputs():
    """Data are read anew, and an array that two outcomes read is gathered once."""
    with pm.Model() as model:
        beta, sigma, table = slopes(sd=pm.Data("width", 1.0)), pm.HalfNormal("sigma"), pt.as_tensor(X)
        pm.Normal("y", table @ beta, sigma, observed=REAL)
        pm.Normal("z", pt.as_tensor(X) @ beta, 2.0, observed=REAL)
    likelihood, source, _ = row_likelihood(model, [model.rvs_to_values[beta]])
    assert [b.name for b in likelihood.blocks] == ["beta"]
    assert [b.name for b in likelihood.other_blocks] == ["sigma_log__"]
    assert len(likelihood.batches) == 3
    point = {"beta": np.array([0.1, -0.2, 0.3]), "sigma_log__": np.array(0.4)}
    full = model.compile_logp(mode=AS_WRITTEN)
    for value in (1.0, 3.0):
        with model:
            pm.set_data({"width": value})
        np.testing.assert_allclose(total_of(likelihood, source, point["beta"], [0.4]), full(point))


@pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning")
@pytest.mark.parametrize(
    ("mean", "y", "observed", "words"),
    [
        (lambda b: 0 * b, REAL, None, r"The rows of \['y'\] read no free variable of the model"),
        (lambda b: b, REAL, "x", r"\['x'\] is neither .* Choose from y"),
        (lambda b: b * pt.as_tensor(X[:, 0].astype("complex128")), REAL, None, "'b' of 'y' are complex128.*array.real"),
        (lambda b: b * pt.as_tensor(X[:, 0].astype("float16")), REAL, None, "'b' of 'y' are float16.*float32"),
        (lambda b: b, np.where(REAL > 1, np.nan, REAL), None, "'y' has missing values.*Drop the rows"),
    ],
)
def test_models_without_rows_to_read_are_refused(mean, y, observed, words):
    model = built(lambda: pm.Normal("y", mean(pm.Normal("b")), 1.0, observed=y))
    with pytest.raises(ValueError, match=words):
        row_likelihood(model, observed=observed)
