"""Trial chains and `ApproxMH(epsilon="auto")`: what they note, that the design is frozen, and that it holds."""

import logging
import pickle

import numpy as np
import pymc as pm
import pytest
from toy import AnyTest, Toggle, sampled, shift_model

import pymc_austerity as pma
from pymc_austerity.acceptance.all_rows import Exact
from pymc_austerity.acceptance.sequential import SequentialT
from pymc_austerity.diagnostics.judged_decisions import decision_remedy
from pymc_austerity.diagnostics.results import group
from pymc_austerity.diagnostics.trial import collect
from pymc_austerity.steps.approx_mh import TUNING_EPSILON


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 10)
        pm.Normal("y", mean, 1, observed=np.random.default_rng(4).normal(size=4_000))
    return model


@pytest.fixture(scope="module")
def step(model):
    return pma.ApproxMH(proxy=None, epsilon="auto", tolerance=0.02, model=model)


def test_a_step_says_by_what_its_test_is_designed_to_err(model, step):
    assert "its test is designed to err by 0.02 on average" in " ".join(repr(step).split())
    assert "designed" not in repr(pma.ApproxMH(proxy=None, epsilon=0.01, model=model))


def _stats(idata, name, warmup=False):
    return group(idata, "warmup_sample_stats" if warmup else "sample_stats")[name].to_numpy()


@pytest.mark.slow
def test_trial_notes_log_ratio_and_noise_of_all_rows():
    values = np.random.default_rng(2).gamma(2.0, size=2_000)
    values = values - values.mean() + 0.3 / values.size
    step = AnyTest(SequentialT(0.2, 50), proposal=Toggle(), model=shift_model(values), rng=1)
    before = step.chain.looks
    trial, theta, rows_read = collect(step.chain, np.zeros(1), np.empty(0), 200)
    log_ratio, noise = values.sum() - 0.5, values.std() * 2_000 / np.sqrt(1_999)
    up = trial.log_ratio < 0  # from 0 to 1; the way back has the opposite sign
    assert 20 < up.sum() < 180
    # One row is left out, a different one each time.
    assert np.abs(trial.log_ratio[up] - log_ratio).max() < 6 * noise / np.sqrt(2_000)
    assert np.abs(trial.log_ratio[~up] + log_ratio).max() < 6 * noise / np.sqrt(2_000)
    assert trial.noise_sd == pytest.approx(noise, rel=0.02)
    assert (trial.n_rows, trial.replacement, rows_read) == (2_000, False, 200 * 1_999)
    assert theta.item() in (0, 1)
    assert step.chain.looks is before


@pytest.mark.slow
def test_a_trial_of_merged_rows_notes_all_of_them():
    values = np.repeat([-0.02, 0.001, 0.019], [500, 900, 600])
    step = AnyTest(Exact(), proposal=Toggle(), model=shift_model(values), rng=1)
    assert len(step.decider.parts.stored) == 3
    trial = collect(step.chain, np.zeros(1), np.empty(0), 50)[0]
    assert np.abs(trial.log_ratio) == pytest.approx(abs(values.sum() - 0.5))
    with pytest.raises(ValueError, match="A trial on 2 rows, distinct ones where"):
        pma.run_trial(pma.ExactMH(proxy=None, model=shift_model(values[499:501])), n_pairs=2, tune=0)


def test_trial_chain_leaves_the_step_as_it_was(model, step):
    first, again = (pma.run_trial(step, n_pairs=30, tune=100, seed=s) for s in (3, 3))
    assert np.array_equal(first.log_ratio, again.log_ratio)
    other = pma.run_trial(step, n_pairs=30, tune=100, seed=4)
    assert not np.array_equal(first.log_ratio, other.log_ratio)
    assert step.tune
    assert step.chain.state.t[0] == 0
    assert step.designed is None


def test_steps_and_settings_without_a_trial_are_refused(model, step):
    barker = AnyTest(pma.ExactBarker(), model=model)
    with pytest.raises(TypeError, match="sequential t-test, which is what this design is for"):
        pma.design_test(barker)
    with pytest.raises(ValueError, match="at least two pairs"):
        pma.run_trial(step, n_pairs=1)
    nowhere = pma.ApproxMH(proxy=None, model=model, proposal=pma.RandomWalk(scale=1e300), tune=False)
    with pytest.raises(ValueError, match="finite log ratio"):
        pma.run_trial(nowhere, n_pairs=5, tune=0)


def test_design_is_made_when_tuning_ends_and_frozen(model, step):
    idata = sampled(model, step, 300, tune=300, seed=1, discard_tuned_samples=False)
    epsilon, rows = _stats(idata, "epsilon"), _stats(idata, "design_rows")
    assert (_stats(idata, "epsilon", warmup=True) == TUNING_EPSILON).all()
    assert (_stats(idata, "design_rows", warmup=True) == 0).all()
    for name in ("epsilon", "batch_size", "alpha"):
        assert (_stats(idata, name) == _stats(idata, name)[:, :1]).all()
        assert getattr(step.designed, name) == _stats(idata, name)[1, 0]
    assert (epsilon != TUNING_EPSILON).all()
    assert epsilon[0, 0] != epsilon[1, 0]  # each chain from its own trial
    assert (rows[:, 0] == 200 * 3_999).all()
    assert (rows[:, 1:] == 0).all()
    assert (_stats(idata, "n_rows") % _stats(idata, "batch_size") == 0).mean() > 0.99


@pytest.mark.slow
def test_remedies_start_from_the_design(model, caplog):
    """Not from the test that decided while the chain tuned."""
    careless = pma.ApproxMH(proxy=None, epsilon="auto", tolerance=0.2, model=model)
    with caplog.at_level(logging.WARNING):
        idata = sampled(model, careless, 200, tune=300, seed=1, chains=1, discard_tuned_samples=False)
    epsilon = _stats(idata, "epsilon")[0, 0]
    assert epsilon > 10 * TUNING_EPSILON
    assert careless.chain.decider.test.epsilon == epsilon
    told = f"epsilon={epsilon / 10:g} in place of {epsilon:g}"
    assert told in decision_remedy(careless.chain.decider)
    assert told in caplog.text  # the chain's own look at itself
    careless.start_chain(np.random.default_rng(0))
    report = pma.reliability(idata, model, step=careless, n_states=30)
    assert told in report.checks.loc["spot check", "remedy"]
    assert told not in decision_remedy(careless.decider)


@pytest.mark.contract
def test_sampling_state_carries_the_design(model, step):
    point = {"mean": np.array(0.0)}
    step.start_chain(np.random.default_rng(1))
    for _ in range(50):
        point, _ = step.step(point)
    step.stop_tuning()
    point, _ = step.step(point)
    state, designed = step.sampling_state, step.designed
    rest = [step.step(point)[1][0]["n_rows"] for _ in range(5)]
    step.start_chain(np.random.default_rng(2))
    assert step.designed is None
    step.sampling_state = state
    assert step.designed == designed
    assert [step.step(point)[1][0]["n_rows"] for _ in range(5)] == rest


@pytest.mark.contract
@pytest.mark.slow
def test_pickled_step_designs_alike(step):
    found = []
    for each in (step, pickle.loads(pickle.dumps(step))):
        each.start_chain(np.random.default_rng(6))
        each.stop_tuning()
        _, (stats,) = each.step({"mean": np.array(0.0)})
        found.append((stats["n_rows"], stats["design_rows"], each.designed))
    assert found[0] == found[1]
    assert found[0][2] is not None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"epsilon": "automatic"}, r"epsilon='automatic' must be a number or 'auto'"),
        ({"epsilon": 0.01, "tolerance": 0.01}, r"tolerance=0.01 .*epsilon=0.01 is a choice already"),
        ({"epsilon": "auto", "tolerance": 2.0}, r"tolerance=2.0 is an error of a probability"),
    ],
)
def test_contradictions_are_refused_before_sampling(model, arguments, told):
    with pytest.raises((TypeError, ValueError), match=told):
        pma.ApproxMH(proxy=None, model=model, **arguments)
