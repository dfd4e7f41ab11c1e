"""Effects whose prior no quadratic follows, with a kink or heavy tails, against quadrature."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z
from grouped import by_group, largest_z, logistic_rows, moments, search_of
from scipy import stats
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.cholesky import NoFactorError
from pymc_austerity.groups import group_averages, group_mode
from pymc_austerity.groups.group_averages import find_means, is_curved

RNG = np.random.default_rng(31)
GROUPS, DRAWS = 30, 6_000
INDEX = np.repeat(np.arange(GROUPS), 12)
Y = (RNG.random(INDEX.size) < 1 / (1 + np.exp(1.2 - 0.7 * RNG.laplace(size=GROUPS)[INDEX]))).astype(float)
PRIORS = {
    "a kink": (pm.Laplace, {}, stats.laplace.pdf),
    # Of fewer degrees of freedom groups without an event have squares that neither draws nor the grid tell.
    "heavy tails": (pm.StudentT, {"nu": 8}, stats.t(8).pdf),
    "none": (pm.Normal, {}, stats.norm.pdf),
}


def model_of(prior):
    make, given, _ = PRIORS[prior]
    with pm.Model() as model:
        mean, log_scale = pm.Normal("mean", 0, 1), pm.Normal("log_scale", -0.3, 0.7)
        effect = make("effect", **given, **_place(make, mean, pm.math.exp(log_scale)), shape=GROUPS)
        pm.Bernoulli("y", logit_p=effect[INDEX], observed=Y)
    return model


def _place(make, mean, scale):
    return {"mu": mean, "b" if make is pm.Laplace else "sigma": scale}


@cache
def law(prior):
    """Means and sds of the mean, of the log scale and of all effects."""
    return moments(by_group(logistic_rows(Y), INDEX, GROUPS), PRIORS[prior][2])


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["a kink", "heavy tails"])
def test_the_means_of_effects_are_found(prior):
    """Where no mode was found, or one where the search began, a standard deviation and more from the means."""
    found = find_means(search_of(model_of(prior)))[0]
    mean, sd = law(prior)
    assert (np.abs(np.r_[found.mean, found.expansion.centre[found.expansion.own[:, 0]]] - mean) < sd).all()


@pytest.mark.parametrize("rounds", [6, 1])
def test_the_law_that_is_averaged_over_settles(monkeypatch, rounds):
    """Crossed effects of few rows, whose scales move by standard deviations: one round is the planted mistake."""
    rng = np.random.default_rng(17)
    u, v = rng.normal(0, 1, 900), rng.normal(0, 1, 300)
    g, h = rng.integers(0, 900, 9_000), rng.integers(0, 300, 9_000)
    with pm.Model() as model:
        effects = [pm.Normal(name, 0, pm.HalfNormal(f"sd_{name}", 1), shape=n) for name, n in (("u", 900), ("v", 300))]
        eta = pm.Normal("mean", 0, 1) + effects[0][g] + effects[1][h]
        pm.Bernoulli("y", logit_p=eta, observed=rng.random(9_000) < 1 / (1 + np.exp(-u[g] - v[h])))
    search = search_of(model)
    centre = group_mode.find_group_centre(search)
    monkeypatch.setattr(group_averages, "_ROUNDS", rounds)
    first, left = group_averages.steer_groups(search, centre)
    assert left > group_averages._SMALL  # else there is one round anyway
    again = group_averages.average([search.expand(theta) for theta in group_averages._cloud(search, first, rng)[0]])
    moved = np.linalg.solve(first.factor, group_mode.normal_law(search, again)[0] - first.mean)
    assert (np.abs(moved).max() < 0.3) == (rounds > 1)


def test_an_average_without_a_law_does_not_steer(monkeypatch):
    """The expansion at the centre does; models were refused, as ordered results by steps of an ordered covariate."""
    with pm.Model() as model:
        effect = pm.Normal("effect", 0, pm.HalfNormal("scale", 1), shape=GROUPS)
        pm.Bernoulli("y", logit_p=effect[INDEX], observed=Y)
    search = search_of(model)
    centre = group_mode.find_group_centre(search)
    monkeypatch.setattr(group_averages, "_SMALL", 0.0)
    assert group_averages.steer_groups(search, centre)[0].expansion is not centre.expansion

    def without_factor(*given):
        raise NoFactorError("not positive definite")

    monkeypatch.setattr(group_averages, "normal_law", without_factor)
    assert group_averages.steer_groups(search, centre)[0].expansion is centre.expansion


@pytest.mark.slow
def test_two_outcomes_of_one_effect_find_their_loading(monkeypatch):
    """A first step that ends where the loading is 0, and the density none, ended the search where it began."""
    rng, index = np.random.default_rng(13), np.arange(1500) % 50
    u = rng.normal(size=50)[index]
    with pm.Model() as model:
        effect = pm.HalfNormal("scale", 1) * pm.Normal("z", 0, 1, shape=50)[index]
        loading, level = pm.Normal("loading", 1, 0.5), pm.Normal("level", 0, 1, shape=2)
        pm.Normal("first", level[0] + effect, pm.HalfNormal("noise", 1), observed=0.5 + u + rng.normal(size=1500))
        yes = rng.random(1500) < 1 / (1 + np.exp(-0.8 * u))
        pm.Bernoulli("second", logit_p=level[1] + loading * effect, observed=yes.astype(int))
    search = search_of(model)
    found = find_means(search)[0]
    sd = np.sqrt((found.factor**2).sum(axis=1))
    assert (np.abs(found.mean - [0, 0.8, 0.5, 0, 0])[[0, 1, 2, 4]] < 3 * sd[[0, 1, 2, 4]]).all()
    monkeypatch.setattr(group_mode, "_NEARER", (1.0,))
    assert find_means(search)[0].mean.tolist() == [0, 1, 0, 0, 0]


@pytest.mark.slow
def test_a_prior_with_a_kink_has_no_curvature():
    for prior in ("a kink", "none"):
        search = search_of(model_of(prior))
        assert is_curved(search, search.expand(search.data.theta0)) == (prior == "none")


@pytest.mark.slow
def test_a_mode_at_the_kinks_of_all_effects_is_no_centre():
    """Of 30 rows a group the search for a mode ends where all effects are equal, and the mean has no width."""
    rng, index = np.random.default_rng(31), np.repeat(np.arange(100), 30)
    effects = 0.7 * rng.laplace(size=100)
    with pm.Model() as model:
        mean, scale = pm.Normal("mean", 0, 1), pm.HalfNormal("scale", 1)
        yes = rng.random(index.size) < 1 / (1 + np.exp(1 - effects[index]))
        pm.Bernoulli("y", logit_p=pm.Laplace("effect", mean, scale, shape=100)[index], observed=yes.astype(int))
    search = search_of(model)
    false = group_mode.find_group_centre(search)
    assert false.factor[0, 0] < 0.01
    assert not is_curved(search, false.expansion)
    assert abs(find_means(search)[0].mean[0] - np.median(effects) + 1) < 0.4


@pytest.mark.slow
def test_effects_have_the_law_of_quadrature():
    """Those of a prior with a kink do not have that of normal effects, which is the planted mistake."""
    model = model_of("a kink")
    step = pma.GroupMH(test=pma.Exact(), model=model, rng=1, progressbar=False)
    posterior = sampled(model, step, DRAWS, tune=600).posterior
    draws = [posterior["mean"].to_numpy(), posterior["log_scale"].to_numpy()]
    draws += list(np.moveaxis(posterior["effect"].to_numpy(), -1, 0))
    assert largest_z(draws, law("a kink")) < MAX_Z
    assert largest_z(draws, law("none")) > 2 * MAX_Z
