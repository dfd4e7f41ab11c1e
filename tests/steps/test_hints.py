"""What moves badly is warned of before sampling, and what one decision moves well is not."""

import re
import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_austerity.steps.description import (
    mention_row_deterministics,
    warn_of_estimated_matrices,
    warn_of_indicators,
    warn_of_local_scales,
    warn_of_tables,
)

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


def warned_by(warn, coefficients):
    """The warnings of a model with these coefficients."""
    model = with_rows(coefficients)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn(model, "PenaltyMH")
    return found


@pytest.mark.parametrize(("written", "local"), [(centred, half_cauchy), (not_centred, half_student)])
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
    assert not warned_by(warn_of_local_scales, coefficients)


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
    assert not warned_by(warn_of_estimated_matrices, coefficients)


def included(size=20):
    return pm.Bernoulli("included", 0.5, shape=size)


def said_of_indicators(caplog, model, variables=None):
    warn_of_indicators(model, variables or model.value_vars, "PenaltyMH")
    return caplog.messages


@pytest.mark.parametrize(
    ("size", "remedy"),
    [
        (20, r"or sample with \w+\(proposal=pma.ReversibleJump\('b', 'included'\)\), or with a step of its own"),
        (1, r"or sample with a step of its own.*pm.BinaryGibbsMetropolis\(\['included'\]\)"),
    ],
)
def test_indicators_that_switch_rarely_are_warned_of(caplog, size, remedy):
    model = with_rows(lambda: included(size) * pm.Normal("b", shape=20))
    (message,) = said_of_indicators(caplog, model)
    assert re.search(f"'included' takes 0 or 1.*hardly ever switches.*{remedy}", message)


def test_indicators_of_other_steps_are_not_warned_of(caplog):
    model = with_rows(lambda: included() * pm.Normal("b", shape=20))
    assert not said_of_indicators(caplog, model, model.continuous_value_vars)
    assert not said_of_indicators(caplog, with_rows(lambda: pm.Poisson("k", 3) * pm.Normal("b", shape=20)))


def effects(name, size, scale=None):
    return pm.Normal(name, 0, scale or pm.HalfNormal(f"sd_{name}"), shape=size)


@pytest.mark.parametrize(
    ("mean", "warned"),
    [
        (lambda: effects("a", 20)[:, None] + effects("b", 30), True),
        (lambda: effects("a", 20)[:, None] + pm.Normal("b") * np.arange(30), False),
        (lambda: effects("a", 20, 1.0)[:, None] + effects("b", 30, 1.0), False),
    ],
    ids=["rows and columns", "rows", "of known scale"],
)
def test_tables_with_effects_of_both_axes_are_warned_of(caplog, mean, warned):
    with pm.Model() as model:
        pm.Normal("y", mean(), 1, observed=np.zeros((20, 30)))
    warn_of_tables(model, "PenaltyMH")
    said = r"'y' is a table of 20 x 30 .* a and b.* np.indices\(\(20, 30\)\).reshape\(2, -1\)"
    assert [bool(re.search(said, message)) for message in caplog.messages] == [True] * warned


def said_of_deterministics(caplog, spelling, n=6_000):
    x = np.arange(n) / n
    with pm.Model(coords={"row": np.arange(n)}) as model:
        b = pm.Normal("b", 0, 1)
        mu = {
            "constant": lambda: pm.Deterministic("mu", b * x),
            "data": lambda: pm.Deterministic("mu", b * pm.Data("x", x, dims="row"), dims="row"),
            "none": lambda: b * x,
            "scalar": lambda: pm.Deterministic("half", b / 2) * x,
        }[spelling]()
        pm.Normal("y", mu, 1, observed=x)
    with caplog.at_level("INFO", "pymc_austerity"):
        mention_row_deterministics(model, n)
    return caplog.messages


@pytest.mark.parametrize("spelling", ["constant", "data"])
def test_a_value_a_row_is_mentioned_once(caplog, spelling):
    (message,) = said_of_deterministics(caplog, spelling)
    assert "mu has a value for each of 6,000 rows" in message
    assert "48 kB" in message
    assert "var_names=['b']" in message


@pytest.mark.parametrize(("spelling", "n"), [("none", 6_000), ("scalar", 6_000), ("constant", 500)])
def test_nothing_is_said_of_other_deterministics(caplog, spelling, n):
    assert said_of_deterministics(caplog, spelling, n) == []
