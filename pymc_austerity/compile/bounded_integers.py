"""A whole number below a limit, drawn in compiled code: NumPy's own, without the array of one that numba makes for it.

That array took twenty times as long as the number itself, most of what it cost to choose a row.
"""

import numpy as np

from pymc_austerity.compile.lean_njit import njit

try:  # numba's own draw of one number, private to it; without it numbers are drawn as arrays of one
    from numba.np.random.random_methods import buffered_bounded_lemire_uint32
except ImportError:
    buffered_bounded_lemire_uint32 = None

_DIRECTLY = buffered_bounded_lemire_uint32 is not None


@njit
def integer_below(rng: np.random.Generator, n: int) -> np.int64:
    """Return ``rng.integers(0, n)`` of a positive `n`: the same number, and the generator goes on alike."""
    if not _DIRECTLY:
        return rng.integers(0, n)
    if n == 1:  # nothing is drawn
        return np.int64(0)
    if n < 2**32:
        return np.int64(buffered_bounded_lemire_uint32(rng.bit_generator, np.uint64(n - 1)))
    return rng.integers(0, n)
