"""Rows that are the same in every array become one with a count, and nothing of the table is lost."""

import pickle

import numpy as np
import pytest

from pymc_austerity.rows import Rows, number_in_table
from pymc_austerity.rows.merged import merge_rows, with_counts


@pytest.fixture
def table():
    rng = np.random.default_rng(1)
    n = 5_000
    return Rows((rng.integers(0, 3, (n, 2)).astype(float), rng.integers(0, 4, n), rng.random(n) < 0.3))


def _as_columns(rows):
    return np.column_stack([a.reshape(len(a), -1).astype(float) for a in rows.values])


def test_distinct_rows_come_with_their_counts_and_from_where_they_first_occur(table):
    merged = merge_rows(table)
    columns = _as_columns(table)
    expected, counts = np.unique(columns, axis=0, return_counts=True)
    order = np.lexsort(_as_columns(merged).T[::-1])
    np.testing.assert_array_equal(_as_columns(merged)[order], expected)
    np.testing.assert_array_equal(merged.counts[order], counts)
    assert [a.dtype for a in merged.values] == [a.dtype for a in table.arrays]
    assert merged.n_table == len(table)
    np.testing.assert_array_equal(_as_columns(merged), columns[merged.first])
    assert all(not (columns[:i] == columns[i]).all(axis=1).any() for i in merged.first)


def test_zeros_of_either_sign_are_two_rows():
    merged = with_counts(Rows((np.tile([0.0, -0.0, 1.0], 10),)))
    assert merged.counts.tolist() == [10, 10, 10]
    assert np.signbit(merged.arrays[0]).tolist() == [False, True, False]


LARGE = np.random.default_rng(2).permutation(300_000)
VALUES = {
    "mostly distinct": (np.repeat(np.arange(900), 2), None),
    "a third distinct": (np.repeat(np.arange(600), 3), 600),
    "few rows": (np.arange(999) % 7, None),
    "all the same": (np.zeros(5_000), None),
    "large, of which some rows tell": (LARGE // 3 * 1.0, 100_000),
    "large and distinct": (LARGE * 1.0, None),
}


@pytest.mark.parametrize(("values", "n_merged"), VALUES.values(), ids=VALUES)
def test_rows_are_merged_where_it_pays(values, n_merged):
    merged = merge_rows(Rows((values,)))
    assert (None if merged is None else len(merged)) == n_merged


def test_very_frequent_row_is_kept_in_parts():
    """Uniform batches that miss it would otherwise know nothing of most of the table."""
    values = np.concatenate([np.zeros(9_000), np.repeat(np.arange(1.0, 101.0), 10)])
    merged = merge_rows(Rows((values,)))
    average = 10_000 / 101
    assert merged.counts.max() <= 4 * average
    assert merged.counts[merged.arrays[0] == 0].sum() == pytest.approx(9_000)
    assert merged.counts.sum() == pytest.approx(10_000)
    assert len(merged) == 100 + np.ceil(9_000 / (4 * average))


def test_arrays_in_files_are_left_there(tmp_path):
    np.save(tmp_path / "rows.npy", np.arange(1_000) % 3)
    assert merge_rows(Rows((np.load(tmp_path / "rows.npy", mmap_mode="r"),))) is None
    assert merge_rows(Rows((np.load(tmp_path / "rows.npy"),))) is not None


def test_counts_travel_and_stay_with_their_rows(table):
    merged = pickle.loads(pickle.dumps(merge_rows(table)))
    some = merged.take(np.array([2, 7]))
    np.testing.assert_array_equal(some.first, merged.first[[2, 7]])
    np.testing.assert_array_equal(some.counts, merged.counts[[2, 7]])
    assert number_in_table(merged, 7) == merged.first[7]
    assert number_in_table(table, 7) == 7
