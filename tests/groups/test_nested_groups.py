"""Effects of nested groups are factors of their own: added up by finer group, or the prior mean of finer ones."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from evidence import MAX_Z, mean_z
from grouped import sampled

import pymc_austerity as pma
from pymc_austerity.groups import GroupsNotFoundError, known_numbers, nested_groups, read_groups

REGIONS, SCHOOLS, CLASSES, N = 3, 8, 40, 600
RNG = np.random.default_rng(16)
REGION = np.arange(SCHOOLS) % REGIONS
SCHOOL = np.r_[np.arange(SCHOOLS), RNG.integers(0, SCHOOLS, CLASSES - SCHOOLS)]
CLASS = np.r_[np.arange(CLASSES), RNG.integers(0, CLASSES, N - CLASSES)]
X, OF_CLASS = RNG.normal(size=N), RNG.normal(size=CLASSES)
Y = RNG.normal(0, 0.8, SCHOOLS)[SCHOOL][CLASS] + RNG.normal(0, 0.5, CLASSES)[CLASS] + RNG.normal(size=N)


def effects(name, n, size=()):
    return pm.HalfNormal(f"sd_{name}") * pm.Normal(name, shape=(n, *size))


def by_class():
    of_school = pm.Deterministic("of_school", pm.Normal("mean") + effects("school", SCHOOLS))
    return pm.Deterministic("of_class", of_school[SCHOOL] + effects("class", CLASSES))[CLASS]


def with_predictor():
    return (effects("class", CLASSES) + pm.Normal("b") * OF_CLASS + effects("school", SCHOOLS)[SCHOOL])[CLASS]


def slopes_of_both():
    u = effects("school", SCHOOLS, (2,))[SCHOOL] + effects("class", CLASSES, (2,))
    return u[CLASS][:, 0] + u[CLASS][:, 1] * X


def slopes_one_by_one():
    u = effects("school", SCHOOLS, (2,))[SCHOOL] + effects("class", CLASSES, (2,))
    return u[CLASS, 0] + u[CLASS, 1] * X


def scaled_by_class():
    school, sd = pm.Normal("school", shape=SCHOOLS), pm.HalfNormal("sd")
    return (sd * school[SCHOOL] + effects("class", CLASSES))[CLASS]


def scaled_together():
    return (pm.HalfNormal("sd") * (effects("school", SCHOOLS)[SCHOOL] + pm.Normal("class", shape=CLASSES)))[CLASS]


def numbers_in_data():
    return (effects("school", SCHOOLS)[SCHOOL] + effects("class", CLASSES))[pm.Data("class_", CLASS)]


def three_levels():
    of_school = effects("region", REGIONS)[REGION] + effects("school", SCHOOLS)
    return (of_school[SCHOOL] + effects("class", CLASSES))[CLASS]


def schools(size=()):
    return pm.Normal("school", pm.Normal("mean", shape=size), pm.HalfNormal("sd_s", 1), shape=(SCHOOLS, *size))


def sd(size=()):
    return pm.HalfNormal("sd_c", 1, shape=size)


def mean_and_predictor():
    mean = pm.Normal("a") + schools()[SCHOOL] + pm.Normal("b") * OF_CLASS
    return pm.Normal("class", mean, sd(), shape=CLASSES)[CLASS]


def student():
    return pm.StudentT("class", nu=5, mu=schools()[SCHOOL], sigma=sd(), shape=CLASSES)[CLASS]


def mean_with_numbers_in_data():
    return pm.Normal("class", schools()[SCHOOL], sd(), shape=CLASSES)[pm.Data("class_", CLASS)]


def all_numbers_in_data():
    of_school = effects("school", SCHOOLS)[pm.Data("school_", SCHOOL)]
    return (of_school + effects("class", CLASSES))[pm.Data("class_", CLASS)]


def mean_with_all_numbers_in_data():
    of_class = pm.Normal("class", schools()[pm.Data("school_", SCHOOL)], sd(), shape=CLASSES)
    return of_class[pm.Data("class_", CLASS)]


def looked_up_in_data():
    of_row = pm.Data("class_", CLASS)
    return effects("class", CLASSES)[of_row] + effects("school", SCHOOLS)[pm.Data("school_", SCHOOL)[of_row]]


def slopes_about_effects():
    of_class = pm.Normal("class", schools()[SCHOOL], sd(), shape=CLASSES)
    return of_class[CLASS] + pm.Normal("slope", 0.3 * of_class, 1, shape=CLASSES)[CLASS] * X


def slopes_that_correlate():
    chol, *_ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.HalfNormal.dist(1))
    u = pm.MvNormal("class", schools((2,))[SCHOOL], chol=chol, shape=(CLASSES, 2))
    return u[CLASS, 0] + u[CLASS, 1] * X


def means_of_three_levels():
    region = pm.Normal("region", 0, pm.HalfNormal("sd_r", 1), shape=REGIONS)
    school = pm.Normal("school", region[REGION], pm.HalfNormal("sd_s", 1), shape=SCHOOLS)
    return pm.Normal("class", school[SCHOOL], sd(), shape=CLASSES)[CLASS]


def model_of(predictor):
    with pm.Model() as model:
        pm.Normal("y", predictor(), 1, observed=Y)
    return model


NESTED = [
    by_class, with_predictor, slopes_of_both, slopes_one_by_one, scaled_by_class, scaled_together, numbers_in_data,
    mean_and_predictor,
    student, mean_with_numbers_in_data, slopes_that_correlate, all_numbers_in_data, mean_with_all_numbers_in_data,
    looked_up_in_data, slopes_about_effects,
]  # fmt: skip


@pytest.mark.parametrize("predictor", NESTED, ids=lambda f: f.__name__)
def test_classes_and_schools_are_factors(predictor):
    read = read_groups(model_of(predictor))
    assert read.groups.first.tolist() == [0, CLASSES, CLASSES + SCHOOLS]
    assert np.array_equal(read.groups.of_rows(read.data.rows.arrays), [CLASS, CLASSES + SCHOOL[CLASS]])


@pytest.mark.parametrize("predictor", [three_levels, means_of_three_levels], ids=lambda f: f.__name__)
def test_each_of_three_levels_is_a_factor(predictor):
    groups = read_groups(model_of(predictor)).groups
    assert groups.first.tolist() == [0, CLASSES, CLASSES + SCHOOLS, CLASSES + SCHOOLS + REGIONS]


def of_data_alone():
    return (effects("class", CLASSES) + pt.as_tensor(OF_CLASS[:SCHOOLS])[SCHOOL])[CLASS]


def one_for_all_classes():
    """One entry of a variable is added to the effects of all classes."""
    return (effects("school", SCHOOLS)[np.array([2])] + effects("class", CLASSES))[CLASS]


@pytest.mark.parametrize("predictor", [of_data_alone, one_for_all_classes], ids=lambda f: f.__name__)
def test_sums_without_nested_effects_stay(predictor):
    model = model_of(predictor)
    assert nested_groups.with_nested_by_row(model) is model


def test_schools_of_other_classes_are_refused(monkeypatch):
    """A planted mistake: rows read the school of another class, and the density is not that of the model."""
    right = nested_groups._by_row

    def wrong(taken):
        return right(taken._replace(numbers=pt.constant(taken.numbers.data[::-1].copy())))

    monkeypatch.setattr(nested_groups, "_by_row", wrong)
    with pytest.raises(GroupsNotFoundError, match="fails its check"):
        read_groups(model_of(by_class))


@pytest.mark.slow
def test_a_class_without_a_school_is_refused():
    with model_of(mean_with_numbers_in_data):
        step = pma.GroupMH(test=pma.Exact(), progressbar=False)
        pm.set_data({"class_": np.where(np.arange(N) == 5, CLASSES, CLASS)})
        with pytest.raises(ValueError, match=f"class has {CLASSES} entries along axis 0, .* class_ with numbers"):
            step.start_chain(np.random.default_rng(1))


@pytest.mark.parametrize(
    "predictor", [all_numbers_in_data, mean_with_all_numbers_in_data, looked_up_in_data], ids=lambda f: f.__name__
)
def test_other_schools_of_classes_are_refused(predictor):
    """What the step has learnt is of the schools as they were."""
    with model_of(predictor):
        step = pma.GroupMH(test=pma.Exact(), progressbar=False)
        pm.set_data({"class_": CLASS[::-1]})
        step.start_chain(np.random.default_rng(1))
        assert step.decider.n_rows == N
        pm.set_data({"school_": SCHOOL[::-1]})
        with pytest.raises(ValueError, match="'school_' was replaced .* Build the step again"):
            step.start_chain(np.random.default_rng(1))


def test_numbers_of_rows_may_be_replaced():
    """Rows choose among what is computed for all of them: numbers with an entry for each row are none of schools."""
    with pm.Model() as model:
        utility = effects("class", CLASSES, (3,))[pm.Data("class_", CLASS)]
        pm.Potential("y", pt.special.log_softmax(utility, axis=1)[np.arange(N), pm.Data("chosen", CLASS % 3)])
        pm.Normal("z", 0, 1, observed=np.zeros(N))
    assert known_numbers.numbers_of_coarser(model) == frozenset()


def with_slopes_of_classes():
    """What else depends on the effect of a class ties it to its school."""
    of_class = pm.Normal("class", schools()[SCHOOL], sd(), shape=CLASSES)
    return of_class[CLASS] + pm.Normal("slope", pt.tanh(of_class), 1, shape=CLASSES)[CLASS] * X


def with_a_potential():
    of_class = pm.Normal("class", schools()[SCHOOL], sd(), shape=CLASSES)
    pm.Potential("sum", -0.1 * (of_class**2).sum())
    return of_class[CLASS]


@pytest.mark.parametrize("predictor", [with_slopes_of_classes, with_a_potential], ids=lambda f: f.__name__)
def test_effects_that_more_depends_on_stay_as_they_are(predictor):
    read = read_groups(model_of(predictor))
    assert read.groups.first.tolist() == [0, CLASSES]
    assert "class" not in read.data.coordinates.replaced


def of_kinds():
    """A mean for each kind of class, with a prior of its own, is a coefficient."""
    return pm.Normal("class", pm.Normal("kind", 0, 1, shape=2)[np.arange(CLASSES) % 2], sd(), shape=CLASSES)[CLASS]


def multiplied():
    """The mean of a class is no sum."""
    return pm.Normal("class", pt.exp(schools())[SCHOOL] * OF_CLASS, sd(), shape=CLASSES)[CLASS]


def positive():
    return pm.LogNormal("class", schools()[SCHOOL], sd(), shape=CLASSES)[CLASS]


@pytest.mark.parametrize("predictor", [of_kinds, multiplied, positive], ids=lambda f: f.__name__)
def test_other_effects_stay_as_they_are(predictor):
    assert nested_groups.with_deviations(model_of(predictor)) is None


def test_deviations_from_another_mean_are_refused(monkeypatch):
    """A planted mistake: deviations are from twice the effect of the school."""
    right = nested_groups._split_mean

    def wrong(model, rv):
        found = right(model, rv)
        return found and (found[0], 2 * found[1])

    monkeypatch.setattr(nested_groups, "_split_mean", wrong)
    with pytest.raises(GroupsNotFoundError, match="fails its check"):
        read_groups(model_of(mean_and_predictor))


def exact_means(sd_s, sd_c, noise):
    """Posterior means of all schools and classes by least squares, the scales being known."""
    of_school, of_class = np.eye(SCHOOLS), np.eye(CLASSES)
    design = np.vstack(
        [
            np.hstack([np.zeros((N, SCHOOLS)), of_class[CLASS]]) / noise,
            np.hstack([-of_school[SCHOOL], of_class]) / sd_c,
            np.hstack([of_school, np.zeros((SCHOOLS, CLASSES))]) / sd_s,
        ]
    )
    outcome = np.r_[Y / noise, np.zeros(CLASSES + SCHOOLS)]
    return np.linalg.lstsq(design, outcome)[0]


def nearly_known():
    """Scales are moved, by little."""
    school = pm.Normal("school", 0, 0.8, shape=SCHOOLS) * pt.exp(1e-3 * pm.Normal("other"))
    return pm.Normal("class", school[SCHOOL], 0.5 * pt.exp(1e-3 * pm.Normal("log_sd")), shape=CLASSES)[CLASS]


@pytest.mark.slow
def test_draws_are_of_the_users_effects():
    model = model_of(nearly_known)
    step = pma.PenaltyMH(model=model, progressbar=False)
    assert step.moves_groups
    idata = sampled(model, step, 2_000, tune=300)
    draws = np.concatenate([idata.posterior[name].to_numpy() for name in ("school", "class")], axis=-1)
    expected = exact_means(0.8, 0.5, 1.0)
    z = [mean_z(draws[..., k], expected[k]) for k in range(SCHOOLS + CLASSES)]
    assert np.abs(z).max() < MAX_Z
    # Planted: deviations in the place of the effects of classes.
    planted = expected - np.r_[np.zeros(SCHOOLS), expected[:SCHOOLS][SCHOOL]]
    assert np.abs([mean_z(draws[..., k], planted[k]) for k in range(SCHOOLS, SCHOOLS + CLASSES)]).max() > MAX_Z
