"""Many decisions of one test on given row terms, without a model or a chain."""

from functools import cache

import numpy as np
from numba import njit

from pymc_austerity.acceptance import ACCEPT, UNDECIDED, Moments
from pymc_austerity.acceptance.moments import NO_SHAPE, add_shape
from pymc_austerity.rows.sources import draw_without_replacement, restore_order


def decisions(test, values, log_ratio, n_tests, *, scale=None, bound=np.inf, seed=0):
    """Decide `n_tests` times on l_i = values[i], with the offset that makes the log ratio of all rows `log_ratio`.

    Returns
    -------
    accepted : array of bool
    rows : array of int
        Rows read.
    """
    values = np.asarray(values, float)
    scale = float(values.size if scale is None else scale)
    offset = log_ratio - scale * values.mean()
    loop = _loop(test.decide, test.draw_noise, test.reads_shape)
    return loop(
        test.looks(values.size), values, offset, scale, n_tests, float(bound), *np.random.default_rng(seed).spawn(2)
    )


@cache
def _loop(decide, draw_noise, reads_shape):
    @njit
    def loop(looks, values, offset, scale, n_tests, bound, rng_decide, rng_rows):
        n_total = values.size
        accepted, rows = np.empty(n_tests, np.bool_), np.empty(n_tests, np.int64)
        order, zeros = np.arange(n_total), np.zeros(n_total)
        for k in range(n_tests):
            noise = draw_noise(rng_decide)
            n, mean, m2, shape = 0, 0.0, 0.0, NO_SHAPE
            look, verdict = 0, UNDECIDED
            while verdict == UNDECIDED:
                batch = values[draw_without_replacement(rng_rows, order, n, looks.sizes[look])]
                size, shift = batch.size, batch.mean() - mean
                if reads_shape:
                    shape = add_shape(shape, n, batch.mean(), batch, zeros[:size])
                m2 += batch.var() * size + shift**2 * n * size / (n + size)
                mean += shift * size / (n + size)
                n += size
                moments = Moments(n, n_total, mean, np.sqrt(m2 / (n - 1)), bound, shape)
                verdict = decide(looks, look, moments, offset, scale, noise)
                look += 1
            restore_order(order, n)
            accepted[k], rows[k] = verdict == ACCEPT, n
        return accepted, rows

    return loop
