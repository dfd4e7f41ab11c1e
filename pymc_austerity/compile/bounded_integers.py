"""A whole number below a limit, drawn in compiled code: NumPy's own, without the array of one that numba makes for it.

numba draws a single number as an array of one entry, and checks its arguments each time.  That took twenty times as
long as the number itself, and was most of what it cost to choose a row.
"""

from __future__ import annotations

import numpy as np

from pymc_austerity.compile.lean_njit import njit

try:
    from numba.np.random.generator_core import next_uint32
    from numba.np.random.random_methods import bounded_lemire_uint64, buffered_bounded_lemire_uint32
except ImportError:  # private to numba, and of another name in another version
    next_uint32 = bounded_lemire_uint64 = buffered_bounded_lemire_uint32 = None

_DIRECTLY = next_uint32 is not None
_UINT32_MAX = np.uint64(2**32 - 1)


@njit
def integer_below(rng: np.random.Generator, n: int) -> np.int64:
    """Return ``rng.integers(0, n)`` of a positive `n`: the same number, and the generator goes on alike."""
    if not _DIRECTLY:
        return rng.integers(0, n)
    largest = np.uint64(n - 1)
    if largest == 0:  # nothing is drawn
        return np.int64(0)
    if largest < _UINT32_MAX:
        return np.int64(buffered_bounded_lemire_uint32(rng.bit_generator, largest))
    if largest == _UINT32_MAX:
        return np.int64(next_uint32(rng.bit_generator))
    return np.int64(bounded_lemire_uint64(rng.bit_generator, largest))
