"""The noise-penalty test: right at any noise, and the penalty is what makes it so."""

import numpy as np
import pytest
from numba import njit

from pymc_austerity.acceptance import ACCEPT, UNDECIDED, Moments
from pymc_austerity.acceptance.by_looks import WITH_REPLACEMENT
from pymc_austerity.acceptance.penalty import NoisePenalty, decide_with_penalty, penalty

DRAWS = 400_000


@njit
def acceptance(decide, looks, log_ratio, variance, n_rows, draws, rng, n_total=WITH_REPLACEMENT):
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


def imbalance(decide, variance, n_rows, log_ratio=0.5, n_total=WITH_REPLACEMENT):
    """Log ratio of forward to backward acceptance, which detailed balance makes equal to `log_ratio`."""
    looks = NoisePenalty(2, max_variance=100.0).looks(10**6)
    rngs = np.random.default_rng(1), np.random.default_rng(2)
    forth = acceptance(decide, looks, log_ratio, variance, n_rows, DRAWS, rngs[0], n_total)
    back = acceptance(decide, looks, -log_ratio, variance, n_rows, DRAWS, rngs[1], n_total)
    error = np.sqrt((1 - forth) / (forth * DRAWS) + (1 - back) / (back * DRAWS))
    return (np.log(forth / back) - log_ratio) / error


@pytest.mark.parametrize(
    ("decide", "variance", "n_total", "balanced"),
    [
        (decide_with_penalty, 1.0, WITH_REPLACEMENT, True),
        (decide_with_penalty, 1.0, 250, True),
        (without_correction, 1.0, 250, False),
        (without_penalty, 1.0, WITH_REPLACEMENT, False),
    ],
)
def test_detailed_balance_holds_and_mistakes_break_it(decide, variance, n_total, balanced):
    z = abs(imbalance(decide, variance, n_rows=200, n_total=n_total))
    assert z < 4 if balanced else z > 8


def test_a_noisy_batch_reads_on():
    looks = NoisePenalty(10, max_variance=1.0).looks(1000)
    assert decide_with_penalty(looks, 0, Moments(10, 1000, 0.0, 4.0), 0.0, 1.0, -1.0) == UNDECIDED
    assert decide_with_penalty(looks, 0, Moments(10, 1000, 0.0, 1.0), 0.0, 1.0, -1.0) != UNDECIDED


def test_penalty_series_is_that_of_the_paper():
    """Ceperley and Dewing (1999): χ²/2 + χ⁴/(4(n+1)) + χ⁶/(3(n+1)(n+3))."""
    assert penalty(1.0, 10) == pytest.approx(1 / 2 + 1 / 44 + 1 / 429, rel=1e-14)
    assert penalty(3.0, 5) == pytest.approx(3 / 2 + 9 / 24 + 27 / 144, rel=1e-14)


@pytest.mark.parametrize(("variance", "decides"), [(2.4, True), (2.6, False)])
def test_variance_beyond_a_quarter_of_the_rows_reads_on(variance, decides):
    """There the series for an estimated variance no longer converges."""
    looks = NoisePenalty(10, max_variance=100.0).looks(10**9)
    moments = Moments(10, 10**9, 0.0, np.sqrt(10 * variance))
    assert (decide_with_penalty(looks, 0, moments, 0.0, 1.0, -1.0) != UNDECIDED) == decides


def test_default_looks_grow_by_half():
    looks = NoisePenalty(200).looks(1_000)
    assert looks.sizes.tolist() == [200, 300, 450, 675, 1_000]
    assert looks.max_variance == 1.0
