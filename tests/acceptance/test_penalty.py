"""The noise-penalty test: right at any noise, and the penalty is what makes it so."""

import numpy as np
import pytest
from numba import njit

from pymc_austerity.acceptance import ACCEPT, UNDECIDED, Moments
from pymc_austerity.acceptance.by_looks import WITH_REPLACEMENT
from pymc_austerity.acceptance.penalty import NoisePenalty, decide_with_penalty, penalty

DRAWS = 400_000


@njit
def acceptance(decide, looks, log_ratio, variance, n_rows, draws, rng, n_total):
    """Frequency of acceptance when n_rows normal rows, of so many, estimate a log ratio with the given variance."""
    accepted = 0
    sd_row = np.sqrt(variance * n_rows / (1 - (n_rows - 1) / (n_total - 1)))
    for _ in range(draws):
        mean = log_ratio + np.sqrt(variance) * rng.standard_normal()
        sd = sd_row * np.sqrt(rng.chisquare(n_rows - 1) / (n_rows - 1))
        moments = Moments(n_rows, n_total, mean, sd, np.inf, NO)
        accepted += decide(looks, 0, moments, 0.0, 1.0, np.log1p(-rng.random())) == ACCEPT
    return accepted / draws


NO = Moments(1, 1, 0.0, 0.0).shape


@njit
def without_penalty(looks, look, moments, offset, scale, noise):
    return ACCEPT if scale * moments.mean + offset > noise else 0


@njit
def without_correction(looks, look, moments, offset, scale, noise):
    """Planted mistake: rows drawn without replacement are taken for rows drawn with it."""
    with_replacement = Moments(moments.n, WITH_REPLACEMENT, moments.mean, moments.sd, moments.bound, moments.shape)
    return decide_with_penalty(looks, look, with_replacement, offset, scale, noise)


def imbalance(decide, n_total, variance=1.0, n_rows=200, log_ratio=0.5):
    """Log ratio of forward to backward acceptance, which detailed balance makes equal to `log_ratio`."""
    looks = NoisePenalty(2, max_variance=100.0).looks(10**6)
    forth, back = (
        acceptance(decide, looks, ratio, variance, n_rows, DRAWS, np.random.default_rng(seed), n_total)
        for seed, ratio in ((1, log_ratio), (2, -log_ratio))
    )
    error = np.sqrt((1 - forth) / (forth * DRAWS) + (1 - back) / (back * DRAWS))
    return (np.log(forth / back) - log_ratio) / error


@pytest.mark.parametrize(
    ("decide", "n_total", "balanced"),
    [
        (decide_with_penalty, WITH_REPLACEMENT, True),
        (decide_with_penalty, 250, True),
        (without_correction, 250, False),
        (without_penalty, WITH_REPLACEMENT, False),
    ],
)
def test_detailed_balance_holds_and_mistakes_break_it(decide, n_total, balanced):
    z = abs(imbalance(decide, n_total))
    assert z < 4 if balanced else z > 8


def test_penalty_series_is_that_of_the_paper():
    """Ceperley and Dewing (1999): χ²/2 + χ⁴/(4(n+1)) + χ⁶/(3(n+1)(n+3))."""
    assert penalty(1.0, 10) == pytest.approx(1 / 2 + 1 / 44 + 1 / 429, rel=1e-14)
    assert penalty(3.0, 5) == pytest.approx(3 / 2 + 9 / 24 + 27 / 144, rel=1e-14)


@pytest.mark.parametrize(
    ("limit", "variance", "decides"), [(1.0, 0.9, True), (1.0, 1.1, False), (100.0, 2.4, True), (100.0, 2.6, False)]
)
def test_a_noisy_batch_reads_on(limit, variance, decides):
    """Beyond a quarter of the rows the series for an estimated variance no longer converges."""
    looks = NoisePenalty(10, max_variance=limit).looks(10**9)
    moments = Moments(10, 10**9, 0.0, np.sqrt(10 * variance))
    assert (decide_with_penalty(looks, 0, moments, 0.0, 1.0, -1.0) != UNDECIDED) == decides
