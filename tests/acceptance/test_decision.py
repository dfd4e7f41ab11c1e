"""What a batch of row terms says by itself, and the decision of Metropolis and Hastings with the noise in it."""

import numpy as np
import pytest
from evidence import LEVEL
from scipy import stats

from pymc_austerity.acceptance import Looks, Moments
from pymc_austerity.acceptance.decision import (
    ACCEPT,
    BAD_BOUND,
    BAD_ROW,
    DECIDED,
    REJECT,
    UNDECIDED,
    decide_against_threshold,
    draw_log_uniform,
    examine,
    metropolis_probability,
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


@pytest.mark.parametrize(
    ("n", "mean", "bound", "decision"),
    [
        (5, 3.0, 1.5, UNDECIDED),  # threshold 1: distance 2 against 1.5 × sd 2
        (5, 4.1, 1.5, ACCEPT),
        (5, -2.1, 1.5, REJECT),
        (9, 1.1, 1e9, ACCEPT),  # all rows decide whatever the bound
        (9, 0.9, 1e9, REJECT),
        (9, 1.0, 1e9, REJECT),
    ],
)
def test_decision_compares_the_mean_with_its_threshold(n, mean, bound, decision):
    looks = Looks(np.array([5, 9]), np.array([bound, bound]))
    moments = Moments(n, 9, mean, 2.0)
    assert decide_against_threshold(looks, 0, moments, offset=-3.5, scale=3.0, noise=-0.5) == decision


def test_noise_is_the_log_of_a_uniform_number():
    rng = np.random.default_rng(5)
    u = np.exp([draw_log_uniform(rng) for _ in range(5_000)])
    assert stats.kstest(u, "uniform").pvalue > LEVEL
    assert stats.kstest(np.sqrt(u), "uniform").pvalue < LEVEL


def test_the_probability_is_the_ratio_and_at_most_one():
    found = [metropolis_probability(log_ratio) for log_ratio in (-2.0, -0.5, 0.0, 0.5, 800.0, -np.inf)]
    assert found == pytest.approx([np.exp(-2.0), np.exp(-0.5), 1.0, 1.0, 1.0, 0.0])
