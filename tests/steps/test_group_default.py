"""A step that was told nothing but its test leaves many groups to `GroupMH`."""

import inspect
import logging
import pickle

import numpy as np
import pymc as pm
import pytest

import pymc_austerity as pma
from pymc_austerity.acceptance import Barker, NoisePenalty, SequentialT
from pymc_austerity.steps.many_groups import groups_worth_a_step
from pymc_austerity.steps.methods import barker_for_groups, penalty_for_groups, sequential_for_groups
from pymc_austerity.steps.recommendation import _candidates

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


@pytest.fixture(scope="module")
def many():
    return grouped()


@pytest.mark.slow
@pytest.mark.contract
def test_a_step_of_its_own_makes_the_draws_of_group_mh(many, caplog):
    with many, caplog.at_level(logging.INFO, "pymc_austerity"):
        step = pma.PenaltyMH(progressbar=False)
        found = pm.sample(30, tune=30, step=step, chains=2, cores=1, **SETTINGS)
    assert type(step) is pma.GroupMH
    assert step.test == NoisePenalty(500, 1.0)
    assert "PenaltyMH finds 600 groups (effect)" in caplog.text
    assert "proposal=" in caplog.text
    with many:
        other = pm.sample(30, tune=30, step=pma.GroupMH(progressbar=False), chains=2, cores=1, **SETTINGS)
    np.testing.assert_array_equal(found.posterior["effect"], other.posterior["effect"])


@pytest.mark.slow
def test_the_test_that_decides_is_the_one_that_was_asked_for(many):
    with many:
        step = pma.PenaltyMH(batch_size=300, max_variance=0.5, progressbar=False)
    assert type(step) is pma.GroupMH
    assert step.test == NoisePenalty(300, 0.5)


def test_every_step_says_with_which_test_groups_decide():
    for_groups = sequential_for_groups, barker_for_groups, penalty_for_groups
    for step, test_of in zip((pma.ApproxMH, pma.MinibatchBarker, pma.PenaltyMH), for_groups, strict=True):
        own, asked = (inspect.signature(f).parameters for f in (test_of, step.__init__))
        defaults = {name: p.default for name, p in asked.items() if name in own and name != "batch_size"}
        assert defaults == {name: p.default for name, p in own.items() if name != "batch_size"}
    assert sequential_for_groups(epsilon=0.05) == SequentialT(0.05, 500, alpha=0.5)
    assert sequential_for_groups(epsilon="auto") is None
    assert barker_for_groups(sigma=0.8, growth=2.0) == Barker(500, sigma=0.8, growth=2.0, skewness=True)


def chosen(step, **options):
    """Which step is made, without its set-up where it is the one that was asked for."""
    return type(step.__new__(step, **options))


@pytest.mark.parametrize(
    ("step", "options"),
    [
        (pma.PenaltyMH, {"proposal": pma.CrankNicolson()}),
        (pma.PenaltyMH, {"thin": 2}),
        (pma.PenaltyMH, {"proxy": None}),
        (pma.ApproxMH, {"epsilon": "auto"}),
        (pma.MHSS, {}),
        (pma.MHSubLhd, {}),
        (pma.MinibatchMH, {}),
    ],
)
def test_who_chooses_anything_else_gets_the_step_that_was_asked_for(many, step, options):
    with many:
        assert chosen(step, **options) is step


@pytest.mark.slow
def test_it_still_says_what_there_is(many, caplog):
    with many, caplog.at_level(logging.INFO, "pymc_austerity"):
        step = pma.PenaltyMH(proxy=None, progressbar=False)
    assert "pma.GroupMH() lets each decide on its own rows" in caplog.text
    assert type(pickle.loads(pickle.dumps(step))) is pma.PenaltyMH  # in another process too


def test_few_groups_are_decided_on_together():
    with grouped(199):
        assert chosen(pma.PenaltyMH) is pma.PenaltyMH


def test_several_outcomes_stay_one_population():
    two = grouped()
    with two:
        pm.Normal("other", two["mean"], 1, observed=np.zeros(700))
        assert chosen(pma.PenaltyMH) is pma.PenaltyMH


def test_groups_that_depend_on_each_other_are_named_and_decided_on_together(caplog):
    walk = grouped(prior=lambda n: pm.GaussianRandomWalk("walk", 0, 0.1, init_dist=pm.Normal.dist(), steps=n - 1))
    with walk, caplog.at_level(logging.INFO, "pymc_austerity"):
        assert chosen(pma.PenaltyMH) is pma.PenaltyMH
    assert "PenaltyMH makes one decision over all parameters" in caplog.text
    assert "walk" in caplog.text
    assert "looked for in vain" in groups_worth_a_step(walk)


def test_the_arguments_of_a_step_are_shown():
    for step in (pma.PenaltyMH, pma.ApproxMH, pma.MinibatchBarker, pma.ExactMH, pma.MHSS):
        assert list(inspect.signature(step).parameters) == list(inspect.signature(step.__init__).parameters)[1:]


def test_an_argument_that_is_wrong_is_named_all_the_same(many):
    with many, pytest.raises(ValueError, match="batch_size"):
        pma.PenaltyMH(batch_size=-1, progressbar=False)


def test_a_step_that_would_be_another_is_not_tried_for_a_recommendation(many):
    assert _candidates(many) == (pma.MHSS,)
    assert _candidates(grouped(20)) == (pma.MHSS, pma.PenaltyMH, pma.MinibatchBarker)
