"""Rows that jump in a parameter, or have no likelihood beyond a limit: refused where a part of the rows decides."""

import warnings
from contextlib import nullcontext

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from evidence import MAX_Z, mean_z
from rowwise import built, read
from scipy import special
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.likelihood import moving_support, read_model
from pymc_austerity.likelihood.jumps import may_jump, unseen_jump
from pymc_austerity.likelihood.moving_support import require_fixed_support
from pymc_austerity.proxy import preparation
from pymc_austerity.steps import step_building

N = 4_000
RNG = np.random.default_rng(28)
X, Z = np.sort(RNG.uniform(0, 1, N)), RNG.normal(size=N)
CHANGED = RNG.normal(size=N) + 0.7 * (X > 0.4)
T = np.random.default_rng(6).normal(size=60)


@pytest.mark.parametrize(
    ("written", "jumps"),
    [
        (lambda b: pm.Bernoulli("o", logit_p=b * T, observed=(T > 0) * 1), False),
        (lambda b: pm.StudentT("o", nu=4, mu=b * T, sigma=1, observed=T), False),
        (lambda b: pm.Normal("o", pt.switch(b > T, 1.0, 0.0), 1, observed=T), True),
        (lambda b: pm.Normal("o", pt.floor(b) * T, 1, observed=T), True),
        (lambda b: pm.Normal("o", pt.searchsorted(pt.stack([b, b + 1]), T), 1, observed=T), True),
        (lambda b: pm.Uniform("o", 0, 9 * pt.exp(b), observed=np.abs(T)), True),
    ],
    ids=["logistic", "Student", "switch", "floor", "searchsorted", "end of a uniform law"],
)
def test_what_may_jump_is_read_from_the_graph(written, jumps):
    model = built(lambda: written(pm.Normal("b", 0, 1)))
    likelihood = read_model(model, model.value_vars, None, None).likelihood
    assert may_jump(likelihood.row_log_likelihood, likelihood.theta) is jumps


def change_point(unit=1.0, at=0.0):
    """A level that changes where X, in units of its own, passes an estimated value."""
    x = at + unit * X
    with pm.Model() as model:
        c, b = pm.Uniform("c", at, at + unit), pm.Normal("b", 0, 1)
        pm.Normal("y", b * (x > c), 1, observed=CHANGED)
    return model


def levels():
    k = pm.Normal("k", [0.3, 0.6], 0.3, shape=2, transform=pm.distributions.transforms.ordered, initval=[0.3, 0.6])
    return pm.Normal("l", 0, 2, shape=3)[pt.searchsorted(k, X)]


def selected():
    weights = pm.Normal("c", 0, 1, shape=2)
    return pm.Normal("b", 0, 2) * (weights[0] * X + weights[1] * Z > 0.1)


def of_groups():
    c = pm.Normal("c", 0.4, 0.1, shape=20)
    return pm.Normal("b", 0, 2) * (c[np.arange(N) % 20] < X)


def periods():
    return pm.Normal("b", 0, 2) * (pt.floor(X / pm.Uniform("c", 0.05, 0.2)) % 2)


def jump_of(model):
    """What is found of a model whose posterior is not known."""
    data = read_model(model, model.value_vars, None, None)
    return unseen_jump(data.likelihood, data.rows, data.fixed, data.theta0, data.others0, None)


@pytest.mark.parametrize("mean", [levels, selected, of_groups, periods])
def test_jumps_that_differ_from_row_to_row_are_found(mean):
    assert jump_of(built(lambda: pm.Normal("y", mean(), 1, observed=CHANGED))).name in ("k", "c")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "unit", "at"),
    [(pma.PenaltyMH, 3e7, 1.7e9), (pma.ApproxMH, 1e-9, 0.0), (pma.MHSS, 1.0, 0.0)],
)
def test_a_change_point_is_refused_in_all_units(step, unit, at):
    with pytest.raises(ValueError, match=rf"{step.__name__}: the log-likelihood of a row jumps.*ExactMH\(\[c\]\)"):
        step(model=change_point(unit, at), progressbar=False)


def test_a_change_point_is_refused_without_a_proxy():
    with pytest.raises(ValueError, match="a row jumps"):
        pma.PenaltyMH(model=change_point(), proxy=None, progressbar=False)


CONTINUOUS = {
    "a hinge by switch": lambda c, b: b * pt.switch(c < X, X - c, 0.0),
    "the same jump in all rows": lambda c, b: b * Z * pt.switch(c > 0.5, 1.0, 1.3),
}


@pytest.mark.parametrize("mean", CONTINUOUS.values(), ids=list(CONTINUOUS))
def test_what_batches_show_is_taken(mean):
    with pm.Model() as model:
        pm.Normal("y", mean(pm.Beta("c", 2, 2), pm.Normal("b", 0, 1)), 1, observed=CHANGED)
    assert jump_of(model) is None


def test_few_rows_that_are_read_at_once_are_taken():
    with pm.Model() as model:
        c, b = pm.Uniform("c", 0, 1), pm.Normal("b", 0, 1)
        pm.Normal("y", b * (X[::50] > c), 1, observed=CHANGED[::50])
    pma.ExactMH(model=model, proxy=None, progressbar=False)
    every = pma.ApproxMH(model=model, epsilon=0, proxy=None, progressbar=False)
    assert jump_of(model).name == "c"  # which no batch could miss
    assert every.test.looks(X[::50].size).sizes[0] == X[::50].size
    with pytest.raises(ValueError, match="a row jumps"):
        pma.ApproxMH(model=model, epsilon=0.01, batch_size=20, proxy=None, progressbar=False)


def posterior_of_change():
    """Mean and standard deviation of the change point: b is integrated out, and c uniform between two rows."""
    ends = np.concatenate([[0.0], X, [1.0]])
    n, total = np.arange(N, -1, -1), np.append(np.cumsum(CHANGED[::-1])[::-1], 0.0)
    log_weight = total**2 / (n + 1) / 2 - np.log(n + 1) / 2 + np.log(np.maximum(np.diff(ends), 1e-300))
    weight, middle = special.softmax(log_weight), (ends[1:] + ends[:-1]) / 2
    mean = weight @ middle
    return mean, np.sqrt(weight @ (middle - mean) ** 2)


def drawn(step):
    # A chain may begin at another change that few rows speak for, and stay there for some hundred draws.
    return sampled(pm.modelcontext(None), step, 4_000, tune=2_000, seed=3).posterior["c"].to_numpy()


@pytest.mark.slow
def test_the_remedies_give_the_posterior(monkeypatch):
    mean, sd = posterior_of_change()
    with change_point() as model:
        mixed = drawn([pma.PenaltyMH([model["b"]], progressbar=False), pma.ExactMH([model["c"]])])
        exact = drawn(pma.ExactMH())
    for draws in (mixed, exact):
        assert abs(mean_z(draws, mean)) < MAX_Z
        assert 0.7 < draws.std() / sd < 1.4
    for module in (preparation, step_building):  # planted: the step as it is without the refusal
        monkeypatch.setattr(module, "require_seen_jumps", lambda *_: None)
    with change_point(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert drawn(pma.PenaltyMH(progressbar=False)).std() / sd > 2


LIMITED = np.random.default_rng(26).uniform(0.1, 1.9, 500)


def uniform():
    pm.Uniform("y", 0, pm.HalfNormal("limit", 5), observed=LIMITED)


def uniform_of_groups():
    pm.Uniform("y", 0, pm.HalfNormal("limit", 5, shape=5)[np.arange(500) % 5], observed=LIMITED)


def truncated():
    limit = pm.Normal("limit", -3, 1)
    pm.Truncated("y", pm.Normal.dist(pm.Normal("mean"), 1), lower=limit, observed=LIMITED)


def shifted():
    pm.Potential("y", pm.logp(pm.Exponential.dist(2.0), LIMITED - pm.Normal("limit", 0, 1)).sum())


MOVING = [uniform, uniform_of_groups, truncated, shifted]


@pytest.mark.parametrize("step", [pma.PenaltyMH, pma.MHSS])
def test_a_limit_that_a_parameter_moves_is_refused(step):
    """Where no proxy is found: the posterior lies against the limit."""
    with pytest.raises(ValueError, match=rf"{step.__name__}: rows have no likelihood beyond a limit that .*'limit"):
        step(model=built(uniform), progressbar=False)


@pytest.mark.slow
def test_all_rows_may_decide():
    model = built(uniform)
    run = sampled(model, pma.ExactMH(model=model, proxy=None, progressbar=False), 2_000, tune=1_000, seed=1)
    above = run["posterior"]["limit"].to_numpy() / LIMITED.max() - 1
    assert above.min() >= 0
    assert 500 * above.mean() == pytest.approx(1, rel=0.3)  # an exponential law of rate n


def fixed_limits():
    mean = pm.Normal("mean")
    pm.Truncated("a", pm.Normal.dist(mean, 1), lower=0, upper=2, observed=LIMITED)
    pm.Gamma("b", pm.HalfNormal("shape"), 1, observed=LIMITED)
    pm.Uniform("c", 0, 2, observed=LIMITED)


def jumps_in_a_mixture():
    """Beside a normal law no row is without likelihood."""
    parts = [pm.Uniform.dist(0, pm.HalfNormal("limit", 5)), pm.Normal.dist(0, 3)]
    pm.Mixture("y", [0.5, 0.5], parts, observed=LIMITED)


def number_of_classes():
    """The length of a vector of parameters is compared with data."""
    pm.Categorical("y", pm.Dirichlet("p", np.ones(3)), observed=np.arange(500) % 3)


FIXED = [fixed_limits, jumps_in_a_mixture, number_of_classes]


@pytest.mark.parametrize("define", [*MOVING, *FIXED])
def test_only_what_parameters_move_is_a_limit(define, monkeypatch):
    likelihood = read(define)[1].likelihood
    with pytest.raises(ValueError, match="beyond a limit") if define in MOVING else nullcontext():
        require_fixed_support(likelihood, "step")
    # Control: with a walk that stops at the first operation, none is found.
    monkeypatch.setattr(moving_support, "_conditions", lambda graph: ())
    require_fixed_support(likelihood, "step")
