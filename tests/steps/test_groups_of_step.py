"""Steps move the groups of a model by themselves, with their own test, unless they are told how to move."""

import inspect
import logging
import pickle
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
from pytensor.graph.utils import MethodNotDefined

import pymc_austerity as pma
from pymc_austerity.acceptance import Barker, Exact, NoisePenalty, ScalableSubsampling, SequentialT
from pymc_austerity.groups import GroupDecider
from pymc_austerity.steps import groups_of_step
from pymc_austerity.steps.step_building import OneDecision
from pymc_austerity.unsupported_model import UnsupportedModelError

N_GROUPS, N_ROWS = 600, 3_000
SETTINGS = {"random_seed": 5, "progressbar": False, "compute_convergence_checks": False}


def grouped(n_groups=N_GROUPS, prior=None):
    """Data of the types of those in `test_group_mh_known_scale`, so that the moves compiled for one serve the other."""
    rng = np.random.default_rng(3)
    g = rng.integers(0, n_groups, size=N_ROWS)
    g[:n_groups] = np.arange(n_groups)
    x, kind = rng.normal(size=N_ROWS), rng.integers(0, 3, size=N_ROWS)
    with pm.Model() as model:
        if prior is None:
            effect = pm.Normal("effect", 0, pm.HalfNormal("scale"), shape=n_groups)
            mean = pm.Normal("mean") + pm.Normal("slope") * x + effect[g] + pm.Normal("shift", 0, 1, shape=3)[kind]
        else:
            mean = prior(n_groups)[g]
        pm.Normal("y", mean, 1, observed=rng.normal(size=n_groups)[g] + rng.normal(size=N_ROWS))
    return model


@pytest.mark.parametrize(("bent", "shared", "rough"), [(0, 40, False), (5, 3, True), (6, 3, True), (0, 40, True)])
def test_groups_far_from_normal_are_warned_of(caplog, bent, shared, rough):
    """Of ten groups, as of a gamma prior with small shape and rows without events: where most are.

    And where many parameters are shared, as with twenty slopes of a scale each, of which the rows tell little.
    """
    tails = SimpleNamespace(number=np.where(np.arange(10) < bent, np.arange(10), -1))
    groups = SimpleNamespace(own=np.zeros((10, 1)), names=("rate_log__",), shared=np.arange(shared), first=[0, 10])
    prepared = SimpleNamespace(tails=tails, rough=rough)
    decider = SimpleNamespace(prepared=prepared, model=SimpleNamespace(groups=groups))
    groups_of_step.warn_of_tails(decider, "PenaltyMH")
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warned) == (bent > 5 or (rough and shared > 10))
    said = "6 of the 10 groups of rate_log__" if bent else "The 40 parameters that the groups of rate_log__ share"
    assert all(said in text and "pm.NUTS" in text for text in warned)


@pytest.mark.parametrize(("first", "shared"), [([0, 1], 40), ([0, 60, 61], 12), ([0, 1], 11), ([0, 60], 40)])
def test_many_scales_of_columns_are_warned_of(caplog, first, shared):
    tails = SimpleNamespace(number=np.full(first[-1], -1))
    groups = SimpleNamespace(own=np.zeros((first[-1], 2)), names=("z",), shared=np.arange(shared), first=first)
    prepared = SimpleNamespace(tails=tails, rough=False)
    groups_of_step.warn_of_tails(SimpleNamespace(prepared=prepared, model=SimpleNamespace(groups=groups)), "PenaltyMH")
    assert (f"The {shared} parameters beside z" in caplog.text) == (shared > 11 and first != [0, 60])


@pytest.mark.parametrize("raised", [np.linalg.LinAlgError("no factor"), MethodNotDefined("pullback", "ScalarLoop")])
def test_what_cannot_be_expanded_is_refused_for_its_reason(monkeypatch, raised):
    """Where PyTensor has no derivatives, or a matrix no factor, not by an error of these."""

    def fails(*_):
        raise raised

    monkeypatch.setattr(groups_of_step, "assemble_groups", fails)
    found = SimpleNamespace(groups=SimpleNamespace(names=("u",)), model=None, data=None)
    with pytest.raises(UnsupportedModelError, match=f"rows of u.*{raised.args[0]}.*pm.NUTS"):
        groups_of_step.GroupPlan(Exact()).assemble(found, None, None)


@pytest.fixture(scope="module")
def many():
    return grouped()


@pytest.fixture(scope="module")
def penalty(many):
    """A step that makes three transitions a draw, and its run."""
    with many:
        step = pma.PenaltyMH(thin=3, progressbar=False)
        return step, pm.sample(30, tune=30, step=step, chains=2, cores=1, **SETTINGS)


@pytest.mark.slow
def test_a_step_makes_the_draws_of_group_mh(many, penalty):
    step, found = penalty
    assert isinstance(step, pma.PenaltyMH)
    assert step.name == "penalty_mh"
    assert step.test == NoisePenalty(500, 1.0)
    with many:
        other = pm.sample(90, tune=30, step=pma.GroupMH(progressbar=False), chains=2, cores=1, **SETTINGS)
    np.testing.assert_array_equal(found.posterior["effect"], other.posterior["effect"][:, 2::3])
    stats, each = found.sample_stats, other.sample_stats
    for name in ("n_rows", "n_refreshed", "n_stages"):
        np.testing.assert_array_equal(stats[name], each[name].to_numpy().reshape(2, 30, 3).sum(-1))
    for name in ("accepted", "refresh_accept"):
        np.testing.assert_allclose(stats[name], each[name].to_numpy().reshape(2, 30, 3).mean(-1))
    assert (stats["n_transitions"] == 3).all()
    assert pma.reliability(found, many).verdict


@pytest.mark.slow
def test_a_pickled_step_goes_on_from_its_state(many, penalty):
    step, _ = penalty
    step.set_rng(5)
    there, mine = pickle.loads(pickle.dumps(step)), many.initial_point()
    assert type(there) is pma.PenaltyMH
    for _ in range(3):
        mine, _ = step.step(mine)
    there.sampling_state = step.sampling_state
    (mine, _), (theirs, _) = step.step(mine), there.step(mine)
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize(
    ("step", "options", "test"),
    [
        (pma.PenaltyMH, {"batch_size": 300, "max_variance": 0.5}, NoisePenalty(300, 0.5)),
        (pma.ApproxMH, {"epsilon": 0.05}, SequentialT(0.05, 500, alpha=0.5)),
        (pma.MinibatchBarker, {"sigma": 0.8, "growth": 2.0}, Barker(500, sigma=0.8, growth=2.0, skewness=True)),
        (pma.ExactMH, {"thin": 2}, Exact()),
        (pma.MHSS, {}, ScalableSubsampling()),
    ],
)
def test_groups_are_decided_by_the_test_of_the_step(many, monkeypatch, step, options, test):
    assert _planned(many, monkeypatch, step, **options) == test


@pytest.mark.parametrize(
    ("step", "options"),
    [
        (pma.PenaltyMH, {"proposal": pma.CrankNicolson()}),
        (pma.PenaltyMH, {"proxy": None}),
        (pma.PenaltyMH, {"temperature": 2.0}),
        (pma.ApproxMH, {"epsilon": "auto"}),
        (pma.MHSS, {"order": 2}),
        (pma.MHSubLhd, {"bound": "scan"}),
        (pma.MinibatchMH, {}),
    ],
)
def test_who_chooses_how_to_move_gets_one_decision(many, monkeypatch, step, options):
    assert _planned(many, monkeypatch, step, **options) is None


def test_few_groups_that_learn_from_each_other_are_groups(monkeypatch):
    assert _planned(grouped(2), monkeypatch, pma.PenaltyMH) == NoisePenalty(500)
    apart = grouped(prior=lambda n: pm.Normal("level", pm.Normal("mean"), 1, shape=n))
    assert _planned(apart, monkeypatch, pma.PenaltyMH) == NoisePenalty(500)
    monkeypatch.setattr(groups_of_step, "_MOST_EVALUATED", N_ROWS)
    assert _planned(grouped(2), monkeypatch, pma.PenaltyMH) is None  # more covariates than set-up has time for


class Planned(Exception):
    """Ends the set-up of a step."""


def _planned(model, monkeypatch, step, **options):
    """Return the test that decides about groups, None for one decision, without the set-up of a step."""

    def stop(plan, *_):
        raise Planned(plan.test)

    monkeypatch.setattr(groups_of_step.GroupPlan, "assemble", stop)
    monkeypatch.setattr(OneDecision, "assemble", lambda *_: stop(groups_of_step.GroupPlan(None)))
    with model, pytest.raises(Planned) as planned:
        step(progressbar=False, **options)
    return planned.value.args[0]


def test_what_stands_in_the_way_of_groups_is_said_once(many, monkeypatch, caplog):
    with caplog.at_level(logging.INFO, "pymc_austerity"):
        _planned(many, monkeypatch, pma.PenaltyMH, temperature=2.0)
    assert caplog.text.count("one decision over all parameters, as temperature= asks for it") == 1
    caplog.clear()
    walk = grouped(prior=lambda n: pm.GaussianRandomWalk("walk", 0, 0.1, init_dist=pm.Normal.dist(), steps=n - 1))
    with caplog.at_level(logging.INFO, "pymc_austerity"):
        assert _planned(walk, monkeypatch, pma.PenaltyMH) is None
    assert caplog.text.count("PenaltyMH makes one decision over all parameters, as groups cannot be moved") == 1
    assert "walk" in caplog.text


def test_several_lengths_stay_one_population(monkeypatch):
    two = grouped()
    with two:
        pm.Normal("other", two["mean"], 1, observed=np.zeros(700))
    assert _planned(two, monkeypatch, pma.PenaltyMH) is None


@pytest.mark.slow
def test_mhss_draws_the_rows_of_groups_by_bounds():
    rng = np.random.default_rng(1)
    g = np.arange(6_000) % 300
    success = rng.random(g.size) < 1 / (1 + np.exp(-rng.normal(size=300)[g]))
    with pm.Model():
        effect = pm.Normal("effect", pm.Normal("mean"), pm.HalfNormal("scale"), shape=300)
        pm.Bernoulli("y", logit_p=effect[g], observed=success)
        step = pma.MHSS(progressbar=False)
    assert isinstance(step.decider, GroupDecider)
    assert 0 < step.predicted_rows < g.size
    assert step.decider.parts.bounded


def test_the_arguments_of_a_step_are_shown():
    for step in (pma.PenaltyMH, pma.ApproxMH, pma.MinibatchBarker, pma.ExactMH, pma.MHSS, pma.GroupMH):
        assert list(inspect.signature(step).parameters) == list(inspect.signature(step.__init__).parameters)[1:]


def test_an_argument_that_is_wrong_is_named_all_the_same(many):
    with many, pytest.raises(ValueError, match="batch_size"):
        pma.PenaltyMH(batch_size=-1, progressbar=False)
