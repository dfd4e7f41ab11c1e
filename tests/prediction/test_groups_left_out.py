"""Leave-one-group-out: integrals over effects against grids and closed forms, and estimates from a sample of groups."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from draws_at_hand import draws_of, elpd_of, model_of, pointwise, run_of
from scipy import stats
from scipy.special import logsumexp

import pymc_austerity as pma
from pymc_austerity.groups import GroupsNotFoundError
from pymc_austerity.prediction.arviz_loo import leave_out
from pymc_austerity.prediction.groups_left_out import MarginalOfGroups, quadrature, read_groups_of_run

pytestmark = pytest.mark.filterwarnings("ignore:loo. Pareto k")

RNG = np.random.default_rng(20260202)
G, PER_GROUP = 120, 8
SCHOOL = RNG.permutation(np.repeat(np.arange(G), PER_GROUP))
X = RNG.normal(size=G * PER_GROUP)
TRUE = RNG.normal(size=(G, 2)) * [0.8, 0.4]
SEEN = RNG.random(X.size) < 1 / (1 + np.exp(-TRUE[SCHOOL, 0] - TRUE[SCHOOL, 1] * X))
REAL = 1 + TRUE[SCHOOL, 0] + RNG.normal(size=X.size)
TAU = 0.7


def not_centred():
    u = pm.Normal("mu", 0, 2) + TAU * pm.Normal("z", shape=G)
    pm.Normal("y", u[SCHOOL], 1, observed=REAL)


def centred():
    pm.modelcontext(None).add_coord("school", [f"s{k}" for k in range(G)])
    pm.Normal("y", pm.Normal("u", pm.Normal("mu", 0, 2), TAU, dims="school")[SCHOOL], 1, observed=REAL)


def slopes():
    u = pm.Normal("u", 0, pm.HalfNormal("s", shape=2), shape=(G, 2))
    pm.Bernoulli("y", logit_p=pm.Normal("a") + u[SCHOOL, 0] + u[SCHOOL, 1] * X, observed=SEEN)


def heavy_tails():
    u = pm.StudentT("u", nu=3, mu=0, sigma=pm.HalfNormal("s"), shape=G)
    pm.Poisson("y", pm.math.exp(u[SCHOOL]), observed=SEEN.astype(int) * 3)


def exact_draws(draws=500):
    """Return a run with draws of the posterior of the normal models."""
    mean_of = np.bincount(SCHOOL, REAL) / PER_GROUP
    variance = TAU**2 + 1 / PER_GROUP
    precision, rng = 1 / 4 + G / variance, np.random.default_rng(1)
    mu = mean_of.sum() / variance / precision + rng.normal(size=(4, draws)) / np.sqrt(precision)
    given = 1 / (1 / TAU**2 + PER_GROUP)
    u = given * (mu[..., None] / TAU**2 + PER_GROUP * mean_of) + np.sqrt(given) * rng.normal(size=(4, draws, G))
    dims = "chain", "draw"
    of_groups = {"u": ((*dims, "g"), u), "z": ((*dims, "g"), (u - mu[..., None]) / TAU)}
    return run_of(posterior=xr.Dataset({"mu": (dims, mu), **of_groups}))


def exact_elpd():
    """Return log p(y_g | y_-g) of the normal models."""
    mean_of, variance, found = np.bincount(SCHOOL, REAL) / PER_GROUP, TAU**2 + 1 / PER_GROUP, []
    for g in range(G):
        precision = 1 / 4 + (G - 1) / variance
        mean = np.delete(mean_of, g).sum() / variance / precision
        covariance = np.eye(PER_GROUP) + TAU**2 + 1 / precision
        found.append(stats.multivariate_normal(np.full(PER_GROUP, mean), covariance).logpdf(REAL[g == SCHOOL]))
    return np.array(found)


def loo(idata, model, **options):
    return pma.loo(idata, model, **{"random_seed": 1, "progressbar": False, **options})


@pytest.mark.parametrize(
    ("define", "by", "named"),
    [
        (not_centred, "z", "0"),
        pytest.param(centred, "school", "s0", marks=pytest.mark.slow),
        pytest.param(centred, SCHOOL + 7, "7", marks=pytest.mark.slow),
    ],
)
def test_normal_groups_in_closed_form(define, by, named):
    """Each group is predicted as a new one, whatever the parametrisation, and the weights are good."""
    found = loo(exact_draws(), model_of(define), by=by)
    np.testing.assert_allclose(pointwise(found), exact_elpd(), atol=0.02)
    assert str(pointwise(found)["group"].to_numpy()[0]) == named
    assert float(pointwise(found).sum()) == pytest.approx(elpd_of(found))
    assert found["pareto_k"].max() < 0.5
    assert found["n_data_points"] == G
    assert found["subsampling_se"] == 0


@pytest.mark.slow
def test_some_of_the_groups_estimate_all():
    found = loo(exact_draws(), model_of(centred), by="u", rows=50)
    assert elpd_of(found) == pytest.approx(exact_elpd().sum(), abs=0.1)
    assert 0 < found["subsampling_se"] < 0.01
    assert found["subsample_size"] == found["pareto_k"].size == 50


@pytest.mark.slow
def test_weights_given_the_effects_are_caught():
    """Weights given the effects of each draw, which were fitted to the group, are off by more than the integrals."""
    model, idata = model_of(centred), exact_draws()
    groups = read_groups_of_run(idata, model, "u", None, False)
    plain = replace(groups, own=np.empty((G, 0), int), log_prior=None)
    errors = []
    for of in (groups, plain):
        found = leave_out(of.at_draws(np.arange(G), False), 4, 1.0)
        errors.append(np.abs(found.elpd - exact_elpd()).max())
    assert errors[0] < 0.02
    assert errors[1] > 0.3


@pytest.mark.parametrize("define", [pytest.param(slopes, marks=pytest.mark.slow), heavy_tails])
def test_integrals_over_effects_against_a_grid(define):
    """The quadrature agrees with a fine grid, from scales where the prior rules to scales where the rows do."""
    model = model_of(define)
    idata = draws_of(model, 0.3, draws=20)
    groups = read_groups_of_run(idata, model, "u", None, False)
    numbers = np.arange(0, G, 10)
    some = MarginalOfGroups(groups, numbers)
    blocks = {b.name: slice(b.start, b.stop) for b in groups.run.values.likelihood.psi_blocks}
    size = groups.own.shape[1]
    for scale in (0.02, 2.0):
        psi = groups.run.psi[3].copy()
        psi[blocks["s_log__"]] = np.log(scale)
        psi[blocks["u"]] *= scale
        grid = np.linspace(-1, 1, 121 if size == 2 else 4_001) * scale * (7 if define is slopes else 60)
        points = np.stack(np.meshgrid(*[grid] * size), axis=-1).reshape(-1, size)
        values = np.array([some.joint(psi, np.tile(point, (len(numbers), 1))) for point in points])
        exact = logsumexp(values, axis=0) + size * np.log(grid[1] - grid[0])
        np.testing.assert_allclose(some(psi), exact, atol=0.006 if define is slopes else 0.03)


def test_quadrature_of_normal_densities():
    """In 1 to 5 dimensions a normal density times a quadratic has the integral that it should."""
    for size in range(1, 6):
        nodes, log_weights = quadrature(size)
        density = np.exp(log_weights + stats.norm.logpdf(nodes).sum(axis=1))
        assert density.sum() == pytest.approx(1)
        assert density @ (nodes**2).sum(axis=1) == pytest.approx(size)


def test_rows_of_one_label_are_left_out_together():
    """Without effects the log-likelihoods of a group are added up; in closed form for a normal mean."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0, 2), 1, observed=REAL)
    n, label = REAL.size, np.array([f"class {k}" for k in range(24)])[SCHOOL % 24]
    precision, rng = 1 / 4 + n, np.random.default_rng(1)
    mu = REAL.sum() / precision + rng.normal(size=(4, 2_000)) / np.sqrt(precision)
    found = loo(run_of(posterior=xr.Dataset({"mu": (("chain", "draw"), mu)})), model, by=label)
    for of in np.unique(label):
        left, rest = REAL[label == of], REAL[label != of]
        p = 1 / 4 + rest.size
        mean, variance = rest.sum() / p, 1 / p
        covariance = np.eye(left.size) + variance
        exact = stats.multivariate_normal(np.full(left.size, mean), covariance).logpdf(left)
        assert float(pointwise(found).sel(group=of)) == pytest.approx(exact, abs=0.02)


def nested():
    u = pm.Normal("u", 0, pm.HalfNormal("s"), shape=G) + 0
    w = pm.Normal("w", 0, pm.HalfNormal("t"), shape=G // 4)
    pm.Normal("y", u[SCHOOL] + w[SCHOOL // 4], 1, observed=REAL)


def tied():
    covariance = np.exp(-np.abs(np.subtract.outer(np.arange(G), np.arange(G))) / 3)
    pm.Normal("y", pm.MvNormal("u", np.zeros(G), covariance, shape=G)[SCHOOL], pm.HalfNormal("s"), observed=REAL)


@pytest.mark.parametrize(
    ("define", "by", "message"),
    [
        (nested, "w", r"every group of \['u'\] lies in one group of \['w'\]"),
        (tied, "u", "their prior ties them to each other"),
        (centred, "class", "by='class' must name a variable with an entry for each group"),
        (centred, SCHOOL[:10], "must have a label for each of 960 rows"),
    ],
)
def test_refusals(define, by, message):
    model = model_of(define)
    idata = draws_of(model, 0.1)
    with pytest.raises(ValueError, match=message):
        loo(idata, model, by=by)
    if define is nested:  # the finer groups may be left out
        assert loo(idata, model, by="u")["n_data_points"] == G


def test_models_without_groups_are_refused():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), 1, observed=REAL)
    with pytest.raises(GroupsNotFoundError, match="by='mu' names no groups"):
        loo(draws_of(model, 0.1), model, by="mu")
    with pytest.raises(ValueError, match="by= does not go with data="):
        loo(draws_of(model, 0.1), model, by="mu", data=pma.Blocks({"x": REAL}))
