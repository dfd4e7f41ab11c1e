"""What is recommended: by what each step takes, for models that no step can sample, and what is handed over."""

import itertools
import logging
import re
from contextlib import nullcontext

import numpy as np
import pymc as pm
import pytest
from toy import sampled

import pymc_austerity as pma
from pymc_austerity import tried_setup
from pymc_austerity.diagnostics.built_steps import find_decider
from pymc_austerity.steps import step_trials
from pymc_austerity.steps.candidate import Candidate, Gradient, effective_share, pilot_nuts, time_gradient
from pymc_austerity.steps.recommendation import choose, line_of

pytestmark = pytest.mark.usefixtures("compiled_as_built")
X = np.random.default_rng(0).normal(size=20_000)


def slope():
    with pm.Model() as model:
        pm.StudentT("y", 4, mu=pm.Normal("slope") * X, sigma=1, observed=X + X[::-1])
    return model


def mean():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean", 0, 1), 1, observed=np.arange(300) / 100)
    return model


def taking(setup, us, name="PenaltyMH", exact=False, **more):
    return Candidate(name, exact, setup=setup, tuning=0.0, effective_us=us, **more)


@pytest.fixture(scope="module")
def compiled():
    """What takes longer to compile than a candidate is given is on disk before one is tried."""
    with slope():
        step = pma.PenaltyMH(progressbar=False)
        pm.sample(5, tune=5, chains=1, step=step, progressbar=False, compute_convergence_checks=False)


@pytest.fixture
def slow_nuts(compiled, monkeypatch):
    """NUTS is never quick, so that other steps are tried."""
    monkeypatch.setattr(step_trials, "_QUICK_NUTS", 0.0)


@pytest.mark.parametrize(
    ("found", "step", "why"),
    [
        ([taking(2, 50), taking(4, 20, "MHSS", True)], "MHSS", "exact, and 4,000 effective draws take about 4.1 s"),
        ([taking(2, 50), taking(9, 20, "MHSS", True)], "PenaltyMH", "approximate, and 4,000 effective draws"),
        ([taking(2, 50), Candidate("MHSS", True, remark="no bound")], "PenaltyMH", r"\. Not MHSS: no bound"),
        ([taking(2, 50), taking(0.1, 1e3, "NUTS", True)], "NUTS", "take about 4.1 s; PenaltyMH, approximate, takes"),
        ([taking(2, 50), taking(1, 1e6, "NUTS", True, at_least=True)], "PenaltyMH", "NUTS, exact, takes at least 67"),
        ([taking(2, 50), taking(4, 50, "NUTS", True, at_least=True)], "PenaltyMH", "NUTS, exact, takes at least 4.2 s"),
        ([taking(2, 50), taking(1, 50, "NUTS", True, at_least=True)], "NUTS", "take at least 1.2 s"),
        ([taking(0.1, 1e3, "NUTS", True)], "NUTS", r"no other was tried \(all_steps=True does\)"),
    ],
)  # fmt: skip
def test_the_first_to_be_done_or_an_exact_one(found, step, why):
    """An exact step is preferred where it takes up to three times as long as the quickest."""
    name, reason = choose(found, 4_000)
    assert name == step
    assert re.search(why, reason)


def test_more_draws_make_another_step_the_first():
    found = [taking(2, 500), taking(20, 5, "MHSS", True)]
    assert [choose(found, draws)[0] for draws in (100, 1_000_000)] == ["PenaltyMH", "MHSS"]


def test_where_nothing_can_sample_that_is_said():
    found = [Candidate(name, False, remark="a") for name in ("MHSS", "PenaltyMH")]
    with pytest.raises(ValueError, match="None of these steps can sample this model. MHSS: a; PenaltyMH: a"):
        choose(found, 1)


def test_a_line_has_80_columns_and_they_stay_apart():
    long = taking(1e3, 1e7, "MinibatchBarker", at_least=True)
    for candidate in (long, Candidate("MinibatchBarker", False, remark="a reason " * 20)):
        assert len(line_of(candidate, 4_000)) <= 80
    for setup in (9.96, 119.6, 59_000):
        assert re.search(r"  approximate +\d+ (s|min|h) set-up +60 µs an eff", line_of(taking(setup, 60), 4_000))


@pytest.mark.slow
def test_nuts_is_not_tried_where_a_variable_is_discrete():
    with pm.Model() as model:
        n, p = pm.DiscreteUniform("n", 15, 40), pm.Beta("p", 1, 1)
        pm.Binomial("y", n, p, observed=np.random.default_rng(0).binomial(20, 0.3, 600))
    found = pma.recommend(model, progressbar=False)
    assert found.step in ("PenaltyMH", "MinibatchBarker")
    assert "['n'] is discrete" in found.table.loc["NUTS", "remark"]
    assert "needs a proxy" in found.table.loc["MHSS", "remark"]
    with pytest.raises(ValueError, match=r"build\(name='NUTS'\): these steps were built: PenaltyMH, MinibatchBarker"):
        found.build("NUTS")


def test_wrong_arguments_are_refused():
    for function, given in (("recommend", np.zeros(3)), ("step", pm.Model)):
        with pytest.raises(TypeError, match=rf"{function} wants a pymc.Model as model=, and got"):
            getattr(pma, function)(given)
    with pytest.raises(ValueError, match="recommend has no variables to move. The model has no free variables"):
        pma.recommend(pm.Model())
    with pytest.raises(ValueError, match="recommend: draws=0 must be at least one effective draw"):
        pma.recommend(mean(), draws=0)


def test_draws_that_do_not_move_are_not_effective():
    assert effective_share([{"a": np.ones(2)}] * 500) == 0
    assert 0.5 < effective_share([{"a": x} for x in X[:1_000].reshape(500, 2)]) < 1.5


@pytest.mark.slow
def test_a_model_that_does_not_split_is_left_to_nuts(slow_nuts):
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("steps", 0, 1, shape=30).cumsum(), 1, observed=np.arange(30.0))
    found = pma.recommend(model, progressbar=False)
    assert found.step == "NUTS"
    assert "Not PenaltyMH: 'y' does not split into rows" in found.why
    assert isinstance(found.build(), pm.NUTS)
    assert "NUTS: exact, and 4,000 effective" in repr(found)
    assert max(map(len, repr(found).splitlines())) <= 80
    assert "<b>NUTS</b>" in found._repr_html_()
    with pytest.raises(ValueError, match="no step of pymc_austerity was built"):
        find_decider(model)


def test_where_nuts_is_quick_no_other_step_is_set_up(monkeypatch, caplog):
    for step in ("MHSS", "PenaltyMH", "MinibatchBarker"):
        monkeypatch.setattr(step_trials, step, None)
    with caplog.at_level(logging.INFO, "pymc_austerity"):
        found = pma.recommend(mean())
    assert [r.getMessage().split()[0] for r in caplog.records] == ["NUTS"]
    assert found.step == "NUTS"
    assert list(found.table.index) == ["NUTS"]
    assert "no other was tried" in found.why
    with pytest.raises(AttributeError, match="__name__"):  # what a step that is set up here comes to
        pma.recommend(mean(), all_steps=True, progressbar=False)


@pytest.mark.slow
def test_what_was_built_is_handed_over(slow_nuts, monkeypatch):
    """The step draws what one that is built afresh draws, and `pm.sample` builds nothing again."""
    monkeypatch.setattr(step_trials, "at_most", lambda seconds: nullcontext())  # no build is given up for its time
    monkeypatch.setattr(step_trials, "_LIMIT", np.inf)
    model = slope()
    found = pma.recommend(model, progressbar=False)
    assert {"PenaltyMH", "MHSS", "NUTS"} == set(found.table.index)
    found.build("PenaltyMH")
    assert find_decider(model) is found.build("PenaltyMH").decider
    fresh = sampled(model, pma.MHSS(model=model, progressbar=False), 50, tune=20, seed=1)
    monkeypatch.setattr(pma.MHSS, "__init__", None)
    handed_over = sampled(model, found.build("MHSS"), 50, tune=20, seed=1)
    np.testing.assert_array_equal(fresh["posterior"]["slope"], handed_over["posterior"]["slope"])


@pytest.mark.slow
def test_a_build_that_takes_long_is_given_up(slow_nuts, monkeypatch):
    """The clock runs ten seconds at each look: every build is given up, and NUTS remains."""
    clock = itertools.count(0, 10)
    monkeypatch.setattr(tried_setup.time, "process_time", lambda: float(next(clock)))
    monkeypatch.setattr(step_trials, "time_gradient", lambda model: Gradient(None, 1.0, 1e-4))
    monkeypatch.setattr(step_trials, "pilot_nuts", lambda *_, **__: taking(1, 1, "NUTS", True))
    found = pma.recommend(slope(), progressbar=False)
    assert found.step == "NUTS"
    assert "given up: building it takes more than" in found.table.loc["PenaltyMH", "remark"]


@pytest.mark.slow
def test_nothing_begins_where_the_first_step_took_the_time(slow_nuts, monkeypatch):
    """Neither `MHSS` nor a pilot of NUTS, whose gradients alone take longer; with `all_steps` both."""
    calls = []
    monkeypatch.setattr(step_trials, "_LIMIT", -np.inf)
    monkeypatch.setattr(step_trials, "time_gradient", lambda model: Gradient(None, 1.0, 1.0))
    monkeypatch.setattr(step_trials, "MHSS", pma.PenaltyMH)  # a step that is built quickly

    def pilot(model, gradient, *_, insist=False):
        calls.append(insist)
        return taking(1e3, 1e6, "NUTS", True, at_least=True)

    monkeypatch.setattr(step_trials, "pilot_nuts", pilot)
    found = pma.recommend(slope(), progressbar=False)
    assert re.fullmatch(r"not tried: PenaltyMH took \d+ s to build", found.table.loc["MHSS", "remark"])
    assert calls == [False]
    assert found.step == "PenaltyMH"
    pma.recommend(slope(), all_steps=True, progressbar=False)
    assert calls == [False, False, True]


def test_many_outcomes_are_left_to_nuts(monkeypatch):
    """Each outcome is compiled by itself: neither NUTS nor a step of this package is compiled to say so."""
    monkeypatch.setattr(step_trials, "time_gradient", None)
    monkeypatch.setattr(step_trials, "PenaltyMH", None)
    with pm.Model() as model:
        mu = pm.Normal("mu")
        for k in range(13):
            pm.Normal(f"y{k}", mu, 1, observed=pm.Data(f"data{k}", X[: 10 + k]))
    found = pma.recommend(model, progressbar=False)
    assert found.step == "NUTS"
    assert "13 outcomes" in found.why
    assert isinstance(found.build(), pm.NUTS)
    with pytest.raises(TypeError, match="not callable"):  # what a gradient that is timed here comes to
        pma.recommend(model, all_steps=True, progressbar=False)


def test_a_slow_gradient_says_at_least():
    slow = Gradient(time_gradient(mean()).function, 1.0, 0.5)
    found = pilot_nuts(mean(), slow, 0, insist=True)
    assert found.at_least
    assert found.seconds(1_000) == pytest.approx(1 + 4 * 1_000 * 1.5 + 1_000 * 1.5)


def test_large_constant_arrays_are_no_cause_for_a_warning():
    """numba warns that it does not keep code with large arrays in it, which nobody can change (warnings are errors)."""
    with pm.Model() as model:
        pm.StudentT("y", nu=4, mu=pm.Normal("centre"), sigma=1, observed=np.sin(np.arange(200_000)))
    assert time_gradient(model).seconds > 0
