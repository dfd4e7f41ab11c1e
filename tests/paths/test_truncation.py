import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from pymc_austerity.paths.convergence_rate import squared_errors
from pymc_austerity.paths.truncation import Truncation, path_sizes


@pytest.mark.parametrize(
    ("n_rows", "min_batch", "ratio", "expected"),
    [
        (80, 10, 2, (10, 20, 40, 80)),
        (81, 10, 2, (10, 20, 40, 80, 81)),
        (10, 10, 2, (10,)),
        (100, 10, 3, (10, 30, 90, 100)),
        (50, 10, 1.5, (10, 15, 22, 34, 50)),
    ],
)
def test_the_last_batch_is_the_whole_data(n_rows, min_batch, ratio, expected):
    assert path_sizes(n_rows, min_batch, ratio) == expected


def test_what_three_batches_cost_and_vary_by_hand():
    assert path_sizes(100, 10) == (10, 20, 40, 80, 100)
    law = Truncation((1, 2, 4), alpha=1.0)  # P(T ≥ t) is 1, 3/7, 1/7
    assert [law.rows(level) for level in (1, 2, 3)] == [1, 3, 7]
    assert law.expected_cost() == pytest.approx(1 + 2 * 3 / 7 + 4 / 7)
    assert law.expected_cost(lambda n: n**2) == pytest.approx(1 + 4 * 3 / 7 + 16 / 7)
    assert law.variance_by_level([3.0, 2.0, 0.0]) == pytest.approx([3 * (7 / 3 - 1), 2 * (7 - 7 / 3)])
    assert law.variance([3.0, 2.0, 0.0]) == pytest.approx(4 + 28 / 3)
    assert law.second_moment_bound(1.0) == pytest.approx(2 + 7 / 3 + 7 / 2)


@st.composite
def laws(draw):
    """A law of truncation of any kind that is allowed."""
    min_batch, ratio = draw(st.integers(1, 200)), draw(st.floats(1.1, 8.0))
    n_rows = min_batch + draw(st.integers(0, 10**9))
    try:
        sizes = path_sizes(n_rows, min_batch, ratio)
    except ValueError:
        reject()
    # The least tail is about ratio**(-alpha * batches), which has a lower limit.
    steepest = 300 / (len(sizes) * np.log(ratio))
    return Truncation(sizes, draw(st.floats(0.0, min(steepest, 3.0))), ratio)


class Grid:
    """The numbers (k + 1/2) / n in place of uniform ones."""

    def __init__(self, n):
        self._values = iter((np.arange(n) + 0.5) / n)

    def random(self):
        return next(self._values)


@given(laws())
def test_batches_grow_from_the_smallest_to_all_rows(law):
    sizes = np.array(law.sizes)
    assert (np.diff(sizes) > 0).all()
    inner = sizes[:-1]
    # Every batch but the last is the first one times a power of the ratio, rounded.
    np.testing.assert_allclose(inner, inner[:1] * law.ratio ** np.arange(len(inner)), atol=0.5, rtol=1e-9)


@given(laws())
def test_the_law_is_one(law):
    assert law.probability.sum() == pytest.approx(1, rel=1e-12)
    assert law.tail[0] == pytest.approx(1, rel=1e-12)
    assert (law.tail > 0).all()
    np.testing.assert_allclose(-np.diff(law.tail, append=0), law.probability, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(law.probability[1:] / law.probability[:-1], law.ratio**-law.alpha, rtol=1e-9)


@given(laws())
def test_a_grid_of_uniform_numbers_is_divided_as_the_law_says(law):
    grid = Grid(200)
    levels = [law.draw(grid) for _ in range(200)]
    assert (np.diff(levels) <= 0).all()
    counts = np.bincount(levels, minlength=len(law.sizes) + 1)
    assert counts[0] == 0
    np.testing.assert_allclose(counts[1:], 200 * law.probability, atol=1.0 + 1e-9)


@given(laws(), st.floats(0.1, 2.0))
def test_the_variance_is_a_sum_without_a_negative_term(law, beta):
    error = squared_errors(law.sizes, beta)
    assert (law.variance_by_level(error) >= 0).all()
    assert law.variance(error) <= law.second_moment_bound(beta) * (1 + 1e-9)


def _gaussian_squared_error(sizes, shrink=1.0):
    """δ_t² of a posterior mean S_n / (n + shrink) for data of variance 1 and mean 0, without replacement."""
    n = np.array(sizes, dtype=float)
    return n * (1 - n / n[-1]) / (n + shrink) ** 2


@pytest.mark.parametrize(("alpha", "bounded"), [(0.8, True), (1.3, False)])
def test_variance_is_bounded_below_the_rate_and_grows_above_it(alpha, bounded):
    laws = [Truncation(path_sizes(8 * 2**k, 8), alpha) for k in (12, 16, 20, 24)]
    variances = np.array([law.variance(_gaussian_squared_error(law.sizes)) for law in laws])
    growth = variances[1:] / variances[:-1]
    if bounded:
        # What sixteen times the rows add shrinks geometrically, so the sum converges.
        assert (np.abs(np.diff(variances)[1:] / np.diff(variances)[:-1]) < 0.7).all()
    else:
        np.testing.assert_allclose(growth, 2 ** (4 * (alpha - 1)), rtol=0.15)


@pytest.mark.parametrize(
    ("alpha", "message"),
    [(-0.1, "alpha"), (np.nan, "alpha"), (50.0, "last of 18 batches the probability 1e-256.*never be reached")],
)
def test_useless_exponents_are_refused(alpha, message):
    with pytest.raises(ValueError, match=message):
        Truncation(path_sizes(2**20, 8), alpha)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1), "whole number of at least 1, found 0"),
        ((2.5, 1), "whole number of at least 1, found 2.5"),
        ((10, 11), "min_batch must be between 1 and 10"),
        ((10, 0), "min_batch must be between 1 and 10"),
        ((10, 1, 1.0), "ratio must be a number above 1"),
        ((10, 1, np.inf), "ratio must be a number above 1"),
        ((10, 2, 1.2), "ratio must make each batch larger"),
        # 5, 6, 6, 7: the second grows, the third does not.
        ((7, 5, 1.125), "ratio must make each batch larger.*two batches of 6 rows"),
    ],
)
def test_useless_sizes_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        path_sizes(*arguments)
