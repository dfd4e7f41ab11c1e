import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import settings as limit
from hypothesis import strategies as st
from scipy import stats

from pymc_austerity.paths import ReplicationError, debias
from pymc_austerity.paths.convergence_rate import Choice
from pymc_austerity.paths.replicates import (
    Replicate,
    Settings,
    result_dataset,
    running_moments,
    settings_of,
    unseen_variance,
)
from pymc_austerity.paths.runs import ReplicationProgress, Stopping
from pymc_austerity.paths.stream import debias_stream
from pymc_austerity.paths.truncation import path_sizes

N_ROWS = 1_000
X = np.random.default_rng(8).normal(size=(N_ROWS, 2))


def labelled(rows):
    return xr.DataArray(X[rows].mean(axis=0), dims="column", coords={"column": ["a", "b"]})


def run(phi=labelled, **settings):
    defaults = {"min_batch": 10, "replications": 30, "random_seed": [3, 4], "progressbar": False}
    return debias(phi, N_ROWS, **(defaults | settings))


def assert_same(first, second):
    xr.testing.assert_identical(first.drop_vars("seconds"), second.drop_vars("seconds"))


@pytest.mark.parametrize("phi", [labelled, lambda rows: X[rows].mean(axis=0), lambda rows: X[rows].mean()])
def test_appended_runs_are_one_run(phi):
    """Whatever is there already: gaps are filled first."""
    part, whole = run(phi, replications=12), run(phi)
    assert_same(run(phi, append=part), whole)
    assert_same(run(phi, append=whole.isel(replication=[0, 3, 7, 20])), whole)
    assert_same(run(phi, append=part, random_seed=None, replications=30), whole)
    # The new seconds differ, the old ones are kept.
    np.testing.assert_array_equal(run(phi, append=part).seconds[:12], part.seconds)


@st.composite
def settings_of_runs(draw):
    entropy = draw(st.integers(0, 2**128 - 1) | st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=4))
    seed = np.random.SeedSequence(entropy, spawn_key=tuple(draw(st.lists(st.integers(0, 9), max_size=2))))
    beta = draw(st.floats(0.1, 2) | st.sampled_from([np.nan, np.inf]))
    choice = Choice(draw(st.floats(0, 1.5)), beta, 0.1, "a reason", draw(st.integers(0, 10**9)))
    return Settings(N_ROWS, 10, 2.0, path_sizes(N_ROWS, 10, 2.0), choice, seed)


@limit(max_examples=8)
@given(settings_of_runs())
def test_settings_are_read_back_as_they_were(settings):
    found = settings_of(result_dataset({0: Replicate(1, 10, 0.5, np.asarray(1.0))}, settings, "stopped"))
    assert found.attrs() == pytest.approx(settings.attrs(), nan_ok=True)
    assert found.sizes == settings.sizes
    np.testing.assert_array_equal(found.seed.generate_state(4), settings.seed.generate_state(4))


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20), st.floats(-1e6, 1e6))
def test_running_moments_are_those_of_every_beginning(values, shift):
    mean, error = running_moments(np.array(values) + shift)
    beginnings = [np.array(values[: k + 1]) + shift for k in range(len(values))]
    np.testing.assert_allclose(mean, [b.mean() for b in beginnings], rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(error[1:], [stats.sem(b) for b in beginnings[1:]], rtol=1e-6, atol=1e-2)


@pytest.mark.contract
@pytest.mark.parametrize("store", ["netcdf", "zarr"])
def test_a_run_is_resumed_from_disk(tmp_path, store):
    part, whole = run(replications=12), run()
    if store == "netcdf":
        part.to_netcdf(tmp_path / "run.nc")
        loaded = xr.load_dataset(tmp_path / "run.nc")
    else:
        pytest.importorskip("zarr", reason="needs zarr")
        part.to_zarr(tmp_path / "run.zarr", zarr_format=2)
        loaded = xr.open_zarr(tmp_path / "run.zarr")
    again = run(append=loaded, random_seed=None)
    for name in ("replicate", "estimate", "standard_error", "level", "rows_touched"):
        np.testing.assert_array_equal(again[name], whole[name])
    assert again.attrs["alpha_reason"] == whole.attrs["alpha_reason"]
    assert again.replicate.dims == whole.replicate.dims


def test_other_settings_are_not_appended():
    part = run(alpha=0.1, replications=5)
    for settings, message in [
        ({"min_batch": 20}, "min_batch: 10 there, 20 here"),
        ({"ratio": 3}, "ratio"),
        ({"alpha": 0.123}, "alpha"),
        ({"random_seed": 5}, "random_seed"),
    ]:
        with pytest.raises(ValueError, match=message):
            run(append=part, **settings)
    with pytest.raises(ValueError, match="not the result of a run"):
        run(append=xr.Dataset())
    with pytest.raises(ReplicationError, match="shape"):
        run(lambda rows: 0.0, append=part)


def test_a_run_over_a_stream_is_not_appended():
    """Its replications are of rows that no other run has."""
    blocks = (X[:500, 0] for _ in range(1_000))
    options = {"n_max": N_ROWS, "min_batch": 10, "alpha": 0.5, "random_seed": 1, "progressbar": False}
    part = debias_stream(blocks, np.mean, replications=50, **options)
    with pytest.raises(ValueError, match="debias_stream"):
        run(append=part, random_seed=None)


def test_unseen_variance_is_what_deeper_truncations_would_add():
    result = run(alpha=0.5, replications=5)
    settings = settings_of(result)
    levels = len(result.batch)
    shares = [unseen_variance(settings.truncation, settings.choice, deepest) for deepest in range(1, levels + 1)]
    assert shares[0] == 1
    assert shares[-1] == 0
    assert (np.diff(shares) < 0).all()
    assert result.attrs["unseen_variance"] == shares[int(result.level.max()) - 1]


def follow(numbers, order, tolerance):
    progress = ReplicationProgress(Stopping(None, tolerance, None), {}, show=False)
    for index in order:
        progress.add(index, Replicate(1, 1, 0.0, np.asarray(numbers[index])))
    return progress


@given(st.lists(st.floats(-1e3, 1e3), min_size=26, max_size=40), st.randoms(use_true_random=False), st.floats(1, 200))
def test_order_of_arrival_does_not_move_the_end_of_a_run(numbers, random, tolerance):
    order = list(range(len(numbers)))
    random.shuffle(order)
    assert follow(numbers, order, tolerance).precise_at == follow(numbers, range(len(numbers)), tolerance).precise_at
