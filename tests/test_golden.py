"""Draws of one run of each kind, against those kept in ``tests/golden``; and changes that the comparison must see."""

import copy

import golden
import numpy as np
import pytest

import pymc_austerity as pma

pytestmark = pytest.mark.versions

if not golden.STORED.is_file():
    pytest.skip(f"no draws are stored for PyMC {golden.MAJOR}: `make golden` stores them", allow_module_level=True)

STORED = golden.read(golden.STORED)
RENEW = "If the draws were meant to change, run `make golden` under both versions of PyMC and say so in the changelog."


#: What compiles longest.
SLOW = {
    "groups", "groups, not centred", "groups, crossed", "PenaltyMH ReversibleJump auto default",
    "ApproxMH default auto default", "ApproxMH CrankNicolson(df) auto default", "PenaltyMH Langevin Taylor(2) default",
    "MinibatchBarker SurrogateHMC(adapt) auto default", "ExactMH StiefelWalk auto default", "Gibbs binary",
    "Gibbs categorical", "others, proxy",
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in golden.CHOSEN])
def test_draws_and_statistics_are_those_of_before(name):
    found = golden.stored_form(golden.EVERYTHING[name].run(), in_full=True)
    assert golden.differences(found, STORED[name], golden.allowed_for(name)) == [], RENEW


def test_what_is_stored_is_what_is_allowed():
    assert set(golden.CHOSEN) <= STORED.keys() <= golden.EVERYTHING.keys()
    for name, entry in STORED.items():
        assert ("refused" in entry) != golden.EVERYTHING[name].allowed, name


def test_most_runs_move_and_decide_before_all_rows_are_read():
    shares = [entry["sample_stats/accepted"] for entry in STORED.values() if "sample_stats/accepted" in entry]
    accepted = [np.mean(share["values"]) for share in shares if "values" in share]
    assert np.mean(np.array(accepted) > 0) > 0.95
    early = [
        0 in entry["sample_stats/full_data"]["values"]
        for entry in STORED.values()
        if "values" in entry.get("sample_stats/full_data", ())
    ]
    assert np.mean(early) > 0.5


# Planted changes


ONE = STORED.get("ApproxMH RandomWalk none default", {})


def _move_a_draw(entry):
    entry["posterior/beta"]["values"][7] *= 1 + 1e-5


def _read_a_row_more(entry):
    entry["sample_stats/n_rows"]["values"][3] += 1


def _drop_a_statistic(entry):
    del entry["sample_stats/threshold"]


def _lose_a_number(entry):
    entry["sample_stats/log_ratio"]["values"][0] = "nan"


def _round_differently(entry):
    entry["posterior/beta"]["values"] = [v * (1 + 1e-8) for v in entry["posterior/beta"]["values"]]


CHANGES = [_move_a_draw, _read_a_row_more, _drop_a_statistic, _lose_a_number, _round_differently]


@pytest.mark.parametrize("change", CHANGES)
def test_a_planted_change_of_the_record_is_seen(change):
    """And rounding is not taken for one."""
    entry = copy.deepcopy(ONE)
    change(entry)
    assert len(golden.differences(entry, ONE)) == (change is not _round_differently)


def test_an_allowed_step_that_becomes_refused_is_seen():
    refused = {"refused": "ValueError"}
    assert golden.differences(refused, ONE)
    assert golden.differences(ONE, refused)
    assert golden.differences(refused, {"refused": "TypeError"}) == ["refused: ValueError in place of TypeError"]


class Swapped(pma.ExactMH):
    """Planted mistake: the generators of the step handed out in another order."""

    def step(self, point):
        streams = {name: value for name, value in vars(self.chain).items() if isinstance(value, np.random.Generator)}
        if not getattr(self, "_swapped", False):
            assert len(streams) > 1
            for name, stream in zip(streams, reversed(streams.values())):
                setattr(self.chain, name, stream)
            self._swapped = True
        return super().step(point)


@pytest.mark.slow
def test_planted_changes_of_a_step_are_seen():
    def run(step, scale=0.2, **settings):
        model = golden.logistic()
        with model:
            built = step(proposal=pma.RandomWalk(scale=scale), proxy=None)
        return golden.arrays_of(golden.sample(model, built, **settings))

    def against(found):
        return golden.differences(golden.stored_form(found, True), STORED["ExactMH RandomWalk none default"])

    before = run(pma.ExactMH)
    assert against(before) == []
    assert against(run(Swapped))
    assert against(run(pma.ExactMH, seed=golden.SEED + 1))
    nudged = run(pma.ExactMH, scale=0.2 * (1 + 1e-12))
    assert against(nudged) == []  # as from another processor
    assert not np.array_equal(nudged["posterior/beta"], before["posterior/beta"])
