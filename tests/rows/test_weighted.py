"""Weighted rows: the table draws what it should, and the weighted mean estimates the mean of all rows."""

import numpy as np
import pymc as pm
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

import pymc_austerity as pma
from pymc_austerity.acceptance.all_rows import Exact
from pymc_austerity.acceptance.uncorrected import FixedBatch
from pymc_austerity.diagnostics.spot_check import evaluate_pair
from pymc_austerity.rows.weighted import Weighted, alias_table, draw_weighted, row_table
from pymc_austerity.steps.defaults import plan_proxy

SIZES = np.array([0.0, 1.0, 2.0, 3.0, 10.0, 0.5, 0.5, 4.0])


def test_rows_come_with_their_probability():
    table = row_table(SIZES, floor=0.2)
    drawn = np.bincount(draw_weighted(np.random.default_rng(1), table, 0, 200_000), minlength=len(SIZES))
    assert stats.chisquare(drawn, 200_000 * (0.8 * SIZES / SIZES.sum() + 0.2 / 8)).pvalue > 1e-4
    assert draw_weighted(np.random.default_rng(1), table, 5, 12).size == 7  # in a later batch


ANY_SIZES = arrays(float, st.integers(1, 60), elements=st.floats(0, 1e6, allow_subnormal=False))


@given(ANY_SIZES, st.floats(0.01, 1.0))
def test_marginals_are_the_probabilities_and_a_row_counts_for_the_rest(sizes, floor):
    n, total = sizes.size, sizes.sum()
    probability = (1 - floor) * (sizes / total if total > 0 else np.full(n, 1 / n)) + floor / n
    keep, alias = alias_table(probability)
    marginal = (np.bincount(alias, weights=1 - keep, minlength=n) + keep) / n
    assert np.allclose(marginal, probability, rtol=1e-9, atol=1e-12)
    assert not np.allclose(keep / n, probability) or np.allclose(keep, 1)  # without its aliases it would be seen
    table = row_table(sizes, floor)
    drawn = (np.bincount(table.alias, weights=1.0 - table.keep, minlength=n) + table.keep) / n
    assert np.allclose(drawn * table.weight * n, 1, rtol=1e-4)  # float32
    assert (table.weight <= 1 / floor * (1 + 1e-5)).all()


def test_sizes_are_weighed_in_any_unit_and_zeros_uniformly():
    table, small = row_table(SIZES, floor=0.2), row_table(1e-9 * SIZES, floor=0.2)
    np.testing.assert_allclose(small.weight, table.weight, rtol=1e-5)
    for table in (row_table(np.zeros(5), floor=0.2), row_table(SIZES, Weighted(1.0).floor)):
        np.testing.assert_allclose(table.weight, 1.0)
    with pytest.raises(ValueError, match=r"must lie in \(0, 1\]"):
        Weighted(1.5)


def test_tests_that_need_equal_rows_refuse_weights():
    for test in (Exact(), FixedBatch(100)):
        with pytest.raises(ValueError, match="without replacement.*Use rows"):
            plan_proxy(test, None, "auto", Weighted(), None)


@pytest.mark.slow
def test_weights_repair_the_variance_that_rare_rows_hide(caplog):
    # Twelve indicators of three rows each: 36 rows of 20,000 carry what the proxy leaves, and most batches miss them.
    rng = np.random.default_rng(54)
    rare = np.zeros((20_000, 12))
    rare[rng.choice(len(rare), 36, replace=False), np.repeat(np.arange(12), 3)] = 1
    X = np.column_stack([rng.normal(size=len(rare)), rare])
    y = rng.random(len(X)) < 1 / (1 + np.exp(-X[:, 0]))
    estimated, said = {}, {}
    for rows in (pma.Uniform(), pma.Weighted()):
        with pm.Model():
            pm.Bernoulli("y", logit_p=X @ pm.Normal("beta", 0, 1, shape=13), observed=y)
            step = pma.PenaltyMH(rows=rows)
            caplog.clear()
            pm.sample(300, tune=100, step=step, chains=1, cores=1, random_seed=1, progressbar=False)
        said[type(rows)] = "trust" in caplog.text
        decider = step.decider
        weight = decider.parts.prepared.table.weight if decider.row_source.weighted else np.ones(len(X))
        probability = 1 / weight / (1 / weight).sum()
        ratios = []
        for draw in decider.parts.prepared.draws[-5:]:
            pair = evaluate_pair(decider, decider.propose(draw, np.empty(0), step.chain.state, rng))
            values = pair.terms * weight
            true = probability @ (values - probability @ values) ** 2
            batches = values[rng.choice(len(X), (1_000, 200), p=probability)]
            ratios.append(np.median(batches.var(axis=1, ddof=1) / true))
        estimated[type(rows)] = np.median(ratios)
    assert estimated[pma.Uniform] < 0.3
    assert 0.8 < estimated[pma.Weighted] < 1.2
    assert said[pma.Uniform]
    assert not said[pma.Weighted]
