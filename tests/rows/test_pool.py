"""A pool is read in order: every slot once, and no two chains the same one."""

import numpy as np

from pymc_austerity.rows import Pool, Rows, Share

K, N = 1_000, 10**9


def pooled(shares=4):
    weight = np.random.default_rng(1).uniform(0.5, 2, K).astype(np.float32)
    return Pool(Rows((np.arange(K),)), weight, N, shares).source()


def read(source, chain, sizes):
    """Numbers that a chain reads in tests of these sizes, each in two looks."""
    state, numbers = source.state(K, Share(chain, np.zeros(1, np.int64))), []
    rng = np.random.default_rng(0)
    for size in sizes:
        half = size // 2
        numbers += [source.draw(rng, state, 0, half), source.draw(rng, state, half, size)]
        source.restore(state, size)
    return np.concatenate(numbers), source.left(state)


def test_every_slot_is_read_once_and_chains_do_not_overlap():
    source = pooled()
    found = [read(source, chain, [100, 50, 99]) for chain in range(4)]
    assert np.unique(np.concatenate([numbers for numbers, _ in found])).size == 4 * 249
    assert {left for _, left in found} == {1}


def test_chains_beyond_the_shares_begin_anew():
    """That is for whoever starts chains to refuse."""
    assert np.array_equal(read(pooled(), 5, [100])[0], read(pooled(), 1, [100])[0])


def test_a_chain_goes_on_where_it_stopped():
    source, drawn = pooled(), np.array([30])
    state = source.state(K, Share(2, drawn))
    assert source.draw(np.random.default_rng(0), state, 0, 3).tolist() == [530, 531, 532]
    assert source.left(state) == 220


def test_fewer_slots_than_a_share_leave_fewer():
    assert pooled().left(pooled().state(64)) == 64
    assert not pooled().complete


def test_the_rows_of_a_sum_are_those_of_the_table():
    source = pooled()
    assert source.n_rows(K) == source.n_total(source.state(K), K) == N


def test_slots_stand_for_all_rows_where_a_test_is_judged():
    source = pooled()
    population = source.population(K)
    np.testing.assert_allclose(population.counts, source.weights * np.float64(N / K))
    drawn = population.draw(np.random.default_rng(1), population.state(K), 0, 50_000)
    assert np.bincount(drawn, minlength=K).min() > 10
    np.testing.assert_allclose(source.population(100).counts, source.weights[:100] * np.float64(N / 100))
    new, old = np.ones(3), np.ones(3)
    population.weigh(population.state(K), drawn[:3], new, old)
    assert new.tolist() == [1, 1, 1]
