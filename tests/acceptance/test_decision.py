"""What a batch of row terms says by itself, and the decision of Metropolis and Hastings with the noise in it."""

import numpy as np
import pytest
from evidence import LEVEL
from scipy import stats

from pymc_austerity.acceptance.decision import (
    BAD_BOUND,
    BAD_ROW,
    DECIDED,
    draw_log_uniform,
    examine,
)

NUMBERS = np.array([40, 10, 30, 20])
OLD = np.array([1.0, -2.0, 3.0, 0.5])


def changed(row, value, others=OLD):
    return np.where(row == NUMBERS, value, others)


@pytest.mark.parametrize(
    ("new", "old", "limit", "found"),
    [
        (OLD, OLD, np.inf, (DECIDED, False, -1)),
        (OLD + 0.5, OLD, 0.5, (DECIDED, False, -1)),
        *((OLD, changed(10, bad), np.inf, (BAD_ROW, True, 10)) for bad in (-np.inf, np.inf, np.nan)),
        (changed(10, -np.inf), changed(10, -np.inf), np.inf, (BAD_ROW, True, 10)),
        (changed(30, -np.inf), OLD, 0.1, (DECIDED, True, -1)),
        (changed(20, OLD + 0.6, OLD + 0.1), OLD, 0.5, (BAD_BOUND, True, 20)),
        (changed(20, OLD - 0.6, OLD + 0.1), OLD, 0.5, (BAD_BOUND, True, 20)),
        (changed(20, OLD + 0.6, OLD + 0.1), OLD, np.inf, (DECIDED, False, -1)),
    ],
)
def test_rows_that_settle_a_decision_are_found(new, old, limit, found):
    """Impossible at the present point, which is named; at the proposal; or beyond their bound, which is named."""
    assert examine(NUMBERS, new, old, new.sum(), old.sum(), limit) == found


def test_noise_is_the_log_of_a_uniform_number():
    rng = np.random.default_rng(5)
    u = np.exp([draw_log_uniform(rng) for _ in range(5_000)])
    assert stats.kstest(u, "uniform").pvalue > LEVEL
    assert stats.kstest(np.sqrt(u), "uniform").pvalue < LEVEL
