"""The decision of Metropolis and Hastings: the mean against its threshold, and the noise that the threshold holds."""

import numpy as np
import pytest
from evidence import LEVEL
from scipy import stats

from pymc_austerity.acceptance.decision import (
    ACCEPT,
    REJECT,
    UNDECIDED,
    decide_against_threshold,
    draw_log_uniform,
    metropolis_probability,
)
from pymc_austerity.acceptance.moments import Moments
from pymc_austerity.acceptance.sequential import SequentialT


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
    looks = SequentialT(0.05, 5).looks(9)._replace(bounds=np.array([bound, bound]))
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
