"""Groups are found where rows read one entry each and the prior splits, and refused in words where not."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from pymc.distributions.transforms import ordered
from pytensor.gradient import grad

from pymc_austerity.compile.graph_compiler import interpret_log_density
from pymc_austerity.groups import GroupsNotFoundError
from pymc_austerity.groups.group_density import check_groups, compile_group_prior, parts_of_theta
from pymc_austerity.groups.grouping import find_groups
from pymc_austerity.likelihood import Density, numba_options, read_model
from pymc_austerity.likelihood.density import interpret_rows

pytestmark = pytest.mark.versions

N, G = 120, 7
RNG = np.random.default_rng(3)
INDEX = RNG.integers(0, G, N)
X, Z, Y = RNG.normal(size=N), RNG.normal(size=(G, 2)), RNG.normal(size=N)
#: Where PyMC starts a factor of a covariance, too: it works that out in a Scan that it compiles by C for seconds.
START = np.array([1.0, 0.0, 1.0])


def effects(mean=0, scale=None, shape=G):
    return pm.Normal("u", mean, pm.HalfNormal("scale") if scale is None else scale, shape=shape)


def centred():
    return effects(pm.Normal("mean"))[INDEX] + pm.Normal("slope") * X


def covariates_of_groups():
    index, mean = pm.Data("index", INDEX.astype("int32")), pm.Data("z", Z) @ pm.Normal("gamma", shape=2)
    return pm.StudentT("u", nu=4, mu=mean, sigma=pm.HalfNormal("scale"), shape=G)[index]


def slopes():
    u = effects(pm.Normal("mean", shape=2), pm.HalfNormal("scale", shape=2), (G, 2))
    return u[INDEX, 0] + u[INDEX, 1] * X


def several_variables():
    u = effects()
    v = pm.Normal("v", u, 1, shape=G)
    return u[INDEX] + v[INDEX] * X, pm.HalfNormal("sd", shape=G)[INDEX]


def correlated_and_few():
    """As many groups as a factor of a covariance has entries."""
    scales = pm.Exponential.dist(1.0, shape=2)
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=scales, initval=START)
    u = pm.MvNormal("u", np.zeros(2), chol=chol, shape=(3, 2))
    return u[INDEX % 3, 0] + u[INDEX % 3, 1] * X


def one_walk_a_group():
    walks = pm.GaussianRandomWalk("u", sigma=pm.HalfNormal("step"), init_dist=pm.Normal.dist(), shape=(G, 4))
    return walks[INDEX, np.arange(N) % 4]


def read(write):
    """The groups of a model, and its data."""
    with pm.Model() as model:
        eta = write()
        mean, sd = eta if isinstance(eta, tuple) else (eta, 1)
        pm.Normal("y", mean, sd, observed=Y)
    return find_groups(model, data := read_model(model, model.value_vars, None, None)), data


@pytest.mark.parametrize(
    ("write", "names", "shape", "n_shared", "n_read"),
    [
        (centred, ("u",), (G, 1), 3, 1),
        (covariates_of_groups, ("u",), (G, 1), 3, 0),
        (slopes, ("u",), (G, 2), 4, 0),
        (several_variables, ("u", "v", "sd_log__"), (G, 3), 1, 0),
        (correlated_and_few, ("u",), (3, 2), 3, 0),
        (lambda: effects()[INDEX] + pm.Normal("v", 0, 1, shape=3)[np.arange(N) % 3], ("u",), (G, 1), 4, 3),
        (lambda: effects(0, 1)[INDEX - G], ("u",), (G, 1), 0, 0),
        (one_walk_a_group, ("u",), (G, 4), 1, 0),
    ],
    ids=[
        "centred", "covariates of groups", "slopes", "several variables", "correlated and few", "crossed",
        "counted from the end", "one walk a group",
    ],
)  # fmt: skip
def test_groups_are_found(write, names, shape, n_shared, n_read):
    groups, data = read(write)
    assert (groups.names, groups.own.shape, groups.shared.size, groups.read.size) == (names, shape, n_shared, n_read)
    assert np.array_equal(np.sort([*groups.own.ravel(), *groups.shared]), np.arange(data.theta0.size))
    assert np.array_equal(groups.of_rows(data.rows.arrays)[0], INDEX % shape[0])


@pytest.mark.parametrize(("numbers", "warned"), [(np.where(X > 1, -1, INDEX), 1), (INDEX - G, 0), (INDEX, 0)])
def test_codes_of_missing_categories_are_warned_of(numbers, warned, recwarn):
    read(lambda: effects(pm.Normal("mean"))[numbers])
    assert [str(w.message).startswith("Some rows read ['u'] by the number -1") for w in recwarn] == [True] * warned


def sum_beside():
    u = effects(0, 1)
    return u[INDEX] + u.sum()


def mean_taken_off():
    u = effects(0, 1)
    return (u - u.mean())[INDEX]


def known_total():
    u = effects(0, 1)
    pm.StudentT("total", nu=4, mu=u.sum(), sigma=1, observed=0.3)
    return u[INDEX]


def stacked_walks():
    step = pm.HalfNormal("step")
    walks = [pm.GaussianRandomWalk(f"u{g}", sigma=step, init_dist=pm.Normal.dist(), shape=4) for g in range(G)]
    return pm.math.stack(walks)[INDEX, np.arange(N) % 4]


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (stacked_walks, "in place of pt.stack"),
        (lambda: X * pm.Normal("u"), "No variable of the model is indexed"),
        (sum_beside, "in other ways too"),
        (mean_taken_off, "What the rows read of .'u'. does not split over groups"),
        (known_total, "The prior term of 'total' does not split over groups"),
    ],
    ids=["stacked walks", "no index", "sum beside", "mean taken off", "known total"],
)
def test_what_does_not_split_is_refused(write, reason):
    with pytest.raises(GroupsNotFoundError, match=reason):
        read(write)


def test_derivatives_by_what_is_shared_are_left_out():
    groups, data = read(correlated_and_few)
    theta, point = data.likelihood.theta, np.random.default_rng(4).normal(size=data.theta0.size)
    shared = parts_of_theta(data.likelihood, groups.log_prior, groups.shared)
    own = groups.own.ravel()
    found = interpret_log_density([theta], shared)(np.arange(point.size, dtype=float))
    assert np.array_equal(np.unique(np.hstack(found)), groups.shared)
    whole, without = (
        interpret_log_density([theta], [grad(groups.log_prior.sum(), theta, consider_constant=constant)])(point)[0]
        for constant in ([], shared)
    )
    np.testing.assert_allclose(without[own], whole[own], rtol=1e-12)
    assert np.all(whole[groups.shared] != 0)
    assert np.all(without[groups.shared] == 0)


def test_factors_of_many_groups_and_of_few_are_taken_together():
    g, h, few = RNG.integers(0, 40, N), RNG.integers(0, 35, N), np.arange(N) % 3

    def write():
        u, v = effects(shape=(35, 2)), pm.Normal("v", 0, 1, shape=40)
        return u[h, 0] + u[h, 1] * X + v[g] + pm.Normal("w", 0, pm.HalfNormal("of_w"), shape=3)[few]

    groups, data = read(write)
    assert groups.names == ("v", "u", "w")
    assert np.array_equal(groups.first, [0, 40, 75, 78])
    assert np.array_equal(groups.size, np.repeat([1, 2, 1], [40, 35, 3]))
    assert np.array_equal(np.unique([*groups.own.ravel(), *groups.shared]), np.arange(data.theta0.size))
    assert np.array_equal(groups.of_rows(data.rows.arrays), [g, 40 + h, 75 + few])
    likelihood = data.likelihood  # the density as the check asks for it: a few times, from Python
    log_prior = interpret_log_density([likelihood.theta, likelihood.others, *likelihood.fixed], [likelihood.log_prior])
    density = Density(log_prior, interpret_rows(likelihood))
    prior = compile_group_prior(data.likelihood, groups, numba_options(None))
    check_groups(data, groups, density, prior)
    swapped = replace(groups, own=np.r_[groups.own[:40], np.roll(groups.own[40:75], 1, axis=0), groups.own[75:]])
    with pytest.raises(GroupsNotFoundError, match="change the likelihood of row"):
        check_groups(data, swapped, density, prior)


@pytest.mark.parametrize(("items", "names"), [(4, ("u",)), (5, ("u", "cuts_ordered__"))])
def test_ordered_cutpoints_of_many_items_are_groups(items, names):
    """So are other coefficients of levels with known priors where they are more than 12."""
    person, item = RNG.integers(0, 40, N), RNG.integers(0, items, N)
    middle = np.tile([-1.0, 0.0, 1.0], (items, 1))
    with pm.Model() as model:
        u = pm.Normal("u", 0, pm.HalfNormal("scale"), shape=40)
        cuts = pm.Normal("cuts", middle, 1.5, shape=middle.shape, transform=ordered, initval=middle)
        observed = RNG.integers(0, 4, N)
        pm.OrderedLogistic("y", eta=u[person], cutpoints=cuts[item], observed=observed, compute_p=False)
    assert find_groups(model, read_model(model, model.value_vars, None, None)).names == names


@pytest.mark.parametrize(("levels", "names"), [((5, 4), ("u",)), ((5, 7, 6), ("u", "v7")), ((13, 3), ("u", "v13"))])
def test_few_levels_of_several_factors_are_shared(levels, names):
    """As many of the smallest as have 12 levels together."""
    with pm.Model() as model:
        mean = pm.Normal("u", 0, pm.HalfNormal("scale"), shape=40)[RNG.integers(0, 40, N)]
        for n in levels:
            mean += pm.Normal(f"v{n}", 0, 1, shape=n)[RNG.integers(0, n, N)]
        pm.Normal("y", mean, 1, observed=RNG.normal(size=N))
    assert find_groups(model, read_model(model, model.value_vars, None, None)).names == names


def test_a_factor_that_is_the_mean_of_another_is_shared():
    mean_of = RNG.integers(0, 31, 50)
    groups, _ = read(lambda: effects(pm.Normal("v", 0, 1, shape=31)[mean_of], 1, 50)[RNG.integers(0, 50, N)])
    assert (groups.names, groups.shared.size) == (("u",), 31)


def known_prior():
    return effects(0, 1)[INDEX] + pm.Normal("slope") * X


@pytest.mark.parametrize("write", [covariates_of_groups, known_prior])
def test_a_known_prior_keeps_effects_apart(write):
    assert read(write)[0].pooled == (write is not known_prior)
