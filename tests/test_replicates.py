import numpy as np
import pytest
import xarray as xr

from pymc_austerity.paths import debias
from pymc_austerity.replicates import settings_of, unseen_variance

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
    part = run(phi, replications=12)
    whole = run(phi)
    assert_same(run(phi, append=part), whole)
    assert_same(run(phi, append=part, random_seed=None, replications=30), whole)
    # The new seconds differ, the old ones are kept.
    np.testing.assert_array_equal(run(phi, append=part).seconds[:12], part.seconds)


def test_gaps_are_filled_first():
    whole = run()
    assert_same(run(append=whole.isel(replication=[0, 3, 7, 20])), whole)


@pytest.mark.contract
@pytest.mark.parametrize("phi", [labelled, lambda rows: X[rows].mean()])
@pytest.mark.parametrize("store", ["netcdf", "zarr"])
def test_a_run_is_resumed_from_disk(tmp_path, store, phi):
    part, whole = run(phi, replications=12), run(phi)
    if store == "netcdf":
        part.to_netcdf(tmp_path / "run.nc")
        loaded = xr.load_dataset(tmp_path / "run.nc")
    else:
        pytest.importorskip("zarr", reason="needs zarr")
        part.to_zarr(tmp_path / "run.zarr", zarr_format=2)
        loaded = xr.open_zarr(tmp_path / "run.zarr")
    again = run(phi, append=loaded, random_seed=None)
    for name in ("replicate", "estimate", "standard_error", "level", "rows_touched"):
        np.testing.assert_array_equal(again[name], whole[name])
    assert again.attrs["alpha_reason"] == whole.attrs["alpha_reason"]
    assert again.replicate.dims == whole.replicate.dims


def test_other_settings_are_not_appended():
    part = run(replications=5)
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
    with pytest.raises(ValueError, match="shape"):
        run(lambda rows: 0.0, append=part)


def test_unseen_variance_is_what_deeper_truncations_would_add():
    result = run(alpha=0.9, replications=5)
    settings = settings_of(result)
    levels = len(result.batch)
    shares = [unseen_variance(settings, deepest) for deepest in range(1, levels + 1)]
    assert shares[0] == 1
    assert shares[-1] == 0
    assert (np.diff(shares) < 0).all()
    assert result.attrs["unseen_variance"] == shares[int(result.level.max()) - 1]
