import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pymc_austerity.paths.replication import draw_rows, telescope
from pymc_austerity.paths.truncation import Truncation, path_sizes


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
    variance = probabilities @ (values - mean) ** 2
    assert variance == pytest.approx(LAW.variance_by_level(squared_error).sum(), rel=1e-12)
    # Negative control: the formula with P(T = t) in place of P(T ≥ t).
    assert variance != pytest.approx((squared_error[:-1] * np.abs(np.diff(1 / LAW.probability))).sum(), rel=0.1)


def test_enumeration_catches_planted_mistakes():
    wrong, short = SimpleNamespace(tail=LAW.probability, sizes=LAW.sizes), Truncation((*LAW.sizes[:-1],), 0.8)
    for law, weights in ((LAW, wrong), (short, short)):
        values, probabilities = _all_replicates(X, law, weights)
        assert abs(probabilities @ values - X.sum() / 9) > 0.1


def test_rows_are_a_uniform_ordering():
    pairs = [tuple(draw_rows(4, 2, np.random.SeedSequence(i))) for i in range(6_000)]
    counts = [pairs.count((i, j)) for i in range(4) for j in range(4) if i != j]
    assert sum(counts) == 6_000
    assert stats.chisquare(counts).pvalue > 1e-4
    # A few of many: NumPy takes another algorithm there, whose order must be random too.
    first = [draw_rows(40_000, 3, np.random.SeedSequence(i))[0] for i in range(2_000)]
    assert stats.kstest(np.array(first) / 40_000, "uniform").pvalue > 1e-4
    # Negative control: sorted rows.
    first = [np.sort(draw_rows(40_000, 3, np.random.SeedSequence(i)))[0] for i in range(2_000)]
    assert stats.kstest(np.array(first) / 40_000, "uniform").pvalue < 1e-4


@given(st.lists(st.floats(-1e3, 1e3), min_size=6, max_size=6), st.floats(0, 2), st.floats(-10, 10))
def test_the_sum_is_linear_and_averages_to_the_last_value(path, alpha, slope):
    law = Truncation(path_sizes(32, 1), alpha)

    def replicates(values):
        return np.array([telescope([np.asarray(v) for v in values[:level]], law) for level in range(1, 7)])

    scale = 1 + np.abs(path).max() * max(1, abs(slope)) / law.tail[-1]
    assert law.probability @ replicates(path) == pytest.approx(path[-1], abs=1e-12 * scale)
    np.testing.assert_allclose(replicates([slope * v for v in path]), slope * replicates(path), atol=1e-12 * scale)
    np.testing.assert_allclose(replicates([7.0] * 6), 7.0)
