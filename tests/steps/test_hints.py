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
)

X = np.random.default_rng(2).normal(size=(200, 20))


def of_indicators(model, name):
    warn_of_indicators(model, model.value_vars, name)


def of_indicators_of_others(model, name):
    warn_of_indicators(model, model.continuous_value_vars, name)


def coefficients(local=pm.HalfCauchy, **settings):
    return pm.Normal("b", 0, pm.HalfCauchy("tau", 1) * local("local", shape=20, **settings), shape=20)


def not_centred():
    scales = pm.HalfCauchy("tau", 1) * pm.HalfStudentT("local", nu=3, sigma=1, shape=20)
    return pm.Normal("z", 0, 1, shape=20) * scales


def factor():
    sd = pm.Exponential.dist(1.0, shape=20)
    return pm.LKJCholeskyCov("L", n=20, eta=2.0, sd_dist=sd, compute_corr=True)[0]


def gaussian_process():
    distance = np.abs(np.subtract.outer(np.arange(20), np.arange(20)))
    cov = pt.exp(-distance / pm.HalfNormal("length", 1)) + 1e-3 * pt.eye(20)
    return pt.linalg.cholesky(cov) @ pm.Normal("z", shape=20)


def selected(size=20):
    return pm.Bernoulli("included", 0.5, shape=size) * pm.Normal("b", shape=20)


SCALES = "'local' has a scale .* for each of 20 coefficients.*pm.NUTS"
MATRIX = r"a matrix that is estimated, of \['(L|length)'\], and of \['z'\].*pm.NUTS.*HSGP"
SWITCHES = "'included' takes 0 or 1.*hardly ever switches.*or sample with "
JUMPS = r"\w+\(proposal=pma.ReversibleJump\('b', 'included'\)\), or with a step of its own"
#: What looks, the coefficients that it looks at, and what it says.
HINTS = {
    "a horseshoe": (warn_of_local_scales, lambda: coefficients(beta=1), SCALES),
    "a horseshoe, not centred": (warn_of_local_scales, not_centred, SCALES),
    "one scale": (warn_of_local_scales, lambda: pm.Normal("b", 0, pm.HalfCauchy("tau", 1), shape=20), None),
    "light tails": (warn_of_local_scales, lambda: coefficients(pm.HalfNormal, sigma=1), None),
    "a Cholesky factor": (warn_of_estimated_matrices, lambda: factor() @ pm.Normal("z", shape=20), MATRIX),
    "its transpose": (warn_of_estimated_matrices, lambda: pm.Normal("z", shape=20) @ factor().T, MATRIX),
    "a Gaussian process": (warn_of_estimated_matrices, gaussian_process, MATRIX),
    "written as it is": (warn_of_estimated_matrices, lambda: pm.MvNormal("b", 0, chol=factor(), shape=20), None),
    "a matrix of data": (
        warn_of_estimated_matrices,
        lambda: pm.HalfNormal("tau", 1) * (np.eye(20) @ pm.Normal("z", shape=20)),
        None,
    ),
    "a network": (
        warn_of_estimated_matrices,
        lambda: pt.tanh(pm.Normal("layer", shape=(20, 3))) @ pm.Normal("out", shape=3),
        None,
    ),
    "indicators": (of_indicators, selected, SWITCHES + JUMPS),
    "one indicator": (
        of_indicators,
        lambda: selected(1),
        SWITCHES + r"a step of its own.*pm.BinaryGibbsMetropolis\(\['included'\]\)",
    ),
    "indicators of other steps": (of_indicators_of_others, selected, None),
    "counts": (of_indicators, lambda: pm.Poisson("k", 3) * pm.Normal("b", shape=20), None),
}


@pytest.mark.parametrize(("look", "define", "said"), HINTS.values(), ids=HINTS)
def test_what_moves_badly_is_warned_of(look, define, said, caplog):
    with pm.Model() as model:
        pm.Normal("y", X @ define(), 1, observed=np.zeros(200))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        look(model, "PenaltyMH")
    messages = [str(warning.message) for warning in found] + caplog.messages
    assert len(messages) == (said is not None)
    assert all(re.search(said, message) for message in messages)


@pytest.mark.parametrize(
    ("spelling", "n", "mentioned"),
    [
        ("constant", 6_000, True),
        ("data", 6_000, True),
        ("none", 6_000, False),
        ("scalar", 6_000, False),
        ("constant", 500, False),
    ],
)
def test_a_value_a_row_is_mentioned_once(caplog, spelling, n, mentioned):
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
    said = r"mu has a value for each of 6,000 rows.*48 kB.*var_names=\['b'\]"
    assert [bool(re.search(said, message)) for message in caplog.messages] == [True] * mentioned
