"""Expansions of third order: what they know of all rows and what they leave of each add up, whatever the graph."""

import numpy as np
import pymc as pm
import pytest
from known_sums import changes, sums_at

from pymc_austerity.likelihood import read_model
from pymc_austerity.proxy import third_derivatives as third
from pymc_austerity.proxy.expansion import Expansion
from pymc_austerity.proxy.full_pass import read_coordinates

RNG = np.random.default_rng(5)
X = RNG.normal(size=(90, 3))
Y = X @ [0.5, -1.0, 0.3] + RNG.standard_t(4, size=90)


def through_one_predictor():
    pm.Bernoulli("y", logit_p=X @ pm.Normal("b", 0, 1, shape=3), observed=(Y > 0).astype(int))


def through_predictor_and_scale():
    pm.StudentT("y", nu=4, mu=X[:, 0] * pm.Normal("b"), sigma=pm.HalfNormal("s", 1), observed=Y)


@pytest.mark.parametrize(
    "define", [through_one_predictor, pytest.param(through_predictor_and_scale, marks=pytest.mark.slow)]
)
def test_remainders_and_known_sum_are_the_log_likelihood(define):
    with pm.Model() as model:
        define()
    data = read_model(model, model.value_vars, None, None)
    centre = np.full(data.likelihood.theta_size, 0.2)
    sums = sums_at(data.likelihood, centre, data.rows)
    second = Expansion(centre, read_coordinates(data.likelihood), sums.gradient, sums.hessian)
    cubic = third.third_derivatives(data.likelihood, second, data.rows, data.fixed, None, False)

    def off(cubic):
        ends = centre + 0.5 * np.linspace(1, -0.7, centre.size), centre
        found, expected = changes(data.likelihood, data.rows, second._replace(cubic=cubic), ends, order=3)
        return abs(found / expected - 1)

    assert off(cubic) < 1e-9
    assert min(off(cubic / 2), off(cubic[::-1].copy())) > 1e-4  # planted mistakes


def test_too_many_triples_are_refused_with_the_way_out():
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=RNG.normal(size=(30, 250)) @ pm.Normal("b", 0, 1, shape=250), observed=Y[:30] > 0)
        with pytest.raises(ValueError, match=r"2,635,500 for the 250 entries of \['b'\].*up to 200.*order=2, or Penal"):
            third.check_triples(read_model(model, model.value_vars, None, None).likelihood)
    with pm.Model() as model:
        b = pm.Normal("b", 0, 1, shape=50)
        pm.StudentT("y", nu=4, mu=RNG.normal(size=(90, 50)) @ b, sigma=pm.HalfNormal("s", 1), observed=Y)
        with pytest.raises(ValueError, match="51 entries .*up to 40 entries where the rows do not read"):
            third.check_triples(read_model(model, model.value_vars, None, None).likelihood)
