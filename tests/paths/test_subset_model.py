import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from cases import cases
from scipy import stats

from pymc_austerity.compile.graph_compiler import BY_NUMPY
from pymc_austerity.paths import subset_model as module
from pymc_austerity.paths.subset_model import subset_model

N_ROWS = 203  # no number that a model would have for other reasons
RNG = np.random.default_rng(5)
DATA = {
    "X": RNG.normal(size=(N_ROWS, 3)),
    "label": RNG.integers(0, 2, N_ROWS),
    "group": RNG.integers(0, 5, N_ROWS),
    "z": RNG.normal(size=N_ROWS),
    "Y": RNG.normal(size=(N_ROWS, 2)),
}


def logistic(X, label, **_):
    slope = pm.Normal("slope", 0, 1, shape=3)
    pm.Deterministic("per_row", X @ slope)
    pm.Deterministic("double", 2 * slope)
    pm.Bernoulli("y", logit_p=X @ slope, observed=label)


def with_dims(X, label, **_):
    model = pm.modelcontext(None)
    model.add_coords({"row": np.arange(len(X)), "column": list("abc")})
    data = pm.Data("X", X, dims=("row", "column"))
    slope = pm.Normal("slope", dims="column")
    p = pm.Deterministic("p", pm.math.sigmoid(data @ slope), dims="row")
    pm.Bernoulli("y", p=p, observed=label, dims="row")


def hierarchical(X, group, z, **_):
    intercept = pm.Normal("intercept", 0, pm.HalfNormal("spread"), shape=5)
    pm.Normal("y", intercept[group] + pm.math.dot(X, pm.Normal("slope", shape=3)), 1, observed=z)


def standardised_in_the_graph(X, z, **_):
    data = pt.as_tensor(X)
    pm.Normal("y", ((data - data.mean(axis=0)) / data.std(axis=0)) @ pm.Normal("slope", shape=3), 1, observed=z)


def mixture(z, **_):
    weight = pm.Dirichlet("weight", np.ones(2))
    pm.NormalMixture("y", w=weight, mu=pm.Normal("centre", shape=2), sigma=1.0, observed=z)


def censored(X, z, **_):
    uncensored = pm.Normal.dist(X @ pm.Normal("slope", shape=3), 1.0)
    pm.Censored("y", uncensored, lower=-1, upper=1, observed=np.clip(z, -1, 1))


def multivariate(Y, **_):
    pm.MvNormal("y", pm.Normal("mean", shape=2), cov=np.eye(2), observed=Y)


def gaussian_process(X, z, **_):
    process = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(3, ls=pm.HalfNormal("length")))
    process.marginal_likelihood("y", X=X, y=z, sigma=pm.HalfNormal("noise"))


def potential_only(z, **_):
    mean, data = pm.Normal("mean"), pm.Data("z", z)
    pm.Potential("likelihood", -0.5 * pt.sum((data - mean) ** 2) - data.shape[0] * pt.log(2.0))


MODELS = [
    logistic, with_dims, hierarchical, standardised_in_the_graph, mixture, censored, multivariate, gaussian_process,
    potential_only,
]  # fmt: skip


def build(definition, rows=None):
    with pm.Model() as model:
        definition(**{name: values if rows is None else values[rows] for name, values in DATA.items()})
    return model


def log_density(model, point):
    return float(model.compile_logp(mode=BY_NUMPY)(point))


def away_from_start(model):
    return {name: value + 0.1 for name, value in model.initial_point().items()}


@pytest.mark.parametrize("definition", cases(MODELS, ["logistic", "hierarchical", "multivariate", "potential_only"]))
def test_a_subset_gives_the_density_of_the_model_written_for_it(definition):
    copy = subset_model(build(definition), n_rows=N_ROWS)
    logp = copy.model.compile_logp(mode=BY_NUMPY)
    for count in (30, 4, N_ROWS):
        rows = np.random.default_rng(count).permutation(N_ROWS)[:count]
        copy.put(copy.take(rows))
        written = build(definition, rows)
        point = away_from_start(written)
        expected = log_density(written, point)
        assert float(logp(point)) == pytest.approx(expected, rel=1e-9)
        # Negative control: one row exchanged.
        copy.put(copy.take(np.append(rows[:-1], (rows[-1] + 1) % N_ROWS)))
        assert float(logp(point)) != pytest.approx(expected, rel=1e-9)


REPEATED = {
    "repeated": lambda u: pt.repeat(u, 29),
    "tiled": lambda u: pt.tile(u, 29),
    "joined": lambda u: pt.concatenate([u] * 29),
    "flattened": lambda u: pt.broadcast_to(u[:, None], (7, 29)).flatten(),
    "named": lambda u: pm.Deterministic("per_row", pt.repeat(u, 29)),
    "named before": lambda u: pt.repeat(pm.Deterministic("scaled", 2 * u), 29),
    "within a table": lambda u: (u[:, None] + pm.Normal("v", shape=29)).flatten(),
}


@pytest.mark.parametrize(("name", "dims"), [*((name, "unit") for name in REPEATED), ("repeated", None)])
def test_a_subset_reads_the_entries_that_its_rows_repeat(name, dims):
    with pm.Model(coords={"unit": range(7)}) as model:
        u = pm.Normal("u", dims=dims, shape=None if dims else 7)
        pm.Normal("y", REPEATED[name](u) + pm.Normal("b") * DATA["z"], 1, observed=DATA["z"])
    copy = subset_model(model)
    logp = copy.model.compile_logp(mode=BY_NUMPY)
    point = {name: RNG.normal(size=np.shape(value)) for name, value in model.initial_point().items()}
    by_row = model.compile_fn(model.logp(vars=[model["y"]], sum=False)[0], inputs=model.value_vars, mode=BY_NUMPY)
    prior = model.compile_logp(vars=model.free_RVs, mode=BY_NUMPY)(point)
    for rows in (np.arange(40, 10, -1), np.arange(N_ROWS)):
        copy.put(copy.take(rows))
        assert float(logp(point)) == pytest.approx(prior + by_row(point)[rows].sum(), rel=1e-9)


def test_a_number_of_rows_that_stays_behind_would_be_seen(monkeypatch):
    monkeypatch.setattr(module._Rebuild, "_is_count", lambda self, var: False)
    rows = np.arange(30)
    written = build(_count_as_a_number, rows)
    found, point = subset(build(_count_as_a_number), rows), away_from_start(written)
    assert log_density(found, point) != pytest.approx(log_density(written, point), rel=1e-9)


def subset(model, rows, **settings):
    copy = subset_model(model, **settings)
    copy.put(copy.take(rows))
    return copy.model


def test_the_users_model_is_left_alone():
    model = build(with_dims)
    copy = subset(model, np.arange(7))
    assert model["X"].get_value().shape == (N_ROWS, 3)
    assert len(model.coords["row"]) == N_ROWS
    assert copy["X"].get_value().shape == (7, 3)


def _two_views_of_one_memory(z, **_):
    last_bits = pt.as_tensor(z.view(np.int64)) % 8
    pm.Normal("y", pm.Normal("slope") * last_bits * pt.as_tensor(z), 1, observed=np.ones(len(z)))


def test_views_of_another_type_are_arrays_of_their_own():
    rows, point = np.arange(50, 90), {"slope": np.array(0.3)}
    found = subset(build(_two_views_of_one_memory), rows)
    expected = log_density(build(_two_views_of_one_memory, rows), point)
    assert log_density(found, point) == pytest.approx(expected, rel=1e-9)


def test_all_arrays_are_found_and_row_deterministics_left_out():
    copy = subset_model(build(logistic))
    assert copy.dropped == ("per_row",)
    assert [var.name for var in copy.model.deterministics] == ["double"]
    assert {array.values.shape for array in copy.arrays} == {(N_ROWS, 3), (N_ROWS,)}


def test_row_by_row_matrices_are_subset_along_both_axes():
    distance = np.abs(DATA["z"][:, None] - DATA["z"])

    def kriging(distance, z):
        with pm.Model() as model:
            covariance = pm.math.exp(-pm.Data("distance", distance) / pm.HalfNormal("range"))
            pm.MvNormal("y", np.zeros(len(z)), cov=covariance + pt.eye(len(z)), observed=z)
        return model

    model = kriging(distance, DATA["z"])
    with pytest.raises(ValueError, match="row_axes"):
        subset_model(model)
    rows = np.arange(5, 25)
    written = kriging(distance[np.ix_(rows, rows)], DATA["z"][rows])
    found, point = subset(model, rows, row_axes={"distance": (0, 1)}), away_from_start(written)
    assert log_density(found, point) == pytest.approx(log_density(written, point), rel=1e-9)


def _one_parameter_a_row(z, **_):
    pm.Normal("y", pm.Normal("effect", shape=len(z)), 1, observed=z)


def _count_as_a_number(z, **_):
    mean = pm.Normal("mean")
    scale = pm.HalfNormal("scale")
    pm.Potential("likelihood", -0.5 * pt.sum((z - mean) ** 2) / scale**2 - len(z) * pt.log(scale))
    pm.Normal("y", mean, 1, observed=z)


def _lengths_differ(z, **_):
    mean = pm.Normal("mean")
    pm.Normal("y", mean, 1, observed=z)
    pm.Normal("other", mean, 1, observed=z[:3])


def _transposed(X, z, **_):
    pm.Normal("y", pm.Normal("slope", shape=3) @ pt.as_tensor(np.ascontiguousarray(X.T)), 1, observed=z)


def _parts_put_together(X, z, **_):
    effect = pm.Normal("effect", shape=7)
    parts = pt.concatenate([pt.zeros(29), pt.repeat(effect[1:], 29)])
    pm.Normal("y", parts + X @ pm.Normal("slope", shape=3), 1, observed=z)


def _data_repeated(z, **_):
    pm.Normal("y", pm.Normal("slope") * pt.repeat(pm.Data("of_place", z[:7]), 29), 1, observed=z)


def _nothing_observed(**_):
    pm.Normal("mean")


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (_one_parameter_a_row, "'effect'.*one entry per row"),
        (_count_as_a_number, "plain number"),
        (_lengths_differ, "differ in length"),
        (_transposed, "only the first axis"),
        (_parts_put_together, r"computes with Join.* keeps its 203 entries.* write u\[g\]"),
        (_data_repeated, "With 97 of the 203 rows the model cannot be evaluated: .*outside the model"),
        (_nothing_observed, "n_rows"),
    ],
)
def test_what_cannot_be_subset_is_refused_with_the_reason(definition, message):
    with pytest.raises(ValueError, match=message):
        subset_model(build(definition))


def test_other_observed_variables_stay_whole():
    copy = subset_model(build(_lengths_differ), n_rows=N_ROWS)
    assert len(copy.arrays) == 1
    copy.put(copy.take(np.arange(10)))
    z = DATA["z"]
    expected = stats.norm.logpdf([*z[:10], *z[:3], 0.6], 0.3).sum()  # the last for the prior
    assert log_density(copy.model, {"mean": np.array(0.3)}) == pytest.approx(expected, abs=1e-6)


def test_bad_arguments_are_refused():
    nothing, other_axis = {"row_axes": {"nothing": 0}}, {"row_axes": {"X": 1}}
    wrong = {"no data of that name": nothing, "do not have": other_axis, "nothing to subset": {"n_rows": 77}}
    for message, settings in wrong.items():
        with pytest.raises(ValueError, match=message):
            subset_model(build(with_dims), **settings)
