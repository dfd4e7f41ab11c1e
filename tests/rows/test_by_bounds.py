"""Rows drawn in proportion to their bounds: never less often than asked for, and as the table says."""

import numpy as np
from evidence import LEVEL, multinomial_p
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from pymc_austerity.rows.by_bounds import RowsByBounds, bound_table, rows_to_read

BOUNDS = st.lists(st.one_of(st.just(0.0), st.floats(1e-300, 1e6)), min_size=1, max_size=40).map(np.array)


def shares(table):
    """Probability of each row, from the columns of the table."""
    share = table.keep / table.keep.size
    np.add.at(share, table.alias, (1 - table.keep) / table.keep.size)
    return share


@given(BOUNDS)
def test_no_row_is_drawn_less_often_than_its_bound_asks_for(bounds):
    table = bound_table(bounds)
    assert (table.size >= bounds * (1 - 1e-15)).all()
    assert np.allclose(table.size, table.total * shares(table), rtol=1e-12, atol=0)
    assert table.total <= bounds.sum() * (1 + 1e-9) or bounds.min() < 1e-12 * bounds.max()


@given(BOUNDS, st.data())
def test_rows_that_are_always_read_are_never_drawn(bounds, data):
    always = np.array(data.draw(st.lists(st.integers(0, bounds.size - 1), unique=True)), dtype=int)
    table = bound_table(bounds, always)
    rest = np.delete(np.arange(bounds.size), always)
    assert table.always.tolist() == always.tolist()
    assert not table.size[always].any()
    assert table.total == 0 or not shares(table)[always].any()
    assert (table.size[rest] >= bounds[rest] * (1 - 1e-15)).all()


def test_row_drawn_more_than_once_is_always_read():
    assert rows_to_read(np.array([0.2, 0.6, 0.0, 3.0]), 2.0).tolist() == [1, 3]


def test_warm_up_on_fewer_rows():
    full = RowsByBounds(bound_table(np.arange(1.0, 9.0), np.array([7])))
    few = full.state(3)
    assert full.state(8) is full.table
    assert (few.size.size, few.total, few.always.size) == (3, 0.0, 0)
    assert [a.dtype for a in few[:3]] == [a.dtype for a in full.table[:3]]


@njit
def drawn(draw, rng, table, n):
    return draw(rng, table, 0, n)


def test_rows_come_in_proportion_to_their_bounds():
    bounds = np.random.default_rng(1).gamma(0.5, size=30)
    source = RowsByBounds(bound_table(bounds))
    numbers = drawn(source.draw, np.random.default_rng(2), source.state(30), 200_000)
    counts = np.bincount(numbers, minlength=30)
    assert multinomial_p(counts, bounds / bounds.sum()) > LEVEL
    assert multinomial_p(counts, np.roll(bounds, 1) / bounds.sum()) < LEVEL  # planted mistake
