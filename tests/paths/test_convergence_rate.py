import numpy as np
import pytest

from pymc_austerity.paths.convergence_rate import MAX_BETA, best_alpha, choose, choose_alpha, fit_rate
from pymc_austerity.paths.truncation import Truncation, path_sizes

SIZES = path_sizes(10_000, 10)


def _paths(rng, beta, count=400, levels=5, components=1):
    """Paths of partial means of independent noise, to the power that makes δ² = n^(−β)."""
    n = np.array(SIZES[:levels], dtype=float)
    increments = np.sqrt(n[:-1] ** -beta - n[1:] ** -beta)
    steps = rng.normal(size=(count, levels - 1, components)) * increments[:, None]
    return np.concatenate([np.zeros((count, 1, components)), steps.cumsum(axis=1)], axis=1)


@pytest.mark.parametrize("beta", [0.4, 1.0, 1.6])
def test_rate_is_recovered_within_its_standard_error(beta):
    fitted, error = fit_rate(SIZES[:5], _paths(np.random.default_rng(5), beta))
    assert abs(fitted - beta) < 4 * error
    assert error < 0.1
    # Negative control: a rate half off is seen.
    assert abs(fitted - 1.5 * beta) > 4 * error


def test_rate_does_not_depend_on_the_units_of_the_components():
    paths = _paths(np.random.default_rng(6), 1.0, components=3)
    expected = fit_rate(SIZES[:5], paths)
    np.testing.assert_allclose(fit_rate(SIZES[:5], paths * [1e-6, 1.0, 1e6]), expected)


def test_a_constant_phi_has_an_infinite_rate():
    choice = choose_alpha(SIZES, 2, np.ones((10, 5)))
    assert np.isinf(choice.beta)
    assert 0 < choice.alpha < MAX_BETA
    assert "did not change" in choice.reason


def test_a_phi_that_moves_too_seldom_for_a_rate_is_refused():
    paths = np.zeros((24, 5))
    paths[3, 2:] = 1.0
    with pytest.raises(ValueError, match="no convergence rate.*24 pilot paths.*pilot_paths.*alpha"):
        choose_alpha(SIZES, 2, paths)
    # One path that moves at every batch: the jackknife leaves nothing when it leaves that path out.
    paths[3] = np.arange(5)
    with pytest.raises(ValueError, match="no convergence rate"):
        choose_alpha(SIZES, 2, paths)


def test_a_phi_that_comes_to_rest_has_a_fast_rate():
    paths = np.zeros((24, 5))
    paths[::2, :3] = 4.0, 1.0, 0.0
    choice = choose_alpha(SIZES, 2, paths)
    assert 0.5 < choice.alpha < best_alpha(SIZES, 2, MAX_BETA)
    assert "stopped changing" in choice.reason


def test_alpha_is_the_minimum_over_a_grid_below_the_rate():
    grid = np.linspace(0.01, 0.99, 197)

    def product(alpha):
        law = Truncation(SIZES, alpha)
        return law.expected_cost() * law.second_moment_bound(1.0)

    best = grid[np.argmin([product(a) for a in grid])]
    assert best_alpha(SIZES, 2, 1.0) == pytest.approx(best, abs=0.006)
    assert best_alpha(SIZES, 2, 0.5) < 0.5
    # A steeper cost moves it up.
    assert best_alpha(SIZES, 2, 1.0, cost=lambda n: n**3) > best_alpha(SIZES, 2, 1.0)
    assert best_alpha(SIZES, 2, 1.0, cost=lambda n: 1e5 + n) < best_alpha(SIZES, 2, 1.0)


def test_the_choice_errs_to_the_safe_side_and_says_why():
    choice = choose_alpha(SIZES, 2, _paths(np.random.default_rng(7), 1.0, count=24))
    assert choice.alpha < choice.beta
    used = choice.beta - choice.beta_error
    (best, found) = (
        law.expected_cost() * law.second_moment_bound(used)
        for law in (Truncation(SIZES, alpha) for alpha in (best_alpha(SIZES, 2, used), choice.alpha))
    )
    assert choice.alpha < best_alpha(SIZES, 2, used)
    assert found == pytest.approx(1.2 * best, rel=1e-3)
    assert f"{choice.beta:.2f}" in choice.reason
    assert choice.rows == 24 * sum(SIZES[:5])


@pytest.mark.parametrize(("sizes", "reason"), [((10, 20, 40), "too few"), ((1_000,), "plays no part")])
def test_short_paths_have_no_pilot(sizes, reason):
    choice = choose("auto", sizes, 2, float, 24, None)
    assert np.isnan(choice.beta)
    assert reason in choice.reason
    assert choice.rows == 0
