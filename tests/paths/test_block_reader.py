import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymc_austerity.paths.block_reader import BlockReader, StreamEndedError, StreamError

lengths = st.lists(st.integers(0, 12), max_size=12)
takes = st.lists(st.integers(1, 12), min_size=1, max_size=8)


def cut(array, sizes):
    return np.split(array, np.cumsum(sizes)[:-1]) if sizes else []


@given(lengths, takes)
def test_rows_come_once_and_in_order_whatever_the_blocks(sizes, counts):
    rows = np.arange(sum(sizes))
    single, pairs = BlockReader(cut(rows, sizes)), BlockReader(zip(cut(rows, sizes), cut(np.c_[rows, -rows], sizes)))
    position = 0
    for count in counts:
        expected = rows[position : position + count]
        if len(expected) < count:
            for reader in (single, pairs):
                with pytest.raises(StreamEndedError):
                    reader.take(count)
                assert (reader.rows_read, reader.cut) == (position, len(expected))
            return
        np.testing.assert_array_equal(single.take(count), expected)
        first, second = pairs.take(count)
        np.testing.assert_array_equal(first, expected)
        np.testing.assert_array_equal(second, np.c_[expected, -expected])
        position += count
        assert single.rows_read == pairs.rows_read == position


def test_no_more_blocks_are_read_than_needed():
    blocks = iter([np.arange(5), np.arange(5), np.arange(5)])
    BlockReader(blocks).take(6)
    assert len(list(blocks)) == 1


def test_an_error_of_the_stream_says_after_how_many_rows():
    def blocks():
        yield np.ones(3)
        raise OSError("disk gone")

    reader = BlockReader(blocks())
    reader.take(2)
    with pytest.raises(StreamError, match="failed after 3 rows: OSError: disk gone"):
        reader.take(2)
