"""Bounds of rows in a move of groups: none is too small, rows are drawn by them, and too large ones are left out."""

from itertools import pairwise

import numpy as np
import pymc as pm
import pytest
from evidence import LEVEL, multinomial_p
from grouped import search_of

import pymc_austerity as pma
from pymc_austerity.acceptance import DECIDED
from pymc_austerity.compile.by_reference import by_reference
from pymc_austerity.compile.cache import cached
from pymc_austerity.groups.by_group_bounds import RowsByGroupBounds, bound_at, draw_of_group, group_bound_table
from pymc_austerity.groups.group_bounds import spans_of_move
from pymc_austerity.groups.group_decider import described
from pymc_austerity.groups.group_parts import RefreshOutcome, data_by_reference
from pymc_austerity.groups.group_preparation import prepare_groups
from pymc_austerity.groups.group_refresh import build_refresh
from pymc_austerity.kernel import pack_generators

RNG = np.random.default_rng(31)
INDEX = RNG.permutation(np.repeat(np.arange(12), [0, 1, 2, 5, 8, 12, 20, 30, 40, 60, 90, 132]))
SECOND = RNG.integers(0, 40, INDEX.size)
X = RNG.normal(size=(INDEX.size, 2))
BINARY = RNG.integers(0, 2, INDEX.size)


def _effects(name, n_groups):
    mean, log_scale = pm.Normal(f"mean_{name}"), pm.Normal(f"log_scale_{name}", -0.3, 0.3)
    return pm.Normal(name, mean, pm.math.exp(log_scale), shape=n_groups)


def _logistic():
    pm.Bernoulli("y", logit_p=_effects("u", 12)[INDEX] + X @ pm.Normal("slopes", shape=2), observed=BINARY)


def _slopes():
    u, v = _effects("u", 12), _effects("v", 12)
    eta = u[INDEX] + v[INDEX] * X[:, 0] + pm.Normal("shared") * X[:, 1]
    pm.Bernoulli("y", p=pm.math.invprobit(eta), observed=BINARY)


def _crossed():
    index, second, y = (np.tile(a, 8) for a in (INDEX, SECOND, BINARY))  # the more rows, the smaller what is left
    pm.Bernoulli("y", logit_p=_effects("u", 12)[index] + _effects("v", 40)[second], observed=y)


@pytest.fixture(scope="module", params=[_slopes, _crossed], ids=lambda write: write.__name__[1:])
def learnt(request):
    """A model with its rows, and what is learnt of its groups."""
    with pm.Model() as model:
        request.param()
    search = search_of(model, expands=True)
    return search, prepare_groups(search)


def _changes_by_limits(learnt, bounds):
    """|ΔR_i|/(c_i M_g) of all rows for moves of everything, by the groups of each factor."""
    search, found = learnt
    model, at = search.model, (search.data.others0, search.data.fixed)
    rng, e, n_rows = np.random.default_rng(8), found.expansion, len(found.rows)
    # Groups go as far as they are wide given those of other factors, and what is shared less far where these move
    # against each other: rows do not change along that, and soon everything is beyond the radius.
    steering, crossed = found.steering._replace(left=0 * found.steering.left), e.cell_with.size
    places = np.concatenate([np.arange(n_rows), found.places])
    of_rows = np.repeat(np.arange(len(e.own)), np.diff(found.start))
    before = np.where(np.isin(np.arange(places.size), found.start), 0.0, np.roll(bounds.table.sums, 1))
    c, largest = bounds.table.sums - before, []
    for width in (0.3, 0.7, 1.0) if crossed else (0.3, 1.0, 2.0):
        new, old = (
            search.surrogate.theta(
                found.draw_shared(rng, 0.1 if crossed else width),
                width * rng.standard_normal(model.groups.own.shape),
                steering,
            )
            for _ in range(2)
        )
        spans = spans_of_move(new, old, e, bounds)
        after, now = model.seen.both_sides(new, old, at[0], e.centre, *at[1], *found.rows.arrays)
        known = np.isfinite(spans[of_rows])
        largest.append((np.abs(after - now)[places] / (c * spans[of_rows]))[known].max())
    return largest


@pytest.mark.slow
def test_no_row_changes_by_more_than_its_bound(learnt):
    found = learnt[-1]
    assert found.bounds is not None, found.without_bounds
    assert max(_changes_by_limits(learnt, found.bounds)) <= 1


@pytest.mark.slow
def test_distances_of_other_groups_are_seen(learnt):
    """Planted: every group is measured by the precision of another, and what is shared stands still."""
    bounds = learnt[-1].bounds
    wrong = bounds._replace(whiten=np.roll(bounds.whiten, 5, axis=0), whiten_shared=0 * bounds.whiten_shared)
    assert max(_changes_by_limits(learnt, wrong)) > 1


def _direction():
    pm.VonMises("y", mu=_effects("u", 12)[INDEX], kappa=1.0, observed=X[:, 0])


def _refreshed(decider):
    """What becomes of a refresh by the parts of a step."""
    refresh = cached(build_refresh(decider.parts))
    rng, state = np.random.default_rng(2), decider.new_state()
    theta = decider.start(rng)
    given = decider.surrogate.condition(theta, decider.prepared.expansion)
    for kept, now in zip((state.mean, state.alone, state.factor), given):
        kept[:] = now
    generators, looks = pack_generators(*rng.spawn(3)), decider.looks_of_large()
    return RefreshOutcome(*refresh(theta, 0, data_by_reference(decider.data()), by_reference(state), looks, generators))


@pytest.mark.slow
@pytest.mark.parametrize(("write", "why"), [(_logistic, "times to decide about its group"), (_direction, "No bound")])
def test_mhss_without_useful_bounds_reads_all_rows(write, why, monkeypatch, caplog):
    """Group by group, so that it stays exact and moves; it says so before the wait."""
    monkeypatch.setattr("pymc_austerity.groups.group_preparation._WORTH", 0.0)  # of those that are known
    with pm.Model():
        write()
        step = pma.MHSS(rng=1)
    found = step.decider
    assert step.moves_groups
    assert found.test == pma.Exact()
    assert found.reported.error == ""
    assert found.few >= step.rows_always_read == step.predicted_rows == INDEX.size
    assert f"MHSS reads all {INDEX.size:,} rows at every draw, to be exact" in caplog.text
    assert found.prepared.bounds is None
    assert why in found.prepared.without_bounds
    assert why in described(found)
    assert found.prepared.costs.drawn == np.inf
    assert not found.parts.bounded
    outcome = _refreshed(found)
    assert outcome.status == DECIDED
    assert outcome.n_rows == np.diff(found.prepared.start)[: outcome.n_groups].sum() > 0


#: Two factors over seven rows: one group without rows, and the rows in another order by the second.
START = np.array([0, 3, 3, 7, 9, 14])
PLACES = np.array([1, 5, 0, 2, 3, 4, 6])
BOUNDS = np.array([0.5, 0.0, 2.0, 1.0, 1.0, 3.0, 0.25])
SPANS = np.array([2.0, 7.0, 0.5])


@pytest.fixture(scope="module")
def table():
    return group_bound_table(BOUNDS, START, PLACES, 3)


def test_sums_run_within_each_group_and_no_bound_is_lost(table):
    ordered = np.concatenate([BOUNDS, BOUNDS[PLACES]])
    expected = [np.cumsum(ordered[a:b]) for a, b in pairwise(START)]
    np.testing.assert_allclose(table.sums, np.concatenate(expected), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(table.totals(), [of[-1] if of.size else 0 for of in expected], rtol=1e-8, atol=1e-9)
    for g in range(5):
        assert all(bound_at(table, g, i) > ordered[i] for i in range(START[g], START[g + 1]))


def test_a_row_without_a_bound_leaves_its_groups_without_one():
    table = group_bound_table(np.where(np.arange(7) == 5, np.inf, BOUNDS), START, PLACES, 3)
    assert np.isfinite(table.totals()).tolist() == [True, True, False, False, True]
    assert RowsByGroupBounds(table).rate(table, SPANS) == np.inf


@pytest.mark.parametrize("g", [0, 2, 4])
def test_rows_of_a_group_are_drawn_by_their_bounds(table, g):
    rng = np.random.default_rng(g)
    rows = np.array([draw_of_group(rng, table, g) for _ in range(20_000)])
    share = np.concatenate([BOUNDS, BOUNDS[PLACES]])[START[g] : START[g + 1]]
    counts = np.bincount(rows - START[g], minlength=share.size)
    assert multinomial_p(counts, share / share.sum()) > LEVEL
    assert multinomial_p(counts, np.roll(share, 1) / share.sum()) < LEVEL


@pytest.mark.parametrize("together", [1, 40])
def test_rows_of_all_groups_are_drawn_by_bounds_and_distances(table, together):
    rng, source, counts = np.random.default_rng(together), RowsByGroupBounds(table), np.zeros(7)
    weight = BOUNDS * SPANS[[0, 0, 0, 2, 2, 2, 2]]
    assert np.isclose(source.rate(table, SPANS), weight.sum())
    for _ in range(20_000 // together):
        numbers = source.choose(rng, table, SPANS, 0, together)
        assert (np.diff(np.searchsorted(START[:4], numbers, side="right")) >= 0).all()
        np.testing.assert_allclose(source.limits(table, SPANS, numbers), weight[numbers], rtol=1e-7, atol=1e-8)
        counts += np.bincount(numbers, minlength=7)
    assert multinomial_p(counts, weight / weight.sum()) > LEVEL
    assert multinomial_p(counts, BOUNDS / BOUNDS.sum()) < LEVEL  # planted: all groups at one distance
