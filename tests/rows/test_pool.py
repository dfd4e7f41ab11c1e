"""Pools: every slot is read once, no two chains read the same one, and slots stand for all rows."""

import numpy as np
import pytest

from pymc_austerity.rows import Pool, Rows, Share
from pymc_austerity.rows.by_bounds import BoundPool

ALWAYS, K, N = 3, 1_000, 10**9
SIZES = np.random.default_rng(1).lognormal(0, 1, K)


def weighted():
    """A pool of rows drawn by weights."""
    weight = np.random.default_rng(1).uniform(0.5, 2, K).astype(np.float32)
    return Pool(Rows((np.arange(K),)), weight, N, 4).source()


def bounded():
    """A pool of rows drawn by bounds, behind some that are read always."""
    return BoundPool(np.concatenate([np.zeros(ALWAYS), SIZES]), 5e8, np.arange(ALWAYS), N, 4).source()


POOLS = pytest.mark.parametrize(("pooled", "always"), [(weighted, 0), (bounded, ALWAYS)], ids=["weighted", "bounded"])


def read(source, chain, looks, always=0):
    """Slots that a chain reads in tests whose looks end at these numbers of rows, and how many it has left."""
    state, slots = source.state(always + K, Share(chain, np.zeros(1, np.int64))), []
    rng = np.random.default_rng(0)
    for stops in looks:
        for start, stop in zip((0, *stops), stops):
            if stop > start:
                slots.append(source.draw(rng, state, always + start, always + stop))
        source.restore(state, always + stops[-1])
    return np.concatenate(slots), source.left(state)


@POOLS
def test_every_slot_is_read_once_and_chains_do_not_overlap(pooled, always):
    looks = [(100,), (0,), (99,)] if always else [(50, 100), (25, 50), (49, 99)]
    found = [read(pooled(), chain, looks, always) for chain in range(4)]
    slots = np.concatenate([slots for slots, _ in found])
    assert np.unique(slots).size == slots.size == 4 * sum(stops[-1] for stops in looks)
    assert slots.min() == always
    assert {left for _, left in found} == {always + 250 - slots.size // 4}


@POOLS
def test_a_sum_has_the_rows_of_the_table(pooled, always):
    source = pooled()
    assert source.n_rows(K) == source.n_total(source.state(always + K), K) == N
    assert not source.complete
    assert source.shares == 4


def test_a_chain_goes_on_where_it_stopped_and_beyond_the_shares_anew():
    """That there are more chains than shares is for whoever starts them to refuse."""
    source, drawn = weighted(), np.array([30])
    state = source.state(K, Share(2, drawn))
    assert source.draw(np.random.default_rng(0), state, 0, 3).tolist() == [530, 531, 532]
    assert source.left(state) == 220
    assert np.array_equal(read(weighted(), 5, [(100,)])[0], read(weighted(), 1, [(100,)])[0])


def test_fewer_rows_on_which_code_is_tried_leave_fewer_or_draw_none():
    assert weighted().left(weighted().state(64)) == 64
    state = bounded().state(64)
    assert (state.total, state.size.size) == (0, 64)


def test_slots_stand_for_all_rows_where_a_test_is_judged():
    source = weighted()
    population = source.population(K)
    np.testing.assert_allclose(population.counts, source.weights * np.float64(N / K))
    drawn = population.draw(np.random.default_rng(1), population.state(K), 0, 50_000)
    assert np.bincount(drawn, minlength=K).min() > 10
    np.testing.assert_allclose(source.population(100).counts, source.weights[:100] * np.float64(N / 100))
    new, old = np.ones(3), np.ones(3)
    population.weigh(population.state(K), drawn[:3], new, old)
    assert new.tolist() == [1, 1, 1]


@pytest.mark.parametrize("n", [K, 100])
def test_slots_by_bounds_stand_for_all_rows(n):
    counts = bounded().population(ALWAYS + n).counts
    assert counts[:ALWAYS].tolist() == [1, 1, 1]
    np.testing.assert_allclose(counts[ALWAYS:] * SIZES[:n] * n, 5e8)
