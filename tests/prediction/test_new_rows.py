"""Predictions of rows, and of groups, that a model has not seen."""

import sys
import warnings

import numpy as np
import pymc as pm
import pytest
from draws_at_hand import GROUP, OTHER, REAL, G, X, draws_of

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import group

QUIET = {"random_seed": 1, "progressbar": False}


def shops(for_pymc=False):
    """Return a model with shops, whose effects follow their size, and days; and one new shop as PyMC would have it."""
    with pm.Model(coords={"shop": range(G)}) as model:
        of_shops = {"shape": G} if for_pymc else {"dims": "shop"}  # as PyMC 5 draws again what has dims
        m, scale, slope = pm.Normal("m"), pm.HalfNormal("scale"), pm.Normal("slope")
        z, w = pm.Normal("z", **of_shops), pm.Normal("w", 0, pm.HalfNormal("s"), shape=20)
        size = pm.Data("size", np.linspace(-1, 1, G))
        u = m + slope * size + scale * z
        day = pm.Data("day", OTHER)
        x, shop = pm.Data("x", X[:, 0]), pm.Data("shop_of", GROUP)
        pm.Normal("y", u[shop] + w[day] + 2 * x, 1.2, observed=pm.Data("sold", REAL))
        if for_pymc:
            z_new = pm.Normal("z_new")
            pm.Normal("y_new", m + 3 * slope + scale * z_new + w[4] + 2 * np.array([0.0, 1.0]), 1.2, shape=2)
    return model


NEW = {"x": [0, 1, 0, 1, 1, 0], "shop_of": [3, 3, G, G, G + 1, 0], "day": [4] * 5 + [25], "size": [3, 3]}


@pytest.fixture(scope="module")
def at_hand():
    """A model with draws of it, and predictions of two rows of a known shop, of two new ones, and of a new day."""
    model = shops()
    idata = draws_of(model, 0.5, draws=500)
    found = pma.posterior_predictive(idata, model, new=NEW, **QUIET)
    assert len(model["x"].get_value()) == len(X)  # the user's model keeps its rows
    return model, idata, group(found, "predictions")["y"]


def away(found, expected):
    """Return how far means, sds and correlations of two rows differ, in their Monte Carlo errors, at most."""
    a, b = (np.asarray(of).reshape(-1, 2) for of in (found, expected))
    n = len(a)
    of_mean = (a.mean(0) - b.mean(0)) / np.sqrt((a.var(0) + b.var(0)) / n)
    of_sd = np.log(a.std(0) / b.std(0)) * np.sqrt(n)
    of_correlation = np.subtract(*(np.arctanh(np.corrcoef(of.T)[0, 1]) for of in (a, b))) * np.sqrt(n / 2)
    return np.abs([*of_mean, *of_sd, of_correlation]).max()


def pymc_draws(model, idata, **options):
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pm.sample_posterior_predictive(idata, progressbar=False, random_seed=2, **options)


def test_new_rows_have_the_law_of_pymc(at_hand):
    _, idata, found = at_hand
    assert found.dims == ("chain", "draw", "row")
    other = shops(for_pymc=True)
    pm.set_data({name: NEW[name][:2] for name in ("x", "shop_of", "day")} | {"sold": [0.0, 0.0]}, model=other)
    expected = group(pymc_draws(other, idata, var_names=["y"]), "posterior_predictive")["y"]
    assert away(found[..., :2], expected) < 4.5
    assert away(found[..., [1, 0]], expected) > 20


def test_new_groups_have_the_law_of_pymc(at_hand):
    """Of a new shop, whose size is 3, the effect is drawn from its prior: two of its rows have it in common."""
    _, idata, found = at_hand
    drawn = pymc_draws(shops(for_pymc=True), idata, var_names=["y_new"])
    expected = group(drawn, "posterior_predictive")["y_new"]
    assert away(found[..., 2:4], expected) < 4.5
    assert away(found[..., [2, 4]], expected) > 8  # of two new shops
    assert away(found[..., :2], expected) > 20


def test_new_groups_of_another_factor(at_hand):
    _, idata, found = at_hand
    of = group(idata, "posterior")
    known = of["m"] - of["slope"] + of["scale"] * of["z"][..., 0]  # the size of the first shop is −1
    expected = np.sqrt(known.var() + (of["s"] ** 2).mean() + 1.2**2)
    assert float(found[..., 5].std()) == pytest.approx(float(expected), rel=0.08)


def test_quantiles_are_those_of_the_draws(at_hand, monkeypatch):
    """And rows that are worked on one after the other have them within Monte Carlo error."""
    model, idata, _ = at_hand
    new = {"x": np.linspace(0, 3, 7), "shop_of": np.arange(7), "day": np.arange(7)}
    draws = group(pma.posterior_predictive(idata, model, new=new, **QUIET), "predictions")["y"]
    options = {"new": new, "quantiles": [0.1, 0.5], **QUIET}
    found = group(pma.posterior_predictive(idata, model, **options), "predictions")["y"]
    assert found["summary"].to_numpy().tolist() == ["mean", "sd", "q0.1", "q0.5"]
    np.testing.assert_allclose(found[2:], draws.quantile([0.1, 0.5], ["chain", "draw"]))
    monkeypatch.setattr(sys.modules["pymc_austerity.prediction.posterior_predictive"], "_AT_ONCE", 4_000)
    in_parts = group(pma.posterior_predictive(idata, model, **options), "predictions")["y"]
    off = np.abs(in_parts[0] - found[0]).max()
    assert 0 < off < 4.5 * np.sqrt(2 / 2_000) * found[1].max()


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ({"x": [0.0]}, r"lacks \['day', 'shop_of'\]"),
        ({"x": [0.0], "shop_of": [G], "day": [1]}, r"data with an entry for each of \[60\] groups.*new= too"),
        ({"x": [0.0], "shop_of": [G], "day": [1], "size": [1.0, 2.0]}, r"'size' of shape \(2,\), and 1 new groups"),
        ({"x": [0.0], "shop_of": [0.5], "day": [1]}, "has 0.5 in row 0 of 'shop_of'"),
        ({"x": [np.nan], "shop_of": [0], "day": [1]}, "has nan in row 0 of 'x'"),
        ({"x": [[0.0]], "shop_of": [0], "day": [1]}, r"'x' of shape \(1, 1\), where the model has \(3000,\)"),
        ({"x": [0.0, 1.0], "shop_of": [0], "day": [1]}, "as many rows each"),
        ({"q": [0.0]}, r"new= has \['q'\], and the model holds its data in"),
        ([0.0], "must be a dict"),
        (dict, "must be a dict"),
        (None, "say in rows= which rows"),
    ],
)
def test_what_is_refused(at_hand, new, message):
    model, idata, _ = at_hand
    with pytest.raises((TypeError, ValueError), match=message):
        pma.posterior_predictive(idata, model, new=new, **QUIET)


@pytest.mark.parametrize(
    ("prior", "n", "message"),
    [
        (lambda: pm.GaussianRandomWalk("u", shape=G, init_dist=pm.Normal.dist()), G, "ties groups to each other"),
        (lambda: pm.Normal("u", pm.Data("a", np.arange(G))), G, r"data with an entry for each of \[60\] groups"),
        (lambda: pm.Normal("u", shape=3), 3, "no variable is known"),
    ],
    ids=["a walk", "means in data", "numbers computed"],
)
def test_groups_without_a_prior_of_their_own(prior, n, message):
    with pm.Model() as model:
        number = pm.Data("g", GROUP % n)
        pm.Normal("y", prior()[number if n == G else pm.math.abs(number)], 1, observed=REAL)
    idata = draws_of(model, 0.1, draws=5)
    with pytest.raises(ValueError, match=message):
        pma.posterior_predictive(idata, model, new={"g": [n]}, **QUIET)


def test_effects_of_a_new_group_are_correlated():
    """Of u₀ ± u₁ + e with a correlation of .8 the variances are 1 + 1 ± 1.6 + 1; a potential of them is refused."""
    with pm.Model() as model:
        u = pm.MvNormal("u", np.zeros(2), np.array([[1, 0.8], [0.8, 1]]), shape=(G, 2))
        shop = pm.Data("shop", GROUP)
        pm.Normal("y", u[shop, 0] + u[shop, 1] * pm.Data("x", X[:, 0]), 1, observed=REAL)
    idata, new = draws_of(model, 0.1, draws=500), {"shop": [G, G], "x": [1.0, -1.0]}
    drawn = group(pma.posterior_predictive(idata, model, new=new, **QUIET), "predictions")["y"]
    np.testing.assert_allclose(drawn.std(("chain", "draw")), np.sqrt([4.6, 1.4]), rtol=0.08)
    with model:
        pm.Potential("p", -(u**2).sum())
    with pytest.raises(ValueError, match="no drawing from the potential 'p'"):
        pma.posterior_predictive(idata, model, new=new, **QUIET)
