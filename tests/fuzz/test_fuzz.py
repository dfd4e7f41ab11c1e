"""Forty random models, which pass, and planted mistakes, with which they do not; `make fuzz` makes other models."""

import warnings
from collections import Counter
from functools import partial

import numpy as np
import pytest
from checks import Found, Split, check, own_words
from grammar import program
from hierarchies import FEW, hierarchy
from invariance import STEPS, Hierarchy, check_hierarchy, check_invariant
from plants import MOVES_OF_GROUPS, PLANTS, effects_without_their_jacobian
from reflections import LAWS, Law, check_decisions, metropolis

import pymc_austerity as pma

#: Consecutive ones, and those whose models show a mistake that is planted here.
SEEDS = sorted({*range(37), *PLANTS.values()})
#: A model of which every step can be built, with rows enough for steps to read a part of them.
OF_STEPS, ROWS = 22, 1_500
#: Hierarchical models, centred and not, and one of few groups whose moves are compared with its density.
HIERARCHIES, OF_MOVES, NOT_CENTRED = range(8), 7, 4


@pytest.fixture(autouse=True)
def _maps_lie_in_a_folder_of_the_test(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_random_models_are_read_and_bounded_rightly():
    seen = Counter()
    for seed in SEEDS:
        try:
            seen += check(program(seed))
        except Exception as error:
            error.add_note(f"seed {seed}:\n{program(seed).source}")
            raise
    # What is refused, or has no bound, is not checked.
    assert seen["models"] == len(SEEDS) >= 40
    assert seen["refused"] <= 5
    assert seen["bounds of order 2"] >= 20
    assert seen["sparse"] >= 2
    assert seen["with sums"] >= 1


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_mistake_is_found_by_one_of_these_models(plant, monkeypatch):
    plant(monkeypatch)
    with pytest.raises(Found):
        check(program(PLANTS[plant]))


@pytest.mark.slow
def test_a_step_decides_as_the_density_says(monkeypatch):
    """And one that takes a batch for all rows is found.  `make fuzz` compares all of `LAWS`."""
    monkeypatch.setitem(LAWS, "MinibatchMH", Law(partial(pma.MinibatchMH, batch_size=20, proxy=None), metropolis))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        split = Split(program(OF_STEPS, rows=ROWS).build())
        assert check_decisions(split, ["PenaltyMH"]) == ["PenaltyMH"]
        with pytest.raises(Found, match="MinibatchMH: accepts"):
            check_decisions(split, ["MinibatchMH"])


def test_words_of_others_are_not_ours():
    for error, ours in (
        (lambda: np.linalg.cholesky(-np.eye(2)), False),
        (lambda: pma.RandomWalk(scale=-1.0), True),
        (lambda: np.zeros(3) + np.zeros(2), False),
        (lambda: pma.PenaltyMH(progressbar=False, unknown=1), True),
    ):
        with pytest.raises(Exception) as caught:
            error()
        assert own_words(caught.value) == ours


def test_random_hierarchies_are_read_as_pymc_means_them():
    seen = Counter()
    for seed in HIERARCHIES:
        seen += check_hierarchy(hierarchy(seed))
    assert seen["hierarchies"] == len(HIERARCHIES)
    assert seen["refused"] == 0


def test_a_lost_jacobian_of_effects_is_found(monkeypatch):
    effects_without_their_jacobian(monkeypatch)
    with pytest.raises(Found, match="in terms of its effects"):
        check_hierarchy(hierarchy(NOT_CENTRED, FEW))


@pytest.mark.slow
def test_moves_of_groups_keep_the_density():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        read = Hierarchy(hierarchy(OF_MOVES, FEW).build())
        decider = STEPS["GroupMH"](model=read.model, rng=7, tune=False, progressbar=False).decider
        assert check_invariant(read, decider, "GroupMH")
        for plant in MOVES_OF_GROUPS:
            with pytest.raises(Found, match="in a transition"):
                check_invariant(read, decider, plant.__name__, data=plant(decider))
