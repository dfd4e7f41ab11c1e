"""Effects of nested groups are factors of their own: added up by finer group, or the prior mean of finer ones."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from cases import cases
from evidence import MAX_Z, mean_z
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.groups import GroupsNotFoundError, nested_groups, read_groups

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


def slopes(read):
    return lambda: read(effects("school", SCHOOLS, (2,))[SCHOOL] + effects("class", CLASSES, (2,)))


def scaled_by_class():
    school, sd = pm.Normal("school", shape=SCHOOLS), pm.HalfNormal("sd")
    return (sd * school[SCHOOL] + effects("class", CLASSES))[CLASS]


def scaled_together():
    return (pm.HalfNormal("sd") * (effects("school", SCHOOLS)[SCHOOL] + pm.Normal("class", shape=CLASSES)))[CLASS]


def three_levels():
    of_school = effects("region", REGIONS)[REGION] + effects("school", SCHOOLS)
    return (of_school[SCHOOL] + effects("class", CLASSES))[CLASS]


def schools(size=()):
    return pm.Normal("school", pm.Normal("mean", shape=size), pm.HalfNormal("sd_s", 1), shape=(SCHOOLS, *size))


def classes(mean, law=pm.Normal, **given):
    return law("class", mu=mean, sigma=pm.HalfNormal("sd_c", 1), shape=CLASSES, **given)


def of_rows():
    return pm.Data("class_", CLASS)


def of_classes():
    return pm.Data("school_", SCHOOL)


def mean_and_predictor():
    return classes(pm.Normal("a") + schools()[SCHOOL] + pm.Normal("b") * OF_CLASS)[CLASS]


def mean_with_numbers_in_data():
    return classes(schools()[SCHOOL])[of_rows()]


def looked_up_in_data():
    of_row = of_rows()
    return effects("class", CLASSES)[of_row] + effects("school", SCHOOLS)[of_classes()[of_row]]


def slopes_about_effects():
    of_class = classes(schools()[SCHOOL])
    return of_class[CLASS] + pm.Normal("slope", 0.3 * of_class, 1, shape=CLASSES)[CLASS] * X


def slopes_that_correlate():
    chol, *_ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.HalfNormal.dist(1))
    u = pm.MvNormal("class", schools((2,))[SCHOOL], chol=chol, shape=(CLASSES, 2))
    return u[CLASS, 0] + u[CLASS, 1] * X


def means_of_three_levels():
    region = pm.Normal("region", 0, pm.HalfNormal("sd_r", 1), shape=REGIONS)
    return classes(pm.Normal("school", region[REGION], pm.HalfNormal("sd_s", 1), shape=SCHOOLS)[SCHOOL])[CLASS]


def model_of(predictor):
    with pm.Model() as model:
        pm.Normal("y", predictor(), 1, observed=Y)
    return model


IN_DATA = {
    "all numbers in data": lambda: (effects("school", SCHOOLS)[of_classes()] + effects("class", CLASSES))[of_rows()],
    "mean with all numbers in data": lambda: classes(schools()[of_classes()])[of_rows()],
    "looked up in data": looked_up_in_data,
}
NESTED = {
    "by class": by_class,
    "with predictor": lambda: (
        effects("class", CLASSES) + pm.Normal("b") * OF_CLASS + effects("school", SCHOOLS)[SCHOOL]
    )[CLASS],
    "slopes of both": slopes(lambda u: u[CLASS][:, 0] + u[CLASS][:, 1] * X),
    "slopes one by one": slopes(lambda u: u[CLASS, 0] + u[CLASS, 1] * X),
    "scaled by class": scaled_by_class,
    "scaled together": scaled_together,
    "mean and predictor": mean_and_predictor,
    "Student": lambda: classes(schools()[SCHOOL], pm.StudentT, nu=5)[CLASS],
    "mean with numbers in data": mean_with_numbers_in_data,
    "slopes that correlate": slopes_that_correlate,
    "slopes about effects": slopes_about_effects,
    **IN_DATA,
}


@pytest.mark.parametrize("name", cases(NESTED, ["by class", "slopes one by one", "Student", "slopes about effects"]))
def test_classes_and_schools_are_factors(name):
    read = read_groups(model_of(NESTED[name]))
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


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_DATA)
def test_other_schools_of_classes_are_refused(name):
    """What the step has learnt is of the schools as they were."""
    with model_of(IN_DATA[name]):
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
    assert nested_groups.numbers_of_coarser(model) == frozenset()


def with_slopes_of_classes():
    """What else depends on the effect of a class ties it to its school."""
    of_class = classes(schools()[SCHOOL])
    return of_class[CLASS] + pm.Normal("slope", pt.tanh(of_class), 1, shape=CLASSES)[CLASS] * X


def with_a_potential():
    of_class = classes(schools()[SCHOOL])
    pm.Potential("sum", -0.1 * (of_class**2).sum())
    return of_class[CLASS]


@pytest.mark.slow
@pytest.mark.parametrize("predictor", [with_slopes_of_classes, with_a_potential], ids=lambda f: f.__name__)
def test_effects_that_more_depends_on_stay_as_they_are(predictor):
    read = read_groups(model_of(predictor))
    assert read.groups.first.tolist() == [0, CLASSES]
    assert "class" not in read.data.coordinates.replaced


#: A mean for each kind of class, with a prior of its own, is a coefficient; and a product is no sum.
OTHERS = {
    "of kinds": lambda: classes(pm.Normal("kind", 0, 1, shape=2)[np.arange(CLASSES) % 2]),
    "multiplied": lambda: classes(pt.exp(schools())[SCHOOL] * OF_CLASS),
    "positive": lambda: classes(schools()[SCHOOL], pm.LogNormal),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_effects_stay_as_they_are(name):
    assert nested_groups.with_deviations(model_of(lambda: OTHERS[name]()[CLASS])) is None


def exact_means(sd_s, sd_c, noise):
    """Posterior means of all schools and classes by least squares, the scales being known."""
    of_school, of_class = np.eye(SCHOOLS), np.eye(CLASSES)
    of_rows = np.hstack([np.zeros((N, SCHOOLS)), of_class[CLASS]]) / noise
    of_deviations = np.hstack([-of_school[SCHOOL], of_class]) / sd_c
    design = np.vstack([of_rows, of_deviations, np.eye(SCHOOLS, SCHOOLS + CLASSES) / sd_s])
    return np.linalg.lstsq(design, np.r_[Y / noise, np.zeros(CLASSES + SCHOOLS)])[0]


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
