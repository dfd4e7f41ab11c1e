"""Rows that a model takes out of what it has computed of all: ``scale[event]`` of a survival model."""

import numpy as np
import pymc as pm
import pytest
from draws_at_hand import draws_of
from rowwise import AS_WRITTEN, by_numpy, evaluated

import pymc_austerity as pma
from pymc_austerity.groups import read_groups
from pymc_austerity.likelihood import NotRowWiseError, derived_model, read_model

N, G = 1_500, 12
RNG = np.random.default_rng(8)
X, W, GROUP, TIME = RNG.normal(size=N), RNG.normal(size=(N, 3)), RNG.integers(0, G, N), RNG.weibull(1.5, N)
EVENT = RNG.random(N) < 0.7
SHUFFLED = RNG.permutation(N)[:300]


def survival(predictor, event=EVENT, censored=~EVENT):
    with pm.Model() as model:
        scale, shape = pm.math.exp(predictor()), pm.HalfNormal("shape", 2)
        pm.Weibull("y", shape, scale[event], observed=TIME[event])
        pm.Potential("beyond", -((TIME[censored] / scale[censored]) ** shape))
    return model


def straight():
    return pm.Normal("a") + pm.Normal("b") * X


def of_columns():
    return pm.Deterministic("eta", W @ pm.Normal("b", shape=3))


def of_groups():
    return straight() + (pm.HalfNormal("s") * pm.Normal("u", shape=G))[GROUP]


def summed():
    model = survival(straight, np.flatnonzero(EVENT))
    with model:
        pm.Potential("more", -(pm.math.exp(model["b"] * X)[EVENT]).sum())
    return model


def other_entries():
    with pm.Model() as model:
        p = pm.math.softmax(W @ pm.Normal("b", shape=(3, 3)), axis=1)
        pm.Categorical("y", p[SHUFFLED], observed=RNG.integers(0, 3, 300))
    return model


def mirrored():
    with pm.Model() as model:
        mu = of_columns()
        pm.Normal("y", mu + mu[::-1], 1, observed=TIME)
    return model


TAKEN = {
    "marks": lambda: survival(straight), "columns": lambda: survival(of_columns),
    "groups": lambda: survival(of_groups), "a sum": summed, "other entries": other_entries, "mirrored": mirrored,
    "slices": lambda: survival(straight, slice(0, 300), slice(300, None)),
}  # fmt: skip


def densities(model):
    """The log density of the rows and the prior, and that of the model, at a point."""
    with by_numpy:
        data = read_model(model, model.value_vars, None, None)
        whole = model.compile_logp(mode=AS_WRITTEN)
    likelihood, theta = data.likelihood, data.theta0 + 0.3 * np.random.default_rng(1).normal(size=data.theta0.size)
    function = evaluated(likelihood, [likelihood.log_prior, likelihood.row_log_likelihood])
    log_prior, rows = function(theta, data.others0, *data.fixed, *data.rows.arrays)
    return data, log_prior + rows.sum(), whole(data.coordinates.point(data.point, theta))


@pytest.mark.parametrize("build", TAKEN.values(), ids=TAKEN)
def test_rows_are_taken_of_the_data(build):
    data, by_rows, whole = densities(build())
    assert data.derived is not None
    assert {len(array) for array in data.rows.arrays} == {len(data.rows)}
    assert by_rows == pytest.approx(whole, rel=1e-10)


def test_rows_of_neighbours_are_seen(monkeypatch):
    """The planted mistake: every row is given the data of another."""
    taken = derived_model._rows_taken
    monkeypatch.setattr(
        derived_model, "_rows_taken", lambda node: None if (r := taken(node)) is None else np.roll(r, 1)
    )
    _, by_rows, whole = densities(survival(straight))
    assert by_rows != pytest.approx(whole, rel=1e-3)


def relative_to_the_mean():
    eta = straight()
    return eta - eta.mean()


def entry_of_each_row():
    return pm.Normal("z", shape=N) + X


def in_a_container():
    return pm.Normal("a") + pm.Normal("b") * pm.Data("x", X)


@pytest.mark.parametrize("predictor", [relative_to_the_mean, entry_of_each_row, in_a_container])
def test_what_does_not_split_is_refused(predictor):
    model = survival(predictor)
    with pytest.raises(
        NotRowWiseError, match=r"its \d+ rows are taken out of the 1500 of .*Take them outside the model"
    ):
        read_model(model, model.value_vars, None, None)


def test_entries_that_rows_share_stay_effects():
    with pm.Model() as model:
        effects = pm.Normal("g") * RNG.normal(size=G) + pm.HalfNormal("s") * pm.Normal("u", shape=G)
        pm.Normal("y", effects[GROUP], 1, observed=TIME)
    assert derived_model.with_rows_taken(model, None, model.initial_point()) is model


def test_groups_beside_rows_of_another_length_are_groups():
    with survival(of_groups) as model:
        found = read_groups(model)
    assert found.groups.names == ("u",)
    assert found.data.likelihood.n_rows == N


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:loo. Pareto k")  # the draws are made up
def test_rows_are_left_out_and_predicted_as_those_of_any_model():
    with pm.Model() as model:
        scale = pm.math.exp(straight())
        pm.Weibull("y", pm.HalfNormal("shape", 2), scale[EVENT], observed=TIME[EVENT])
    idata = draws_of(model, 0.02)
    found = pma.posterior_predictive(idata, model, rows=5, random_seed=1, progressbar=False)
    assert found["posterior_predictive"]["y"].sizes["row"] == 5
    assert pma.loo(idata, model, progressbar=False).n_data_points == EVENT.sum()
