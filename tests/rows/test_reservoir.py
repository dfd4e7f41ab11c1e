"""The pool's law: whatever the order of the rows and however blocks are cut and merged, a slot holds row i with p_i."""

import numpy as np
import pytest
from scipy import stats

from pymc_austerity.rows import Reservoir, Rows, reservoir

N, SLOTS, FLOOR = 60, 40_000, 0.2
SIZES = np.random.default_rng(1).lognormal(0, 1.5, N)
EXPECTED = (1 - FLOOR) * SIZES / SIZES.sum() + FLOOR / N
ORDERS = {
    "as they come": np.arange(N),
    "light rows first": np.argsort(SIZES),
    "heavy rows first": np.argsort(-SIZES),
    "by label": np.argsort(np.arange(N) % 2, kind="stable"),
}
CUTS = [5, 6, 30, 47]


def fill(order, cuts=CUTS, seed=3, into=None):
    filled = Reservoir(SLOTS, FLOOR, random_seed=7) if into is None else into
    for number, numbers in enumerate(np.split(order, cuts)):
        filled.take(Rows((numbers.astype(np.int64),)), SIZES[numbers], np.random.default_rng([seed, number]))
    return filled


def fit(pool):
    counts = np.bincount(pool.rows.arrays[0], minlength=N)
    return stats.chisquare(counts, SLOTS * EXPECTED).pvalue


@pytest.mark.parametrize("order", ORDERS.values(), ids=list(ORDERS))
def test_a_slot_holds_each_row_with_its_probability(order):
    assert fit(fill(order).pool(1)) > 1e-4


def test_slots_are_independent_of_each_other():
    held = fill(ORDERS["heavy rows first"]).pool(1).rows.arrays[0]
    pairs = stats.contingency.crosstab(held[:-1:2] % 5, held[1::2] % 5).count
    assert stats.chi2_contingency(pairs).pvalue > 1e-4


def test_reservoirs_of_two_workers_merge_to_that_of_one():
    order = ORDERS["light rows first"]
    halves = [fill(part, [3, 20], seed) for seed, part in enumerate((order[:25], order[25:]))]
    pool = reservoir.merged(halves, np.random.default_rng(5)).pool(1)
    assert fit(pool) > 1e-4
    assert pool.n_total == N


def test_a_worker_without_rows_changes_nothing():
    filled, empty = fill(ORDERS["by label"]), Reservoir(SLOTS, FLOOR, random_seed=7)
    before = filled.pool(1)
    filled.merge(empty, np.random.default_rng(1))
    assert np.array_equal(filled.pool(1).rows.arrays[0], before.rows.arrays[0])
    assert (
        fit(reservoir.merged([Reservoir(SLOTS, FLOOR, random_seed=7), filled], np.random.default_rng(2)).pool(1)) > 1e-4
    )


def test_slots_refilled_by_the_number_of_blocks_would_be_seen(monkeypatch):
    """Planted mistake: a block takes its share of the slots by being one of so many, whatever it weighs."""
    seen = iter(range(1, 100))
    draw = reservoir._some

    def by_number(rng, n, probability):
        return draw(rng, n, 1 / (1 + (next(seen) - 1) // 2))

    monkeypatch.setattr(reservoir, "_some", by_number)
    assert fit(fill(ORDERS["light rows first"]).pool(1)) < 1e-10


def test_slots_merged_by_halves_would_be_seen():
    """Planted mistake: of two workers each counts as much, whatever it has seen."""
    order = ORDERS["light rows first"]
    first, second = (fill(part, [3, 20], seed) for seed, part in enumerate((order[:25], order[25:])))
    second._weight = list(first._weight)
    first.merge(second, np.random.default_rng(5))
    assert fit(first.pool(1)) < 1e-10


def test_the_weighted_mean_of_slots_estimates_that_of_all_rows():
    pool = fill(ORDERS["heavy rows first"]).pool(1)
    terms = SIZES * np.random.default_rng(2).normal(1, 0.3, N)
    values = pool.weight * terms[pool.rows.arrays[0]]
    error = values.std() / np.sqrt(SLOTS)
    assert abs(values.mean() - terms.mean()) < 4 * error
    assert abs(terms[pool.rows.arrays[0]].mean() - terms.mean()) > 20 * error  # without weights


def test_rows_that_all_leave_nothing_are_drawn_uniformly():
    filled = Reservoir(SLOTS, FLOOR, random_seed=1)
    for number, numbers in enumerate(np.split(np.arange(N), CUTS)):
        filled.take(Rows((numbers,)), np.zeros(numbers.size), np.random.default_rng(number))
    pool = filled.pool(1)
    np.testing.assert_allclose(pool.weight, 1.0)
    assert stats.chisquare(np.bincount(pool.rows.arrays[0], minlength=N)).pvalue > 1e-4


def test_a_row_keeps_its_columns_together():
    filled = Reservoir(500, FLOOR, random_seed=1)
    for part in np.split(np.arange(N), CUTS):
        filled.take(Rows((part, np.column_stack([part, -part]))), SIZES[part], np.random.default_rng(part[0]))
    number, both = filled.pool(1).rows.arrays
    assert np.array_equal(both, np.column_stack([number, -number]))
