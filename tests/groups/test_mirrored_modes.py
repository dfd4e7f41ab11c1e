"""Products of the effects of two factors are refused where their signs or columns may be exchanged, and only there."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_austerity as pma
from pymc_austerity.groups import GroupModeError, SeveralModesError, group_preparation, read_groups

N, PERSONS, ITEMS = 600, 40, 25
RNG = np.random.default_rng(6)
PERSON, ITEM = RNG.integers(0, PERSONS, N), RNG.integers(0, ITEMS, N)
Y, X = RNG.normal(size=N), RNG.normal(size=N)


def rows(mean):
    pm.Normal("y", pm.Normal("mean") + mean, pm.HalfNormal("noise"), observed=Y)


def factorisation(make=pm.Normal, columns=2):
    u = make("u", 0, pm.HalfNormal("scale"), shape=(PERSONS, columns))
    v = make("v", 0, 0.5, shape=(ITEMS, columns))
    rows((u[PERSON] * v[ITEM]).sum(-1))


def not_centred():
    u, v = pm.Normal("u", 0, 1, shape=PERSONS), pm.Normal("v", 0, 1, shape=ITEMS)
    rows(pm.HalfNormal("scale") * u[PERSON] * pm.HalfNormal("scale_v") * v[ITEM])


def with_levels_of_their_own():
    u, v = pm.Normal("u", 0, pm.HalfNormal("scale"), shape=(PERSONS, 2)), pm.Normal("v", 0, 1, shape=(ITEMS, 2))
    rows(u[PERSON, 0] + v[ITEM, 0] + u[PERSON, 1] * v[ITEM, 1])


def about_a_mean():
    u = pm.Normal("u", pm.Normal("mean_u"), pm.HalfNormal("scale"), shape=PERSONS)
    rows(u[PERSON] * pm.Normal("v", 0, 1, shape=ITEMS)[ITEM])


def two_parameters(discrimination):
    a, b = discrimination(), pm.Normal("difficulty", 0, pm.HalfNormal("scale"), shape=ITEMS)
    ability = pm.Normal("ability", 0, 1, shape=PERSONS)
    pm.Bernoulli("y", logit_p=a[ITEM] * (ability[PERSON] - b[ITEM]), observed=(Y > 0).astype(int))


def one_column_positive():
    positive, free = pm.HalfNormal("positive", 1, shape=ITEMS), pm.Normal("free", 0, 1, shape=ITEMS)
    u = pm.Normal("u", 0, pm.HalfNormal("scale"), shape=(PERSONS, 2))
    rows((u[PERSON] * pt.stack([positive, free], axis=1)[ITEM]).sum(-1))


MIRRORED = {
    "signs of a column": factorisation,
    "signs of one of many columns": lambda: factorisation(columns=6),
    "columns, all positive": lambda: factorisation(pm.LogNormal),
    "signs of the other column": one_column_positive,
    "not centred": not_centred,
    "levels of their own": with_levels_of_their_own,
    "signs of a mean too": about_a_mean,
    "discriminations of either sign": lambda: two_parameters(lambda: pm.Normal("a", 0, 1, shape=ITEMS)),
}


@pytest.mark.parametrize("model", MIRRORED)
def test_effects_with_several_modes_are_refused(model):
    """Every such model is the same with signs or columns exchanged, and the error names both factors."""
    with pm.Model() as written:
        MIRRORED[model]()
    with pytest.raises(SeveralModesError, match="product of .* and .*several modes"):
        read_groups(written)


def one_positive():
    u = pm.LogNormal("u", 0, pm.HalfNormal("scale"), shape=PERSONS)
    rows(u[PERSON] * pm.Normal("v", 0, 1, shape=ITEMS)[ITEM])


def a_sum_times_data():
    u, v = pm.Normal("u", 0, pm.HalfNormal("scale"), shape=PERSONS), pm.Normal("v", 0, 1, shape=ITEMS)
    rows((u[PERSON] + v[ITEM]) * X)


def away_from_zero():
    u = pm.Normal("u", 1, 0.2, shape=PERSONS)
    rows(u[PERSON] * pm.Normal("v", 0, pm.HalfNormal("scale"), shape=ITEMS)[ITEM])


IDENTIFIED = {
    "one of them positive": one_positive,
    "a sum": a_sum_times_data,
    "a prior away from zero": away_from_zero,
    "discriminations by LogNormal": lambda: two_parameters(lambda: pm.LogNormal("a", 0, 0.5, shape=ITEMS)),
    "discriminations by HalfNormal": lambda: two_parameters(lambda: pm.HalfNormal("a", 1, shape=ITEMS)),
}


@pytest.mark.parametrize("model", IDENTIFIED)
def test_effects_with_one_mode_are_groups(model):
    with pm.Model() as written:
        IDENTIFIED[model]()
    assert len(read_groups(written).groups.own) >= PERSONS


@pytest.mark.parametrize("step", [pma.PenaltyMH, pma.GroupMH, pma.ExactMH])
def test_steps_refuse_several_modes_before_they_sample(step):
    with pm.Model():
        factorisation()
        with pytest.raises(SeveralModesError, match="several modes"):
            step()


def test_products_that_cannot_be_expanded_are_refused(monkeypatch):
    """No step makes one decision over all parameters where the mode of a product of effects is not found."""

    def not_found(search):
        raise GroupModeError("The search did not end.")

    monkeypatch.setattr(group_preparation, "find_means", not_found)
    with pm.Model():
        one_positive()
        with pytest.raises(pma.UnsupportedModelError, match=r"cannot be expanded group by group.*pm\.NUTS"):
            pma.PenaltyMH()


def test_sums_of_effects_are_not_taken_for_products():
    """Where rows read no product, a step may make one decision."""
    read = {}
    for write in (one_positive, a_sum_times_data):
        with pm.Model() as model:
            write()
        read[write] = read_groups(model).groups.multiplied
    assert read == {one_positive: True, a_sum_times_data: False}
