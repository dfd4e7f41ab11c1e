"""Leave-one-out from a sample of the rows, against ArviZ's on all and against closed forms."""

import warnings

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from draws_at_hand import (
    MODELS,
    REAL,
    N,
    X,
    crossed,
    draws_of,
    elpd_of,
    in_blocks,
    logistic,
    model_of,
    pointwise,
    repeated,
    run_of,
    two_outcomes,
    unknown_scale,
)
from scipy import stats

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import group
from pymc_austerity.likelihood.row_entries import entries_read
from pymc_austerity.prediction.arviz_loo import effective_share, leave_out
from pymc_austerity.prediction.loo_surrogate import spread_directions, surrogate_of_rows
from pymc_austerity.prediction.row_strata import draw_strata, estimate_sum
from pymc_austerity.prediction.rows_of_run import read_rows_of_run

pytestmark = pytest.mark.filterwarnings("ignore:loo. Pareto k")


def p_of(result):
    return result["p_loo" if hasattr(result, "index") else "p"]


def loo(idata, model, **options):
    return pma.loo(idata, model, **{"rows": 300, "random_seed": 1, "progressbar": False, **options})


@pytest.fixture(scope="module", params=[unknown_scale, crossed, two_outcomes], ids=lambda define: define.__name__)
def case(request):
    """A run, and what is found for all of its rows."""
    model = model_of(request.param)
    idata = draws_of(model, MODELS[request.param])
    run = read_rows_of_run(idata, model, None, None, False)
    surrogate = surrogate_of_rows(run, np.random.default_rng(1), False)
    values = run.at_numbers(np.arange(len(run.table)), False, "")
    return model, idata, run, surrogate, leave_out(values, 4, effective_share(idata))


def test_agrees_with_arviz_on_all_rows(case):
    """The estimate of 300 rows lies within four of its standard errors, which are small, of ArviZ's on all."""
    model, idata, _, _, truth = case
    found, n = loo(idata, model), len(truth.elpd)
    se = found["subsampling_se"]
    assert abs(elpd_of(found) - truth.elpd.sum()) < 4 * se
    assert se < 0.1 * found["se"]
    assert found["se"] == pytest.approx(np.sqrt(n * truth.elpd.var()), rel=0.02)
    assert p_of(found) == pytest.approx((truth.lpd - truth.elpd).sum(), rel=0.1)
    assert found["n_data_points"] == n
    assert found["subsample_size"] == 300


def z_scores(surrogate, truth, estimate=estimate_sum):
    """Return errors in standard errors, over samples of 300 rows."""
    rng, found = np.random.default_rng(3), []
    for _ in range(100):
        strata = draw_strata(surrogate.influence, 300, rng)
        total = estimate(surrogate.elpd, strata, truth.elpd[strata.rows])
        found.append((total.total - truth.elpd.sum()) / np.sqrt(total.variance))
    return np.array(found)


def covers(z):
    """Whether errors are of the size that is said: of 100, 86 or more within 1.96 (1 in 5,000 fewer at 95 %)."""
    return np.mean(np.abs(z) < 1.96) >= 0.86 and 0.7 < np.sqrt(np.mean(z**2)) < 1.5 and abs(z.mean()) < 0.5


def test_errors_are_as_large_as_said(case):
    """Whatever is added to every row's surrogate; the sum of the surrogate alone, off by as much, is not covered."""
    *_, surrogate, truth = case
    off = surrogate._replace(elpd=surrogate.elpd + 0.01)

    def sums_alone(of_rows, strata, values):
        return estimate_sum(of_rows, strata, values)._replace(total=float(of_rows.sum()))

    assert covers(z_scores(surrogate, truth))
    assert covers(z_scores(off, truth))
    assert not covers(z_scores(off, truth, sums_alone))


def test_linear_regression_in_closed_form():
    """With a known scale row i given the others is N(x b₋ᵢ, s² + xᵀΣ₋ᵢx), and the surrogate of each row says so."""
    n, d = 2_000, 4
    rng = np.random.default_rng(7)
    x = rng.standard_t(4, size=(n, d))
    y = x.sum(axis=1) + rng.normal(size=n)
    with pm.Model() as model:
        pm.Normal("y", x @ pm.Normal("b", 0, 1, shape=d), 1, observed=y)
    precision = x.T @ x + np.eye(d)
    mean, covariance = np.linalg.solve(precision, x.T @ y), np.linalg.inv(precision)
    leverage = np.einsum("ij,jk,ik->i", x, covariance, x)
    residual = (y - x @ mean) / (1 - leverage)
    exact = stats.norm.logpdf(residual, 0, np.sqrt(1 / (1 - leverage)))
    # Draws whose mean and covariance are those of the posterior, so that they add no error of their own.
    z = rng.normal(size=(2_000, d))
    z = (z - z.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(z.T)).T)
    draws = (mean + z @ np.linalg.cholesky(covariance).T).reshape(4, 500, d)
    idata = run_of(posterior=xr.Dataset({"b": (("chain", "draw", "k"), draws)}))
    run = read_rows_of_run(idata, model, None, None, False)
    surrogate = surrogate_of_rows(run, rng, False)
    np.testing.assert_allclose(surrogate.elpd, exact, rtol=2e-4)
    found = loo(idata, model)
    assert abs(elpd_of(found) - exact.sum()) < 0.02
    assert p_of(found) == pytest.approx(d, rel=0.1)


@pytest.mark.slow
def test_all_rows_give_what_arviz_gives():
    """And entries add up to the estimate, of some rows too."""
    model = model_of(logistic)
    idata = draws_of(model, MODELS[logistic])
    with model:
        pm.compute_log_likelihood(idata, progressbar=False)
    theirs, ours, some = az.loo(idata, pointwise=True), loo(idata, model, rows=N), loo(idata, model)
    assert elpd_of(ours) == pytest.approx(float(elpd_of(theirs)), rel=1e-9)
    assert ours["subsampling_se"] == 0
    assert ours["se"] == pytest.approx(float(theirs["se"]), rel=1e-3)
    assert float(pointwise(some).sum()) == pytest.approx(elpd_of(some), rel=1e-12)
    assert pointwise(some).dims == ("row",)
    assert some["pareto_k"].sizes == {"row": 300}
    assert elpd_of(loo(idata, model)) == elpd_of(some) != elpd_of(loo(idata, model, random_seed=2))


def test_compare_takes_it():
    """ArviZ ranks the models, by a difference that is that of the estimates."""
    model, poorer = model_of(logistic), model_of(repeated)
    results = {"all": loo(draws_of(model, 0.05), model), "signs": loo(draws_of(poorer, 0.05), poorer)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = az.compare(results)
    assert list(table.index) == ["all", "signs"]
    difference = elpd_of(results["all"]) - elpd_of(results["signs"])
    assert table["elpd_diff"].abs().max() == pytest.approx(difference, rel=0.05)  # it is rounded to its error
    assert "elpd" in str(results["all"])


def test_blocks_as_in_memory():
    """Rows that are read in parts give what the same rows give in memory, and need not be those of the model."""
    whole, example, table = in_blocks()
    idata = draws_of(whole, 0.05)
    found = loo(idata, example, data=table)
    assert elpd_of(found) == pytest.approx(elpd_of(loo(idata, whole)), rel=1e-9)
    assert found["n_data_points"] == N


def test_a_step_lends_what_it_has_read(monkeypatch):
    """Nothing is read of the model again, and the result is the same; a step of another model is refused."""
    model, other = model_of(logistic), model_of(without_slopes)
    idata = draws_of(model, 0.05)
    expected = elpd_of(loo(idata, model))
    steps = [pma.PenaltyMH(model=model, progressbar=False), pma.ExactMH(model=other, proxy=None)]
    monkeypatch.setattr("pymc_austerity.prediction.rows_of_run.read_model", None)
    assert elpd_of(loo(idata, model, step=steps[0])) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(ValueError, match="step= was built for another model"):
        loo(idata, model, step=steps[1])
    with pytest.raises(TypeError, match="step=.* must be a step of pymc_austerity"):
        loo(idata, model, step=pm.Metropolis(model=model))
    with pytest.raises(ValueError, match="both say where the rows are"):
        loo(idata, model, step=steps[0], data=pma.Blocks({"x": X}))


def test_rows_of_large_influence_are_all_evaluated():
    """Ten rows with a hundredfold covariate are among those evaluated, and their Pareto k is warned of."""
    x = np.random.default_rng(2).normal(size=N)
    x[::300] *= 100
    with pm.Model() as model:
        pm.Normal("y", x * pm.Normal("b"), 1, observed=x / 2 + REAL - X.sum(axis=1) / 2)
    with pytest.warns(UserWarning, match="Pareto k of 1?[0-9] of the 300 rows"):
        found = loo(draws_of(model, 0.03), model)
    assert set(range(0, N, 300)) <= set(found["pareto_k"]["row"].to_numpy())
    assert found["warning"]


@pytest.mark.parametrize("define", MODELS, ids=lambda define: define.__name__)
def test_directions_have_the_variance_of_draws(define):
    """Σ (d·g)² is the variance of g·ψ over draws, for gradients that read what rows read; on average for `paired`."""
    model = model_of(define)
    idata = draws_of(model, MODELS[define], draws=200)
    run = read_rows_of_run(idata, model, None, None, False)
    away = (run.psi - run.psi.mean(axis=0)) / np.sqrt(len(run.psi) - 1)
    picked, by_all = entries_read(run.values.likelihood)
    rng, ratios = np.random.default_rng(1), []
    directions = spread_directions(away, picked, by_all, rng)
    for _ in range(200):
        gradient = np.zeros(run.psi.shape[1])
        gradient[by_all] = rng.normal(size=by_all.size)
        for entries in picked:
            of_row = rng.choice(len(entries.numbers), 1 if entries.one_each else 2, replace=False)
            gradient[entries.numbers[of_row]] = rng.normal(size=(len(of_row), entries.numbers.shape[1]))
        ratios.append(np.sum((directions @ gradient) ** 2) / np.sum((away @ gradient) ** 2))
    exact = len(picked) < 2 and all(entries.one_each for entries in picked)
    assert np.std(ratios) < (1e-8 if exact else 0.5)
    assert np.mean(ratios) == pytest.approx(1, abs=1e-8 if exact else 0.1)


def test_many_parameters_take_random_directions():
    rng = np.random.default_rng(1)
    away = rng.normal(size=(500, 200)) @ np.diag(rng.lognormal(size=200))
    directions = spread_directions(away, [], np.arange(200), rng)
    gradients = rng.normal(size=(200, 300))
    ratios = ((directions @ gradients) ** 2).sum(axis=0) / ((away @ gradients) ** 2).sum(axis=0)
    assert len(directions) == 64
    assert np.mean(ratios) == pytest.approx(1, abs=0.15)
    assert np.std(ratios) < 0.3


def test_refusals():
    """Few rows, other data, draws that are missing, and rows that are impossible are named."""
    model = model_of(logistic)
    idata = draws_of(model, 0.05)
    with pytest.raises(ValueError, match="rows=10 must be at least 50"):
        loo(idata, model, rows=10)
    with pytest.raises(ValueError, match=r"holds draws of \['b'\], and the model has none of these"):
        loo(idata, model_of(without_slopes))
    stats_of_run = xr.Dataset({"data_digest": (("chain", "draw"), np.full((4, 100), 12345679))})
    elsewhere = run_of(posterior=group(idata, "posterior"), sample_stats=stats_of_run)
    with pytest.raises(ValueError, match=r"Pass the same pma.Blocks"):
        loo(elsewhere, model)


def without_slopes():
    pm.Normal("y", pm.Normal("another"), 1, observed=REAL)


def test_numbers_that_are_not_finite_are_refused():
    """Rows that are impossible, and draws at an end of the support."""
    with pm.Model() as model:
        pm.Uniform("y", 0, pm.HalfNormal("top", 5, initval=9.0), observed=np.linspace(0.01, 3, 500))
    with pytest.raises(ValueError, match="importance sampling needs a finite one at every draw"):
        loo(draws_of(model, 0.05), model, rows=500)
    with pm.Model() as model:
        pm.Normal("y", 0, pm.HalfNormal("s"), observed=REAL)
    idata = run_of(posterior=xr.Dataset({"s": (("chain", "draw"), np.arange(8.0).reshape(2, 4))}))
    with pytest.raises(ValueError, match=r"draws of \['s_log__'\] are not finite"):
        loo(idata, model)
