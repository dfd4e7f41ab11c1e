"""Groups that read rows by their bounds decide as on all rows, and keep the posterior from a few of them."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z
from grouped import by_group, largest_z, logistic_rows, moments
from numba import njit

import pymc_austerity as pma
from pymc_austerity.acceptance import BAD_BOUND, DECIDED, ScalableSubsampling
from pymc_austerity.compile.by_reference import by_reference
from pymc_austerity.groups.group_bounds import most_drawn
from pymc_austerity.groups.group_parts import data_by_reference
from pymc_austerity.groups.group_refresh import build_refresh
from pymc_austerity.kernel import pack_generators

pytestmark = pytest.mark.slow

SIZES = np.array([0, 1, 9, 20, 40])
INDEX = np.random.default_rng(5).permutation(np.repeat(np.arange(5), SIZES))
EFFECTS = np.array([0.0, 1.0, -0.8, 0.9, 2.0])
BINARY = (np.random.default_rng(7).random(INDEX.size) < 1 / (1 + np.exp(-EFFECTS[INDEX]))).astype(int)


@pytest.fixture(scope="module")
def decider():
    with pm.Model():
        mean, log_scale = pm.Normal("mean"), pm.Normal("log_scale", -0.3, 0.7)
        effect = pm.Normal("effect", mean, pm.math.exp(log_scale), shape=5)
        pm.Bernoulli("y", logit_p=effect[pm.Data("index", INDEX)], observed=pm.Data("rows", BINARY))
        return pma.GroupMH(refreshed=0.6, rng=1, progressbar=False).decider


#: By how much bounds are raised, so that many rows are drawn and none of the groups reads all of its own.
MANY = 8.0


def _data(decider, raised=1.0, radius=None):
    """What the moves read, with bounds so many times what they need be: more rows are drawn, as exactly."""
    data = decider.data()
    table = data.bounds.table._replace(sums=raised * data.bounds.table.sums)
    bounds = data.bounds._replace(table=table, radius=data.bounds.radius if radius is None else radius)
    return data._replace(bounds=bounds, row_state=table)


def _refreshed(refresh, decider, data, n=400, looks=()):
    """Run a refresh again and again."""
    rng = np.random.default_rng(12)
    generators, state, theta = pack_generators(*rng.spawn(3)), decider.new_state(), decider.start(rng)
    theta = decider.move(theta, decider.data(), state, decider.looks_of_large(), generators)[0].theta
    draws, outcomes = [], []
    for _ in range(n):
        found = refresh(theta, 0, data, state, looks, generators)
        theta = found.theta
        draws.append(theta)
        outcomes.append(found)
    return np.array(draws), outcomes


@pytest.fixture(scope="module")
def bounded(decider):
    """The refresh of whole draws, in which nothing else moves: what is shared is proposed to be no number."""

    def refresh(theta, f, data, state, looks, generators):
        shared = state.shared._replace(factor=np.full_like(state.shared.factor, np.nan))
        steps = data.steps._replace(share=0.0, unread=data.steps.unread[:0])  # nor is a move made on the surrogate
        data, state = data._replace(steps=steps), state._replace(shared=shared)
        carried, found, _ = decider.move(theta, data, state, (), generators)
        assert np.array_equal(carried.theta, theta)
        return found

    return refresh


def test_made_to_read_all_rows_groups_decide_as_on_all_rows(decider, bounded):
    draws, outcomes = _refreshed(bounded, decider, _data(decider, radius=0.0))
    by_test, without_bounds = build_refresh(decider.parts._replace(test=pma.Exact(), bounded=False)), replace(decider)
    vars(without_bounds)["parts"] = decider.parts._replace(bounded=False)
    looks = without_bounds.looks_of_large()

    def by_test_alone(theta, f, data, state, looks, generators):
        bounded(theta, f, data._replace(n_refreshed=0 * data.n_refreshed), state, (), generators)  # the same numbers
        return by_test(theta, f, data_by_reference(data), by_reference(state), looks, generators)

    on_all, of_all = _refreshed(by_test_alone, decider, decider.data(), looks=looks)
    assert 0 < sum(o.n_accepted for o in of_all) < sum(o.n_groups for o in of_all)
    assert [o.n_accepted for o in outcomes] == [o.n_accepted for o in of_all]
    np.testing.assert_allclose(draws, on_all, rtol=1e-10)
    assert [o.n_rows for o in outcomes] == [o.n_rows for o in of_all]
    few = _refreshed(bounded, decider, decider.data())[1]
    assert sum(o.n_rows for o in few) < sum(o.n_rows for o in of_all) / 10


def _largest_z(decider, data, refresh=None, n=16_000):
    """Of whole draws, or of such that are refreshed by another move, from where the carried one has led."""
    rng = np.random.default_rng(11)
    generators, looks = pack_generators(*rng.spawn(3)), decider.looks_of_large()
    theta, draws = decider.start(rng), np.empty((n, 7))
    read = data_by_reference(data), by_reference(decider.new_state())
    for i in range(n):
        first, second, _ = decider.move(theta, *read, looks, generators)
        if refresh is not None:
            second = refresh(first.theta, 0, *read, looks, generators)
        assert second.status == DECIDED
        theta = draws[i] = second.theta
    return largest_z(draws.T, moments(by_group(logistic_rows(BINARY), INDEX, 5)))


def test_draws_from_few_rows_and_many_keep_the_posterior(decider):
    assert isinstance(decider.test, ScalableSubsampling)
    assert decider.parts.bounded
    for raised in (1.0, MANY):
        assert _largest_z(decider, _data(decider, raised)) < MAX_Z


@njit
def _ignored(rng, limits, new, old):
    """Planted: rows are drawn and leave no trace."""
    return 0.0, -1


def test_rows_that_leave_no_trace_are_seen(decider):
    assert _largest_z(decider, _data(decider, MANY), build_refresh(decider.parts, _ignored)) > MAX_Z


def test_groups_draw_at_most_eight_rows_or_a_64th_of_theirs():
    assert [most_drawn(float(n)) for n in (3, 100, 512, 6_400)] == [3, 8, 8, 100]


def test_a_row_that_breaks_its_bound_is_named(decider, bounded):
    outcomes = _refreshed(bounded, decider, _data(decider, 0.1))[1]
    broken = next(o for o in outcomes if o.status != DECIDED)
    assert broken.status == BAD_BOUND
    assert 0 <= broken.row < INDEX.size
