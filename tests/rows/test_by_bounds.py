"""Rows drawn in proportion to their bounds: never less often than asked for, and as the table says."""

import numpy as np
from evidence import LEVEL, multinomial_p
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from pymc_austerity.rows import RowsByBounds, bound_table

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
