"""A verdict ends in its time, keeps what is known when it is stopped, and takes no passes where decisions are exact."""

import re

import numpy as np
import pymc as pm
import pytest
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.diagnostics import checks_of_decisions, convergence, time_allowance
from pymc_austerity.diagnostics.balance import SpotCheck
from pymc_austerity.diagnostics.convergence import Mixing, chains_of
from pymc_austerity.diagnostics.time_allowance import Allowance, seconds_of_verdict
from pymc_austerity.diagnostics.verdicts import NOT_KNOWN, TRUST, judge_acceptance

N = 20_000


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time_allowance.time, "thread_time", lambda: now[0])
    return now


def fine():
    return [judge_acceptance(0.5)]


def interrupted():
    raise KeyboardInterrupt


def test_time_ends_and_what_is_compiled_does_not_count(clock):
    with Allowance(2.0, shown=False) as allowance:
        clock[0] = 1.5
        assert allowance.has_time()
        assert not allowance.has_time(reserved=0.6)
        with allowance.not_counted():
            clock[0] += 100.0
        assert allowance.has_time()
        clock[0] += 0.6
        assert not allowance.has_time()


def test_what_was_stopped_and_what_follows_is_not_known():
    with Allowance(2.0, shown=False) as allowance:
        found = [
            *allowance.check(["acceptance"], fine),
            *allowance.check(["spot check", "means"], interrupted),
            *allowance.check(["sums"], fine),
        ]
    assert [(f.check, f.verdict) for f in found] == [
        ("acceptance", TRUST), ("spot check", NOT_KNOWN), ("means", NOT_KNOWN), ("sums", NOT_KNOWN)
    ]  # fmt: skip
    assert allowance.stopped
    assert not allowance.has_time()


def test_a_verdict_takes_half_of_the_time_of_its_run(sampling_result):
    draws = {"x": np.zeros((2, 4))}
    stats = {"setup_seconds": np.broadcast_to([6.0, 2.0], (2, 4, 2))}
    assert seconds_of_verdict(sampling_result(draws, stats, seconds=12.0)) == 10.0
    assert seconds_of_verdict(sampling_result(draws, {"lp": np.zeros((2, 4))})) == time_allowance._LEAST


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 2))
    with pm.Model(coords={"column": ["female", "age"]}) as model:
        b = pm.Normal("b", 0, 2, dims="column")
        pm.Bernoulli("y", logit_p=X @ b, observed=(rng.random(N) < 1 / (1 + np.exp(-X @ [0.5, -0.2]))).astype(int))
    return model


def drawn(model, step):
    return sampled(model, step, 500, tune=300, seed=2, chains=4)


@pytest.fixture(scope="module")
def approximate(model):
    step = pma.PenaltyMH(model=model, progressbar=False)
    return step, drawn(model, step)


@pytest.mark.slow
def test_exact_steps_are_judged_without_passes(model):
    """Proposals on all rows show whether sums are right; the gradient takes one pass, whatever the draws."""
    step = pma.MHSS(model=model, progressbar=False)
    report = pma.reliability(drawn(model, step), model, step=step)
    assert report.verdict == TRUST, str(report)
    assert "spot check" not in report.checks.index
    assert {"chains", "movement", "location", "scale", "batch means"} <= set(report.checks.index)
    assert 1 <= report.passes <= 2 * 20 + 3
    with pytest.raises(ValueError, match="report= has no spot check"):
        pma.plot_spot_check(report)


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 25])
def test_ctrl_c_gives_what_is_known_so_far(model, approximate, monkeypatch, after):
    step, idata = approximate
    look_at = SpotCheck.look_at

    def stopped_later(self, states, k):
        if len(self.spots) == after:
            raise KeyboardInterrupt
        look_at(self, states, k)

    monkeypatch.setattr(SpotCheck, "look_at", stopped_later)
    report = pma.reliability(idata, model, step=step)
    verdicts = report.checks["verdict"]
    assert report.verdict == NOT_KNOWN
    assert (verdicts[["chains", "acceptance", "location", "scale"]] == TRUST).all()
    assert (verdicts[["proxy", "sums"]] == NOT_KNOWN).all()
    assert len(report.states) == (after if after > 1 else 0)
    assert "not known (" in str(report)
    if after < 2:
        assert verdicts["spot check"] == NOT_KNOWN
        monkeypatch.setattr(Mixing, "r_hat", property(lambda self: interrupted()))  # at once
        checks = pma.reliability(idata, model, step=step).checks
        assert (checks["verdict"] == NOT_KNOWN).all()
        assert {"chains", "acceptance", "spot check"} <= set(checks.index)


@pytest.mark.slow
def test_a_check_goes_on_only_while_there_is_time(model, approximate, clock, monkeypatch):
    step, idata = approximate
    look_at = SpotCheck.look_at

    def slow(self, states, k):
        look_at(self, states, k)
        clock[0] += 0.01

    monkeypatch.setattr(SpotCheck, "look_at", slow)
    few = pma.reliability(idata, model, step=step, seconds=1.0)
    assert 80 < len(few.states) < 110
    for check in ("location", "means"):  # parameters are named by their coordinates
        assert any(f"'b[{name}]'" in few.checks["reason"][check] for name in ("female", "age"))
    assert few.verdict == TRUST  # a proxy that leaves next to nothing is known after some states
    monkeypatch.setattr(checks_of_decisions, "_MOST_STATES", 150)
    assert len(pma.reliability(idata, model, step=step, seconds=100.0).states) == 150


def test_of_many_parameters_the_slowest_are_looked_at(sampling_result):
    """Planted: a chain elsewhere, a slow parameter and one that stands still, among a thousand."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(4, 400, 1_000))
    x[2, :, 17] += 3.0
    x[:, :, 400] = np.cumsum(x[:, :, 400], axis=1) / 20
    x[1, :, 900] = 0.3
    with pm.Model() as model:
        pm.Normal("x", shape=1_000)
    found = Mixing(sampling_result({"x": x}), model)
    assert len(found.slowest) <= convergence._MOST_ENTRIES
    assert {17, 400, 900} <= set(found.slowest)
    assert list(found.never_moved) == [900]
    assert found.slowest[np.nanargmax(found.r_hat)] in (17, 400)


@pytest.mark.parametrize(
    ("n_draws", "wrong", "verdict", "words"),
    [
        (3, 0.0, "not known", "R-hat is defined for chains of at least 4 draws, and these have 3"),
        (50, np.nan, "do not trust", r"Draws of x\[1\] are not finite"),
    ],
)
def test_chains_without_r_hat_are_told_apart(sampling_result, n_draws, wrong, verdict, words):
    x = np.random.default_rng(1).normal(size=(2, n_draws, 2))
    x[1, 2, 1] += wrong
    with pm.Model() as model:
        pm.Normal("x", shape=2)
    found = chains_of(Mixing(sampling_result({"x": x}), model))
    assert found.verdict == verdict
    assert re.match(words, found.reason)
