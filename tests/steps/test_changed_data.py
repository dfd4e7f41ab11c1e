"""Steps whose data change after they were built: they learn anew or refuse, and so does who judges their draws."""

from copy import deepcopy

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.sampling.parallel import ParallelSamplingError
from scipy.special import expit

import pymc_austerity as pma
from pymc_austerity.steps import checked_step

N = 900
SETTINGS = {"cores": 1, "chains": 4, "progressbar": False, "random_seed": 1, "compute_convergence_checks": False}


def rows(seed, slope=1.0, n=N):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return x, (rng.random(n) < expit(slope * x)).astype(int)


def built():
    """Return a model that holds the user's array, a step, and the array."""
    x, y = rows(1)
    with pm.Model() as model:
        pm.Bernoulli("o", logit_p=pm.Normal("b", 0, 10) * x, observed=y)
        return model, pma.ExactMH(proxy=None, progressbar=False), x


@pytest.fixture(scope="module")
def contained():
    """A model whose data are in containers, its step, and a run of it."""
    x, y = rows(1)
    with pm.Model() as model:
        data = pm.Data("x", x), pm.Data("y", y)
        pm.Bernoulli("o", logit_p=pm.Normal("b", 0, 10) * data[0], observed=data[1])
        step = pma.PenaltyMH(progressbar=False)
        return model, step, pm.sample(500, tune=300, step=step, **SETTINGS)


@pytest.fixture
def with_other_data(contained):
    """The same, with the state of a chain on the data before they were changed."""
    model, step, idata = contained
    state = step.sampling_state
    pm.set_data(dict(zip("xy", rows(2, -1.0))), model=model)
    yield model, step, idata, state
    pm.set_data(dict(zip("xy", rows(1))), model=model)
    step.sampling_state = state


def test_a_step_refuses_an_array_that_was_changed_in_place():
    model, step, x = built()
    x *= 2
    words = r"An array of shape \(900,\) in the model's variable 'o' was changed in"
    with model, pytest.raises(ValueError, match=words):
        pm.sample(10, tune=10, step=step, **SETTINGS)
    with pytest.raises(ValueError, match="changed in place"):  # as a process that is started afresh would get it
        step.__getstate__()
    x /= 2
    step.start_chain(np.random.default_rng(1))


def test_a_forked_chain_says_so_first_and_last(monkeypatch, caplog):
    model, step, x = built()
    x *= 2
    with model, pytest.raises(ParallelSamplingError, match=r"'o' was changed in place.*which the step follows\.$"):
        pm.sample(10, tune=10, step=step, **{**SETTINGS, "cores": 2, "mp_ctx": "fork"})
    monkeypatch.setattr(checked_step, "in_worker", lambda: True)
    with pytest.raises(ValueError, match="changed in place"):
        step.follow_data()
    assert "was changed in place" in caplog.text


@pytest.mark.slow
def test_a_process_that_is_started_afresh_gets_the_data_of_now(with_other_data):
    _, step, idata, _ = with_other_data
    known = step.model_key
    assert (idata["sample_stats"]["model_digest"] == known.model).all()
    assert (idata["sample_stats"]["data_digest"] == known.data).all()
    state = step.__getstate__()
    assert state["model_key"] != known
    np.testing.assert_array_equal(state["decider"].parts.stored.arrays[1], step.decider.parts.stored.arrays[1])
    assert state["decider"].parts.prepared.expansion.centre[0] < -0.5


def test_draws_and_a_chain_of_other_data_are_refused(with_other_data):
    model, step, idata, state = with_other_data
    with pytest.raises(ValueError, match=r"made with other data .*array 'x' \(100% of its entries\)"):
        pma.reliability(idata, model, step=step)
    with pytest.raises(ValueError, match="of a chain on other data"):
        step.sampling_state = state


def test_a_verdict_on_draws_of_another_model_is_refused(contained):
    model, step, idata = contained
    x, y = rows(1)
    with pm.Model() as other:
        pm.Normal("o", pm.Normal("centre"), 1, observed=np.zeros(300))
    with pytest.raises(ValueError, match=r"it holds draws of \['b'\], and the model has .* \['centre'\]"):
        pma.reliability(idata, other)
    with pm.Model() as other:
        pm.Bernoulli("o", logit_p=pm.Normal("b", 0, 2) * pm.Data("x", x), observed=pm.Data("y", y))
    with pytest.raises(ValueError, match="made with another model"):
        pma.reliability(idata, other, step=step)
    with pm.Model() as other:  # the same data, in other arrays
        pm.Normal("o", pm.Normal("b", shape=2)[0] * x, 1, observed=y)
    with pytest.raises(ValueError, match="made with another model"):
        pma.reliability(idata, other)
    with pytest.raises(ValueError, match="idata: its posterior has no draws"):
        pma.reliability(idata.isel(draw=[]), model, step=step)
    assert list(pma.reliability(idata.isel(draw=[0]), model, step=step).checks["verdict"]) == ["not known"]


def test_runs_on_other_data_are_not_compared(contained):
    _, _, idata = contained
    other = deepcopy(idata)
    other["sample_stats"]["data_digest"] = idata["sample_stats"]["data_digest"] + 2
    with pytest.raises(ValueError, match="'b' were made with other data than those of 'a'"):
        pma.compare({"a": idata, "b": other}, reference="a")
    other["sample_stats"] = idata["sample_stats"]
    other["constant_data"]["x"] = idata["constant_data"]["x"] * 2
    with pytest.raises(ValueError, match=r"array 'x' \(100% of its entries\)"):
        pma.compare({"a": idata, "b": other}, reference="a")


def test_one_row_that_is_left_is_read_and_none_is_refused():
    with pm.Model():
        data = pm.Data("y", np.random.default_rng(1).normal(size=N))
        pm.Normal("o", pm.Normal("b", 0, 1), 1, observed=data)
        step = pma.PenaltyMH(proxy=None, progressbar=False)
        pm.set_data({"y": np.zeros(0)})
        with pytest.raises(ValueError, match="Data array 'y' of 'o' has no rows left"):
            step.start_chain(np.random.default_rng(1))
        pm.set_data({"y": np.ones(1)})
        idata = pm.sample(1_000, tune=200, step=step, **SETTINGS)
    assert (idata["sample_stats"]["n_rows"] == 1).all()
    b = idata["posterior"]["b"]
    assert [float(b.mean()), float(b.var())] == pytest.approx([0.5, 0.5], abs=0.2)  # N(1/2, 1/2)


def test_other_factors_are_taken_up_or_refused():
    pairs = np.array([(i, j) for i in range(6) for j in range(i)])
    with pm.Model() as model:
        x = pm.Bernoulli("x", 0.5, shape=6)
        t, ix = pm.Data("t", np.random.default_rng(1).normal(size=(15, 2, 2))), pm.Data("ix", pairs)
        pm.Potential("f", t[pt.arange(t.shape[0]), x[ix[:, 0]], x[ix[:, 1]]])
        step, rng = pma.ApproxGibbs([x], factors=pairs, batch_size=5), np.random.default_rng(1)
    values = np.random.default_rng(2).normal(size=(15, 2, 2))
    pm.set_data({"t": values}, model=model)
    step.start_chain(rng)
    assert any(np.array_equal(a, values) for a in step._rows.arrays)
    pm.set_data({"t": np.ones((4, 2, 2)), "ix": pairs[:4]}, model=model)
    with pytest.raises(ValueError, match="now have 4 factors, and the table .* has 15"):
        step.start_chain(rng)
    pm.set_data({"t": values, "ix": pairs[::-1]}, model=model)
    with pytest.raises(ValueError, match="does not say it contains"):
        step.start_chain(rng)
