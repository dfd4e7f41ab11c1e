"""Moves of groups keep the posterior: move by move against PyMC's density, and by draws against quadrature."""

import copy
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z
from grouped import by_group, check_ratio, largest_z, logistic_rows, moments, moves

import pymc_austerity as pma
from pymc_austerity.groups.group_conditional import whiten
from pymc_austerity.groups.group_expansion import grouped_sum

pytestmark = pytest.mark.slow

#: A group without rows, one with one row, and one with half of all.
SIZES = np.array([0, 1, 9, 20, 10])
INDEX = np.random.default_rng(5).permutation(np.repeat(np.arange(5), SIZES))
EFFECTS = np.array([0.0, 1.0, -0.8, 0.9, 2.0])
BINARY = (np.random.default_rng(7).random(40) < 1 / (1 + np.exp(-EFFECTS[INDEX]))).astype(int)
MOMENTS = moments(by_group(logistic_rows(BINARY), INDEX, 5))


@pytest.fixture(scope="module")
def case():
    """Not centred, which the moves read in terms of the effects; a weight that is one counts their prior twice."""
    with pm.Model() as model:
        mean, log_scale = pm.Normal("mean"), pm.Normal("log_scale", -0.3, 0.7)
        raw = pm.Normal("raw", shape=5)
        effect = pm.Deterministic("effect", mean + pm.math.exp(log_scale) * raw)
        pm.Potential("again", pm.Data("weight", 0.0) * pm.logp(pm.Normal.dist(), raw))
        pm.Bernoulli("y", logit_p=effect[INDEX], observed=pm.Data("labels", BINARY.astype(float)))
        return model, pma.GroupMH(test=pma.Exact(), refreshed=0.6, rng=1, progressbar=False)


@pytest.fixture(scope="module")
def decider(case):
    return case[1].decider


def _run(decider, n, data=None, state=None, theta=None, seed=11):
    """Draws of θ, and what became of the moves."""
    outcomes = list(moves(decider, n, data, state, theta, seed))
    return np.array([refresh.theta for *_, refresh in outcomes]), outcomes


def test_draws_have_the_moments_of_quadrature(decider):
    draws, outcomes = _run(decider, 16_000)
    assert np.mean([c.accepted for _, c, _ in outcomes]) > 0.2
    assert np.mean([r.n_accepted / r.n_groups for _, _, r in outcomes]) > 0.4
    assert largest_z(draws.T, MOMENTS) < MAX_Z


def test_wrong_prior_and_rows_of_another_group_are_seen(decider):
    data = decider.data()
    shifted = np.minimum(data.start + 1, data.start[-1])
    assert largest_z(_run(decider, 8_000, data._replace(start=shifted))[0].T, MOMENTS) > MAX_Z
    twice = replace(decider, fixed=(np.array(1.0),))
    assert largest_z(_run(twice, 16_000)[0].T, MOMENTS) > MAX_Z


def _conditional(decider, theta):
    return decider.surrogate.condition(theta, decider.prepared.steering)


def test_groups_without_spread_make_the_move_impossible(decider):
    expansion = decider.prepared.steering
    theta = decider.theta0.copy()
    theta[expansion.shared] = -2e4  # a scale on the log scale
    without = expansion._replace(precision=np.full_like(expansion.precision, -np.inf))
    found = decider.surrogate.condition(theta, without)
    assert found.log_det == -np.inf
    assert np.isfinite(whiten(theta, without, found)).all()


def test_a_carried_move_keeps_every_z(decider):
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
    """The density is PyMC's, in terms of the effects."""
    model, step = case
    log_p, start = model.compile_logp(mode="FAST_COMPILE"), model.initial_point()

    def log_density(theta):
        return log_p(step.coordinates.point(start, theta)) - 5 * theta[1]  # the Jacobian of the effects

    check_ratio(step.decider, log_density, _run(step.decider, 300)[0], n=3, step=1e-4, allowed=1e-6)


G = 60
FOURS = np.repeat(np.arange(G), 4)
_RNG = np.random.default_rng(21)
OF_FOURS = (_RNG.random(FOURS.size) < 1 / (1 + np.exp(-1.0 - 1.3 * _RNG.normal(size=G)[FOURS]))).astype(int)


@pytest.fixture(scope="module")
def few():
    """Groups with few rows, which a quadratic steers, and their moments."""
    with pm.Model():
        mean, log_scale = pm.Normal("mean"), pm.Normal("log_scale", -0.3, 0.7)
        effect = pm.Normal("effect", mean, pm.math.exp(log_scale), shape=G)
        pm.Bernoulli("y", logit_p=effect[FOURS], observed=OF_FOURS)
        return pma.GroupMH(rng=1, progressbar=False).decider, moments(by_group(logistic_rows(OF_FOURS), FOURS, G))


def _left(decider, e):
    """Standard deviation of what a quadratic leaves of all rows, over draws of everything."""
    prepared, rng, left = decider.prepared, np.random.default_rng(3), []
    at = decider.others, decider.fixed
    for _ in range(200):
        theta = decider.surrogate.theta(prepared.draw_shared(rng), rng.standard_normal((G, 1)), e)
        rows = sum(terms.sum() for terms in decider.model.group_pass.rows(theta, *at, prepared.rows))
        left.append(rows - grouped_sum(theta, decider.others, e))
    return np.std(left)


def test_the_quadratic_that_steers_is_near_the_posterior(few):
    """It leaves less of the rows than that at the centre."""
    decider, (means, sds) = few[0], few[1][:, :2]
    at_centre, steering = _left(decider, decider.prepared.expansion), _left(decider, decider.prepared.steering)
    assert at_centre > 0.6
    assert steering < 0.75 * at_centre
    assert np.abs((decider.prepared.mean - means) / sds).max() < 0.4


def test_few_rows_a_group_have_the_moments_of_quadrature(few):
    """Planted: what is left out of the rows is the quadratic that steers, not that whose remainders are drawn."""
    (decider, law), found = few, []
    data = decider.data()
    for of in (data, data._replace(expansion=data.steering)):
        made = list(moves(decider, 16_000, of, tune=500))
        accepted = np.mean([carried.accepted for _, carried, _ in made])
        found.append((largest_z(np.transpose([refresh.theta for *_, refresh in made]), law), accepted))
    (right, accepted), (planted, _) = found
    assert right < MAX_Z < planted / 2
    assert accepted > 0.35
