"""Digests of what a model holds: changed in place, replaced, or of another model."""

import numpy as np
import pymc as pm
import pytensor.sparse
import pytensor.tensor as pt
import pytest
from scipy import sparse

from pymc_austerity.groups.dummies_as_numbers import with_numbers_of_groups
from pymc_austerity.likelihood.model_arrays import arrays_of_model
from pymc_austerity.likelihood.model_graph import array_of, value_of_constants

N = 40
Y = np.random.default_rng(1).normal(size=N)


def model_of(x, scale=10.0, law=pm.Normal, name="b", potential=False):
    with pm.Model() as model:
        b = law(name, 0, scale)
        pm.Normal("o", b * x, 1, observed=Y)
        if potential:
            pm.Potential("extra", -(b**2))
    return model


def ways_to_write(kind):
    """Return a model, and the array behind it in whose memory an entry can be changed."""
    x = np.random.default_rng(2).normal(size=(N, 3))
    if kind == "sparse":
        table = sparse.csr_matrix(np.where(x > 0, x, 0.0))
        with pm.Model() as model:
            constant = pytensor.sparse.as_sparse_variable(table)
            pm.Normal("o", pytensor.sparse.dot(constant, pm.Normal("b", shape=(3, 1))).flatten(), 1, observed=Y)
        return model, constant.data.data
    if kind == "prior":
        with pm.Model() as model:
            pm.Normal("o", (pm.Normal("b", x[0], 1) * np.ones((N, 3))).sum(axis=1), 1, observed=Y)
        return model, x
    if kind == "container":
        with pm.Model() as model:
            data = pm.Data("x", x[:, 1])
            pm.Normal("o", pm.Normal("b") * data, 1, observed=Y)
        return model, data.get_value(borrow=True)
    if kind == "outcome":
        with pm.Model() as model:
            rows = pm.Normal("o", pm.Normal("b"), 1, observed=Y)
        return model, model.rvs_to_values[rows].data
    return model_of(x[::-1, 1]), x


@pytest.mark.parametrize("kind", ["reversed", "sparse", "prior", "container", "outcome"])
def test_an_array_changed_in_place_is_named(kind):
    model, memory = ways_to_write(kind)
    arrays = arrays_of_model(model)
    assert arrays.changed() is None
    memory *= 2
    named = {"container": "'x'", "prior": "'b'"}.get(kind, "'o'")
    with pytest.raises(ValueError, match=f"{named} was changed in place|{named} .*was changed in place"):
        arrays.changed()
    memory /= 2
    assert arrays.changed() is None


def test_replaced_data_are_another_key_of_the_same_model():
    x = np.random.default_rng(2).normal(size=N)
    with pm.Model() as model:
        pm.Normal("o", pm.Normal("b") * pm.Data("x", x), 1, observed=pm.Data("y", Y))
    first = arrays_of_model(model)
    assert not first.was_replaced()
    pm.set_data({"x": x.copy()}, model=model)
    assert first.was_replaced()
    assert first.changed() is None
    pm.set_data({"x": np.append(2 * x, 1.0), "y": np.append(Y, 0.0)}, model=model)
    second = first.changed()
    assert second.key == arrays_of_model(model).key
    assert (second.key.model, second.key.data) == (first.key.model, second.key.data)
    assert second.key.data != first.key.data


def test_keys_differ_exactly_where_models_do():
    x = np.random.default_rng(2).normal(size=N)
    models = [
        model_of(x),
        model_of(x, scale=10.5),
        model_of(x, law=pm.Cauchy),
        model_of(x, name="c"),
        model_of(x, potential=True),
        model_of(x, law=lambda name, *at: pm.TruncatedNormal(name, *at, lower=0)),
        model_of(x**2, law=lambda name, *at: pm.Normal(name, *at) ** 2),
    ]
    keys = [arrays_of_model(m).key for m in models]
    assert len({k.model for k in keys}) == len(models)
    assert len({k.data for k in keys[:6]}) == 1
    assert arrays_of_model(model_of(x.copy())).key == keys[0]


def test_a_matrix_of_numpy_is_an_array():
    """As ``todense()`` returns it, which has two axes in whatever is taken of it."""
    constant = pt.as_tensor(sparse.csr_matrix(np.random.default_rng(2).normal(size=(N, 3))).todense())
    assert type(array_of(constant)) is type(value_of_constants(constant)) is np.ndarray
    assert np.shares_memory(array_of(constant), constant.data)
    with pm.Model() as model:
        pm.Normal("o", constant @ pm.Normal("b", shape=3), 1, observed=Y)
    assert with_numbers_of_groups(model) is model
