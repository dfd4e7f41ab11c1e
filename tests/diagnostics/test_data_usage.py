"""How much of the data a run read, by arithmetic."""

import arviz as az
import numpy as np
import pytest

from pymc_austerity.diagnostics import data_usage


@pytest.fixture
def used(sampling_result):
    """Return the usage of a run with these statistics, of draws that mix."""

    def used(stats, observed=None, seconds=None, **options):
        draws = {"mean": np.random.default_rng(0).normal(size=stats["n_rows"].shape[:2])}
        return data_usage(sampling_result(draws, stats, observed, seconds), **options)

    return used


def test_rows_are_counted_whatever_total_is_given(used):
    """Whether a draw read everything is for the step to say, not for the count."""
    rows = np.array([[100, 100, 200, 400], [100, 300, 800, 1000]])
    stats, observed = {"n_rows": rows, "full_data": rows == 1000}, {"y": np.zeros(1000)}
    usage = used(stats, observed)
    names = ["mean", "median", "q90", "max", "total_rows", "share", "full_scans"]
    assert usage[names].to_list() == pytest.approx([375, 250, np.quantile(rows, 0.9), 1000, 1000, 0.375, 1 / 8])
    usage = used(stats, observed, total_rows=10_000)
    assert usage[["total_rows", "share", "full_scans"]].to_list() == [10_000, 0.0375, 1 / 8]


def test_effective_size_is_the_smallest_of_arviz(sampling_result):
    slow, quick = np.random.default_rng(0).normal(size=(2, 4, 1000))
    for t in range(1, 1000):
        slow[:, t] += 0.9 * slow[:, t - 1]
    stats = {"n_rows": np.full((4, 1000), 250), "full_data": np.zeros((4, 1000), bool)}
    idata = sampling_result({"slow": slow, "quick": quick}, stats, {"y": np.zeros(1000)})
    usage, sizes = data_usage(idata), [float(az.ess(draws)) for draws in (slow, quick)]
    assert sizes[0] < sizes[1] / 5
    assert usage["ess"] == pytest.approx(sizes[0])
    assert usage["ess_per_million_rows"] == pytest.approx(sizes[0])  # 4,000 draws of 250 rows
    assert data_usage(idata, var_names=["quick"])["ess"] == pytest.approx(sizes[1])


def test_total_is_of_all_outcomes_that_the_step_drew_from(used):
    """And not as many rows as the longest outcome has."""
    rows = np.full((2, 4), 200)
    stats = {"n_rows": rows, "full_data": rows > 200, "total_rows": np.full((2, 4), 1500)}
    observed = {"y": np.zeros(1000), "z": np.zeros(500)}
    assert used(stats, observed)["total_rows"] == 1500
    assert used(stats, observed, total_rows=10_000)["share"] == 0.02


def test_several_steps_add_up(used):
    rows = np.stack([np.full((2, 4), 30), np.full((2, 4), 70)], axis=-1)
    full = np.zeros((2, 4, 2), dtype=bool)
    full[0, 0] = [False, True]
    stats = {"n_rows": rows, "full_data": full, "setup_passes": np.broadcast_to([4.5, 1.0], rows.shape)}
    stats["setup_seconds"] = np.broadcast_to([2.0, 3.0], rows.shape)
    usage = used(stats, seconds=7.0, total_rows=100)
    assert usage["mean"] == usage["max"] == 100
    assert usage["full_scans"] == 1 / 8
    assert usage[["setup_passes", "setup_seconds", "sampling_seconds"]].to_list() == [5.5, 5.0, 7.0]


def test_runs_that_read_nothing(used):
    nothing = {"n_rows": np.zeros((2, 4), dtype=int), "full_data": np.zeros((2, 4), dtype=bool)}
    assert np.isnan(used(nothing, total_rows=10)["ess_per_million_rows"])
