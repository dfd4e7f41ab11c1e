"""Rows with normal errors: which models are shown to be quadratic but for one scale, and that their rows are so."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode

from pymc_austerity.bounds import find_row_scale
from pymc_austerity.likelihood import read_model

N, G = 12, 4
RNG = np.random.default_rng(21)
X, W, Y, INDEX = RNG.normal(size=(N, 2)), RNG.uniform(0.5, 2, N), RNG.normal(size=N), np.arange(N) % G


def _mean():
    effect = pm.Normal("effect", 0, pm.HalfNormal("spread"), shape=G)
    return pm.Normal("intercept") + effect[INDEX] * X[:, 0] + X @ pm.Normal("slopes", shape=2)


def _normal(scale):
    return lambda y: pm.Normal("y", _mean(), scale(pm.HalfNormal("s")), observed=y)


def _of_mean(mean):
    return lambda y: pm.Normal("y", mean(), pm.HalfNormal("s"), observed=y)


def _where(otherwise, shift=0.0):
    """Rows beyond a limit, and what stands in the place of others."""

    def logp(y, mean, s):
        return pm.math.switch(y > 1, pm.logp(pm.Normal.dist(mean, s), y), otherwise)

    return lambda y: pm.CustomDist("y", _mean(), pm.HalfNormal("s"), logp=logp, observed=shift + y)


def _in_the_mean(y):
    s = pm.HalfNormal("s")
    pm.Normal("y", _mean() + s * X[:, 1], s, observed=y)


#: Laws, and their power and slope.
SHOWN = {
    "normal": (_normal(lambda s: s), (-2, -1)),
    "precise": (lambda y: pm.Normal("y", _mean(), tau=pm.Gamma("s", 2, 2), observed=y), (1, 0.5)),
    "variance": (_normal(pm.math.sqrt), (-1, -0.5)),
    "weighted": (_normal(lambda s: W * s), (-2, -1)),
    "log-normal": (lambda y: pm.LogNormal("y", _mean(), pm.HalfNormal("s"), observed=y), (-2, -1)),
    "known": (lambda y: pm.Normal("y", _mean(), W, observed=y), (0, 0)),
    "impossible": (_where(-np.inf, shift=1.0), (-2, -1)),
}
REFUSED = {
    "Student": lambda y: pm.StudentT("y", 4, _mean(), sigma=pm.HalfNormal("s"), observed=y),
    "by group": lambda y: pm.Normal("y", _mean(), pm.HalfNormal("s", shape=G)[INDEX], observed=y),
    "in the mean": _in_the_mean,
    "by a covariate": _normal(lambda s: pm.math.exp(s + pm.Normal("t") * X[:, 1])),
    "rounded": _of_mean(lambda: pt.cast(10 * pm.Normal("mean", shape=G), "int64")[INDEX]),
    "raised": _normal(lambda s: 0.1 + s),
    "product": _of_mean(lambda: _mean() * pm.Normal("times")),
    "left out": _where(0.0),
}


def _read(build):
    with pm.Model() as model:
        build(np.exp(Y))
    return read_model(model, model.value_vars, None, None)


def _scale(likelihood):
    return find_row_scale(likelihood, range(likelihood.theta_size))


@pytest.mark.parametrize(("law", "counted"), [(law, law == "normal") for law in SHOWN])
def test_rows_are_of_the_form_that_is_shown(law, counted):
    build, shown = SHOWN[law]
    data = _read(build)
    likelihood = data.likelihood.counted() if counted else data.likelihood
    arrays = (*data.rows.arrays, np.arange(1.0, N + 1)) if counted else data.rows.arrays
    scale = _scale(likelihood)
    assert (scale.power, scale.slope) == shown
    places = {b.name: b.start for b in likelihood.blocks}
    assert scale.place == next((start for name, start in places.items() if name.startswith("s_log")), None)

    def off(scale):
        return _largest_distance(likelihood, arrays, scale)

    assert off(scale) < 1e-9
    # What would be seen of another power, another slope and another parameter.
    assert off(scale._replace(place=places["intercept"], power=-2)) > 1e-3
    if scale.place is not None:
        assert off(scale._replace(power=1.1 * scale.power)) > 1e-3
        assert off(scale._replace(slope=1.1 * scale.slope)) > 1e-3


def _largest_distance(likelihood, arrays, scale):
    """How far the rows are from the form."""
    inputs = [likelihood.theta, *likelihood.batches]
    rows = pytensor.function(inputs, likelihood.row_log_likelihood, mode=Mode("py", "fast_compile"))
    weight = 1.0 if likelihood.counts is None else arrays[-1]
    start, direction = np.random.default_rng(2).normal(size=(2, likelihood.theta_size))

    def at(t, s):
        """Rows on a line in v, without what the form says of s alone."""
        theta = start + t * direction
        if scale.place is not None:
            theta[scale.place] = s
        return rows(theta, *arrays) / weight - scale.slope * s

    third = at(3, 0.2) - 3 * at(2, 0.2) + 3 * at(1, 0.2) - at(0, 0.2)
    change = (at(1, 0.7) - at(0, 0.7)) - np.exp(scale.power * 0.7) * (at(1, 0.0) - at(0, 0.0))
    rises = [(at(1, s) - at(1, 0.0)) * np.expm1(scale.power * other) for s, other in ((0.7, -0.4), (-0.4, 0.7))]
    return np.abs([third, change, rises[0] - rises[1]]).max()


@pytest.mark.parametrize("law", REFUSED)
def test_other_rows_are_not(law):
    assert _scale(_read(REFUSED[law]).likelihood) is None
