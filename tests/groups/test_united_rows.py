"""Outcomes of different length whose rows read effects of the same groups are read as rows of one table."""

import logging
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from evidence import MAX_Z
from grouped import EFFECT, by_group, largest_z, moments
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.groups import as_one_set, read_groups
from pymc_austerity.likelihood import read_model, united_rows
from pymc_austerity.prediction.new_rows import new_groups

RNG = np.random.default_rng(41)
N, G, H = 500, 12, 7
GROUP, OTHER, X = RNG.integers(0, G, N), RNG.integers(0, H, N), RNG.normal(size=N)
EFFECTS = RNG.normal(-0.3, 0.7, G)
TIME, LIMIT = RNG.exponential(np.exp(-EFFECTS[GROUP])), RNG.uniform(0.5, 3, N)
SEEN, UNTIL = TIME < LIMIT, np.minimum(TIME, LIMIT)


def effects(name="u", n=G, **options):
    return pm.Normal(name, pm.Normal(f"mean_{name}", 0, 1), pm.HalfNormal(f"sd_{name}", 1), shape=n, **options)


def some_times_are_censored():
    rate = pt.exp(effects())[GROUP]
    pm.Exponential("ended", rate[SEEN], observed=UNTIL[SEEN])
    pm.Potential("censored", -rate[~SEEN] * UNTIL[~SEEN])
    return [np.r_[GROUP[SEEN], GROUP[~SEEN]]]


def few_times_are_censored():
    """So few rows are part of the prior of a step that does not move groups."""
    few, u = np.arange(N) < 20, effects()
    pm.Exponential("ended", pt.exp(u[GROUP[~few]]), observed=UNTIL[~few])
    pm.Potential("censored", -pt.exp(u[GROUP[few]]) * UNTIL[few])
    return [np.r_[GROUP[~few], GROUP[few]]]


def hurdle():
    """Each part has effects of its own, of the same groups."""
    tau, b = pm.HalfNormal("tau", 1, shape=2), pm.Normal("b", 0, 1, shape=2)
    z = pm.Normal("z_some", 0, 1, shape=G), pm.Normal("z_amount", 0, 1, shape=G)
    pm.Bernoulli("some", logit_p=(tau[0] * z[0])[GROUP] + b[0] * X, observed=SEEN.astype(int))
    log_mean = (tau[1] * z[1])[GROUP[SEEN]] + b[1] * X[SEEN]
    pm.Gamma("amount", alpha=2.0, beta=2.0 * pt.exp(-log_mean), observed=UNTIL[SEEN])
    return [np.r_[GROUP, GROUP[SEEN]]]


def two_sources_in_containers():
    half, u = N // 2 - 9, effects()
    pm.Normal("first", u[pm.Data("g_first", GROUP[:half])], 1.0, observed=X[:half])
    pm.Poisson("second", pt.exp(u[pm.Data("g_second", GROUP[half:])]), observed=OTHER[half:])
    return [np.r_[GROUP[half:], GROUP[:half]]]


def crossed_with_as_many():
    """Arrays are told apart by the effects that they index, in whichever order these are read."""
    other, half = (GROUP + OTHER) % G, 300
    u, v = effects("u"), effects("v")
    pm.Normal("many", u[GROUP[:half]] + v[other[:half]], 1.0, observed=X[:half])
    pm.Normal("fewer", 2 * v[other[half:]] - u[GROUP[half:]], 1.0, observed=X[half:])
    return [GROUP, other]


def one_factor_of_one_source():
    half, u, v = 300, effects("u"), effects("v", H)
    pm.Normal("many", u[GROUP[:half]] + v[OTHER[:half]], 1.0, observed=X[:half])
    pm.Normal("fewer", u[GROUP[half:]], 1.0, observed=X[half:])
    return [GROUP, np.r_[OTHER[:half], np.repeat(OTHER[0], N - half)]]


MODELS = [
    some_times_are_censored, few_times_are_censored, hurdle, two_sources_in_containers, crossed_with_as_many,
    one_factor_of_one_source,
]  # fmt: skip


def written(write):
    with pm.Model() as model:
        numbers = write()
    return model, numbers


@pytest.mark.parametrize("write", MODELS)
def test_rows_of_several_outcomes_have_one_number_of_their_group(write):
    model, expected = written(write)
    found = read_groups(model)
    numbers = found.groups.of_rows(found.data.rows.arrays) - found.groups.first[:-1, None]
    assert sorted(map(tuple, numbers)) == sorted(map(tuple, expected))
    assert found.data.likelihood.n_rows == len(expected[0])


@pytest.mark.parametrize("write", MODELS)
def test_united_rows_have_the_density_of_the_model(write):
    model, _ = written(write)
    united = united_rows(model, read_model(model, model.value_vars, None, None), False).derived
    rng = np.random.default_rng(1)
    for _ in range(3):
        point = {name: 0.3 * rng.standard_normal(np.shape(v)) for name, v in model.initial_point().items()}
        values = [of.compile_logp(mode="FAST_COMPILE")(point) for of in (model, united)]
        assert values[0] == pytest.approx(values[1], rel=1e-10)


def test_another_density_is_not_sampled(monkeypatch):
    """Each row with the density of the other outcome is the planted mistake."""
    model, _ = written(some_times_are_censored)
    data = read_model(model, model.value_vars, ["ended", "censored"], None)
    assert united_rows(model, data, True) is not None
    switch = pt.switch
    monkeypatch.setattr(pt, "switch", lambda condition, a, b: switch(condition, b, a))
    assert united_rows(model, data, True) is None


def test_one_outcome_is_left_as_it_is():
    with pm.Model() as model:
        pm.Normal("y", effects()[GROUP], 1.0, observed=X)
        pm.Normal("of_groups", model["u"], 1.0, observed=np.zeros(G))  # part of the prior: no row chooses an effect
    data = read_model(model, model.value_vars, None, None)
    assert as_one_set(model, data, None) is data
    assert as_one_set(model, data, ["y"]) is data


def test_outcomes_that_are_named_are_united_alone():
    model, _ = written(hurdle)
    with model:
        pm.Normal("more", model["tau"][0], 1.0, observed=np.zeros(2 * N))
    found = read_groups(model, ["some", "amount"])
    assert found.data.terms.sets[0].names == ["some and amount"]
    assert found.data.likelihood.n_rows == N + SEEN.sum()


def test_new_groups_are_found_by_their_container():
    """In united rows the numbers are no longer those of a container, and no group would be new."""
    with pm.Model() as model:
        u = effects()
        pm.Normal("many", u[pm.Data("g", GROUP)], 1.0, observed=X)
        pm.Normal("few", u[GROUP[:20]], 2.0, observed=X[:20])
    assert read_groups(model).data.likelihood.n_rows == N + 20
    new = SimpleNamespace(of_rows={"g": np.array([0, G + 1])}, n=2)
    assert [(of.n_known, of.n_new) for of in new_groups(model, new, None)] == [(G, 2)]


@pytest.mark.slow
def test_other_numbers_of_groups_ask_for_another_step(caplog):
    model, _ = written(two_sources_in_containers)
    caplog.set_level(logging.INFO, "pymc_austerity")
    step = pma.GroupMH(model=model, rng=1, progressbar=False)
    assert "read group by group" in caplog.text
    with model:
        pm.set_data({"g_first": np.zeros(len(model["g_first"].get_value()), int)})
    with pytest.raises(ValueError, match="'g_first' was replaced by pm.set_data"):
        step.start_chain(np.random.default_rng(1))


@pytest.mark.slow
def test_effects_on_censored_times_have_the_law_of_quadrature():
    """Without the censored times it is another law, which is the planted mistake."""
    with pm.Model() as model:
        mean, log_scale = pm.Normal("mean", 0, 1), pm.Normal("log_scale", -0.3, 0.7)
        u = mean + pm.math.exp(log_scale) * pm.Normal("z", 0, 1, shape=G)
        pm.Exponential("ended", pm.math.exp(u[GROUP[SEEN]]), observed=UNTIL[SEEN])
        pm.Potential("censored", -pm.math.exp(u[GROUP[~SEEN]]) * UNTIL[~SEEN])
    step = pma.PenaltyMH(model=model, rng=1, progressbar=False)
    posterior = sampled(model, step, 4_000, tune=600).posterior
    shared = [posterior[name].to_numpy() for name in ("mean", "log_scale")]
    of_groups = shared[0][..., None] + np.exp(shared[1])[..., None] * posterior["z"].to_numpy()
    draws = [*shared, *np.moveaxis(of_groups, -1, 0)]
    rows = SEEN[:, None] * EFFECT - UNTIL[:, None] * np.exp(EFFECT)
    assert largest_z(draws, moments(by_group(rows, GROUP, G))) < MAX_Z
    assert largest_z(draws, moments(by_group(rows[SEEN], GROUP[SEEN], G))) > 2 * MAX_Z
