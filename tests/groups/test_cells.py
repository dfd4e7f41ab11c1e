"""Effects of the cells of a table, read by one index for each of its axes."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pymc_austerity as pma
from pymc_austerity.groups import read_groups
from pymc_austerity.unsupported_model import UnsupportedModelError

A, S, N = 3, 5, 400
RNG = np.random.default_rng(12)
AGE, STATE = RNG.integers(0, A, N), RNG.integers(0, S, N)
TRUE = RNG.normal(size=(A, S))
Y = TRUE[AGE, STATE] + RNG.normal(size=N)


def effects(shape=(A, S)):
    return pm.Normal("mu") + pm.HalfNormal("tau") * pm.Normal("z", shape=shape)


OF_CELLS = {
    "centred": lambda: pm.Normal("z", pm.Normal("mu"), pm.HalfNormal("tau"), shape=(A, S))[AGE, STATE],
    "named": lambda: pm.Deterministic("u", effects())[AGE, STATE],
    "scaled by row": lambda: pm.Normal("mu") + pm.HalfNormal("tau") * pm.Normal("z", shape=(A, S))[AGE, STATE],
    "in containers": lambda: effects()[pm.Data("age", AGE), pm.Data("state", STATE)],
    "numbered by the user": lambda: effects(A * S)[pm.Data("age", AGE) * S + pm.Data("state", STATE)],
}
OTHERS = {
    "scales of states": lambda: (pm.HalfNormal("tau", shape=S) * pm.Normal("z", shape=(A, S)))[AGE, STATE],
    "counted from the end": lambda: effects()[AGE - A, STATE],
}


def model_of(predictor):
    with pm.Model() as model:
        pm.Normal("y", predictor(), 1, observed=Y)
    return model


@pytest.mark.parametrize("name", OF_CELLS)
def test_each_cell_is_a_group(name):
    """In every spelling, with the numbers of cells that NumPy gives them."""
    read = read_groups(model_of(OF_CELLS[name]))
    assert read.groups.own.shape == (A * S, 1)
    of_rows = read.groups.of_rows(read.data.rows.arrays)
    assert np.array_equal(of_rows[0], np.ravel_multi_index((AGE, STATE), (A, S)))


@pytest.mark.parametrize("name", OTHERS)
def test_other_tables_are_groups_by_their_first_axis(name):
    """Where cells have scales of their own, or are counted from the end."""
    assert read_groups(model_of(OTHERS[name])).groups.own.shape == (A, S)


@pytest.mark.slow
def test_a_cell_that_does_not_exist_is_refused():
    """``pm.set_data`` brings a state of which the table has no column: PyMC would stop too."""
    with model_of(OF_CELLS["in containers"]):
        step = pma.GroupMH(test=pma.Exact(), progressbar=False)
        pm.set_data({"state": np.where(np.arange(N) == 0, S, STATE)})
        with pytest.raises(UnsupportedModelError, match=f"outside 0 to {S - 1}"):
            step.start_chain(np.random.default_rng(1))
