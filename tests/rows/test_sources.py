"""Rows: every subset is equally likely, a draw leaves nothing behind and costs what it reads."""

from collections import Counter
from itertools import permutations, product

import numpy as np
from evidence import LEVEL, multinomial_p
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from pymc_austerity.rows.sources import InOrder, Uniform, draw_subset


@njit
def _draw_positions(rng, order, start, stop):
    """Planted mistake: the positions drawn are returned in place of the rows found there."""
    positions = np.empty(stop - start, order.dtype)
    for k in range(start, stop):
        j = k + rng.integers(0, order.size - k)
        order[k], order[j] = order[j], order[k]
        positions[k - start] = j
    return positions


def _subsets(draw, n_rows, batches, n_tests):
    """Rows drawn by `n_tests` independent tests that each read some batches."""
    source, rng = Uniform(), np.random.default_rng(20140621)
    order = source.state(n_rows)
    drawn = np.empty((n_tests, sum(batches)), dtype=np.int64)
    for test in drawn:
        n = 0
        for size in batches:
            test[n : n + size] = draw(rng, order, n, n + size)
            n += size
        source.restore(order, n)
    return drawn


def _uniformity(draw):
    """p-values: each row at each position, each pair of positions and of tests in a row, each ordered triple."""
    drawn = _subsets(draw, n_rows=12, batches=(4, 3), n_tests=20_000)
    rows = [multinomial_p(np.bincount(column, minlength=12), np.full(12, 1 / 12)) for column in drawn.T]
    positions = [(0, 1), (0, 6), (3, 4), (5, 6)]  # within a batch, across batches
    cells = np.array([12 * a + b for a, b in permutations(range(12), 2)])
    pairs = [
        multinomial_p(np.bincount(12 * drawn[:, i] + drawn[:, j], minlength=144)[cells], np.full(132, 1 / 132))
        if (drawn[:, i] != drawn[:, j]).all()
        else 0.0
        for i, j in positions
    ]
    between = 12 * drawn[:-1:2, 0] + drawn[1::2, 0]
    independent = multinomial_p(np.bincount(between, minlength=144), np.full(144, 1 / 144))
    triples = Counter(map(tuple, _subsets(draw, n_rows=5, batches=(2, 1), n_tests=20_000)))
    every = [triples.pop(t, 0) for t in permutations(range(5), 3)]
    return [*rows, *pairs, independent, multinomial_p([*every, triples.total()], [*np.full(60, 1 / 60), 0.0])]


def test_every_row_pair_and_ordered_triple_is_equally_likely():
    assert min(_uniformity(Uniform().draw)) > LEVEL
    assert min(_uniformity(_draw_positions)) < LEVEL


def test_restoring_leaves_the_identity():
    source, moved = Uniform(), 0
    for n_rows in range(1, 7):
        for n_drawn in range(n_rows + 1):
            for offsets in product(*(range(n_rows - k) for k in range(n_drawn))):
                order = source.state(n_rows)
                for k, offset in enumerate(offsets):
                    order[[k, k + offset]] = order[[k + offset, k]]
                moved += (order != np.arange(n_rows)).any()
                source.restore(order, n_drawn)
                assert (order == np.arange(n_rows)).all()
    assert moved > 0


class _CountingOrder:
    """The numbers 0..N−1 in order, kept as exceptions to the identity, so that N may exceed any memory."""

    def __init__(self, size):
        self.size, self.moved, self.accesses = size, {}, 0

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(index.start, index.stop)]
        self.accesses += 1
        return self.moved.get(index, index)

    def __setitem__(self, index, row):
        self.accesses += 1
        self.moved[index] = row


def test_a_draw_touches_only_as_many_entries_as_it_reads():
    source, rng = Uniform(), np.random.default_rng(3)
    order = _CountingOrder(10**12)
    drawn = source.draw.py_func(rng, order, 0, 300) + source.draw.py_func(rng, order, 300, 500)
    source.restore.py_func(order, 500)
    assert max(drawn) > 10**11
    assert order.accesses <= 10 * 500
    assert all(index == row for index, row in order.moved.items())


def test_a_chain_keeps_less_than_eight_bytes_a_row():
    assert Uniform().state(100_000).nbytes < 8 * 100_000
    assert sum(array.nbytes for array in InOrder().for_points(9).state(100_000)) < 8 * 100


def test_a_subset_is_any_subset_with_the_same_probability():
    rng, n_draws = np.random.default_rng(3), 20_000
    drawn = np.array([np.sort(draw_subset(rng, 6, 3)) for _ in range(n_draws)])
    _, counts = np.unique(drawn @ [36, 6, 1], return_counts=True)
    assert multinomial_p(counts, np.full(20, 1 / 20)) > LEVEL
    slices = np.bincount(rng.integers(0, 4, n_draws), minlength=20)  # planted: contiguous rows only
    assert multinomial_p(slices, np.full(20, 1 / 20)) < LEVEL


@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 2**32 - 1))
def test_a_subset_has_its_size_and_no_row_twice(n_rows, size, seed):
    numbers = draw_subset(np.random.default_rng(seed), n_rows, size)
    assert len(numbers) == len(set(numbers.tolist())) == min(size, n_rows)
    assert 0 <= numbers.min() <= numbers.max() < n_rows
