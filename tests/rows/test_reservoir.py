"""The pool's law: whatever the order of the rows and whoever reads which part when, a slot holds row i with p_i."""

import numpy as np
import pytest
from scipy import stats

from pymc_austerity.rows import Reservoir, Rows, Slots
from pymc_austerity.rows import reservoir as reservoirs

N, SLOTS, FLOOR = 60, 40_000, 0.2
SIZES = np.random.default_rng(1).lognormal(0, 1.5, N)
EXPECTED = (1 - FLOOR) * SIZES / SIZES.sum() + FLOOR / N
ORDERS = {
    "light rows first": np.argsort(SIZES),
    "heavy rows first": np.argsort(-SIZES),
    "by label": np.argsort(np.arange(N) % 2, kind="stable"),
}
CUTS = [5, 6, 30, 47]
NO_LIMITS = (np.inf, np.inf)
DRAWN = Slots(SLOTS, FLOOR, random_seed=7)


def offers(order, cuts=CUTS, first=0, limits=NO_LIMITS, sizes=SIZES):
    for number, numbers in enumerate(np.split(order, cuts), start=first):
        yield DRAWN.offer(Rows((numbers.astype(np.int64),)), sizes[numbers], number, limits)


def filled(offered, **cut_off):
    reservoir = Reservoir(DRAWN, **cut_off)
    for offer in offered:
        reservoir.let_in(offer)
    assert reservoir.is_full
    return reservoir.pool(1)


def fit(pool, expected=EXPECTED):
    return stats.chisquare(np.bincount(pool.rows.arrays[0], minlength=N), SLOTS * expected).pvalue


@pytest.mark.parametrize("order", ORDERS.values(), ids=list(ORDERS))
@pytest.mark.parametrize("cuts", [CUTS, range(1, N)], ids=["some parts", "parts of one row"])
def test_a_slot_holds_each_row_with_its_probability(order, cuts):
    assert fit(filled(offers(order, cuts))) > 1e-4


def test_one_part_is_drawn_in_proportion_to_size():
    skewed = np.random.default_rng(3).lognormal(0, 6, N)
    pool = filled(offers(np.arange(N), cuts=[], sizes=skewed))
    expected = (1 - FLOOR) * skewed / skewed.sum() + FLOOR / N
    np.testing.assert_allclose(pool.weight, 1 / (N * expected[pool.rows.arrays[0]]), rtol=1e-5)
    assert fit(pool, expected) > 1e-4
    alike = filled(offers(np.arange(N), sizes=np.zeros(N)))  # uniformly, where all rows leave nothing
    np.testing.assert_allclose(alike.weight, 1.0)
    assert fit(alike, np.full(N, 1 / N)) > 1e-4


def test_numbers_are_those_that_are_published():
    first = reservoirs._numbers(np.uint64(1234567), np.arange(2))
    assert first.tolist() == [(z >> 11) * 2.0**-53 for z in (6457827717110365317, 3203168211198807973)]


def test_slots_are_independent_of_each_other():
    held = filled(offers(ORDERS["heavy rows first"])).rows.arrays[0]
    pairs = stats.contingency.crosstab(held[:-1:2] % 5, held[1::2] % 5).count
    assert stats.chi2_contingency(pairs).pvalue > 1e-4


def test_pool_does_not_depend_on_the_order_of_offers():
    everything = list(offers(ORDERS["light rows first"]))
    pool = filled(everything)
    late = Reservoir(DRAWN)
    for number, numbers in reversed(list(enumerate(np.split(ORDERS["light rows first"], CUTS)))):
        limits = late.keys if number % 2 else late.limits  # as in this process, or as a worker is told
        late.let_in(DRAWN.offer(Rows((numbers,)), SIZES[numbers], number, limits))
    cut_off = filled(everything, average=SIZES.mean(), n_rows=N)
    for other in (filled(reversed(everything)), late.pool(1), cut_off):
        assert np.array_equal(other.rows.arrays[0], pool.rows.arrays[0])
        np.testing.assert_allclose(other.weight, pool.weight)
    assert pool.n_total == N


def test_a_cut_off_that_comes_too_early_is_known():
    reservoir = Reservoir(DRAWN, average=1_000 * SIZES.mean(), n_rows=N)
    for offer in offers(ORDERS["by label"]):
        reservoir.let_in(offer)
    assert not reservoir.is_full


def test_a_part_without_rows_changes_nothing():
    order = ORDERS["by label"]
    empty = [DRAWN.offer(Rows((order[:0],)), SIZES[:0], 9, NO_LIMITS)]
    assert np.array_equal(filled([*empty, *offers(order), *empty]).weight, filled(offers(order)).weight)


def test_planted_mistakes_would_be_seen():
    order = ORDERS["light rows first"]
    # Every part has a key as small as any other's, whatever it weighs.
    assert fit(filled(o._replace(keys=o.keys * o.weights[0]) for o in offers(order))) < 1e-10
    # The seed of a part is not its own, so that the keys of all parts are in step.
    same = (DRAWN.offer(Rows((part,)), SIZES[part], 3, NO_LIMITS) for part in np.split(order, CUTS))
    assert fit(filled(same)) < 1e-10


def test_a_row_keeps_its_columns_together():
    slots = Slots(500, FLOOR, random_seed=1)
    reservoir = Reservoir(slots)
    for k, part in enumerate(np.split(np.arange(N), CUTS)):
        rows = Rows((part, np.column_stack([part, -part])))
        reservoir.let_in(slots.offer(rows, SIZES[part], k, reservoir.keys))
    number, both = reservoir.pool(1).rows.arrays
    assert np.array_equal(both, np.column_stack([number, -number]))
