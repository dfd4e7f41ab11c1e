"""Properties of drawing rows that hold for every number of rows and every way to draw them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pymc_austerity.rows.sources import draw_subset
from pymc_austerity.rows.weighted import alias_table, row_table

seeds = st.integers(0, 2**32 - 1)


@given(st.integers(1, 300), st.integers(1, 300), seeds)
def test_a_subset_has_its_size_and_no_row_twice(n_rows, size, seed):
    numbers = draw_subset(np.random.default_rng(seed), n_rows, size)
    assert len(numbers) == len(set(numbers.tolist())) == min(size, n_rows)
    assert 0 <= numbers.min() <= numbers.max() < n_rows


sizes = arrays(float, st.integers(1, 60), elements=st.floats(0, 1e6, allow_subnormal=False))


@given(sizes, st.floats(0.01, 1.0))
def test_the_marginals_of_the_alias_table_are_the_probabilities(sizes, floor):
    n, total = sizes.size, sizes.sum()
    share = sizes / total if total > 0 else np.full(n, 1 / n)
    probability = (1 - floor) * share + floor / n
    keep, alias = alias_table(probability)
    marginal = np.bincount(alias, weights=1 - keep, minlength=n) + keep
    assert np.allclose(marginal / n, probability, rtol=1e-9, atol=1e-12)
    assert not np.allclose(keep / n, probability) or np.allclose(keep, 1)  # without its aliases it would be seen


@given(sizes, st.floats(0.01, 1.0))
def test_a_weighted_row_counts_for_what_it_is_drawn_too_often(sizes, floor):
    table = row_table(sizes, floor)
    n = sizes.size
    marginal = (np.bincount(table.alias, weights=1.0 - table.keep, minlength=n) + table.keep) / n
    assert np.allclose(marginal * table.weight * n, 1, rtol=1e-4)  # float32
    assert (table.weight <= 1 / floor * (1 + 1e-5)).all()
