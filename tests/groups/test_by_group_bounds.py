"""Rows of groups are drawn in proportion to their bounds, whatever the distances of the groups."""

from itertools import pairwise

import numpy as np
import pytest
from evidence import LEVEL, multinomial_p

from pymc_austerity.groups.by_group_bounds import RowsByGroupBounds, bound_at, draw_of_group, group_bound_table

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
