"""The step methods inside ``pm.sample``: statistics, other steps beside them, new data, states, bad input."""

import logging
import os
import re
import subprocess
import sys

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from evidence import MAX_Z, mean_z
from pymc.exceptions import SamplingError
from toy import Toggle, shift_model, walk

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import group
from pymc_austerity.steps import draw_statistics

pytestmark = pytest.mark.contract

QUIET = {"progressbar": False, "compute_convergence_checks": False, "cores": 1, "random_seed": 20}
ROWS = np.random.default_rng(0).normal(1.0, 1.0, size=400)


@pytest.fixture(scope="module")
def model():
    return shift_model(ROWS - 0.5)


@pytest.fixture(scope="module")
def step(model):
    return pma.ApproxMH(proxy=None, epsilon=0.05, batch_size=50, model=model)


@pytest.fixture(scope="module")
def idata(model, step):
    with model:
        return pm.sample(200, tune=100, chains=2, step=step, **QUIET)


def test_draws_and_statistics_are_those_that_are_documented(idata):
    assert type(idata).__name__ == ("InferenceData" if pm.__version__.startswith("5.") else "DataTree")
    assert float(az.ess(idata)["mu"]) > 20
    assert idata.posterior["mu"].shape == (2, 200)
    of_type = {
        "bool": "full_data",
        "int64": "n_rows n_stages total_rows data_digest model_digest",
        "float64": "accepted accept log_ratio log_ratio_sd scaling threshold setup_passes setup_seconds",
    }
    found = {name: values.dtype for name, values in idata.sample_stats.items()}
    assert [found.pop(name).kind for name in ("tuned", "method")] == ["S", "S"]
    assert found == {name: np.dtype(kind) for kind, names in of_type.items() for name in names.split()}


def test_statistics_describe_the_draws(idata):
    stat = {name: idata.sample_stats[name].to_numpy() for name in idata.sample_stats}
    moved = np.diff(idata.posterior["mu"].to_numpy(), axis=1) != 0
    assert np.array_equal(moved, stat["accepted"][:, 1:])
    assert np.array_equal(stat["full_data"], stat["n_rows"] == 400)
    assert np.array_equal(stat["n_stages"], stat["n_rows"] // 50)
    assert np.array_equal(np.isnan(stat["accept"]), ~stat["full_data"])
    assert np.array_equal(stat["log_ratio_sd"] == 0, stat["full_data"])
    assert set(np.unique(stat["n_rows"])) > {50, 400}


def test_nothing_adapts_after_tuning(idata, model, step):
    scaling = idata.sample_stats["scaling"].to_numpy()
    assert (scaling == scaling[:, :1]).all()
    step.start_chain(np.random.default_rng(1))
    step.tune = True
    assert len({s["scaling"] for s in walk(step, model.initial_point(), 50)[1]}) > 10


def test_tune_false_keeps_the_proposal_as_given(model):
    fixed = pma.ApproxMH(proxy=None, proposal=pma.RandomWalk(scale=0.1), tune=False, model=model)
    assert {s["scaling"] for s in walk(fixed, model.initial_point(), 50)[1]} == {1.0}


def test_sampling_state_continues_bit_for_bit(model, step):
    start = {"mu": np.array(0.5)}
    step.start_chain(np.random.default_rng(3))
    step.tune = True
    draws, _ = walk(step, start, 60)
    state, here = step.sampling_state, {"mu": np.array(draws[-1])}
    expected = walk(step, here, 200)[0]
    step.start_chain(np.random.default_rng(99))
    assert not np.array_equal(walk(step, here, 200)[0], expected)
    step.sampling_state = state
    assert np.array_equal(walk(step, here, 200)[0], expected)
    assert len(np.unique(expected)) > 20


@pytest.mark.filterwarnings("ignore:The data type .* does not have a Zarr V3 specification")
def test_what_was_sampled_survives_saving(idata, tmp_path):
    idata.to_netcdf(str(tmp_path / "run.nc"))
    loaded = az.from_netcdf(str(tmp_path / "run.nc"))
    for name, values in idata.sample_stats.items():
        assert loaded.sample_stats[name].dtype == values.dtype
        np.testing.assert_array_equal(loaded.sample_stats[name], values)
    np.testing.assert_array_equal(loaded.posterior["mu"], idata.posterior["mu"])
    stats = group(idata, "sample_stats")
    stats.to_zarr(str(tmp_path / "run.zarr"), consolidated=False)
    xr.testing.assert_equal(xr.open_zarr(str(tmp_path / "run.zarr"), consolidated=False).load(), stats)
    pd.testing.assert_series_equal(pma.data_usage(loaded), pma.data_usage(idata))


def test_a_state_of_another_test_is_refused(step, model):
    other = pma.ApproxMH(proxy=None, epsilon=0.2, batch_size=50, model=model)
    with pytest.raises(ValueError, match="'test' has different values"):
        other.sampling_state = step.sampling_state


def test_the_bar_shows_acceptance_and_rows(step):
    columns, start = step._progressbar_config(3)
    (update,) = step._make_progressbar_update_functions()
    assert [c.get_table_column().header for c in columns] == ["Accepted", "Rows read"]
    assert start == {"acceptance": [0.0] * 3, "share": [0.0] * 3}
    step.start_chain(np.random.default_rng(5))
    _, seen = walk(step, {"mu": np.array(1.0)}, 40)
    shown = [update(s) for s in seen]
    assert not any(fields["failing"] for fields in shown)
    assert shown[39]["acceptance"] == pytest.approx(np.mean([s["accepted"] for s in seen]))
    assert shown[39]["share"] == pytest.approx(np.mean([s["n_rows"] for s in seen]) / 400)
    assert shown[0]["share"] == seen[0]["n_rows"] / 400


def test_progress_bar_is_drawn_by_pymc():
    """In a process of its own: PyMC 5 writes to the stderr that it found when it was imported."""
    script = """
import numpy as np, pymc as pm, pymc_austerity as pma
with pm.Model():
    pm.Normal("y", pm.Normal("mu"), 1.0, observed=np.random.default_rng(0).normal(size=400))
    pm.sample(20, tune=10, chains=2, cores=1, step=pma.ApproxMH(proxy=None, batch_size=50), random_seed=1)
"""
    command, env = [sys.executable, "-c", script], {**os.environ, "COLUMNS": "160"}
    run = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    assert re.search(r"Accepted.*Rows read.*0\.\d\d +\d+\.\d\d%", run.stdout + run.stderr, re.DOTALL)


# New data.


def test_set_data_is_honoured_by_the_same_step_and_by_a_new_one():
    x = np.random.default_rng(1).normal(size=300)
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("slope", 0, 10) * pm.Data("x", x), 1, observed=pm.Data("target", 2 * x))
    options = {"proxy": None, "model": model, "batch_size": 50}

    def sampled(step):
        with model:
            return pm.sample(300, tune=300, chains=1, step=step, **QUIET)

    step = pma.ApproxMH(**options)
    first = sampled(step)
    x = np.random.default_rng(2).normal(size=700)
    pm.set_data({"x": x, "target": -3 * x}, model=model)
    again, new = sampled(step), sampled(pma.ApproxMH(**options))
    assert float(first.posterior["slope"].mean()) == pytest.approx(2, abs=0.3)
    assert float(again.posterior["slope"].mean()) == pytest.approx(-3, abs=0.3)
    assert np.array_equal(again.posterior["slope"], new.posterior["slope"])
    assert int(first.sample_stats["n_rows"].max()) == 300
    assert int(again.sample_stats["n_rows"].max()) == 700
    model.set_data("x", np.ones(10))
    with pytest.raises(ValueError, match=r"differ in length.*700, .*'x'.*: 10.*one pm.set_data"):
        step.start_chain(np.random.default_rng(0))


# Beside other steps.

GROUP = np.random.default_rng(4).normal(0.9, 3.0, size=60)


def _exact_switch():
    """Return P(on) and E[mu] by completing the square."""
    precision = 1 + GROUP.size / 9
    means = np.array([(GROUP - on).sum() / 9 / precision for on in (0, 1)])
    evidence = [-0.5 * ((GROUP - on) ** 2).sum() / 9 + 0.5 * precision * m**2 for on, m in zip((0, 1), means)]
    weight = 1 / (1 + np.exp(evidence[0] - evidence[1]))
    return weight, (1 - weight) * means[0] + weight * means[1]


def _switch_z(step_class):
    """Distances of P(on) and E[mu] from the exact ones when the two variables have different steps."""
    with pm.Model():
        on = pm.Bernoulli("on", 0.5)
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu + on, 3, observed=GROUP)
        steps = [step_class([mu], epsilon=0.001, batch_size=30), pm.BinaryGibbsMetropolis([on])]
        idata = pm.sample(3_000, tune=300, chains=2, step=steps, **QUIET)
    return [abs(mean_z(idata.posterior[n].to_numpy(), e)) for n, e in zip(("on", "mu"), _exact_switch())]


class StaleSwitch(pma.ApproxMH):
    """Planted mistake: other steps' variables keep the value they had first."""

    def step(self, point):
        new, stat = super().step({**point, "on": np.zeros_like(point["on"])})
        return {**new, "on": point["on"]}, stat


@pytest.mark.parametrize(("step", "right"), [(pma.ApproxMH, True), (StaleSwitch, False)])
def test_a_compound_step_uses_the_current_values_of_the_others(step, right):
    assert (max(_switch_z(step)) < MAX_Z) == right


# Bad input.


def test_scales_of_another_number_of_variables_are_refused(model):
    with pytest.raises(ValueError, match=r"shape \(2,\).* moves 1 number"):
        pma.ApproxMH(proxy=None, model=model, proposal=pma.RandomWalk(scale=[1.0, 2.0]))


@pytest.mark.slow
def test_large_constants_build_without_a_warning():
    with pm.Model() as model:
        beta = pm.Normal("beta", shape=8)
        pm.Bernoulli("y", logit_p=ROWS[:8] * np.ones((20_000, 8)) @ beta, observed=np.zeros(20_000))
    assert [pma.ExactMH(proxy=None, model=model).name for _ in range(2)] == ["exact_mh"] * 2


# Points without a finite density.


def _bounded_model(rows):
    """Rows are impossible at mu where they differ from it by more than one half."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Uniform("y", mu - 0.5, mu + 0.5, observed=np.asarray(rows, float))
    return model


@pytest.fixture(scope="module")
def bounded_step():
    return pma.ExactMH(proxy=None, model=_bounded_model(np.linspace(-0.1, 0.1, 50)), proposal=Toggle(), rng=0)


def test_an_impossible_proposal_is_rejected_and_a_first_point_shown(bounded_step):
    point, (stat,) = bounded_step.step({"mu": np.array(0.0)})
    assert (point["mu"], stat["accepted"], stat["log_ratio"], stat["n_rows"]) == (0, 0, -np.inf, 50)
    bounded_step.start_chain(np.random.default_rng(0))
    with pytest.raises(SamplingError, match=r"log-likelihood of row \d+ is not finite .*'mu'.*3.*initvals="):
        bounded_step.step({"mu": np.array(3.0)})


def test_an_impossible_later_point_keeps_the_draws(caplog):
    rows = np.append(np.random.default_rng(6).uniform(-0.3, 0.3, size=999), 0.45)
    with _bounded_model(rows):
        step = pma.ApproxMH(proxy=None, epsilon=0.5, batch_size=10, proposal=pma.RandomWalk(scale=0.02))
        idata = pm.sample(5_000, tune=0, chains=1, step=step, initvals={"mu": 0.0}, **QUIET)
    drawn = idata.posterior["mu"].to_numpy().ravel()
    assert 1 <= drawn.size < 5_000
    told = re.search(r"row \d+ is not finite at the current point {'mu': array\((.*?)\)}", caplog.text)
    assert float(told[1]) == pytest.approx(drawn[-1])
    assert "Sampling stops here, and the draws so far are returned." in caplog.text


def test_while_it_tunes_a_chain_that_stops_promises_no_draws(bounded_step, caplog, monkeypatch):
    draw_statistics.begin_run()
    bounded_step.start_chain(np.random.default_rng(0))
    assert bounded_step.tune
    bounded_step.step({"mu": np.array(0.0)})
    with pytest.raises(SamplingError, match=r"log-likelihood of row \d+ is not finite"):  # no other chain has draws
        bounded_step.step({"mu": np.array(3.0)})
    monkeypatch.setitem(draw_statistics._run, "has_draws", True)
    with pytest.raises(KeyboardInterrupt):
        bounded_step.step({"mu": np.array(3.0)})
    assert "while this chain was tuning: only chains that had finished tuning have draws to return" in caplog.text
    assert "the draws so far are returned" not in caplog.text


def test_set_up_says_what_it_waited_for_and_for_how_long(caplog, monkeypatch):
    """And shows no bar where it is told so, or PyMC is quiet."""
    caplog.set_level("INFO", logger="pymc_austerity")
    phases = ["Reading the model", "Compiling the likelihood", "Learning from all rows", "Compiling the transition"]
    for shown, level in ((True, logging.INFO), (False, logging.INFO), (True, logging.ERROR)):
        monkeypatch.setattr(logging.getLogger("pymc"), "level", level)
        with _bounded_model(np.linspace(-0.1, 0.1, 50)):
            step = pma.ExactMH(proxy=None, proposal=pma.RandomWalk(scale=0.02), progressbar=shown)
        assert list(step.setup_seconds) == phases
        assert all(seconds >= 0 for seconds in step.setup_seconds.values())
        assert step.decider.parts.progressbar == (shown and level == logging.INFO)
    assert re.search(r"ExactMH set up in \d+\.\d s \(reading the model \d+\.\d s, compiling", caplog.text)
