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


def examined(new=OLD, old=OLD, limit=np.inf):
    return examine(NUMBERS, new, old, new.sum(), old.sum(), limit)


@pytest.mark.parametrize("bad", [-np.inf, np.inf, np.nan])
def test_an_impossible_row_at_the_present_point_is_named(bad):
    old = np.where(NUMBERS == 10, bad, OLD)
    assert examined(old=old) == (BAD_ROW, True, 10)
    assert examined(new=old, old=old) == (BAD_ROW, True, 10)


def test_only_an_impossible_row_at_the_proposal_settles_the_decision():
    assert examined() == examined(new=OLD + 0.5, limit=0.5) == (DECIDED, False, -1)
    assert examined(new=np.where(NUMBERS == 30, -np.inf, OLD), limit=0.1) == (DECIDED, True, -1)


@pytest.mark.parametrize("change", [0.6, -0.6])
def test_a_row_that_breaks_its_bound_is_named(change):
    assert examined(new=OLD + np.where(NUMBERS == 20, change, 0.1), limit=0.5) == (BAD_BOUND, True, 20)
    assert examined(new=OLD + np.where(NUMBERS == 20, change, 0.1)) == (DECIDED, False, -1)


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
