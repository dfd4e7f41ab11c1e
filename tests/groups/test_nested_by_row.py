"""Effects of nested groups that the model adds up by finer group are factors of their own."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_austerity.groups import GroupsNotFoundError, nested_by_row, read_groups

DISTRICTS, SCHOOLS, CLASSES, N = 3, 7, 20, 300
RNG = np.random.default_rng(15)
DISTRICT = np.r_[np.arange(DISTRICTS), RNG.integers(0, DISTRICTS, SCHOOLS - DISTRICTS)]
SCHOOL = np.r_[np.arange(SCHOOLS), RNG.integers(0, SCHOOLS, CLASSES - SCHOOLS)]
CLASS = np.r_[np.arange(CLASSES), RNG.integers(0, CLASSES, N - CLASSES)]
X, OF_CLASS, Y = RNG.normal(size=N), RNG.normal(size=CLASSES), RNG.normal(size=N)


def effects(name, n, size=()):
    return pm.HalfNormal(f"sd_{name}") * pm.Normal(name, shape=(n, *size))


def by_class():
    of_school = pm.Deterministic("of_school", pm.Normal("mean") + effects("school", SCHOOLS))
    return pm.Deterministic("of_class", of_school[SCHOOL] + effects("class", CLASSES))[CLASS]


def with_predictor():
    return (effects("class", CLASSES) + pm.Normal("b") * OF_CLASS + effects("school", SCHOOLS)[SCHOOL])[CLASS]


def of_centred_schools():
    school = pm.Normal("school", 0, pm.HalfNormal("sd"), shape=SCHOOLS)
    return (school[SCHOOL] + effects("class", CLASSES))[CLASS]


def slopes():
    u = effects("school", SCHOOLS, (2,))[SCHOOL] + effects("class", CLASSES, (2,))
    return u[CLASS][:, 0] + u[CLASS][:, 1] * X


def scaled_by_class():
    school, sd = pm.Normal("school", shape=SCHOOLS), pm.HalfNormal("sd")
    return (sd * school[SCHOOL] + effects("class", CLASSES))[CLASS]


def numbers_in_data():
    return (effects("school", SCHOOLS)[SCHOOL] + effects("class", CLASSES))[pm.Data("class_", CLASS)]


def slopes_one_by_one():
    u = effects("school", SCHOOLS, (2,))[SCHOOL] + effects("class", CLASSES, (2,))
    return u[CLASS, 0] + u[CLASS, 1] * X


def three_levels():
    of_school = effects("district", DISTRICTS)[DISTRICT] + effects("school", SCHOOLS)
    return (of_school[SCHOOL] + effects("class", CLASSES))[CLASS]


def model_of(predictor):
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("intercept") + predictor(), 1, observed=Y)
    return model


NESTED = [by_class, with_predictor, of_centred_schools, slopes, slopes_one_by_one, scaled_by_class, numbers_in_data]


@pytest.mark.parametrize("predictor", NESTED, ids=lambda f: f.__name__)
def test_classes_and_schools_are_factors(predictor):
    read = read_groups(model_of(predictor))
    assert read.groups.first.tolist() == [0, CLASSES, CLASSES + SCHOOLS]
    of_rows = read.groups.of_rows(read.data.rows.arrays)
    assert np.array_equal(of_rows, [CLASS, CLASSES + SCHOOL[CLASS]])


def test_each_of_three_levels_is_a_factor():
    groups = read_groups(model_of(three_levels)).groups
    assert groups.first.tolist() == [0, CLASSES, CLASSES + SCHOOLS, CLASSES + SCHOOLS + DISTRICTS]


def test_model_without_nested_effects_stays():
    with pm.Model() as model:
        u = effects("class", CLASSES) + pt.as_tensor(RNG.normal(size=SCHOOLS))[SCHOOL]  # of data alone
        pm.Normal("y", u[CLASS], 1, observed=Y)
    assert nested_by_row.with_nested_by_row(model) is model


def test_one_effect_for_all_classes_stays():
    """One entry of a variable is added to the effects of all classes."""
    model = model_of(lambda: (effects("school", SCHOOLS)[np.array([2])] + effects("class", CLASSES))[CLASS])
    assert nested_by_row.with_nested_by_row(model) is model


def test_schools_of_other_classes_are_refused(monkeypatch):
    """A planted mistake: rows read the school of another class, and the density is not that of the model."""
    right = nested_by_row._by_row

    def wrong(taken):
        return right(taken._replace(numbers=pt.constant(taken.numbers.data[::-1].copy())))

    monkeypatch.setattr(nested_by_row, "_by_row", wrong)
    with pytest.raises(GroupsNotFoundError, match="fails its check"):
        read_groups(model_of(by_class))
