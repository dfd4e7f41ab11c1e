"""An effect with an entry for each row is a group of one row, however the model writes it; so is one of a table."""

from functools import cache
from itertools import pairwise

import numpy as np
import pymc as pm
import pytest
from cases import cases
from grouped import search_of

import pymc_austerity as pma
from pymc_austerity.groups import read_groups
from pymc_austerity.likelihood import NotRowWiseError

#: Numbers of rows in another order.
ELSEWHERE = np.random.default_rng(5).permutation(300)


def effects_of_rows(of_rows):
    """Return counts with an effect of each row, which `of_rows` picks from all effects."""
    with pm.Model(coords={"row": range(300)}) as model:
        effect = pm.Normal("effect", 0, pm.HalfNormal("scale", 1), dims="row")
        pm.Poisson("y", of_rows(effect, pm.Normal("mean", 0, 1)), observed=np.arange(300) % 4, dims="row")
    return model


OF_ROWS = {
    "constant numbers": lambda effect, mean: pm.math.exp(mean + effect[np.arange(300)]),
    "entry by entry": lambda effect, mean: pm.math.exp(mean + effect),
    "named": lambda effect, mean: pm.Deterministic("rate", pm.math.exp(mean + effect), dims="row"),
}


@pytest.fixture(scope="module")
def expansion_by_data():
    return search_and_expansion(lambda effect, mean: pm.math.exp(mean + effect[pm.Data("number", np.arange(300))]))[1]


def search_and_expansion(of_rows):
    """The expansion of the rows of groups is around the start."""
    search = search_of(effects_of_rows(of_rows), expands=True)
    return search, search.expand(search.data.theta0)


@pytest.mark.parametrize("written", OF_ROWS)
def test_effects_with_an_entry_a_row_are_groups_of_one_row(written, expansion_by_data):
    """However the model picks the effect of a row, its groups and their expansion are those of numbers in data."""
    search, expansion = search_and_expansion(OF_ROWS[written])
    assert search.model.groups.names == ("effect",)
    assert len(search.model.groups.own) == 300
    np.testing.assert_allclose(expansion.gradient, expansion_by_data.gradient)
    np.testing.assert_allclose(expansion.hessian, expansion_by_data.hessian)


def test_effects_read_in_another_order_are_not_numbered_by_rows(expansion_by_data):
    """Rows that read the effects backwards or in any other order are never taken to read their own."""
    with pytest.raises(NotRowWiseError, match="entries that belong to single rows|not indexed by row"):
        read_groups(effects_of_rows(lambda effect, mean: pm.math.exp(mean + effect[::-1])))
    _, elsewhere = search_and_expansion(lambda effect, mean: pm.math.exp(mean + effect[ELSEWHERE]))
    assert not np.allclose(elsewhere.gradient, expansion_by_data.gradient)


TIMES, COUNTS = np.linspace(-1, 1, 5), np.random.default_rng(6).poisson(2, (60, 5))
#: Tables of 60 units and 5 times, whose columns are rows that read all effects, too.
TABLES = {
    "table": (lambda level, slope: level[:, None] + slope[:, None] * TIMES, COUNTS),
    "table of a table": (lambda level, slope: level[:, None] + slope[:, None] * np.tile(TIMES, (60, 1)), COUNTS),
    "transposed": (lambda level, slope: (level + slope * TIMES[:, None]).T, COUNTS),
    "times first": (lambda level, slope: level + slope * TIMES[:, None], COUNTS.T),
    "long": (lambda level, slope: level[UNIT] + slope[UNIT] * np.tile(TIMES, 60), COUNTS.ravel()),
}
UNIT = np.repeat(np.arange(60), 5)


def expansion_of_table(written):
    mean, counts = TABLES[written]
    with pm.Model() as model:
        scales = pm.HalfNormal("scales", 1, shape=2)
        level, slope = (pm.Normal(name, 0, s, shape=60) for name, s in zip(("level", "slope"), scales))
        pm.Poisson("y", pm.math.exp(mean(level, slope)), observed=counts)
    search = search_of(model, expands=True)
    assert search.model.groups.names == ("level", "slope")
    return search.expand(search.data.theta0)


@pytest.mark.parametrize("written", cases([name for name in TABLES if name != "long"], ["table", "times first"]))
def test_units_of_a_table_are_groups(written):
    """However the table lies, the expansion of a unit is that of its rows in long form."""
    found, expected = expansion_of_table(written), expansion_of_table("long")
    np.testing.assert_allclose(found.gradient, expected.gradient)
    np.testing.assert_allclose(found.hessian, expected.hessian)


UNITS, AT = np.indices((60, 5)).reshape(2, -1)
#: Ways to write counts of 60 units at 5 times with an effect of each cell beside those of units.
CELLS = {
    "scaled, by indices": lambda unit, sd, z: unit[UNITS] + (sd * z)[UNITS, AT],
    "by indices, scaled": lambda unit, sd, z: unit[UNITS] + sd * z[UNITS, AT],
    "flattened": lambda unit, sd, z: unit[UNITS] + sd * z.ravel(),
    "numbers": lambda unit, sd, z: unit[UNITS] + (sd * z.ravel())[pm.Data("cell", 5 * UNITS + AT)],
    "another order": lambda unit, sd, z: unit[UNITS] + sd * z.T.ravel(),
}


@cache
def expansion_of_cells(written):
    with pm.Model() as model:
        unit = pm.Normal("unit", 0, pm.HalfNormal("of_units", 1), shape=60)
        eta = CELLS[written](unit, pm.HalfNormal("of_cells", 1), pm.Normal("z", 0, 1, shape=(60, 5)))
        pm.Poisson("y", pm.math.exp(eta), observed=COUNTS.ravel())
    search = search_of(model, expands=True)
    found, of_each = search.expand(search.data.theta0), {}
    for name, (first, end) in zip(search.model.groups.names, pairwise(found.first), strict=True):
        of_each[name] = np.stack([found.gradient[first:end, 0], found.hessian[first:end, 0, 0]])
    return of_each


@pytest.mark.parametrize("written", cases(list(CELLS)[:3], ["scaled, by indices", "flattened"]))
def test_cells_of_a_table_with_one_row_each_are_groups(written):
    found, expected = expansion_of_cells(written), expansion_of_cells("numbers")
    for name in ("unit", "z"):
        np.testing.assert_allclose(found[name], expected[name])
    assert not np.allclose(found["z"], expansion_of_cells("another order")["z"])


@pytest.mark.slow
def test_effects_of_rows_that_are_no_groups_are_refused():
    """A step does not make one decision over an effect for each row."""
    with effects_of_rows(OF_ROWS["entry by entry"]) as model:
        pm.Potential("tie", -(model["effect"].sum() ** 4))
        with pytest.raises(NotRowWiseError, match="'y' does not split into rows"):
            pma.PenaltyMH()
