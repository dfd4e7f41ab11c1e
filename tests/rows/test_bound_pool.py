"""A pool by bounds: what is read always comes first, every slot is read once, and slots stand for all rows."""

import numpy as np

from pymc_austerity.rows import BoundPool, Share

ALWAYS, K, N = 3, 4_000, 10**9
SIZES = np.random.default_rng(1).lognormal(0, 1, K)


def pooled(shares=4):
    return BoundPool(np.concatenate([np.zeros(ALWAYS), SIZES]), 5e8, np.arange(ALWAYS), N, shares).source()


def read(source, chain, n_drawn):
    """Slots that a chain reads in tests that draw so many of them beside the rows that they read always."""
    state, slots = source.state(ALWAYS + K, Share(chain, np.zeros(1, np.int64))), []
    for n in n_drawn:
        if n:
            slots.append(source.draw(np.random.default_rng(0), state, ALWAYS, ALWAYS + n))
        source.restore(state, ALWAYS + n)
    return np.concatenate(slots), source.left(state)


def test_every_slot_is_read_once_and_chains_do_not_overlap():
    found = [read(pooled(), chain, [0, 400, 0, 599]) for chain in range(4)]
    slots = np.concatenate([slots for slots, _ in found])
    assert np.unique(slots).size == slots.size == 4 * 999
    assert slots.min() == ALWAYS
    assert {left for _, left in found} == {ALWAYS + 1}


def test_a_sum_has_the_rows_of_the_table():
    source = pooled()
    assert source.n_rows(K) == source.n_total(source.state(ALWAYS + K), K) == N
    assert not source.complete
    assert source.shares == 4


def test_fewer_rows_on_which_code_is_tried_draw_none():
    state = pooled().state(64)
    assert state.total == 0
    assert state.size.size == 64


def test_slots_stand_for_all_rows_where_a_run_is_judged():
    counts = pooled().population(ALWAYS + K).counts
    assert counts[:ALWAYS].tolist() == [1, 1, 1]
    np.testing.assert_allclose(counts[ALWAYS:] * SIZES * K, 5e8)
    part = pooled().population(ALWAYS + 100).counts
    np.testing.assert_allclose(part[ALWAYS:] * SIZES[:100] * 100, 5e8)
