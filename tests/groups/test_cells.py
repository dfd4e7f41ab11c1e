"""Effects of the cells of a table, read by one index for each of its axes."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pymc_austerity as pma
from pymc_austerity.groups import GroupsNotFoundError, change_of_variables, read_groups
from pymc_austerity.unsupported_model import UnsupportedModelError

A, S, N = 3, 5, 400
RNG = np.random.default_rng(12)
AGE, STATE = RNG.integers(0, A, N), RNG.integers(0, S, N)
TRUE = RNG.normal(size=(A, S))
Y = TRUE[AGE, STATE] + RNG.normal(size=N)


def centred():
    return pm.Normal("z", pm.Normal("mu"), pm.HalfNormal("tau"), shape=(A, S))[AGE, STATE]


def not_centred():
    return pm.Deterministic("u", pm.Normal("mu") + pm.HalfNormal("tau") * pm.Normal("z", shape=(A, S)))[AGE, STATE]


def scaled_by_row():
    return pm.Normal("mu") + pm.HalfNormal("tau") * pm.Normal("z", shape=(A, S))[AGE, STATE]


def numbers_in_containers():
    z = pm.Normal("z", shape=(A, S))
    return (pm.Normal("mu") + pm.HalfNormal("tau") * z)[pm.Data("age", AGE), pm.Data("state", STATE)]


def numbered_by_the_user():
    age, state = pm.Data("age", AGE), pm.Data("state", STATE)
    return (pm.Normal("mu") + pm.HalfNormal("tau") * pm.Normal("z", shape=A * S))[age * S + state]


def scales_of_states():
    return (pm.HalfNormal("tau", shape=S) * pm.Normal("z", shape=(A, S)))[AGE, STATE]


def counted_from_the_end():
    return pm.Normal("z", pm.Normal("mu"), pm.HalfNormal("tau"), shape=(A, S))[AGE - A, STATE]


def model_of(predictor):
    with pm.Model() as model:
        pm.Normal("y", predictor(), 1, observed=Y)
    return model


OF_CELLS = [centred, not_centred, scaled_by_row, numbers_in_containers, numbered_by_the_user]


@pytest.mark.parametrize("predictor", OF_CELLS, ids=lambda f: f.__name__)
def test_each_cell_is_a_group(predictor):
    """In every spelling, with the numbers of cells that NumPy gives them."""
    read = read_groups(model_of(predictor))
    assert read.groups.own.shape == (A * S, 1)
    of_rows = read.groups.of_rows(read.data.rows.arrays)
    assert np.array_equal(of_rows[0], np.ravel_multi_index((AGE, STATE), (A, S)))


@pytest.mark.parametrize("predictor", [scales_of_states, counted_from_the_end], ids=lambda f: f.__name__)
def test_other_tables_are_groups_by_their_first_axis(predictor):
    """Where cells have scales of their own, or are counted from the end."""
    assert read_groups(model_of(predictor)).groups.own.shape == (A, S)


def test_cells_numbered_along_the_wrong_axis_are_refused(monkeypatch):
    """A planted mistake: the density is then not that of the model."""
    right = change_of_variables.number_of_cell
    monkeypatch.setattr(change_of_variables, "number_of_cell", lambda index, shape: right(index[::-1], shape[::-1]))
    with pytest.raises(GroupsNotFoundError, match="fails its check"):
        read_groups(model_of(not_centred))


@pytest.mark.slow
def test_a_cell_that_does_not_exist_is_refused():
    """``pm.set_data`` brings a state of which the table has no column: PyMC would stop too."""
    with model_of(numbers_in_containers):
        step = pma.GroupMH(test=pma.Exact(), progressbar=False)
        pm.set_data({"state": np.where(np.arange(N) == 0, S, STATE)})
        with pytest.raises(UnsupportedModelError, match=f"outside 0 to {S - 1}"):
            step.start_chain(np.random.default_rng(1))
