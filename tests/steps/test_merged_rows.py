"""Steps on rows that repeat: the same posterior from distinct rows with their counts."""

import logging

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_austerity as pma
from pymc_austerity import rows as rows_room
from pymc_austerity.bounds import RemainderBounds, is_quadratic_in_data, moment_rows
from pymc_austerity.likelihood import NotRowWiseError, RowLikelihood, compile_density, model_data, read_model
from pymc_austerity.rows.merged import with_counts

N = 1_200
_rng = np.random.default_rng(3)
GROUP, LEVEL = _rng.integers(0, 4, N), _rng.integers(-1, 2, N).astype(float)
LABELS = (_rng.random(N) < 1 / (1 + np.exp(0.4 * GROUP - 0.5 * LEVEL))).astype(int)
WHOLE = np.round(_rng.normal(0.3 * LEVEL, 2.0))
SAMPLING = {"chains": 1, "cores": 1, "progressbar": False, "compute_convergence_checks": False, "random_seed": 5}


def _logistic():
    effect, slope = pm.Normal("effect", 0, 1, shape=4), pm.Normal("slope", 0, 1)
    group, level = pm.Data("group", GROUP), pm.Data("level", LEVEL)
    pm.Bernoulli("y", logit_p=effect[group] + slope * level, observed=pm.Data("labels", LABELS))


def _poisson():
    pm.Poisson("y", pm.math.exp(pm.Normal("a") + pm.Normal("b") * LEVEL), observed=GROUP)


def _softmax():
    weights = pm.Normal("weights", 0, 1, shape=4)
    pm.Categorical("y", logit_p=weights * LEVEL[:, None], observed=GROUP)


def _normal():
    mu, sigma = pm.Normal("a") + pm.Normal("b") * LEVEL, pm.HalfNormal("sigma", 3)
    pm.Normal("y", mu, sigma, observed=WHOLE)


def _model(write):
    with pm.Model() as model:
        write()
    return model


def _read(model):
    return read_model(model, model.value_vars, None, None)


def _run(merge_rows):
    with _model(_logistic):
        step = pma.ExactMH(proxy=None, merge_rows=merge_rows)
        return pm.sample(step=step, tune=150, draws=150, **SAMPLING)


def _agree(one, other):
    # After many draws rounding may decide otherwise; a count that is wrong shows at once.
    return np.allclose(one.sample_stats["log_ratio"], other.sample_stats["log_ratio"], rtol=1e-6, atol=1e-6)


def _without_counts(rows):
    merged = with_counts(rows)
    return rows_room.Rows((*merged.values, np.ones(len(merged))), merged.first)


@pytest.mark.slow
def test_merged_decisions_are_those_on_all_rows(monkeypatch):
    table, merged = _run(merge_rows=False), _run(merge_rows=True)
    assert _agree(merged, table)
    np.testing.assert_array_equal(merged.sample_stats["accepted"], table.sample_stats["accepted"])
    np.testing.assert_allclose(merged.posterior["slope"], table.posterior["slope"], rtol=1e-6)
    usage = pma.data_usage(merged)
    assert usage[["mean", "total_rows", "distinct_rows", "share"]].tolist() == [24, N, 24, 1]
    assert pma.data_usage(table)[["mean", "total_rows", "distinct_rows"]].tolist() == [N, N, N]
    monkeypatch.setattr(model_data, "merge_rows", _without_counts)
    assert not _agree(_run(merge_rows=True), table)


def test_a_wrong_multiple_of_the_count_is_refused(monkeypatch):
    counted = RowLikelihood.counted

    def wrong(self):
        found = counted(self)
        return model_data.replace(found, row_log_likelihood=found.counts * found.row_log_likelihood)

    monkeypatch.setattr(RowLikelihood, "counted", wrong)
    with _model(_logistic), pytest.raises(NotRowWiseError):
        pma.ExactMH(proxy=None)


def test_it_is_said(caplog):
    with caplog.at_level(logging.INFO, "pymc_austerity"):
        table = _read(_model(_poisson))
        assert "merged" not in caplog.text
        assert f"1,200 rows are merged to {len(table.merged().rows)} distinct ones" in caplog.text


@pytest.mark.slow
def test_new_data_are_merged_anew():
    other, first = {"group": GROUP[:500] % 2, "level": LEVEL[:500], "labels": LABELS[:500]}, []
    for merge_rows in (True, False):
        with _model(_logistic):
            step = pma.ExactMH(proxy=None, merge_rows=merge_rows)
            pm.set_data(other)
            stats = pm.sample(step=step, tune=30, draws=30, **SAMPLING).sample_stats
        assert step.decider.parts.stored.n_table == 500
        assert not merge_rows or (stats["distinct_rows"] == 12).all()
        first.append(stats["log_ratio"].values[0, 0])
    assert first[0] == pytest.approx(first[1])


@pytest.mark.parametrize(("write", "order"), [(_logistic, 3), (_poisson, 2), (_softmax, 2), (_normal, 2)])
def test_the_bound_of_a_row_is_that_of_one_times_its_count(write, order):
    table = _read(_model(write))
    merged = table.merged()
    region = (merged.theta0 + 0.1, 0.05 * np.eye(merged.likelihood.theta_size), 3.0, merged.fixed)
    of_one = RemainderBounds(table.likelihood, order)(*region, rows_room.Rows(merged.rows.values))
    expected = merged.rows.counts * of_one
    np.testing.assert_allclose(RemainderBounds(merged.likelihood, order)(*region, merged.rows), expected, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("bound", ["lipschitz", lambda theta, new: 3 * abs(new - theta).sum()])
def test_bounds_for_all_rows_hold_for_the_largest_count(bound):
    with _model(_logistic):
        step = pma.MHSubLhd(bound=bound, proxy=None)
    decider, none, shares = step.decider, np.empty(0), []
    for theta, new in np.random.default_rng(4).normal(size=(200, 2, 5)):
        limit = decider.evaluate_bound(decider.bound_constants, decider.place(new, theta, none))[0]
        sides = decider.density.both_sides(new, theta, none, *decider.parts.fixed, *decider.parts.stored.arrays)
        shares.append(np.abs(sides[0] - sides[1]).max() / limit)
    assert 0.1 < max(shares) <= 1


def test_sums_that_determine_a_likelihood_are_weighted():
    table = _read(_model(_normal))
    merged = table.merged()
    assert merged.likelihood.counts is not None
    assert is_quadratic_in_data(merged.likelihood)  # so that MHSS reads no row
    few, weight = moment_rows(merged.rows)
    density, plain = compile_density(merged.likelihood), compile_density(table.likelihood)
    theta, none = np.array([0.3, -0.2, 0.5]), np.empty(0)
    by_statistics = weight * density.both_sides(theta, theta, none, *few.arrays)[0].sum()
    assert by_statistics == pytest.approx(plain.both_sides(theta, theta, none, *table.rows.arrays)[0].sum(), rel=1e-10)


def test_a_row_without_density_has_its_number_in_the_table():
    values = np.repeat([0.25, 2.0, 0.5], 500)  # row 500 of the table lies outside where upper < 2
    with pm.Model() as model:
        upper = pm.Uniform("upper", 1, 3)
        pm.Uniform("y", 0, upper, observed=values)
        step = pma.ExactMH(proxy=None)
        assert len(step.decider.parts.stored) == 3
        with pytest.raises(pm.exceptions.SamplingError, match="row 500 "):
            step.step({model.value_vars[0].name: np.array(-2.0)})


RATE, EXPOSURE = 0.7, np.repeat(np.arange(1, 61) / 20, 100)
CLAIMS = np.random.default_rng(8).poisson(RATE * EXPOSURE)


def _distances():
    """Distance of mean and standard deviation from those of the conjugate posterior, in Monte Carlo errors."""
    with pm.Model():
        pm.Poisson("y", pm.Gamma("rate", 2, 2) * EXPOSURE, observed=CLAIMS)
        step = pma.PenaltyMH(batch_size=100, proxy=None)
        idata = pm.sample(step=step, tune=500, draws=6_000, **SAMPLING | {"chains": 2})
    assert (idata.sample_stats["n_rows"] < 400).mean() > 0.2  # a part of the 400 distinct rows decides
    posterior = stats.gamma(2 + CLAIMS.sum(), scale=1 / (2 + EXPOSURE.sum()))
    draws = idata.posterior["rate"]
    errors = {kind: float(pm.stats.mcse(idata, method=kind)["rate"]) for kind in ("mean", "sd")}
    return float(draws.mean() - posterior.mean()) / errors["mean"], float(draws.std() - posterior.std()) / errors["sd"]


@pytest.mark.slow
def test_the_posterior_of_merged_rows_is_that_of_the_table(monkeypatch):
    assert np.abs(_distances()).max() < 4
    monkeypatch.setattr(model_data, "merge_rows", _without_counts)
    assert np.abs(_distances()).max() > 8
