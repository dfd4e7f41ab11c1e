import itertools
import re

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from pymc_austerity.paths import ReplicationError, debias
from pymc_austerity.paths.truncation import Truncation

N_ROWS, SHRINK = 1_000, 100.0
X = np.random.default_rng(11).normal(2, 3, N_ROWS)
FULL = X.sum() / (N_ROWS + SHRINK)


def posterior_mean(rows):
    """Mean of a Gaussian mean under a N(0, 1/SHRINK) prior: far from FULL on small subsets."""
    return X[rows].sum() / (len(rows) + SHRINK)


def run(phi=posterior_mean, **settings):
    defaults = {"min_batch": 10, "alpha": 0.5, "replications": 50, "random_seed": 3, "progressbar": False}
    return debias(phi, N_ROWS, **(defaults | settings))


def z_scores():
    """One z-score a seed: (estimate − φ on all rows) / standard error."""
    runs = [run(replications=400, alpha="auto", random_seed=seed) for seed in range(40)]
    return np.array([float((r.estimate[-1] - FULL) / r.standard_error[-1]) for r in runs])


def assert_unbiased(scores):
    assert abs(scores.mean() * np.sqrt(len(scores))) < 3.9
    # Too wide or too narrow standard errors; 1e-4 in each tail, and skewed replicates take part of that.
    assert 1e-4 < stats.chi2.cdf((scores**2).sum(), len(scores)) < 1 - 1e-4


@pytest.mark.filterwarnings("ignore:The standard error may say too little")
@pytest.mark.slow
def test_unbiased_over_many_seeds():
    assert_unbiased(z_scores())


@pytest.mark.filterwarnings("ignore:The standard error may say too little")
@pytest.mark.slow
def test_a_planted_bias_is_seen(monkeypatch):
    """No replication goes to the end; `test_replication.py` plants wrong weights and a path without its last batch."""
    right = Truncation.draw
    monkeypatch.setattr(Truncation, "draw", lambda law, rng: min(right(law, rng), len(law.sizes) - 1))
    with pytest.raises(AssertionError):
        assert_unbiased(z_scores())


def test_subsets_are_nested_and_fresh_in_each_replication():
    seen = []

    def phi(rows):
        seen.append(np.array(rows))
        return 0.0

    result = run(phi, replications=30)
    position = 0
    firsts = []
    for level in result.level.values:
        path = seen[position : position + level]
        position += level
        assert [len(rows) for rows in path] == result.batch_size.values[:level].tolist()
        for smaller, larger in itertools.pairwise(path):
            np.testing.assert_array_equal(larger[: len(smaller)], smaller)
        assert len(np.unique(path[-1])) == len(path[-1])
        firsts.append(tuple(path[0]))
    assert position == len(seen)
    assert len(set(firsts)) == 30
    np.testing.assert_array_equal(
        result.rows_touched, [result.batch_size.values[:t].sum() for t in result.level.values]
    )


def test_result_holds_everything():
    result = run(lambda rows: X[rows].mean(), alpha="auto")
    assert set(result.data_vars) == {
        "replicate", "level", "rows_touched", "seconds", "estimate", "standard_error", "batch_size",
        "tail_probability",
    }  # fmt: skip
    values = result.replicate.values
    np.testing.assert_allclose(result.estimate, [values[: k + 1].mean() for k in range(50)])
    np.testing.assert_allclose(result.standard_error[1:], [stats.sem(values[: k + 1]) for k in range(1, 50)])
    assert np.isnan(result.standard_error[0])
    assert "β" in result.attrs["alpha_reason"]
    assert 0 < result.attrs["alpha"] < 2
    assert result.attrs["pilot_rows"] == 24 * 310
    assert result.attrs["stopped"] == "replications done"
    assert 0 <= result.attrs["unseen_variance"] <= 1


def test_phi_may_return_arrays_and_labelled_arrays():
    plain = run(lambda rows: [[X[rows].mean(), X[rows].std()], [1, len(rows)]])
    assert plain.replicate.dims == ("replication", "phi_dim_0", "phi_dim_1")
    assert plain.estimate.shape == (50, 2, 2)
    np.testing.assert_allclose(plain.estimate[-1, 1, 0], 1)

    def labelled(rows):
        return xr.DataArray([X[rows].mean(), X[rows].std()], dims="moment", coords={"moment": ["mean", "sd"]})

    result = run(labelled)
    assert result.replicate.dims == ("replication", "moment")
    np.testing.assert_array_equal(result.estimate.sel(moment="sd"), plain.estimate[:, 0, 1])


def test_same_seed_same_result_and_other_seed_another():
    first, again = (run().drop_vars("seconds") for _ in range(2))
    xr.testing.assert_identical(first, again)
    assert not np.allclose(first.replicate, run(random_seed=4).replicate)
    np.testing.assert_array_equal(*(run(random_seed=np.random.default_rng(1)).replicate for _ in range(2)))


def test_a_random_phi_gets_its_own_generator():
    draws = []

    def noisy(rows, rng):
        draws.append(rng.random())
        return posterior_mean(rows) + draws[-1]

    first, again = run(noisy), run(noisy)
    np.testing.assert_array_equal(first.replicate, again.replicate)
    assert len(set(draws)) == len(draws) // 2
    # Neither the ordering nor the truncation shares its stream with φ's generator.
    np.testing.assert_array_equal(first.level, run().level)


def test_tolerance_stops_at_the_first_sufficient_replication():
    result = run(replications=None, tolerance=0.1)
    errors = result.standard_error.values
    assert errors[-1] <= 0.1
    assert (errors[24:-1] > 0.1).all()
    assert result.attrs["stopped"] == "tolerance reached"
    capped = run(replications=30, tolerance=1e-9)
    assert capped.sizes["replication"] == 30
    two = run(lambda rows: [posterior_mean(rows), 10 * posterior_mean(rows)], replications=None, tolerance=[1, 1])
    assert (two.standard_error[-1] <= 1).all()
    with pytest.raises(ReplicationError, match=r"tolerance of shape \(3,\).*phi.*shape \(2,\)"):
        run(lambda rows: [X[rows].mean(), X[rows].std()], tolerance=[1.0, 1.0, 1.0])


def test_max_seconds_gives_at_least_one_replication():
    result = run(replications=None, max_seconds=0.2)
    assert result.attrs["stopped"] == "max_seconds reached"
    assert result.sizes["replication"] > 10
    assert run(replications=None, max_seconds=1e-9).sizes["replication"] == 1


def test_the_progress_bar_shows_estimate_and_error(capsys):
    run(progressbar=True)
    shown = capsys.readouterr().out
    assert "±" in shown
    assert "50/50" in shown
    run(progressbar=False)
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"replications": None}, "when to stop"),
        ({"replications": 0}, "replications"),
        ({"replications": 2.5}, "replications=2.5 must be a whole number"),
        ({"tolerance": -1}, "tolerance"),
        ({"max_seconds": 0}, "max_seconds"),
        ({"min_batch": 0}, "min_batch"),
        ({"alpha": 1_000}, "alpha"),
        ({"alpha": "best"}, "alpha='best' must be a number or 'auto'"),
        ({"alpha": "auto", "pilot_paths": 7}, "pilot_paths must be .* at least 8"),
        ({"alpha": "auto", "pilot_paths": 9.5}, "pilot_paths"),
    ],
)
def test_bad_arguments_are_refused_before_phi_is_called(settings, message):
    calls = []
    with pytest.raises((TypeError, ValueError), match=message):
        run(lambda rows: calls.append(rows) or 0.0, **settings)
    assert not calls


@pytest.mark.parametrize(
    ("phi", "message"),
    [
        (lambda rows: np.nan, "not finite"),
        (lambda rows: X[rows], "shape"),
        (lambda rows: "mean", "real numbers"),
        (lambda rows: 1 / 0, "ZeroDivisionError"),
        (lambda rows: xr.DataArray([1.0], dims="batch"), "taken"),
        (lambda rows, rng: np.ones(rng.integers(1, 9)), "shape"),
    ],
)
def test_errors_of_phi_are_explained(phi, message):
    with pytest.raises(ReplicationError, match=message):
        run(phi)


def test_an_error_of_phi_keeps_what_was_finished():
    calls = []

    def fails_late(rows):
        calls.append(len(rows))
        if len(calls) > 40:
            raise OSError("disk gone")
        return posterior_mean(rows)

    with pytest.raises(ReplicationError, match="disk gone") as caught:
        run(fails_late)
    finished = caught.value.finished
    assert finished.sizes["replication"] > 5
    completed = run(append=finished, random_seed=None)
    np.testing.assert_array_equal(completed.replicate, run().replicate)
    shapes = iter(19 * [2] + [3])
    with pytest.raises(ReplicationError, match=r"shape \(3,\) in replication 19 and \(2,\) before") as caught:
        run(lambda rows: np.ones(next(shapes)), min_batch=N_ROWS)
    assert caught.value.finished.sizes["replication"] == 19


MILLION = np.random.default_rng(3).normal(2, 1, 1_000_000)


@pytest.mark.parametrize(
    ("alpha", "unseen", "said"),
    [
        (0.5, (0.0, 0.1), None),
        (1.5, (0.9, 1.0), r"9\d% of the variance comes from batches of more than [\d,]+ rows, which none of 100"),
        (2.5, (0.99, 1.0), r"100% of the variance .* alpha = 2.5 is not below the convergence rate β = 1"),
    ],
)
def test_a_run_says_when_most_of_its_variance_is_unseen(recwarn, alpha, unseen, said):
    settings = {"min_batch": 20, "alpha": alpha, "replications": 100, "random_seed": 1, "progressbar": False}
    result = debias(lambda q: MILLION[q].sum() / (len(q) + 10), len(MILLION), **settings)
    assert unseen[0] <= result.attrs["unseen_variance"] <= unseen[1]
    if said is None:
        assert not recwarn.list
        assert result.attrs["doubts"] == ""
    else:
        assert re.search(said, str(recwarn.pop(UserWarning).message))
        assert re.search(said, result.attrs["doubts"])


@pytest.mark.parametrize(
    "phi",
    [posterior_mean, lambda rows, rng: rng.normal(), lambda rows, rng: rng.standard_cauchy()],
    ids=["a prior worth more rows than the batches", "noise of its own", "no variance"],
)
def test_a_run_says_when_its_fitted_rate_is_not_positive(phi):
    with pytest.warns(UserWarning, match="rate is not clearly positive"):
        result = run(phi, alpha="auto")
    assert result.attrs["beta"] <= result.attrs["beta_error"]
    assert "rate is not clearly positive" in result.attrs["doubts"]


@pytest.mark.parametrize("cost", [lambda n: np.inf, lambda n: np.nan, lambda n: -n, lambda n: 0, lambda n: "n"])
def test_a_cost_that_is_no_finite_number_is_refused(cost):
    with pytest.raises(ValueError, match=r"cost must return a finite number above 0 for every batch, found .* 10 rows"):
        run(alpha="auto", cost=cost)
