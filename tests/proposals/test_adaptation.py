"""Adaptation: steps of the scale grow small but without end, and moments are those of the chain."""

import numpy as np
import pytest

from pymc_austerity.proposals.adaptation import adapt_moments, proposal_factor
from pymc_austerity.proxy import towards_target


def test_scale_moves_less_and_less_but_without_end():
    gains = np.array([towards_target(0.0, True, 0.5, t) for t in range(1, 100_001)])
    assert (np.diff(gains) < 0).all()
    # Σ gain diverges and Σ gain² converges: by the last factor of ten the one still grows, the other hardly.
    assert gains[10_000:].sum() > gains[:10_000].sum()
    assert (gains[10_000:] ** 2).sum() < 0.1 * (gains[:10_000] ** 2).sum()


def test_moments_are_those_of_the_chain_and_forget_its_start():
    true = np.array([[2.0, 1.2, 0.0], [1.2, 1.0, -0.3], [0.0, -0.3, 0.5]])
    draws = np.random.default_rng(2).multivariate_normal([1.0, -2.0, 5.0], true, size=20_000)
    draws[:20] += 50.0
    mean, cov = draws[0].copy(), np.zeros((3, 3))
    for t, theta in enumerate(draws, start=1):
        adapt_moments(mean, cov, theta, t)
    assert mean == pytest.approx([1.0, -2.0, 5.0], abs=0.1)
    assert cov == pytest.approx(true, abs=0.15)
    assert np.abs(np.cov(draws.T) - true).max() > 1  # plain moments still remember the start


def test_running_covariance_is_never_indefinite():
    rng = np.random.default_rng(3)
    mean, cov = rng.normal(size=4), np.zeros((4, 4))
    for t in range(1, 200):
        adapt_moments(mean, cov, rng.standard_cauchy(size=4), t)
        assert np.linalg.eigvalsh(cov).min() > -1e-12 * np.abs(cov).max()
        assert cov == pytest.approx(cov.T)


def test_factor_is_the_scaled_covariance_even_before_the_chain_moves():
    cov = np.array([[2.0, 1.2], [1.2, 1.0]])
    factor = proposal_factor(cov, np.ones(2), 10**7)
    assert factor @ factor.T == pytest.approx(2.38**2 / 2 * cov, rel=1e-4)
    assert factor[0, 1] == 0
    assert (np.diag(proposal_factor(np.zeros((3, 3)), np.array([1.0, 0.1, 1e-3]), 20)) > 0).all()
