import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from pymc_austerity.paths.replication import telescope
from pymc_austerity.paths.truncation import Truncation, path_sizes


@pytest.mark.parametrize(
    ("n_rows", "min_batch", "ratio", "expected"),
    [
        (80, 10, 2, (10, 20, 40, 80)),
        (81, 10, 2, (10, 20, 40, 80, 81)),
        (79, 10, 2, (10, 20, 40, 79)),
        (10, 10, 2, (10,)),
        (100, 10, 3, (10, 30, 90, 100)),
        (50, 10, 1.5, (10, 15, 22, 34, 50)),
    ],
)
def test_the_last_batch_is_the_whole_data(n_rows, min_batch, ratio, expected):
    assert path_sizes(n_rows, min_batch, ratio) == expected


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0, 1.7])
def test_tail_is_the_formula_of_the_paper(alpha):
    law = Truncation(path_sizes(1024, 8), alpha)
    levels = np.arange(1, len(law.sizes) + 1)
    count = len(levels)
    if alpha == 0:
        expected = (count - levels + 1) / count
    else:
        expected = (2 ** (-alpha * (levels - 1)) - 2 ** (-alpha * count)) / (1 - 2 ** (-alpha * count))
    np.testing.assert_allclose(law.tail, expected, rtol=1e-12)
    np.testing.assert_allclose(law.probability.sum(), 1)


def test_draws_follow_the_law_and_reach_both_ends():
    law = Truncation(path_sizes(160, 10), 0.7)
    rng = np.random.default_rng(20260)
    counts = np.bincount([law.draw(rng) for _ in range(20_000)], minlength=len(law.sizes) + 1)[1:]
    assert stats.chisquare(counts, 20_000 * law.probability).pvalue > 1e-4
    # Negative control: draws truncated one batch early.
    assert stats.chisquare(np.roll(counts, 1), 20_000 * law.probability).pvalue < 1e-4


def _all_replicates(x, law, weights):
    """Every ordering and every truncation, with its probability: no Monte Carlo error at all."""
    values, probabilities = [], []
    orderings = list(itertools.permutations(range(len(x))))
    for order in orderings:
        path = [x[list(order[:n])].sum() / (n + 3.0) for n in law.sizes]
        for level, probability in enumerate(law.probability, start=1):
            values.append(float(telescope(iter(path[:level]), weights)))
            probabilities.append(probability / len(orderings))
    return np.array(values), np.array(probabilities)


X = np.array([0.3, -1.2, 4.0, 2.2, 0.9, 7.0])
LAW = Truncation(path_sizes(6, 1), 0.8)


def test_enumeration_is_unbiased_with_the_variance_of_lemma_1():
    values, probabilities = _all_replicates(X, LAW, LAW)
    full = X.sum() / 9
    mean = probabilities @ values
    assert mean == pytest.approx(full, rel=1e-12)
    subsets = [[X[list(s)].sum() / (n + 3.0) for s in itertools.combinations(range(6), n)] for n in LAW.sizes]
    squared_error = np.array([np.mean((np.array(s) - full) ** 2) for s in subsets])
    assert probabilities @ (values - mean) ** 2 == pytest.approx(LAW.variance(squared_error), rel=1e-12)


def test_enumeration_catches_wrong_weights():
    wrong = SimpleNamespace(tail=LAW.probability, sizes=LAW.sizes)
    values, probabilities = _all_replicates(X, LAW, wrong)
    assert abs(probabilities @ values - X.sum() / 9) > 0.1


def test_enumeration_catches_a_truncation_that_stops_short():
    law = Truncation((*LAW.sizes[:-1],), 0.8)
    values, probabilities = _all_replicates(X, law, law)
    assert abs(probabilities @ values - X.sum() / 9) > 0.1


def _gaussian_squared_error(sizes, shrink=1.0):
    """δ_t² of a posterior mean S_n / (n + shrink) for data of variance 1 and mean 0, without replacement."""
    n = np.array(sizes, dtype=float)
    return n * (1 - n / n[-1]) / (n + shrink) ** 2


@pytest.mark.parametrize(("alpha", "bounded"), [(0.5, True), (0.8, True), (1.3, False), (1.6, False)])
def test_variance_is_bounded_below_the_rate_and_grows_above_it(alpha, bounded):
    laws = [Truncation(path_sizes(8 * 2**k, 8), alpha) for k in (12, 16, 20, 24)]
    variances = np.array([law.variance(_gaussian_squared_error(law.sizes)) for law in laws])
    growth = variances[1:] / variances[:-1]
    if bounded:
        # What sixteen times the rows add shrinks geometrically, so the sum converges.
        assert (np.abs(np.diff(variances)[1:] / np.diff(variances)[:-1]) < 0.7).all()
    else:
        np.testing.assert_allclose(growth, 2 ** (4 * (alpha - 1)), rtol=0.15)


@pytest.mark.parametrize(("alpha", "message"), [(-0.1, "alpha"), (np.nan, "alpha"), (50.0, "never be reached")])
def test_useless_exponents_are_refused(alpha, message):
    with pytest.raises(ValueError, match=message):
        Truncation(path_sizes(2**20, 8), alpha)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1), "n_rows"),
        ((10, 11), "min_batch"),
        ((10, 0), "min_batch"),
        ((10, 1, 1.0), "ratio"),
        ((10, 2, 1.2), "ratio"),
        # 5, 6, 6, 7: the second grows, the third does not.
        ((7, 5, 1.125), "ratio"),
    ],
)
def test_useless_sizes_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        path_sizes(*arguments)
