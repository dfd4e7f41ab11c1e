"""A table whose rows or columns have effects is read entry by entry, however it is written, and others as they are."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from cases import cases
from pymc.distributions.transforms import ordered
from pytensor.tensor.basic import MakeVector

from pymc_austerity.compile.graph_compiler import BY_NUMPY
from pymc_austerity.groups import read_groups
from pymc_austerity.likelihood import long_tables, read_model
from pymc_austerity.likelihood.long_tables import with_long_tables
from pymc_austerity.likelihood.repeats import with_entries_taken
from pymc_austerity.unsupported_model import UnsupportedModelError

ROWS, COLUMNS = 20, 30
TABLE = np.random.default_rng(4).poisson(2.0, (ROWS, COLUMNS))
TIMES = np.linspace(-1, 1, COLUMNS)
X = np.random.default_rng(5).normal(size=(ROWS, 3))


def effects(name, size, scale=None):
    return pm.Normal(name, 0, scale or pm.HalfNormal(f"sd_{name}"), shape=size)


def not_centred(name, size):
    return pm.Deterministic(name, pm.HalfNormal(f"sd_{name}") * pm.Normal(f"z_{name}", shape=size))


def walks(n, length):
    return pm.GaussianRandomWalk("w", sigma=pm.HalfNormal("sd"), init_dist=pm.Normal.dist(), shape=(n, length))


def counts(mean):
    pm.Poisson("y", pm.math.exp(mean), observed=TABLE)


def censored(mean):
    pm.Censored("y", pm.Normal.dist(mean, pm.HalfNormal("sd")), lower=0, upper=None, observed=TABLE * 1.0)


def in_container(mean):
    pm.NegativeBinomial("y", mu=pm.math.exp(mean), alpha=pm.Exponential("alpha", 1), observed=pm.Data("table", TABLE))


def by_column(mean):
    pm.StudentT("y", nu=4, mu=mean, sigma=pm.HalfNormal("sd", shape=COLUMNS), observed=TABLE * 1.0)


def ordinal(mean):
    cuts = pm.Normal("cuts", [-1.0, 1.0], 1, shape=(COLUMNS, 2), transform=ordered, initval=[[-1.0, 1.0]] * COLUMNS)
    pm.OrderedLogistic("y", eta=mean, cutpoints=cuts[None], observed=np.minimum(TABLE, 2), compute_p=False)


def with_zeros(mean):
    pm.ZeroInflatedPoisson("y", pm.Beta("psi", 2, 2), pm.math.exp(mean), observed=TABLE)


#: What is observed, and its mean: a table of rows and columns that are written one entry a row.
LONG = {
    "rows and columns": (counts, lambda: pm.Normal("m") + effects("a", ROWS)[:, None] + effects("b", COLUMNS)),
    "not centred": (counts, lambda: not_centred("a", ROWS)[:, None] + not_centred("b", COLUMNS)[None, :]),
    "of known scale": (counts, lambda: effects("a", ROWS, 1.0)[:, None] - effects("b", COLUMNS, 1.0)),
    "units and times": (counts, lambda: effects("a", ROWS)[:, None] + effects("b", ROWS)[:, None] * TIMES),
    "times and units": (counts, lambda: effects("a", COLUMNS) + effects("b", COLUMNS) * X[:, :1]),
    "transposed": (counts, lambda: (effects("a", ROWS) + effects("b", COLUMNS)[:, None]).T),
    "named times": (counts, lambda: effects("a", ROWS)[:, None] + pm.Normal("b") * pm.Data("times", TIMES)),
    "censored": (censored, lambda: effects("a", ROWS)[:, None] + effects("b", COLUMNS)),
    "in a container": (in_container, lambda: effects("a", ROWS)[:, None] + effects("b", COLUMNS)),
    "scales of columns": (by_column, lambda: effects("a", ROWS)[:, None]),
    "slopes of columns": (counts, lambda: pm.math.dot(X, effects("b", (3, COLUMNS)))),
    "with zeros": (with_zeros, lambda: effects("a", ROWS)[:, None] + effects("b", COLUMNS)),
    "cutpoints of columns": (ordinal, lambda: effects("a", ROWS)[:, None] + np.zeros(COLUMNS)),
    "slopes of rows": (counts, lambda: effects("a", (ROWS, 3)) @ np.tile(X.T, COLUMNS // ROWS + 1)[:, :COLUMNS]),
    "a walk of each row": (counts, lambda: walks(ROWS, COLUMNS)),
    "a walk of each column": (counts, lambda: walks(COLUMNS, ROWS).T),
    "walks by their steps": (
        counts,
        lambda: pm.HalfNormal("sd") * pt.cumsum(pm.Normal("z", shape=(ROWS, COLUMNS)), axis=1),
    ),
    "slopes beside rows": (counts, lambda: effects("a", ROWS)[:, None] + X @ effects("b", (3, COLUMNS))),
}


def model_of(written):
    observe, mean = written
    with pm.Model() as model:
        observe(mean())
    return model


def densities(model, points=3):
    """Return the log density at some points."""
    rng, density = np.random.default_rng(6), model.compile_logp(mode=BY_NUMPY)
    start = model.initial_point()
    return [float(density({n: v + 0.3 * rng.normal(size=v.shape) for n, v in start.items()})) for _ in range(points)]


@pytest.mark.parametrize(
    "name",
    cases(LONG, ["rows and columns", "not centred", "units and times", "cutpoints of columns", "slopes of columns"]),
)
def test_effects_of_rows_and_columns_are_groups_of_the_same_density(name):
    model = model_of(LONG[name])
    long, _ = with_long_tables(model)
    assert long.observed_RVs[0].type.ndim == 1
    np.testing.assert_allclose(densities(long), densities(model), rtol=1e-10)
    found = read_groups(model)
    assert found.data.likelihood.n_rows == TABLE.size
    shapes = {name: np.shape(value) for name, value in found.model.initial_point().items()}
    assert set(found.groups.names) == {n for n, shape in shapes.items() if shape}


def softmax():
    return pm.math.log_softmax(effects("a", ROWS)[:, None] + effects("b", COLUMNS), axis=1)


#: Tables that stay what they are, and what is said of them.
WIDE = {
    "of few effects": (counts, lambda: effects("a", 3).sum() + pm.Normal("m") * X[:, :1] + np.zeros(COLUMNS), None),
    "a softmax of columns": (counts, softmax, "each row reads all of 'b'"),
    "sums along columns": (
        ordinal,
        lambda: effects("a", COLUMNS)[None].repeat(ROWS, 0).cumsum(1),
        "each row reads all",
    ),
}


@pytest.mark.parametrize(("observe", "mean", "said"), WIDE.values(), ids=WIDE)
def test_other_tables_are_read_by_their_rows(observe, mean, said, caplog):
    model = model_of((observe, mean))
    assert with_long_tables(model)[0] is model
    assert len(caplog.messages) == (said is not None)
    assert all(said in message and "table.ravel()" in message for message in caplog.messages)


def test_an_operation_along_columns_is_seen_by_the_density(monkeypatch):
    """Planted: what one column cannot show is read as a table of one column."""
    written = ordinal, lambda: pt.cumsum(effects("a", ROWS)[:, None] - effects("b", COLUMNS), axis=1)
    model = model_of(written)
    assert with_long_tables(model)[0] is model
    monkeypatch.setattr(long_tables, "require_same_density", lambda *_: None)
    wrong, _ = with_long_tables(model)
    assert abs(densities(wrong)[0] - densities(model)[0]) > 1


#: Where a table is read: at two arrays of numbers, and at a mask.
SOME = np.random.default_rng(7).random((ROWS, COLUMNS)) < 0.8
TAKEN = {"numbers": np.nonzero(SOME), "a mask": SOME}


@pytest.mark.parametrize("taken", TAKEN.values(), ids=TAKEN)
def test_entries_that_are_taken_of_a_table_are_of_rows_and_columns(taken):
    with pm.Model() as model:
        mean = pm.Normal("m") + effects("a", ROWS)[:, None] + effects("b", COLUMNS)
        pm.Poisson("y", pm.math.exp(mean[taken]), observed=TABLE[taken])
    np.testing.assert_allclose(densities(with_entries_taken(model)), densities(model), rtol=1e-10)
    assert set(read_groups(model).groups.names) == {"a", "b"}


#: Effects of groups of which one or two are known, as the effect of a reference level.
BESIDE = {
    "a reference": lambda u: pt.concatenate([np.zeros(1), u]),
    "the last one": lambda u: pt.concatenate([u, [0.5]]),
    "at both ends": lambda u: pt.concatenate([[0.0], u, [0.7]]),
    "set into zeros": lambda u: pt.set_subtensor(pt.zeros(ROWS + 2)[1:-1], u),
    "scaled after": lambda u: pm.Normal("m") + 2 * pt.concatenate([np.zeros(1), u]),
}


INDICES = {"from zero": lambda g: g, "negative too": lambda g: g - 3, "in data": lambda g: pm.Data("g", g)}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
@pytest.mark.parametrize("name", cases(BESIDE, ["a reference", "set into zeros", "scaled after"]))
def test_effects_beside_known_ones_are_groups(name, index):
    whole = BESIDE[name]
    length = len(whole(np.zeros(ROWS)).eval()) if name != "scaled after" else ROWS + 1
    with pm.Model() as model:
        numbers = index(np.arange(400) % length)
        pm.Poisson("y", pm.math.exp(whole(not_centred("u", ROWS))[numbers]), observed=np.arange(400) % 3)
    written = with_entries_taken(model)
    assert written is not model
    np.testing.assert_allclose(densities(written), densities(model), rtol=1e-10)
    found = read_groups(model)
    assert (found.groups.names, len(found.groups.own)) == (("z_u",), ROWS)
    assert found.data.coordinates.replaced == ("z_u",)


NUMBERS, TIME = np.arange(400) % ROWS, np.arange(400) % 7
X3, BASIS = np.random.default_rng(8).normal(size=(400, 3)), np.random.default_rng(9).normal(size=(7, 3))


def table_of(rows, columns):
    return pm.Normal("u", 0, pm.HalfNormal("tau"), shape=(rows, columns))


#: Tables and vectors of effects, put together or multiplied before entries are taken; the names of the effects.
PUT_TOGETHER = {
    "a row of zeros": (lambda: pt.concatenate([np.zeros((1, 3)), table_of(ROWS - 1, 3)])[NUMBERS, TIME % 3], ["u"]),
    "slopes and a row of zeros": (
        lambda: (pt.concatenate([np.zeros((1, 3)), table_of(ROWS - 1, 3)])[NUMBERS] * X3).sum(axis=-1), ["u"]
    ),
    "slopes, in data": (
        lambda: (pt.concatenate([np.ones((1, 3)), table_of(ROWS - 1, 3)])[pm.Data("g", NUMBERS)] * X3).sum(axis=-1),
        ["u"],
    ),
    "two vectors": (
        lambda: pt.concatenate([effects("a", ROWS), effects("b", ROWS)])[np.arange(400) % (2 * ROWS)], ["a", "b"]
    ),
    "curves, groups last": (lambda: (BASIS @ table_of(3, ROWS))[TIME, NUMBERS], ["u"]),
    "curves beside means": (
        lambda: (pm.Normal("m", shape=7)[:, None] + BASIS @ table_of(3, ROWS))[TIME, NUMBERS], ["u"]
    ),
}  # fmt: skip


@pytest.mark.parametrize(("eta", "names"), PUT_TOGETHER.values(), ids=PUT_TOGETHER)
def test_entries_of_what_is_put_together_are_effects_of_groups(eta, names):
    with pm.Model() as model:
        pm.Poisson("y", pm.math.exp(eta()), observed=np.arange(400) % 3)
    written = with_entries_taken(model)
    assert written is not model
    np.testing.assert_allclose(densities(written), densities(model), rtol=1e-10)
    assert sorted(read_groups(model).groups.names) == names


def test_slopes_beside_a_reference_are_read_with_their_scales():
    """A row for each coefficient is left as it is, and the effects take the place of z."""
    with pm.Model() as model:
        scaled = pm.Normal("mu", shape=3) + pm.HalfNormal("tau", shape=3) * pm.Normal("z", shape=(ROWS - 1, 3))
        slopes = pt.concatenate([np.zeros((1, 3)), scaled])[pm.Data("g", NUMBERS)]
        pm.Poisson("y", pm.math.exp((slopes * X3).sum(axis=-1)), observed=np.arange(400) % 3)
    np.testing.assert_allclose(densities(with_entries_taken(model)), densities(model), rtol=1e-10)
    found = read_groups(model)
    assert (found.groups.names, found.groups.own.shape) == (("z",), (ROWS - 1, 3))
    assert found.data.coordinates.replaced == ("z",)


def test_cutpoints_between_infinite_ends_are_read():
    """Sorted entries of a vector are no effects of groups; what is asked is the density."""
    with pm.Model() as model:
        inner = pm.Normal("c", size=4, transform=ordered, initval=np.arange(4.0))
        cut, level = pt.concatenate([[-np.inf], inner, [np.inf]]), np.arange(400) % 5
        pm.Potential("y", pt.log(pt.sigmoid(cut[level + 1]) - pt.sigmoid(cut[level])))
    written = with_entries_taken(model)
    assert written is not model
    np.testing.assert_allclose(densities(written), densities(model), rtol=1e-10)


def test_wrong_places_beside_known_effects_are_seen(monkeypatch):
    """Planted: the marks of what is known are lost."""
    with pm.Model() as model:
        pm.Normal("y", BESIDE["a reference"](effects("u", ROWS))[np.arange(400) % (ROWS + 1)], 1, observed=np.ones(400))
    expected = densities(model)
    monkeypatch.setattr(np, "rint", lambda place: np.maximum(place, 1.0))
    assert not np.allclose(densities(with_entries_taken(model)), expected, rtol=1e-3)


def test_another_table_in_the_container_is_refused():
    """The step has the entries of the one that it was built for."""
    with model_of(LONG["in a container"]) as model:
        data = read_model(model, model.value_vars, None, None, number_rows=True)
        assert data.changed() is None
        pm.set_data({"table": TABLE + 1})
        with pytest.raises(ValueError, match="'table' was replaced by pm.set_data.*Build the step again"):
            data.changed()


def test_a_node_that_reads_nothing_takes_no_entries():
    """As the shape of what has no axes, or a vector without entries, which a model may compute with."""
    with pm.Model() as model:
        pm.Normal(
            "y", effects("a", ROWS)[np.arange(200) % ROWS] + MakeVector("float64")().sum(), 1, observed=np.ones(200)
        )
    assert with_entries_taken(model) is model


@pytest.mark.filterwarnings("ignore:Data in y contains missing values")
def test_missing_entries_are_refused_with_what_to_write():
    """As the entries at numbers above, which are read."""
    with pm.Model() as model:
        mean = effects("a", ROWS)[:, None] + effects("b", COLUMNS)
        pm.Normal("y", mean, 1, observed=np.where(SOME, TABLE, np.nan))
    with pytest.raises(UnsupportedModelError, match=r"of a table, observe the entries that are there, mu\[i, j\]"):
        read_groups(model)
