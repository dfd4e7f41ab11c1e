"""The sequential t-test: every order of a few rows, its exact limits, and mistakes that these checks catch."""

from collections import Counter
from functools import cache

import numpy as np
import pytest
from enumeration import partitions, run_test
from scipy import stats
from toy import AnyTest, NoCorrection, Scripted, ScriptedT, Toggle, shift_model

from pymc_austerity.acceptance.decision import draw_log_uniform
from pymc_austerity.acceptance.sequential import SequentialT

N, BATCH, EPSILON = 12, 4, 0.1
OFFSET = -0.5  # log ratio of the prior of `shift_model`
#: ℓ_i(1) − ℓ_i(0): quantiles of a skewed law, with a total that makes acceptance as likely as rejection.
VALUES = stats.gamma.ppf((np.arange(N) + 0.5) / N, 2.0)
VALUES = VALUES - VALUES.mean() + (np.log(0.5) - OFFSET) / N


def _log_uniform(seed):
    return draw_log_uniform(np.random.default_rng(seed))


@cache
def _state_of(seed):
    return np.random.default_rng(seed).bit_generator.state


def _transition_at(step, seed):
    """What happened in a transition 0 → 1 with the uniform number that belongs to `seed`."""
    step.chain.rng_decide.bit_generator.state = _state_of(seed)  # a new generator takes longer than the transition
    return step.chain.transition(np.zeros(1), np.empty(0), 1.0)._asdict()


def _step(test, values=VALUES, rng=1):
    return AnyTest(test, proposal=Toggle(), model=shift_model(values), rng=rng)


@pytest.mark.parametrize("alpha", [0.5, 0.8])
def test_boundaries_are_those_of_wang_and_tsiatis(alpha):
    test, n = SequentialT(0.02, 50, alpha=alpha), np.array([50, 100, 150])
    bounds = stats.norm.isf(0.02) * (n / 200) ** (0.5 - alpha)
    assert test.normal_bounds(n, 200) == pytest.approx(bounds, rel=1e-12)
    # The same tail probability, with the degrees of freedom of an estimated standard deviation.
    critical = stats.t.isf(stats.norm.sf(bounds), n - 1)
    correction = np.sqrt(1 - (n - 1) / 199)
    assert test.looks(200).bounds[:-1] == pytest.approx(critical * correction / np.sqrt(n), rel=1e-9)


@pytest.mark.parametrize("settings", [(0.0, 2), (0.5, 2), (0.5, 2, False, 1.0)])
def test_the_ends_of_the_ranges_are_settings(settings):
    test = SequentialT(*settings)
    assert test.looks(10).bounds[:-1] == pytest.approx(np.inf if test.epsilon == 0 else 0)  # SciPy 1.15: −5e−17


def test_with_replacement_there_is_no_correction():
    drawn_again = SequentialT(0.03, 50, alpha=0.7).with_replacement()
    assert drawn_again == SequentialT(0.03, 50, True, 0.7)
    n = np.array([50, 100, 150])
    tail = stats.norm.sf(stats.norm.isf(0.03) * (n / 170) ** -0.2)
    expected = stats.t.isf(tail, n - 1) / np.sqrt(n)
    assert drawn_again.looks(170).bounds[:-1] == pytest.approx(expected, rel=1e-9)


def test_designed_test_is_read_from_the_record():
    test = SequentialT(0.01, 500)
    designed = SequentialT(0.002, 300, alpha=0.7)
    assert test.as_recorded({"epsilon": 0.002, "batch_size": 300.0, "alpha": 0.7}) == designed
    assert test.as_recorded({"epsilon": 0.002}) is test


def test_the_remedy_is_a_tenth_of_epsilon():
    assert SequentialT(0.01, 500).remedy() == "Decide more carefully (epsilon=0.001 in place of 0.01)."
    assert "epsilon=0 " in SequentialT(0.0, 500).remedy()


def _disagreements(step, values, batch):
    """Run every ordered partition of the rows through the compiled step; count results other than enumerated."""
    threshold = {seed: (_log_uniform(seed) - OFFSET) / len(values) for seed in range(3)}
    wrong, outcomes = 0, Counter()
    for i, order in enumerate(partitions(len(values), batch)):
        step.chain._row_state[:] = order
        seed = i % 3
        found = _transition_at(step, seed)
        expected = run_test([values[k] for k in order], threshold[seed], EPSILON, batch)
        outcomes[expected] += 1
        wrong += (found["accepted"], found["n_rows"]) != expected
    return wrong, outcomes


NINE = np.delete(VALUES, [1, 5, 9])


class Planted(NoCorrection):
    rows = Scripted()


@pytest.mark.slow
def test_every_order_of_the_rows_is_decided_as_defined():
    wrong, outcomes = _disagreements(_step(ScriptedT(EPSILON, 3), NINE), NINE, 3)
    assert len(outcomes) >= 5
    assert wrong == 0
    assert _disagreements(_step(Planted(EPSILON, 3), NINE), NINE, 3)[0] > 0


def test_rows_that_all_agree_decide_on_the_first_batch():
    values = np.full(N, 0.02)
    step = _step(SequentialT(1e-6, BATCH), values)
    decisions = [(_transition_at(step, seed), _log_uniform(seed)) for seed in range(300)]
    assert {stat["accepted"] for stat, _ in decisions} == {True, False}
    assert all(stat["n_rows"] == BATCH for stat, _ in decisions)
    assert all(stat["accepted"] == (log_u < values.sum() + OFFSET) for stat, log_u in decisions)
