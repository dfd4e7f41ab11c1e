"""The papers behind a run, from the step or from its draws."""

import re

import numpy as np
import pymc as pm
import pytest
from pymc.step_methods.compound import CompoundStep
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.steps.citation import _BEHIND, _stored

Y = np.random.default_rng(1).normal(size=1_000)


def keys(text):
    return re.findall(r"^@\w+\{(\w+),", text, flags=re.MULTILINE)


def test_each_method_has_its_entries():
    """Braces are balanced, keys unique, and every public step has a paper or is the textbook's."""
    stored = keys(_stored())
    assert len(stored) == len(set(stored))
    assert {key for names in _BEHIND.values() for key in names} <= set(stored)
    assert _stored().count("{") == _stored().count("}")
    steps = {name for name, value in vars(pma).items() if isinstance(value, type) and hasattr(value, "stats_dtypes")}
    assert steps - set(_BEHIND) == {"ExactMH"}


def test_steps_and_draws_cite_the_same():
    with pm.Model() as model:
        b, k = pm.Normal("b"), pm.Normal("k")
        pm.Normal("y", Y[::-1] * b + k, 1, observed=Y)
        penalty = pma.PenaltyMH([b], proposal=pma.AdaptiveMetropolis(), proxy=None)
        both = [penalty, pma.ExactMH([k], proposal=pma.RandomWalk(), proxy=None)]
    found = ["pymc_austerity", "pymc", "penalty", "tall_data", "adaptive_metropolis"]
    assert keys(pma.citation(penalty)) == keys(pma.citation(CompoundStep(both))) == found
    assert set(keys(pma.citation(sampled(model, both, 20, tune=20)))) == set(found)


def test_a_debiased_estimate_cites_its_paper():
    found = pma.debias(lambda rows: Y[rows].mean(), 1_000, min_batch=20, alpha=0.3, replications=100, random_seed=1)
    assert "partial_posteriors" in keys(pma.citation(found))


def test_what_no_step_has_drawn_has_no_citation(sampling_result):
    with pytest.raises(ValueError, match="no step of pymc_austerity"):
        pma.citation(sampling_result({"b": Y[None]}, {"accept": Y[None]}))
    with pytest.raises(TypeError, match="wants a step"):
        pma.citation("PenaltyMH")
