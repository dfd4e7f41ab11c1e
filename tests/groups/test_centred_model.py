"""A model as its rows read it: centred or not, on any axis, the same posterior and the same draws."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from cases import cases

from pymc_austerity.groups import (
    GroupsNotFoundError,
    centred_model,
    change_of_variables,
    read_groups,
    scales_on_effects,
)

G, N = 7, 200
RNG = np.random.default_rng(0)
GROUP, X, Y = RNG.integers(0, G, N), RNG.normal(size=N), RNG.normal(size=N)
OTHER, WEIGHT = (GROUP + RNG.integers(1, G, N)) % G, RNG.random(N)
LEA, COVARIATES = RNG.integers(0, 3, G), RNG.normal(size=(G, 2))


def cholesky():
    sd = pm.Exponential.dist(1.0, shape=2)
    return pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=sd, compute_corr=True)[0]


def scaled(eta):
    """Return what makes a predictor of a mean, a scale and effects that are not centred."""
    return lambda: eta(pm.Normal("mu"), pm.HalfNormal("tau"), pm.Normal("z", shape=G))


DETERMINISTIC = scaled(lambda mu, tau, z: pm.Deterministic("u", mu + z * tau)[GROUP])


def lengths_by_coordinates():
    mu, tau = pm.Normal("mu"), pm.HalfNormal("tau")
    pm.modelcontext(None).add_coord("group", range(G))
    return (mu + tau * pm.Normal("z", dims="group"))[GROUP]


def lkj():
    u = pm.Normal("mu", shape=2) + pt.dot(pm.Normal("z", shape=(G, 2)), cholesky().T)
    return u[GROUP, 0] + u[GROUP, 1] * X


def lkj_of_rows():
    """An entry of each row is chosen after the effects are taken by group."""
    u = pm.Normal("mu", shape=2) + pt.dot(pm.Normal("z", shape=(G, 2)), cholesky().T)
    return u[GROUP][np.arange(N), np.arange(N) % 2]


def on_second_axis(read):
    return lambda: read(pm.Normal("b", 0, pm.HalfNormal("s", shape=2)[:, None], shape=(2, G)))


SECOND_AXIS = on_second_axis(lambda b: b[0, GROUP] + b[1, GROUP] * X)


def correlated_by_hand(*order):
    """The slopes read z, whose place the levels take, beside a variable of their own."""

    def predictor():
        rho, scales = pm.Uniform("rho", -1, 1), pm.HalfNormal("scales", shape=2)
        of = {name: pm.Normal(name, shape=G) for name in order}
        slopes = scales[1] * (rho * of["z"] + pt.sqrt(1 - rho**2) * of["own"])
        return (scales[0] * of["z"])[GROUP] + slopes[GROUP] * X

    return predictor


def sum_and_difference():
    """Neither of the effects is of one variable alone."""
    a, b, scales = pm.Normal("a", shape=G), pm.Normal("b", shape=G), pm.HalfNormal("scales", shape=2)
    return (scales[0] * (a + b))[GROUP] + (scales[1] * (a - b))[GROUP] * X


def memberships(mu, tau, z):
    return mu + tau * (WEIGHT * z[GROUP] + (1 - WEIGHT) * z[OTHER])


def by_columns(u):
    return (u[GROUP] * np.column_stack([np.ones(N), X])).sum(axis=1)


def of_categories(all_three):
    """Slopes whose means come after z in the model; one category has a slope of zero."""

    def predictor():
        tau, z, mu = pm.HalfNormal("tau", shape=2), pm.Normal("z", shape=(G, 2)), pm.Normal("mu", shape=2)
        return (all_three(mu + tau * z)[GROUP] * np.column_stack([np.ones(N), X, -X])).sum(axis=1)

    return predictor


def softmax_of_joined(two):
    return pm.Deterministic("p", pm.math.softmax(pt.concatenate([np.zeros((G, 1)), two], axis=1), axis=-1))


def walk_from_a_level():
    """PyMC makes copies of the laws that a walk is made of, and of the random variables in these."""
    start, drift, sd = pm.Normal.dist(0, 1), pm.Normal("drift"), pm.HalfNormal("tau")
    return (pm.Normal("mu") + pm.GaussianRandomWalk("z", drift, sd, init_dist=start, shape=G))[GROUP]


def walk_of_each_group_by_steps():
    walks = pt.cumsum(pm.HalfNormal("tau") * pm.Normal("z", shape=(G, 3)), axis=1)
    return walks[GROUP, np.arange(N) % 3]


def curves_of_groups():
    """Waves of each group at five times, by two numbers a group and a basis."""
    at_times = pm.HalfNormal("tau") * (pm.Normal("z", shape=(G, 2)) @ np.cos(np.outer([1, 2], np.arange(5))))
    return at_times[GROUP, np.arange(N) % 5]


def walk_by_its_law():
    sd = pm.HalfNormal("tau")
    laws = {"innovation_dist": pm.Normal.dist(0, sd), "init_dist": pm.Normal.dist(0, 2 * sd)}
    return (pm.Normal("mu") + 3 * pm.RandomWalk("z", steps=G - 1, **laws))[GROUP]


#: What is replaced, parameters of a group, and the predictor.
SPELLINGS = {
    "walk from a level": (["z"], 1, walk_from_a_level),
    "walk by its law": (["z"], 1, walk_by_its_law),
    "walk of each group": (["z"], 3, walk_of_each_group_by_steps),
    "deterministic": (["z"], 1, DETERMINISTIC),
    "numbered from one": (["z"], 1, scaled(lambda mu, tau, z: (mu + tau * z)[pm.Data("g", GROUP + 1) - 1])),
    "numbers of a column of floats": (
        ["z"], 1, scaled(lambda mu, tau, z: (mu + tau * z)[pm.Data("g", GROUP.astype(float)).astype("int64")])
    ),
    "lengths by coordinates": (["z"], 1, lengths_by_coordinates),
    "lkj": (["z"], 2, lkj),
    "lkj, an entry of each row": (["z"], 2, lkj_of_rows),
    "scales of columns": (["z"], 2, lambda: by_columns(pm.Normal("z", shape=(G, 2)) * pm.HalfNormal("tau", shape=2))),
    "second axis": (["b"], 2, SECOND_AXIS),
    "second axis by parts": (["b"], 2, on_second_axis(lambda b: b[0][GROUP] + b[1][GROUP] * X)),
    "second axis sliced": (
        ["b"], 2, on_second_axis(lambda b: (b[:, GROUP] * np.vstack([np.ones(N), X])).sum(axis=0))
    ),
    "with covariates": (
        ["z"], 1, scaled(lambda mu, tau, z: (mu + pt.dot(COVARIATES, pm.Normal("gamma", shape=2)) + tau * z)[GROUP])
    ),
    "probability of a group": (["z"], 1, scaled(lambda mu, tau, z: pm.math.invlogit(mu + tau * z)[GROUP])),
    "scale of each group": (
        ["z"], 2, scaled(lambda mu, tau, z: (mu + z * pm.HalfCauchy("local", 1, shape=G) * tau)[GROUP])
    ),
    "correlated by hand": (["own", "z"], 2, correlated_by_hand("z", "own")),
    "correlated in reverse": (["own", "z"], 2, correlated_by_hand("own", "z")),
    "sum and difference": (["a", "b"], 2, sum_and_difference),
    "scaled after a covariate": (["z"], 1, scaled(lambda mu, tau, z: mu + X * tau * z[GROUP])),
    "scaled with a covariate": (["z"], 1, scaled(lambda mu, tau, z: mu + (z[GROUP] - 0.3 * X) * tau)),
    "scaled memberships": (["z"], 1, scaled(memberships)),
    "scaled difference": (
        ["z"], 1, scaled(lambda mu, tau, z: mu - tau * pm.math.exp(mu) * (z[GROUP] - z[OTHER]) / 2)
    ),
    "scaled sum of slopes": (
        ["slopes"], 2, lambda: pm.Normal("mu") + pm.HalfNormal("tau") * by_columns(pm.Normal("slopes", shape=(G, 2)))
    ),
    "joined to zeros": (["z"], 2, of_categories(lambda two: pt.concatenate([two, pt.zeros((G, 1))], axis=1))),
    "softmax of joined": (["z"], 2, of_categories(softmax_of_joined)),
    "curves": (["z"], 2, curves_of_groups),
    "set beside zeros": (["z"], 2, of_categories(lambda two: pt.set_subtensor(pt.zeros((G, 3))[:, 1:], two))),
}  # fmt: skip


def model_of(predictor):
    with pm.Model() as model:
        pm.Normal("y", predictor(), 1, observed=Y)
    return model


@pytest.mark.parametrize(
    "name",
    cases(
        SPELLINGS,
        [
            "walk from a level",
            "walk of each group",
            "numbered from one",
            "numbers of a column of floats",
            "lkj",
            "second axis",
            "with covariates",
            "curves",
            "joined to zeros",
        ],
    ),
)
def test_rows_read_effects_in_every_spelling(name):
    """The density is checked while the model is made; here, that it is made, and that its groups are found."""
    replaced, size, predictor = SPELLINGS[name]
    read = read_groups(model_of(predictor))
    assert sorted(read.data.coordinates.replaced) == replaced
    assert (read.groups.first[1], read.groups.own.shape[1]) == (G, size)
    point = {v.name: RNG.normal(size=b.shape) for v, b in zip(read.model.value_vars, read.data.likelihood.blocks)}
    user = read.data.coordinates.from_effects(point)
    back = read.data.coordinates.point(user, read.data.coordinates.theta(user))
    assert all(np.allclose(back[name], user[name], rtol=1e-9, atol=1e-9) for name in user)


#: More effects than a prior may tie to each other, in walks of which those of a group are independent of others.
WALKS, TIMES = 100, 12


def walks(of, times_first=True):
    def predictor():
        shape = (TIMES, WALKS) if times_first else (WALKS, TIMES)
        return of(pm.HalfNormal("tau"), pm.Normal("z", shape=shape))

    return predictor


WALK, TIME = np.arange(N) % WALKS, np.arange(N) % TIMES
WALKS_OF_GROUPS = {
    "steps": walks(lambda tau, z: pt.cumsum(tau * z, axis=1)[WALK, TIME], times_first=False),
    "scaled after": walks(lambda tau, z: (tau * pt.cumsum(z, axis=1))[WALK, TIME], times_first=False),
    "times first": walks(lambda tau, z: (tau * pt.cumsum(z, axis=0))[TIME, WALK]),
    "times first, turned": walks(lambda tau, z: pt.cumsum(tau * z.T, axis=1)[WALK, TIME]),
    "turned at last": walks(lambda tau, z: (tau * pt.cumsum(z, axis=0)).T[WALK, TIME]),
    "of PyMC, turned": lambda: pm.GaussianRandomWalk(
        "z", sigma=pm.HalfNormal("tau"), init_dist=pm.Normal.dist(0, 2), shape=(WALKS, TIMES)
    ).T[TIME, WALK],
}  # fmt: skip


@pytest.mark.parametrize("name", cases(WALKS_OF_GROUPS, ["scaled after", "times first"]))
def test_each_walk_is_a_group(name):
    read = read_groups(model_of(WALKS_OF_GROUPS[name]))
    assert (read.groups.names, read.groups.own.shape) == (("z",), (WALKS, TIMES))
    assert read.groups.ties.at.size == 0


def by_function(mu):
    pm.CustomDist("y", mu, dist=lambda mu, size: pm.Normal.dist(mu, 1, size=size) + 0.5, observed=Y)


def of_two_columns(mu):
    of_both = mu[:, None] + pm.Normal("c", shape=2)
    pm.MvStudentT("y", nu=5, mu=of_both, chol=np.eye(2), observed=np.column_stack([Y, Y]))


LAWS = {
    "by a function": by_function,
    "logit-normal": lambda mu: pm.LogitNormal("y", mu, pm.HalfNormal("s"), observed=1 / (1 + np.exp(-Y))),
    "vectors": of_two_columns,
}


@pytest.mark.parametrize("name", LAWS)
def test_laws_that_pymc_makes_of_others_read_effects(name):
    """PyMC makes them again with the parameters of the user's model, which are not those of the centred one."""
    with pm.Model() as model:
        LAWS[name](DETERMINISTIC())
    assert read_groups(model).data.coordinates.replaced == ("z",)


def test_weights_of_a_mixture_stay_what_they_are_beside_effects():
    """PyTensor copies the weights, which share a constant with the components, where these are replaced."""
    with pm.Model() as model:
        w, z = pm.Dirichlet("w", np.ones(2)), pm.Normal("z", shape=G)
        mu = pm.Normal("mu", shape=2)[None, :] + (pm.HalfNormal("tau") * z)[GROUP][:, None]
        pm.NormalMixture("y", w=w, mu=mu, sigma=pm.HalfNormal("s", shape=2), observed=Y)
    assert read_groups(model).data.coordinates.replaced == ("z",)


@pytest.mark.parametrize(("predictor", "part"), [(SECOND_AXIS, "log_jacobian"), (lkj, "z")])
def test_wrong_change_of_variables_is_refused(predictor, part, monkeypatch):
    """A planted mistake: the Jacobian is left out, or z is half of what it should be."""
    right = change_of_variables._inverse

    def wrong(*args, **kwargs):
        z, log_jacobian = right(*args, **kwargs)
        return (z / 2, log_jacobian) if part == "z" else (z, 1 + 0 * log_jacobian)

    monkeypatch.setattr(change_of_variables, "_inverse", wrong)
    with pytest.raises(GroupsNotFoundError, match="fails its check"):
        read_groups(model_of(predictor))


def test_scale_that_is_lost_is_refused(monkeypatch):
    """A planted mistake: a scale is taken from the rows and not put on a sum of effects."""
    right = scales_on_effects._Scaling._times

    def wrong(self, var, scale):
        return right(self, var, scale) if self._is_read(var) else var

    monkeypatch.setattr(scales_on_effects._Scaling, "_times", wrong)
    with pytest.raises(GroupsNotFoundError, match="fails its check"):
        read_groups(model_of(lambda: scaled(memberships)() + pm.HalfNormal("other") * pm.Normal("own", shape=G)[GROUP]))


def test_whole_numbers_stay_what_they_are_beside_effects():
    model = model_of(lambda: DETERMINISTIC() + 0.1 * pm.Poisson("k", 3.0))
    assert centred_model.centred_model(model).replaced == {"z": 0}


def effects_draw(law):
    """Return a predictor in which the effects that rows read draw something that is read beside them."""

    def predictor():
        u = 2 * pm.Normal("z", shape=G)
        return u[GROUP] + law(u)

    return predictor


ONE_MORE = effects_draw(lambda u: pm.Normal("v", u, pm.HalfNormal("s"), shape=G)[GROUP])
LABELS = effects_draw(lambda u: pm.Bernoulli("v", pm.math.sigmoid(u), shape=G)[GROUP])


@pytest.mark.parametrize("predictor", [ONE_MORE, LABELS], ids=["one more", "labels"])
def test_what_the_effects_draw_is_read_beside_them(predictor):
    assert read_groups(model_of(predictor)).data.coordinates.replaced == ("z",)


def times_a_loading(start):
    return pm.Normal("loading", initval=start) * pm.Normal("z", shape=G)[GROUP]


def test_a_loading_that_starts_at_zero_is_warned_of():
    """The map from effects to z has no inverse there."""
    with pytest.warns(UserWarning, match=r"of 'z' are not moved .* Let \['loading'\] start elsewhere"):
        assert centred_model.centred_model(model_of(lambda: times_a_loading(0.0))) is None
    assert read_groups(model_of(lambda: times_a_loading(1.0))).data.coordinates.replaced == ("z",)


def measured_with_error(mean=False, observed=True):
    """Return a slope times covariates of groups that are measured with error, or known from the rows alone."""
    law = pm.Normal("mean"), pm.HalfNormal("sd")
    x = pm.Normal("x", law[0] if mean else 0, law[1], shape=G)
    if observed:
        pm.Normal("measured", x, 0.3, observed=np.linspace(-1, 1, G))
    return pm.Normal("a") + pm.Normal("slope", 0, 1e-3) * x[GROUP]


@pytest.mark.filterwarnings("error:The effects of")
@pytest.mark.parametrize("mean", [False, True])
def test_a_slope_of_known_sign_starts_beside_zero(mean):
    """Sampling starts at a usual size of its prior, and elsewhere as the user says."""
    model = model_of(lambda: measured_with_error(mean=mean))
    data = read_groups(model).data
    assert data.coordinates.replaced == ("x",)
    started = data.coordinates.point(model.initial_point(), data.coordinates.theta(model.initial_point()))
    assert 2e-4 < started.pop("slope") < 2e-3
    assert all(np.array_equal(value, model.initial_point()[name]) for name, value in started.items())
    beside = {**model.initial_point(), "slope": np.array(-0.1)}
    assert data.coordinates.point(beside, data.coordinates.theta(beside))["slope"] == -0.1


def two_outcomes():
    """Both slopes may change sign together."""
    x = pm.Normal("x", 0, pm.HalfNormal("sd"), shape=G)
    pm.Normal("other", pm.Normal("b2") * x[OTHER], observed=Y)
    return pm.Normal("slope") * x[GROUP]


@pytest.mark.parametrize(
    "predictor",
    [*(partial(measured_with_error, mean=mean, observed=False) for mean in (False, True)), two_outcomes],
    ids=["about zero", "about a mean", "two outcomes"],
)
def test_a_slope_of_either_sign_is_warned_of(predictor):
    """Chains that all start beside zero on one side would show one of two modes."""
    with pytest.warns(UserWarning, match=r"of 'x' are not moved .* Let \['(slope|b2)'\] start elsewhere"):
        assert centred_model.centred_model(model_of(predictor)) is None


def entries_of_centred():
    u = pm.Normal("z", 0, pm.HalfNormal("tau", shape=2), shape=(G, 2))
    return u[GROUP, 0] + u[GROUP, 1] * X


def in_two_products():
    tau, z = pm.HalfNormal("tau"), pm.Normal("z", shape=G)
    return tau * z[GROUP] + (z[GROUP] * X) ** 2


def in_or_not():
    return pm.Bernoulli("in", 0.5, shape=G) * pm.Normal("z", shape=G)


STAY = {
    "entries of centred": entries_of_centred,
    "not of normal support": lambda: (pm.HalfNormal("tau") * pm.HalfNormal("z", shape=G))[GROUP],
    "in two products": in_two_products,
    "in the model or not": lambda: X[:, None] * np.ones(G) @ in_or_not(),
    "groups in the model or not": lambda: (pm.HalfNormal("tau") * in_or_not())[GROUP],
    # The shift is a part of the effects that rows read, and drawn by them.
    "shifted by what the effects draw": effects_draw(lambda u: pm.Normal("v", u.mean(), 1.0)),
}


@pytest.mark.parametrize("name", STAY)
def test_other_models_stay_what_they_are(name):
    assert centred_model.centred_model(model_of(STAY[name])) is None


def test_covariates_of_a_billion_are_checked_near_the_start():
    """Elsewhere the rows are infinite, and a check by numbers compares nothing."""
    with pm.Model() as model:
        tau, z = pm.HalfNormal("tau", 1e-9), pm.Normal("z", shape=G)
        pm.Poisson("y", pm.math.exp(tau * z[GROUP] * (1e9 + 1e8 * X)), observed=np.round(np.exp(Y)))
    assert read_groups(model).data.coordinates.replaced == ("z",)


def test_maps_of_points_go_to_other_processes():
    """A copy made by pickling maps as the original does."""
    coordinates = read_groups(model_of(lkj)).data.coordinates
    point = {b.name: np.full(b.shape, 0.3) for b in coordinates.blocks}
    user = coordinates.from_effects(point)
    copy = cloudpickle.loads(cloudpickle.dumps(coordinates))
    assert np.array_equal(copy.theta(user), coordinates.theta(user))
    assert all(np.array_equal(copy.from_effects(point)[name], user[name]) for name in user)


def test_the_same_effects_read_with_two_scales_are_groups():
    """Of s * z and t * z the first takes the place of z, in each of two factors."""
    with pm.Model() as model:
        both = pm.Normal("z", shape=G)[GROUP] + pm.Normal("w", shape=3)[LEA[GROUP]]
        pm.Normal("y", pm.HalfNormal("s") * both, 1, observed=Y)
        pm.Normal("more", pm.HalfNormal("t") * both, 1, observed=X)
    read = read_groups(model)
    assert sorted(read.groups.names) == ["w", "z"]
    assert read.groups.pooled
    point = {name: RNG.normal(size=value.shape) for name, value in model.initial_point().items()}
    back = read.data.coordinates.point(point, read.data.coordinates.theta(point))
    for name, value in point.items():
        assert back[name] == pytest.approx(value)


@pytest.mark.filterwarnings("ignore::numba.NumbaPerformanceWarning")  # of PyTensor 2
@pytest.mark.parametrize("bare", [False, True])
def test_a_factor_that_rounds_to_zero_is_impossible(bare, monkeypatch):
    """Far out NumPy has no inverse of it, and ended the chain: a bare inverse is the planted mistake."""
    if bare:
        inverse = lambda matrix: (pt.linalg.inv(matrix), -pt.linalg.slogdet(matrix)[1])  # noqa: E731
        monkeypatch.setattr(change_of_variables, "inverse_of", inverse)
    with pm.Model() as model:
        u = pt.dot(cholesky(), pm.Normal("z", 0, 1, shape=(2, G))).T
        pm.Normal("y", u[GROUP, 0] + u[GROUP, 1] * X, 1.0, observed=Y)
    likelihood = read_groups(model).data.likelihood
    functions = [
        pytensor.function([likelihood.theta], of, mode="NUMBA")
        for of in (likelihood.log_prior, pytensor.grad(likelihood.log_prior, likelihood.theta))
    ]
    block = next(b for b in likelihood.blocks if "chol" in b.name or b.size == 3)
    theta = np.zeros(likelihood.theta_size)
    assert np.isfinite(functions[0](theta))
    theta[block.start : block.stop] = -800.0
    with pytest.raises(np.linalg.LinAlgError) if bare else nullcontext():
        for function in functions:
            found = function(theta)
        assert found.shape == theta.shape
