"""Two crossed factors: moves on all rows against a posterior that is normal but for two scales.

Rows are normal, so given the scales all effects and the intercept are jointly normal; the scales are summed over a
grid.  The first factor has two numbers a group, the second one.
"""

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z
from grouped import largest_z, law_of_normal_rows

import pymc_austerity as pma
from pymc_austerity.compile.by_reference import by_reference
from pymc_austerity.groups import elimination
from pymc_austerity.groups.group_conditional import whiten
from pymc_austerity.groups.group_parts import data_by_reference
from pymc_austerity.groups.shared_move import adapt_shared
from pymc_austerity.kernel import pack_generators

pytestmark = pytest.mark.slow

G, H, N, TILT = 36, 33, 400, 0.5
RNG = np.random.default_rng(31)
#: The first group of either factor has no rows, and the last of the first has a quarter of all.
FIRST = RNG.choice(np.arange(1, G), N, p=np.r_[np.full(G - 2, 0.022), 1 - 0.022 * (G - 2)])
SECOND = RNG.integers(1, H, N)
X = RNG.normal(size=N)
Y = 0.5 + 0.8 * RNG.normal(size=G)[FIRST] + TILT * RNG.normal(size=G)[FIRST] * X
Y += 0.6 * RNG.normal(size=H)[SECOND] + RNG.normal(size=N)
#: Columns: intercept, levels, tilts, effects of the second factor.
DESIGN = np.column_stack([np.ones(N), np.eye(G)[FIRST], np.eye(G)[FIRST] * X[:, None], np.eye(H)[SECOND]])
WATCHED = [0, 1, 2, G, G + 1, G + 2, 2 * G + 1, 2 * G + 2, 2 * G + 3]
GRID = np.linspace(-2.2, 1.3, 36)
LOCATION, SCALE, TUNED, DRAWS = -0.3, 0.5, 600, 14_000


def _prior(a, b):
    """Log prior of both log scales, and the prior precisions of all columns given them."""
    of_columns = [[1.0], np.full(G, np.exp(-2 * a)), np.full(G, TILT**-2), np.full(H, np.exp(-2 * b))]
    return -((a - LOCATION) ** 2 + (b - LOCATION) ** 2) / 2 / SCALE**2, np.concatenate(of_columns)


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        intercept = pm.Normal("intercept")
        log_scale = pm.Normal("log_scale", LOCATION, SCALE, shape=2)
        level = pm.Normal("level", 0, pm.math.exp(log_scale[0]), shape=G)
        tilt = pm.Normal("tilt", 0, TILT, shape=G)
        second = pm.Normal("second", 0, pm.math.exp(log_scale[1]), shape=H)
        pm.Normal("y", level[FIRST] + tilt[FIRST] * X + intercept + second[SECOND], 1, observed=Y)
    return model


@pytest.fixture(scope="module")
def decider(model):
    return pma.GroupMH(test=pma.Exact(), refreshed=0.5, model=model, rng=1, progressbar=False).decider


@pytest.fixture(scope="module")
def searching(model):
    """Where so many effects are too many to eliminate the others, and joint means are searched for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elimination, "MOST_LEFT", 0)
        return pma.GroupMH(test=pma.Exact(), refreshed=0.5, model=model, rng=1, progressbar=False).decider


@pytest.fixture(scope="module")
def law():
    """Means and sds of both log scales and of some columns."""
    return law_of_normal_rows(DESIGN, Y, [GRID, GRID], _prior, np.eye(DESIGN.shape[1])[WATCHED])


def _run(decider, stale=False):
    """Draws of θ, and what became of the moves; stale: the factors decide at once, each on what the other was."""
    rng = np.random.default_rng(11)
    generators, looks, state = pack_generators(*rng.spawn(3)), decider.looks_of_large(), decider.new_state()
    read = data_by_reference(decider.data()), by_reference(state)
    theta, outcomes = decider.start(rng), []
    draws = np.empty((DRAWS, theta.size))
    for i in range(-TUNED, DRAWS):
        carried, refresh, about_centre = decider.move(theta, *read, looks, generators)
        new = refresh.theta.copy()
        if stale:
            again = decider.move(carried.theta, *read, looks, generators)[1].theta
            new[3 + 2 * G :] = again[3 + 2 * G :]
        theta = new
        if i < 0:
            adapt_shared(carried.theta[decider.model.groups.shared], carried.accepted, about_centre, state.shared, 3.0)
        else:
            draws[i] = theta
            outcomes.append((carried, refresh))
    return draws, outcomes


def _largest_z(law, draws):
    """θ: intercept, log scales, levels, tilts, effects of the second factor."""
    return largest_z([*draws[:, 1:3].T, *np.delete(draws, [1, 2], axis=1)[:, WATCHED].T], law)


@pytest.mark.parametrize("begins", ["at the centre", "at the last"])
def test_carried_moves_keep_every_z_where_means_are_searched(searching, begins):
    """The search begins at the same means for every φ, so that it has something left to do.

    Planted: it begins where the one before it ended.
    """
    decider = searching
    e, data, looks = decider.prepared.steering, decider.data(), decider.looks_of_large()
    still = e.tangent._replace(slope=np.zeros_like(e.tangent.slope))
    moving, inside = still._replace(shift=still.shift.copy()), np.arange(e.own.shape[1]) < e.size[:, None]
    data = data._replace(steering=e._replace(tangent=moving))

    def z(theta):
        fresh = e._replace(tangent=still)
        return whiten(theta, e, decider.surrogate.condition(theta, fresh))

    rng = np.random.default_rng(11)
    generators, state, theta, changes = pack_generators(*rng.spawn(3)), decider.new_state(), decider.start(rng), []
    for _ in range(40):
        new = decider.move(theta, data, state, looks, generators)[0]
        changes += [np.abs(z(new.theta) - z(theta)).max()] if new.accepted else []
        theta = new.theta
        if begins == "at the last":
            moving.shift[inside] = (state.mean - e.centre[e.own])[inside]
    assert len(changes) > 5
    if begins == "at the last":
        assert np.median(changes) > 1e-4
    else:
        assert max(changes) < 1e-8


def test_draws_have_the_moments_of_the_posterior(decider, law):
    draws, outcomes = _run(decider)
    assert np.mean([c.accepted for c, _ in outcomes]) > 0.35
    assert np.mean([r.n_accepted / r.n_groups for _, r in outcomes]) > 0.8
    assert np.mean([r.n_shifted for _, r in outcomes]) > 1.9  # of two, where effects are normal
    assert _largest_z(law, draws) < MAX_Z


def test_factors_that_decide_at_once_are_seen(decider, law):
    draws = _run(decider, stale=True)[0][:2_000]  # some thousand draws later they are at the end of all numbers
    assert _largest_z(law, draws) > MAX_Z
