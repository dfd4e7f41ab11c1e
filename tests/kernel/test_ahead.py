"""Draws made ahead are those that would have been made when asked for, whoever looks or interferes in between."""

import pickle
from functools import cache

import numpy as np
import pymc as pm
import pytest
from pymc.exceptions import SamplingError
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.kernel import Chain, ahead

N = 300
RNG = np.random.default_rng(21)
X = RNG.normal(size=(N, 3))
LABELS = (RNG.random(N) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
Y = RNG.normal(X[:, 0])


@pytest.fixture(autouse=True)
def any_block(monkeypatch):
    """Let blocks grow on a busy machine as well."""
    monkeypatch.setattr(ahead, "_SECONDS", 3600.0)


def logistic():
    with pm.Model() as model:
        rows, labels = pm.Data("X", X), pm.Data("labels", LABELS)
        pm.Bernoulli("y", logit_p=rows @ pm.Normal("beta", 0, 1, shape=3), observed=labels)
    return model


def selection():
    with pm.Model() as model:
        gamma, beta = pm.Bernoulli("gamma", 0.4, shape=3), pm.Normal("beta", 0, 0.7, shape=3)
        pm.Normal("y", pm.math.dot(X, gamma * beta), 1, observed=Y)
    return model


def from_a_pool():
    """A thinned step on rows that are read once, and must not be lost with draws that are thrown away."""
    source = {"x": np.tile(X, (5, 1)), "labels": np.tile(LABELS, 5)}
    return pma.PenaltyMH(data=pma.Blocks(source, {"X": "x"}, pool=200_000), batch_size=60, thin=2)


def walk(**options):
    return pma.ApproxMH(proxy=None, epsilon=0.1, batch_size=50, **options)


STEPS = {
    "MHSS": (logistic, pma.MHSS),
    "PenaltyMH on a pool": (logistic, from_a_pool),
    "ApproxMH, annealed": (logistic, lambda: walk(temperature=pma.Annealing(5.0, 40))),
    # Its scale is that of whatever variable the last proposal was about.
    "ReversibleJump": (selection, lambda: walk(proposal=pma.ReversibleJump("beta", "gamma"))),
}


@cache
def built(name):
    """A model and a step, for tests that start chains of their own."""
    make_model, make_step = STEPS[name]
    model = make_model()
    with model:
        return model, make_step()


EVERY_STEP = pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) for n in STEPS])


def one_at_a_time(monkeypatch):
    monkeypatch.setattr(ahead, "_MOST", 1)


def sample(model, step):
    return sampled(model, step, 100, tune=60, seed=5, quiet=True)


@EVERY_STEP
def test_a_run_is_the_same_bit_for_bit(name, monkeypatch):
    model, step = built(name)
    found = sample(model, step)
    assert step._ahead._n_draws > 32
    one_at_a_time(monkeypatch)
    expected = sample(model, step)
    assert step._ahead._n_draws == 1
    for group in ("posterior", "sample_stats"):
        assert set(found[group].data_vars) == set(expected[group].data_vars)
        for name, values in expected[group].data_vars.items():
            if not name.endswith(("_diff", "_start", "_seconds", "sampling_time")):
                assert values.to_numpy().tobytes() == found[group][name].to_numpy().tobytes(), name


def follow(model, step, interfere, n=40):
    """Return the draws of a tuned chain, which something happens to between them, and what it has used."""
    step.start_chain(np.random.default_rng(8))
    step.stop_tuning()
    point, draws = model.initial_point(), []
    for k in range(n):
        step, point = interfere(step, k, point)
        point, (stat,) = step.step(point)
        draws.append(np.concatenate([*map(np.ravel, point.values()), [stat["n_rows"], stat["scaling"]]]))
    return np.array(draws)


def moved(step, k, point):
    """Move the point within the fourth block, as a user's own loop may."""
    return step, {**point, "beta": point["beta"] + 0.01} if k == 10 else point


def saved(step, k, point):
    """Take the state of the chain now and then, and go on with it on a chain of another seed."""
    if k in (4, 10, 20):
        state = step.sampling_state
        step.start_chain(np.random.default_rng(9))
        step.stop_tuning()
        step.step(point)
        step.sampling_state = state
    return step, point


def sent(step, k, point):
    """Send the step to another process and back within a block."""
    return (pickle.loads(pickle.dumps(step)) if k == 12 else step), point


@pytest.mark.parametrize("interfere", [moved, saved, sent])
@EVERY_STEP
def test_interference_finds_the_chain_at_its_last_draw(name, interfere, monkeypatch):
    model, step = built(name)
    found = follow(model, step, interfere)
    one_at_a_time(monkeypatch)
    np.testing.assert_array_equal(found, follow(model, step, interfere))


@pytest.mark.parametrize("interfere", [moved, saved])
def test_a_chain_that_is_not_brought_back_would_be_seen(interfere, monkeypatch):
    model, step = built("MHSS")
    expected = follow(model, step, interfere)
    monkeypatch.setattr(Chain, "go_back", lambda self, streams: None)
    assert not np.array_equal(follow(model, step, interfere), expected)


def test_draws_before_an_impossible_one_are_given_first(monkeypatch):
    """A bound that few rows break, and rarely: the chain stops where it would have."""
    model = logistic()
    with model:
        step = pma.MHSS(bound=lambda *region: np.full(N, 3e-4))

    def draw_on():
        step.start_chain(np.random.default_rng(2))
        step.stop_tuning()
        points, stopped = [model.initial_point()], ""
        while not stopped:
            try:
                points.append(step.step(points[-1])[0])
            except SamplingError as stop:
                stopped = str(stop)
        return [point["beta"] for point in points], stopped

    draws, told = draw_on()
    assert len(draws) > 5
    one_at_a_time(monkeypatch)
    expected, as_expected = draw_on()
    assert told == as_expected
    np.testing.assert_array_equal(draws, expected)
