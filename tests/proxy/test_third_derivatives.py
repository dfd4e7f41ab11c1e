"""Expansions of third order: what they know of all rows and what they leave of each add up, whatever the graph."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_austerity.compile.graph_compiler import interpret_log_density
from pymc_austerity.likelihood import read_model
from pymc_austerity.likelihood.density import interpret_rows
from pymc_austerity.proxy import expansion as expansions
from pymc_austerity.proxy import third_derivatives as third
from pymc_austerity.proxy.full_pass import read_coordinates

RNG = np.random.default_rng(5)
X = RNG.normal(size=(90, 3))
Y = X @ [0.5, -1.0, 0.3] + RNG.standard_t(4, size=90)


def through_one_predictor():
    pm.Bernoulli("y", logit_p=X @ pm.Normal("b", 0, 1, shape=3), observed=(Y > 0).astype(int))


def through_predictor_and_scale():
    pm.StudentT("y", nu=4, mu=X[:, 0] * pm.Normal("b"), sigma=pm.HalfNormal("s", 1), observed=Y)


def derivatives(likelihood, centre, arrays):
    """Gradient and Hessian of the sum over all rows, by NumPy: for one evaluation nothing is compiled."""
    gradient = pt.grad(likelihood.row_log_likelihood.sum(), likelihood.theta)
    hessian = pt.stack([pt.grad(gradient[k], likelihood.theta) for k in range(centre.size)])
    return interpret_log_density([likelihood.theta, *likelihood.batches], [gradient, hessian])(centre, *arrays)


@pytest.fixture(scope="module", params=[through_one_predictor, through_predictor_and_scale], ids=lambda f: f.__name__)
def known(request):
    with pm.Model() as model:
        request.param()
    data = read_model(model, model.value_vars, None, None)
    centre = np.full(data.likelihood.theta_size, 0.2)
    of_all = derivatives(data.likelihood, centre, data.rows.arrays)
    second = expansions.Expansion(centre, read_coordinates(data.likelihood), *of_all)
    cubic = third.third_derivatives(data.likelihood, second, data.rows, data.fixed, None, False)
    return data, interpret_rows(data.likelihood), expansions.CubicExpansion(*second, cubic)


def left(known, expansion, step):
    """|Σℓ_i − Σq_i| at some distance from the centre."""
    data, both_sides, _ = known
    none, centre = np.empty(0), expansion.centre
    theta = centre + step * np.linspace(1, -0.7, centre.size)
    new, old = both_sides(theta, centre, none, *data.fixed, *data.rows.arrays)
    return abs((new - old).sum() - expansions.expanded_cubic_sum(theta, none, expansion))


def test_the_known_sum_errs_with_the_fourth_power(known):
    _, _, right = known
    assert left(known, right, 0.02) / left(known, right, 0.01) == pytest.approx(16, rel=0.1)
    halved = right._replace(cubic=right.cubic / 2)
    assert left(known, halved, 0.02) / left(known, halved, 0.01) < 10  # planted mistake
    backwards = right._replace(cubic=right.cubic[::-1].copy())
    assert left(known, backwards, 0.02) / left(known, backwards, 0.01) < 10  # planted mistake


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
