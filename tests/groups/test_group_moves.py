"""Moves of groups keep the posterior: move by move against PyMC's density, and by draws against quadrature."""

import copy
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z
from grouped import by_group, check_ratio, largest_z, logistic_rows, moments, moves, normal_rows

import pymc_austerity as pma
from pymc_austerity.groups.group_conditional import whiten

pytestmark = pytest.mark.slow

#: A group without rows, one with one row, and one with half of all.
SIZES = np.array([0, 1, 9, 20, 10])
INDEX = np.random.default_rng(5).permutation(np.repeat(np.arange(5), SIZES))
EFFECTS = np.array([0.0, 1.0, -0.8, 0.9, 2.0])
NORMAL = EFFECTS[INDEX] + np.random.default_rng(6).normal(size=40)
BINARY = (np.random.default_rng(7).random(40) < 1 / (1 + np.exp(-EFFECTS[INDEX]))).astype(int)


# Both have data of the same types, for which moves are compiled once; a weight that is one counts a prior twice.


def _normal():
    """Centred."""
    mean, log_scale = pm.Normal("mean"), pm.Normal("log_scale", -0.3, 0.7)
    effect = pm.Normal("effect", mean, pm.math.exp(log_scale), shape=5)
    again = pm.logp(pm.Normal.dist(mean, pm.math.exp(log_scale)), effect)
    pm.Potential("again", pm.Data("weight", 0.0) * again)
    pm.Normal("y", effect[INDEX], 1, observed=NORMAL)


def _logistic():
    """Not centred, which the moves read in terms of the effects."""
    mean, log_scale = pm.Normal("mean"), pm.Normal("log_scale", -0.3, 0.7)
    raw = pm.Normal("raw", shape=5)
    effect = pm.Deterministic("effect", mean + pm.math.exp(log_scale) * raw)
    pm.Potential("again", pm.Data("weight", 0.0) * pm.logp(pm.Normal.dist(), raw))
    pm.Bernoulli("y", logit_p=effect[INDEX], observed=pm.Data("labels", BINARY.astype(float)))


MODELS = {"normal": _normal, "logistic": _logistic}
MOMENTS = {
    "normal": moments(by_group(normal_rows(NORMAL), INDEX, 5)),
    "logistic": moments(by_group(logistic_rows(BINARY), INDEX, 5)),
}


@pytest.fixture(scope="module", params=MODELS)
def case(request):
    with pm.Model() as model:
        MODELS[request.param]()
        step = pma.GroupMH(test=pma.Exact(), refreshed=0.6, model=model, rng=1, progressbar=False)

    def log_density(theta):
        """By PyMC, in terms of the effects."""
        log_jacobian = 5 * theta[1] if request.param == "logistic" else 0.0  # of the effects by what the user wrote
        return (
            model.compile_logp(mode="FAST_COMPILE")(step.coordinates.point(model.initial_point(), theta)) - log_jacobian
        )

    return request.param, log_density, step.decider


def _run(decider, n, data=None, state=None, theta=None, seed=11):
    """Draws of θ, and what became of the moves."""
    outcomes = list(moves(decider, n, data, state, theta, seed))
    return np.array([refresh.theta for *_, refresh in outcomes]), outcomes


def test_draws_have_the_moments_of_quadrature(case):
    name, _, decider = case
    draws, outcomes = _run(decider, 16_000)
    assert np.mean([c.accepted for _, c, _ in outcomes]) > 0.2
    assert np.mean([r.n_accepted / r.n_groups for _, _, r in outcomes]) > 0.4
    assert largest_z(draws.T, MOMENTS[name]) < MAX_Z


def test_wrong_prior_and_rows_of_another_group_are_seen(case):
    name, _, decider = case
    data = decider.data()
    shifted = np.minimum(data.start + 1, data.start[-1])
    assert largest_z(_run(decider, 8_000, data._replace(start=shifted))[0].T, MOMENTS[name]) > MAX_Z
    twice = replace(decider, fixed=(np.array(1.0),))
    assert largest_z(_run(twice, 16_000)[0].T, MOMENTS[name]) > MAX_Z


def _conditional(decider, theta):
    return decider.surrogate.condition(theta, decider.prepared.steering)


def test_groups_without_spread_make_the_move_impossible(case):
    _, _, decider = case
    expansion = decider.prepared.steering
    theta = decider.theta0.copy()
    theta[expansion.shared] = -2e4  # a scale on the log scale
    without = expansion._replace(precision=np.full_like(expansion.precision, -np.inf))
    found = decider.surrogate.condition(theta, without)
    assert found.log_det == -np.inf
    assert np.isfinite(whiten(theta, without, found)).all()


def test_a_carried_move_keeps_every_z(case):
    _, _, decider = case
    expansion, state = decider.prepared.steering, decider.new_state()

    def change(theta, carried):
        z, z_new = (whiten(t, expansion, _conditional(decider, t)) for t in (theta, carried.theta))
        return np.abs(z_new - z).max()

    outcomes = _run(decider, 60, state=state)[1]
    moved = [(theta, c) for theta, c, _ in outcomes if c.accepted]
    assert len(moved) > 5
    assert max(change(*pair) for pair in moved) < 1e-8
    # Planted: the two groups with fewest rows carry each other's z.
    swapped = [1, 0, 2, 3, 4]
    theta, changes = moved[0][0], []
    for seed in range(40):
        conditional = _conditional(decider, theta)
        state.phi[:] = theta[decider.model.groups.shared]
        state.mean[:] = conditional.mean[swapped]
        state.factor[:], state.log_det[0] = conditional.factor[swapped], conditional.log_det
        _, ((_, carried, _),) = _run(decider, 1, state=copy.deepcopy(state), theta=theta, seed=seed)
        changes += [change(theta, carried)] if not np.array_equal(carried.theta, theta) else []
        theta = _run(decider, 3, theta=theta, seed=seed)[0][-1]
    assert changes
    assert min(changes) > 1e-3


def test_ratio_about_the_centre_has_densities_and_jacobian(case):
    _, log_density, decider = case
    check_ratio(decider, log_density, _run(decider, 300)[0], n=3, step=1e-4, allowed=1e-6)
