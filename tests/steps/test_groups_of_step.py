"""Steps move the groups of a model by themselves, with their own test, unless they are told how to move."""

import logging
import pickle
import re
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
from pytensor.graph.utils import MethodNotDefined

import pymc_austerity as pma
from pymc_austerity.acceptance import Barker, Exact, NoisePenalty, ScalableSubsampling, SequentialT
from pymc_austerity.likelihood import Block
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


FAR = "far from quadratic in b over the width of the posterior.*pm.NUTS"
TIED = "^The effects f are moved with what groups share.*pm.gp.HSGP"
SUMMED = "Rows read several of the 400 effects of u, which sum to zero.*Write pm.Normal in place of pm.ZeroSumNormal"
MANY_BENT = "6 of the 10 groups of u are far from normal .*pm.NUTS"
MANY_SHARED = "The 10 parameters that the groups of u share.*pm.NUTS"
MANY_SCALES = "The 60 parameters beside u, among them scales of coefficients"


@pytest.mark.parametrize(
    ("bent", "shared", "rough", "first", "far", "replaced", "said"),
    [
        (0, 40, False, [0, 10], (), (), None),
        (5, 3, True, [0, 10], (), (), None),
        (6, 3, True, [0, 10], (), (), MANY_BENT),
        (6, 3, True, [0, 10], ("b",), (), FAR),
        (0, 9, True, [0, 10], (), (), None),
        (0, 20, False, [0, 10], (), ("f", "u"), TIED),
        (0, 2, False, [0, 400], (), (), SUMMED),
        (0, 11, False, [0, 10], (), ("f", "u"), None),
        (0, 10, True, [0, 10], (), (), MANY_SHARED),
        (0, 59, False, [0, 1], (), (), None),
        (0, 60, False, [0, 60, 61], (), (), MANY_SCALES),
    ],
)
def test_groups_that_move_badly_are_warned_of(caplog, bent, shared, rough, first, far, replaced, said):
    """Most are far from normal, few rows tell of what is shared, or many scales or effects are moved with it."""
    tails = SimpleNamespace(number=np.where(np.arange(first[-1]) < bent, 0, -1))
    groups = SimpleNamespace(
        own=np.zeros((first[-1], 2)),
        names=("u",),
        shared=np.arange(shared),
        first=first,
        too_many_to_sum=said == SUMMED,
    )
    prepared = SimpleNamespace(tails=tails, rough=rough, far_from_quadratic=far)
    likelihood = SimpleNamespace(blocks=[Block("f", (20,), "float64", 0, 20)])
    decider = SimpleNamespace(prepared=prepared, model=SimpleNamespace(groups=groups, likelihood=likelihood))
    groups_of_step.warn_of_few_draws(decider, "PenaltyMH", replaced)
    assert len(caplog.messages) == (said is not None)
    assert all(re.search(said, text) for text in caplog.messages)


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


@pytest.mark.slow
def test_a_step_makes_the_draws_of_group_mh(many):
    """And of three transitions a draw every third; pickled it goes on from its state."""
    with many:
        step = pma.PenaltyMH(thin=3, progressbar=False)
        found = pm.sample(30, tune=30, step=step, chains=2, cores=1, **SETTINGS)
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
    there, here = pickle.loads(pickle.dumps(step)), many.initial_point()
    for _ in range(3):
        here, _ = step.step(here)
    there.sampling_state = step.sampling_state
    (here, _), (at_there, _) = step.step(here), there.step(here)
    assert all(np.array_equal(here[name], at_there[name]) for name in here)


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
        (pma.PenaltyMH, {"temperature": 2.0}),
        (pma.ApproxMH, {"epsilon": "auto"}),
        (pma.MHSS, {"order": 2}),
        (pma.MHSubLhd, {"bound": "scan"}),
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


def test_groups_beside_an_outcome_of_another_length_are_groups(monkeypatch):
    two = grouped()
    with two:
        pm.Normal("other", two["mean"], 1, observed=np.zeros(700))
    assert _planned(two, monkeypatch, pma.PenaltyMH) == NoisePenalty(500)
    assert _planned(two, monkeypatch, pma.PenaltyMH, observed=["y", "other"]) == NoisePenalty(500)


def test_groups_that_cannot_be_expanded_are_not_recommended(monkeypatch, caplog):
    """On another axis than effects have in their place the model was read again at a point of the wrong shape."""

    def fails(*_):
        raise UnsupportedModelError("no centre")

    rng = np.random.default_rng(3)
    g = rng.integers(0, 150, size=N_ROWS)
    with pm.Model():
        sd = pm.HalfNormal("sd", 1, shape=2)
        u = pm.math.dot(pm.math.stack([[sd[0], 0.0], [sd[1], 1.0]]), pm.Normal("z", 0, 1, shape=(2, 150))).T
        pm.Normal("y", u[g, 0] + u[g, 1] * rng.normal(size=N_ROWS), 1, observed=rng.normal(size=N_ROWS))
        monkeypatch.setattr(groups_of_step.GroupPlan, "assemble", fails)
        monkeypatch.setattr(OneDecision, "assemble", lambda *_: fails())
        with (
            caplog.at_level(logging.INFO, "pymc_austerity"),
            pytest.warns(UserWarning, match="will hardly move"),
            pytest.raises(UnsupportedModelError, match="no centre"),
        ):
            pma.PenaltyMH()
    assert "groups cannot be moved by themselves: no centre" in caplog.text
    assert "lets each decide" not in caplog.text


def test_an_argument_that_is_wrong_is_named_all_the_same(many):
    with many, pytest.raises(ValueError, match="batch_size"):
        pma.PenaltyMH(batch_size=-1, progressbar=False)
