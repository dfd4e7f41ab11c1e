"""Effects that sum to zero, against linear algebra with what they share summed over a grid."""

from itertools import product

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from cases import cases
from evidence import MAX_Z
from grouped import largest_z, law_of_normal_rows, search_of
from pymc.distributions.transforms import ZeroSumTransform, ordered
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.compile.cache import cached
from pymc_austerity.compile.graph_compiler import BY_NUMPY
from pymc_austerity.groups import read_groups
from pymc_austerity.groups.centred_model import centred_model
from pymc_austerity.groups.checked_by_numbers import log_jacobian_of
from pymc_austerity.groups.crossed_means import NO_TANGENT
from pymc_austerity.groups.elimination import eliminate, from_white, places_left, solve_joint, to_white
from pymc_austerity.groups.group_expansion import NO_SCALE, GroupExpansion
from pymc_austerity.groups.group_mode import find_group_centre
from pymc_austerity.groups.sums_within_groups import with_sums_within_groups
from pymc_austerity.groups.tied_prior import ties_together
from pymc_austerity.groups.zero_sums import keep_sums, reflect, reflect_back, take_sums_off

T, N, STORES = 8, 120, 5
RNG = np.random.default_rng(11)
LEVEL, STORE, SEX, X = *(RNG.integers(0, n, N) for n in (T, STORES, 2)), RNG.normal(size=N)
SCALES = np.linspace(-5, 2, 50)
#: Orthonormal directions in which effects that sum to zero lie.
FREE = np.linalg.svd(np.ones((1, T)))[2][1:].T


def scale():
    return pm.math.exp(pm.Normal("log_sd", -1, 1))


def table(read, n_axes):
    """Return what makes a predictor of a table of two rows that sums to zero along so many axes."""
    return lambda: read(scale() * pm.ZeroSumNormal("x", shape=(2, T), n_zerosum_axes=n_axes))


def with_slopes():
    return pm.ZeroSumNormal("x", scale(), shape=T)[LEVEL] + pm.ZeroSumNormal("more", 0.5, shape=T)[LEVEL] * X


def with_stores():
    not_centred = (0.3 + scale() * pm.ZeroSumNormal("x", shape=T))[LEVEL] - 0.3
    return not_centred + pm.Normal("more", 0, 0.7, shape=STORES)[STORE]


def with_means(u):
    return (pm.Normal("mu", shape=2)[:, None] + u)[0, LEVEL] + u[1][LEVEL] * X


#: The predictor, the shape of what is moved, and which of it sums to zero: groups are columns or cells.
CASES = {
    "scaled by row": (lambda: -scale() * pm.ZeroSumNormal("x", shape=T)[LEVEL], (T, 1), [[0, T, 0]]),
    "slopes": (with_slopes, (T, 2), [[0, T, 0], [0, T, 1]]),
    "stores": (with_stores, (T, 1), [[0, T, 0]]),
    "cells": (table(lambda u: u[SEX, LEVEL], 1), (2 * T, 1), [[0, T, 0], [T, 2 * T, 0]]),
    "slices": (table(lambda u: u[0, LEVEL] + u[1, LEVEL] * X, 1), (T, 2), [[0, T, 0], [0, T, 1]]),
    "transposed": (table(lambda u: u.T[LEVEL, 0] + u[:, LEVEL][1] * X, 1), (T, 2), [[0, T, 0], [0, T, 1]]),
    "with means": (table(with_means, 1), (T, 2), [[0, T, 0], [0, T, 1]]),
    "cells, two axes": (table(lambda u: u[SEX, LEVEL], 2), (T, 1), [[0, T, 0]]),
    "slices, two axes": (table(lambda u: u[0, LEVEL] + u[1, LEVEL] * X, 2), (T, 1), [[0, T, 0]]),
}
TABLE = np.array([[0.8, -0.3, 0.1, 0.6, -0.9, 0.2, -0.6, 0.1], [0.4, 0.1, -0.5, 0.3, 0.2, -0.4, 0.2, -0.3]])
Y, Y_OF_TABLE = (of + 0.4 + RNG.normal(size=N) for of in (TABLE[0, LEVEL], TABLE[SEX, LEVEL]))


def model_of(name, y=Y):
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("a", 0, 5) + CASES[name][0](), 1, observed=y)
    return model


@pytest.mark.parametrize("name", cases(CASES, ["scaled by row", "cells", "slices, two axes", "stores"]))
def test_points_are_those_of_the_model(name):
    """A point of the model goes to effects that sum to zero, and comes back."""
    _, shape, zero_sums = CASES[name]
    model = model_of(name)
    read, point = read_groups(model), {k: RNG.normal(size=v.shape) for k, v in model.initial_point().items()}
    theta, groups = read.data.coordinates.theta(point), read.groups
    assert not any(groups.tied)
    assert (groups.own.shape, groups.zero_sums.tolist()) == (shape, zero_sums)
    for start, end, k in groups.zero_sums:
        assert abs(theta[groups.own[start:end, k]].sum()) < 1e-12
    back = read.data.coordinates.point(point, theta)
    assert back.keys() == point.keys()
    for k, value in point.items():
        assert back[k] == pytest.approx(value)


def law_with_stores(volume):
    """Mean and sd of the log sd, the intercept, and what the rows read of two of the effects with the scale.

    Without the volume of the effects' law given the scale these are wrong.
    """
    design = np.column_stack([np.ones(N), FREE[LEVEL], np.eye(STORES)[STORE]])
    read = np.zeros((3, design.shape[1]))
    read[0, 0], read[1:, 1:T] = 1, FREE[[0, T - 1]]

    def prior(a):
        precisions = np.r_[1 / 25, np.full(T - 1, np.exp(-2 * a)), np.full(STORES, 1 / 0.7**2)]
        return -((a + 1) ** 2) / 2 + (1 - volume) * (T - 1) * a, precisions

    return law_of_normal_rows(design, Y, [SCALES], prior, read)


def law_of_table(n_axes):
    """Mean and sd of the log sd and of the first cell of each row of a table, read by cells."""
    of_rows = np.eye(2) if n_axes == 1 else np.array([[1.0], [-1.0]]) / np.sqrt(2)
    free = np.kron(of_rows, FREE)
    design = np.column_stack([np.ones(N), free[SEX * T + LEVEL]])

    def prior(a):
        return -((a + 1) ** 2) / 2, np.r_[1 / 25, np.full(free.shape[1], np.exp(-2 * a))]

    return law_of_normal_rows(design, Y_OF_TABLE, [SCALES], prior, np.column_stack([np.zeros(2), free[[0, T]]]))


def draws_of(model):
    """The log sd, the intercept, and the effects with the scale, by group last."""
    posterior = sampled(model, pma.GroupMH(model=model, rng=1, progressbar=False), 3_000).posterior
    x = posterior["x"] * np.exp(posterior["log_sd"])
    return *(posterior[name].to_numpy() for name in ("log_sd", "a")), x.transpose("chain", "draw", ...).to_numpy()


@pytest.mark.slow
def test_draws_have_the_law_of_linear_algebra():
    log_sd, a, x = draws_of(model_of("stores"))
    assert np.abs(x.sum(axis=-1)).max() < 1e-9
    draws = [log_sd, a, x[..., 0], x[..., T - 1]]
    assert largest_z(draws, law_with_stores(volume=1)) < MAX_Z
    assert largest_z(draws, law_with_stores(volume=0)) > MAX_Z


HOME, AWAY = LEVEL, (LEVEL + RNG.integers(1, T, N)) % T
RATINGS = {
    "difference": lambda a, sd, z: a + sd * (z[HOME] - z[AWAY]),
    "each": lambda a, sd, z: a + sd * z[HOME] - z[AWAY] * sd,
    "other side first": lambda a, sd, z: a + (-z[AWAY] + z[HOME]) * sd,
    "scaled": lambda a, sd, z: a + (sd * z)[HOME] - (sd * z)[AWAY],
    "divided": lambda a, sd, z: (z[HOME] - z[AWAY]) / (1 / sd) + a,
    "data": lambda a, sd, z: a + sd * (z[pm.Data("home", HOME)] - z[pm.Data("away", AWAY)]),
    "where they are at home": lambda a, sd, z: a + pm.Normal("b", 0, 1, shape=T)[HOME] + sd * z[HOME] - sd * z[AWAY],
}


def ratings(form, zero_sum=True, y=Y):
    with pm.Model(coords={"team": range(T)}) as model:
        sd = scale()
        z = pm.ZeroSumNormal("x", dims="team") if zero_sum else pm.Normal("x", dims="team")
        pm.Normal("y", RATINGS[form](pm.Normal("a", 0, 5), sd, z), 1, observed=y)
    return model


@pytest.mark.parametrize("zero_sum", [True, False])
@pytest.mark.parametrize("form", RATINGS)
def test_ratings_are_read_with_their_scale(form, zero_sum):
    """Rows read two of the ratings each, which have the scale, and nothing of the scale."""
    model = ratings(form, zero_sum)
    read, point = read_groups(model), {k: RNG.normal(size=v.shape) for k, v in model.initial_point().items()}
    assert read.groups.own.shape == (T, 1 + (form == "where they are at home"))
    assert len(read.groups.indices) == 2
    assert "log_sd" not in read.data.likelihood.read
    theta, of_x = read.data.coordinates.theta(point), model.rvs_to_values[model["x"]].name
    (place,) = (slice(b.start, b.stop) for b in read.data.likelihood.blocks if b.name == of_x)
    (x,) = model.replace_rvs_by_values([model["x"]])
    x = x.eval({of_x: point[of_x]}, mode=BY_NUMPY)
    assert theta[place] == pytest.approx(np.exp(point["log_sd"]) * x)
    back = read.data.coordinates.point(point, theta)
    assert back[of_x] == pytest.approx(point[of_x])


@pytest.mark.parametrize(("teams", "too_many"), [(T, False), (310, True)])
def test_ratings_that_are_too_many_are_known(teams, too_many):
    home, away = RNG.integers(0, teams, 400), RNG.integers(0, teams, 400)
    with pm.Model() as model:
        z = pm.ZeroSumNormal("x", sigma=scale(), shape=teams)
        pm.Normal("y", z[home] - z[away], 1, observed=RNG.normal(size=400))
    assert read_groups(model).groups.too_many_to_sum == too_many


def test_walks_of_ratings_are_read_with_their_scale():
    """As those of some seasons, each read by two numbers."""
    season = RNG.integers(0, 3, N)
    with pm.Model() as model:
        walk = pt.cumsum(pm.Normal("x", shape=(T, 3)) * scale(), axis=1)
        pm.Normal("y", pm.Normal("a", 0, 5) + walk[HOME, season] - walk[AWAY, season], 1, observed=Y)
    read = read_groups(model)
    assert read.groups.own.shape == (T, 3)
    assert "log_sd" not in read.data.likelihood.read


@pytest.mark.slow
def test_ordered_results_of_games_are_expanded():
    """A categorical law takes entries of a table by the numbers of its rows, which are no groups."""
    with pm.Model() as model:
        z = scale() * pm.ZeroSumNormal("x", shape=T)
        cutpoints = pm.Normal("c", [-0.5, 0.5], 1, transform=ordered, initval=[-0.5, 0.5])
        pm.OrderedLogistic("y", eta=z[HOME] - z[AWAY], cutpoints=cutpoints, observed=np.digitize(Y, [-0.5, 0.5]))
    assert pma.PenaltyMH(model=model, progressbar=False).moves_groups


@pytest.mark.slow
def test_ratings_have_the_law_of_linear_algebra():
    """The planted mistake takes both sides of a game for one."""
    y = TABLE[0, HOME] - TABLE[0, AWAY] + 0.4 + np.random.default_rng(12).normal(size=N)
    log_sd, a, x = draws_of(ratings("difference", y=y))
    for sign, right in ((-1, True), (1, False)):
        design = np.column_stack([np.ones(N), FREE[HOME] + sign * FREE[AWAY]])
        read = np.zeros((3, T))
        read[0, 0], read[1:, 1:] = 1, FREE[[0, T - 1]]

        def prior(log_sd):
            return -((log_sd + 1) ** 2) / 2, np.r_[1 / 25, np.full(T - 1, np.exp(-2 * log_sd))]

        law = law_of_normal_rows(design, y, [SCALES], prior, read)
        assert (largest_z([log_sd, a, x[..., 0], x[..., -1]], law) < MAX_Z) == right


@pytest.mark.slow
def test_table_has_the_law_of_linear_algebra():
    """The law of the table that sums to zero along both axes is the negative control."""
    log_sd, _, x = draws_of(model_of("cells", Y_OF_TABLE))
    draws = [log_sd, x[:, :, 0, 0], x[:, :, 1, 0]]
    assert largest_z(draws, law_of_table(1)) < MAX_Z
    assert largest_z(draws, law_of_table(2)) > MAX_Z


def expansion_of(factor, precision, n_first):
    """All that the law of effects needs of an expansion: two factors, of which the second is left or searched for."""
    (n, size), first = (len(precision), factor.shape[1]), np.array([0, n_first, len(factor)])
    sizes = np.full(len(factor), size)
    own = np.arange(n).reshape(-1, size)
    pairs = [(g, h) for g, h in product(range(len(factor)), repeat=2) if (g < n_first) != (h < n_first)]
    cells = np.array([-precision[np.ix_(own[g], own[h])] for g, h in pairs])
    none = np.empty(0)
    return GroupExpansion(
        np.zeros(n), own, sizes, first, none, none, none, none, none, none, none, none,
        np.searchsorted([g for g, _ in pairs], np.arange(len(factor) + 1)), np.array([h for _, h in pairs], np.uint32),
        cells, places_left(first, sizes, (False, False)), NO_TANGENT, NO_SCALE, ties_together([], size, none),
        np.array([[0, n_first, 0], [0, n_first, 1], [n_first, len(factor), 1]]), none,
    )  # fmt: skip


@pytest.mark.slow
def test_law_given_sums_is_that_of_the_normal_law():
    """Mean, covariance, its determinant and a solution, with some sums zero, for one of two crossed factors eliminated.

    The planted mistake, reflections that do nothing, has another covariance.
    """
    rng, (n_first, n_groups, size) = np.random.default_rng(8), (4, 7, 2)
    n = n_groups * size
    rows, of = rng.normal(size=(200, n)), np.repeat(np.arange(n_groups), size)
    first, second = rng.integers(0, n_first, 200), rng.integers(n_first, n_groups, 200)
    rows[(of != first[:, None]) & (of != second[:, None])] = 0.0
    sums = np.zeros((n, 3))
    sums[0 : 2 * n_first : 2, 0] = sums[1 : 2 * n_first : 2, 1] = sums[2 * n_first + 1 :: 2, 2] = 1.0
    units, log_dets = np.eye(n).reshape(n, n_groups, size), []
    for ridge in (0.5, 3.0):
        precision = rows.T @ rows + ridge * np.eye(n)
        own = np.arange(n).reshape(-1, size)
        factor = np.array([np.linalg.cholesky(precision[np.ix_(of_g, of_g)]) for of_g in own])
        e = expansion_of(factor, precision, n_first)
        left, _ = cached(eliminate)(factor, np.empty(0), 1.0, e)
        covariance = np.linalg.inv(precision)
        gain = covariance @ sums @ np.linalg.inv(sums.T @ covariance @ sums)
        given = covariance - gain @ sums.T @ covariance
        mean = rng.normal(size=(n_groups, size))
        expected = mean.ravel() - gain @ sums.T @ mean.ravel()
        normals, of_sums = cached(take_sums_off)(mean, factor, left, 1.0, e)
        assert mean.ravel() == pytest.approx(expected)
        found = {}
        for name, by in (("right", normals), ("planted", np.zeros_like(normals))):
            columns = units.copy()
            for z in columns:
                cached(reflect_back)(z, by, e)
                cached(from_white)(z, factor, left, 1.0, e)
            found[name] = columns.reshape(n, n)
        assert found["right"].T @ found["right"] == pytest.approx(given, abs=1e-12)
        assert np.abs(found["planted"].T @ found["planted"] - given).max() > 1e-3
        for unit, z in zip(units, found["right"].reshape(units.shape)):
            again = cached(to_white)(z.copy(), factor, left, 1.0, e)
            cached(reflect)(again, normals)
            assert again == pytest.approx(unit if z.any() else np.zeros_like(unit), abs=1e-9)
        b = rng.normal(size=(n_groups, size))
        solved = cached(keep_sums)(cached(solve_joint)(b, factor, left, 1.0, e), factor, left, normals, 1.0, e)
        assert solved.ravel() == pytest.approx(given @ b.ravel(), abs=1e-9)
        plane = np.linalg.svd(sums.T)[2][3:]
        log_dets.append(
            np.linalg.slogdet(covariance)[1] / 2 - of_sums - np.linalg.slogdet(plane @ given @ plane.T)[1] / 2
        )
    assert log_dets[0] == pytest.approx(log_dets[1])


@pytest.mark.slow
def test_an_interaction_and_its_main_effects_are_expanded():
    """Steps of which each was cut by itself led nowhere, as these make up for each other: they follow their scales."""
    rng = np.random.default_rng(20)
    a, b = rng.integers(0, 20, 3000), rng.integers(0, 8, 3000)
    effects = 0.3 * rng.normal(size=20)[a] + 0.2 * rng.normal(size=8)[b] + 0.2 * rng.normal(size=(20, 8))[a, b]
    with pm.Model() as model:
        scales = pm.HalfNormal("scales", 1, shape=3)
        u, v = pm.ZeroSumNormal("u", scales[0], shape=20), pm.ZeroSumNormal("v", scales[1], shape=8)
        w = pm.ZeroSumNormal("w", scales[2], shape=(20, 8), n_zerosum_axes=2)
        eta = pm.Normal("mean", 0, 1) + u[a] + v[b] + w[a, b]
        pm.Poisson("y", pm.math.exp(eta), observed=rng.poisson(np.exp(1 + effects)))
    search = search_of(model)
    found = find_group_centre(search)
    sd = np.sqrt((found.factor**2).sum(axis=1))
    assert (np.abs(found.mean[:3] - np.log([0.3, 0.2, 0.2])) < 3 * sd[:3]).all()


def test_prior_of_thousands_of_effects_splits():
    """Nothing of the size of a matrix of all groups is made: 3 GB for so many."""
    level = np.arange(20_000)
    with pm.Model() as model:
        u = pm.ZeroSumNormal("x", scale(), shape=level.size)
        pm.Normal("y", pm.Normal("a", 0, 5) + u[level], 1, observed=RNG.normal(size=level.size))
    groups = read_groups(model).groups
    assert groups.own.shape == (level.size, 1)
    assert groups.zero_sums.tolist() == [[0, level.size, 0]]
    assert groups.tied == (False,)


def read_table(shape, read, **options):
    with pm.Model() as model:
        pm.Normal("y", read(pm.ZeroSumNormal("u", scale(), shape=shape, **options)), 1, observed=Y)
    return read_groups(model).groups


def test_many_sums_of_few_cells_keep_their_own_coordinates():
    """A table of more sums than entries in each has its rows as groups."""
    groups = read_table((T, 2), lambda u: u[LEVEL, SEX])
    assert (groups.own.shape, len(groups.zero_sums)) == ((T, 1), 0)


def test_sums_of_a_table_read_otherwise_are_refused():
    """The message does not advise the distribution that the user has written."""
    with pytest.raises(pma.GroupsNotFoundError, match="where it has one axis or two.*another prior"):
        read_table((T, STORES), lambda u: pm.math.exp(u)[LEVEL, STORE], n_zerosum_axes=2)


@pytest.mark.parametrize("shape", [(T - 1,), (2, T - 1)], ids=["vector", "table"])
def test_jacobian_of_sums_is_that_of_a_matrix(shape):
    slopes = np.array([0.3, 2.0])[: 1 if len(shape) == 1 else 2]

    def found(directions):
        def to_effects(point):
            return {"z": (point["z"] * (slopes if len(shape) == 1 else slopes[:, None])) @ directions + 0.2}

        return log_jacobian_of(to_effects, {"z": 0}, {"z"}, {"z": RNG.normal(size=shape)})

    matrix = np.kron(np.diag(slopes), FREE)
    assert found(FREE.T) == pytest.approx(np.linalg.slogdet(matrix.T @ matrix)[1] / 2)
    assert np.isnan(found(FREE.T * np.where(np.arange(T) == 7, 1 + 1e-5, 1.0)))  # planted: one effect is stretched


#: Predictors of three categories that sum to zero within each level, scaled in every place; and how many are replaced.
WITHIN = {
    "of the table": (lambda mu, tau, z: (mu + tau * z)[LEVEL], True),
    "of rows": (lambda mu, tau, z: mu + tau * z[LEVEL], True),
    "of groups": (lambda mu, tau, z: mu + (pm.HalfNormal("more", shape=T)[:, None] * z)[LEVEL], True),
    "in the prior": (lambda mu, tau, z: mu + z[LEVEL] + tau, False),
}


@pytest.mark.parametrize("dims", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", WITHIN)
def test_sums_within_groups_are_normal_effects(name, dims, monkeypatch):
    """Each level has two numbers for its three categories, as PyMC has, and what scales them is moved with them."""
    predictor, scaled = WITHIN[name]
    with pm.Model(coords={"level": range(T), "category": range(3)}) as model:
        of_z = {"dims": ("level", "category")} if dims else {"shape": (T, 3)}
        z = pm.ZeroSumNormal("z", 0.7, **of_z)
        eta = predictor(pm.Normal("mu", shape=3), pm.HalfNormal("tau"), z)
        pm.Categorical("y", logit_p=eta, observed=RNG.integers(0, 3, N))
    point = {name: value + 0.3 for name, value in model.initial_point().items()}

    def density(of):
        return of.compile_logp(mode=BY_NUMPY)(point)

    expected = density(model)
    assert density(with_sums_within_groups(model)) == pytest.approx(expected, rel=1e-12)
    found = read_groups(model, None, None)
    assert "z_zerosum__" in found.groups.names
    assert found.groups.own.shape == (T, 3 if name == "of groups" else 2)
    centred = centred_model(model)
    assert ("z_zerosum__" in ({} if centred is None else centred.replaced)) is scaled
    monkeypatch.setattr(ZeroSumTransform, "backward", lambda *_: pt.constant(FREE[:2, :3]))
    assert density(with_sums_within_groups(model)) != pytest.approx(expected, rel=1e-4)


def test_sums_over_groups_stay_what_they_are():
    assert with_sums_within_groups(model := model_of("cells")) is model


def test_rows_that_mix_are_no_isometry():
    """Each row alone keeps its length, and both together do not."""

    def to_effects(point):
        return {"z": (np.array([[1.0, 1.0], [0.0, 0.0]]) @ point["z"]) @ FREE.T}

    assert np.isnan(log_jacobian_of(to_effects, {"z": 0}, {"z"}, {"z": RNG.normal(size=(2, T - 1))}))
