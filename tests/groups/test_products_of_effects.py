"""Products of the effects of two factors are refused before sampling, and nothing else is."""

from functools import partial

import numpy as np
import pymc as pm
import pytest

import pymc_austerity as pma
from pymc_austerity.groups import ProductOfEffectsError, read_groups

N, PERSONS, ITEMS = 600, 40, 35
RNG = np.random.default_rng(6)
PERSON, ITEM = RNG.integers(0, PERSONS, N), RNG.integers(0, ITEMS, N)
Y, X = RNG.normal(size=N), RNG.normal(size=N)


def rows(mean):
    pm.Normal("y", pm.Normal("mean") + mean, pm.HalfNormal("noise"), observed=Y)


def factorisation():
    u = pm.Normal("u", 0, pm.HalfNormal("scale"), shape=(PERSONS, 2))
    rows((u[PERSON] * pm.Normal("v", 0, 0.5, shape=(ITEMS, 2))[ITEM]).sum(-1))


def not_centred():
    u, v = pm.Normal("u", 0, 1, shape=PERSONS), pm.Normal("v", 0, 1, shape=ITEMS)
    rows(pm.HalfNormal("scale") * u[PERSON] * pm.HalfNormal("scale_v") * v[ITEM])


def two_parameters():
    a, b = pm.LogNormal("a", 0, 0.5, shape=ITEMS), pm.Normal("difficulty", 0, pm.HalfNormal("scale"), shape=ITEMS)
    ability = pm.Normal("ability", 0, 1, shape=PERSONS)
    pm.Bernoulli("y", logit_p=a[ITEM] * (ability[PERSON] - b[ITEM]), observed=(Y > 0).astype(int))


@pytest.mark.parametrize("write", [factorisation, not_centred, two_parameters])
def test_products_are_refused_by_name(write):
    with pm.Model() as written:
        write()
    with pytest.raises(ProductOfEffectsError, match=r"product of .* and .*several modes.*pm\.NUTS"):
        read_groups(written)


def test_steps_refuse_products_before_they_sample():
    with pm.Model():
        factorisation()
        with pytest.raises(ProductOfEffectsError, match="several modes"):
            pma.PenaltyMH()


def a_sum_times_data():
    u, v = pm.Normal("u", 0, pm.HalfNormal("scale"), shape=PERSONS), pm.Normal("v", 0, 1, shape=ITEMS)
    rows((u[PERSON] + v[ITEM]) * X)


def scale_of_another_factor():
    u, v = pm.Normal("u", 0, pm.HalfNormal("scale"), shape=PERSONS), pm.Normal("v", 0, 0.5, shape=ITEMS)
    pm.Normal("y", u[PERSON], pm.math.exp(v[ITEM]), observed=Y)


@pytest.mark.parametrize("write", [a_sum_times_data, scale_of_another_factor])
def test_sums_and_scales_of_effects_are_groups(write):
    with pm.Model() as model:
        write()
    assert len(read_groups(model).groups.own) == PERSONS + ITEMS


KIND = RNG.integers(0, 3, PERSONS)


def kind_of_row(tau, z, kind=KIND[PERSON]):
    return tau[kind] * z[PERSON]


def kind_of_group(tau, z):
    return (tau[KIND] * z)[PERSON]


def kind_looked_up(tau, z):
    person = pm.Data("person", PERSON)
    return tau[pm.Data("kind", KIND)[person]] * z[person]


def _with_kinds(predictor):
    with pm.Model() as model:
        rows(predictor(pm.HalfNormal("tau", 1, shape=3), pm.Normal("z", 0, 1, shape=PERSONS)))
    return model


@pytest.mark.parametrize("predictor", [kind_of_row, kind_of_group, kind_looked_up])
def test_a_scale_for_each_kind_of_group_is_one_of_effects(predictor):
    found = read_groups(_with_kinds(predictor)).groups
    assert len(found.own) == PERSONS
    assert found.shared.size == 3 + 2


def test_a_scale_by_no_function_of_the_group_is_a_product():
    model = _with_kinds(partial(kind_of_row, kind=RNG.integers(0, 3, N)))
    with pytest.raises(ProductOfEffectsError, match="product of tau_log__ and z"):
        read_groups(model)
