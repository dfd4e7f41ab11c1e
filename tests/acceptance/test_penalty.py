"""The noise-penalty test: exact at all rows, right at any noise, and the penalty is what makes it so."""

import numpy as np
import pytest
from numba import njit

from pymc_austerity.acceptance import ACCEPT, UNDECIDED, Moments
from pymc_austerity.acceptance.all_rows import Exact
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
        (decide_with_penalty, 0.05, WITH_REPLACEMENT, True),
        (decide_with_penalty, 0.5, WITH_REPLACEMENT, True),
        (decide_with_penalty, 1.0, WITH_REPLACEMENT, True),
        (decide_with_penalty, 1.0, 250, True),
        (without_correction, 1.0, 250, False),
        (without_penalty, 1.0, WITH_REPLACEMENT, False),
    ],
)
def test_detailed_balance_holds_and_mistakes_break_it(decide, variance, n_total, balanced):
    z = abs(imbalance(decide, variance, n_rows=200, n_total=n_total))
    assert z < 4 if balanced else z > 8


def mean_ratio(penalise, n_rows=16, variance=1.0, draws=2_000_000):
    """How far E exp(Δ* − penalty) is from exp(Δ), in Monte Carlo standard errors, for an estimated variance."""
    rng = np.random.default_rng(5)
    noise = np.sqrt(variance) * rng.standard_normal(draws)
    estimated = variance * rng.chisquare(n_rows - 1, draws) / (n_rows - 1)
    ratio = np.exp(noise - penalise(estimated, n_rows))
    return (ratio.mean() - 1) / (ratio.std() / np.sqrt(draws))


def test_penalty_of_estimated_variance_is_unbiased():
    assert abs(mean_ratio(penalty.py_func)) < 4


def test_taking_an_estimated_variance_as_known_is_caught():
    assert abs(mean_ratio(lambda variance, n: variance / 2)) > 8


def test_without_noise_it_is_metropolis():
    looks = NoisePenalty(2).looks(10**6)
    for log_ratio in (-2.0, -0.3, 0.4):
        found = acceptance(decide_with_penalty, looks, log_ratio, 1e-8, 200, DRAWS, np.random.default_rng(3))
        exact = min(1.0, np.exp(log_ratio))
        assert abs(found - exact) <= 4 * np.sqrt(exact * (1 - exact) / DRAWS)


def test_all_rows_decide_like_the_exact_test():
    exact, looks = Exact(), NoisePenalty(2).looks(50)
    rng = np.random.default_rng(4)
    verdicts = set()
    for _ in range(500):
        moments = Moments(50, 50, rng.normal(scale=0.05), abs(rng.normal()))
        noise = np.log(rng.random())
        ours = decide_with_penalty(looks, len(looks.sizes) - 1, moments, 0.1, 50.0, noise)
        assert ours == exact.decide(exact.looks(50), 0, moments, 0.1, 50.0, noise)
        verdicts.add(ours)
    assert len(verdicts) == 2


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
