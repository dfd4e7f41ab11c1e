"""The statistics of one step, in a run that it made together with steps of PyMC's own."""

import numpy as np
import pymc as pm
import pytest

import pymc_austerity as pma
from pymc_austerity.diagnostics.statistics_of_step import columns_of_step

CHAINS, DRAWS = 2, 50


@pytest.fixture
def run(sampling_result):
    """Build a run of a step for "beta", which moves in some draws, beside others that move when they like."""
    rng = np.random.default_rng(4)

    def build(place, n_others):
        accepted = rng.random((CHAINS, DRAWS, 1 + n_others)) < 0.4
        beta = np.cumsum(accepted[..., place], axis=1)[..., None] * [1.0, 0.0]
        stats = {
            "n_rows": np.full((CHAINS, DRAWS), 200),
            "accepted": accepted.astype(float),
            "scaling": np.broadcast_to(np.arange(1.0 + n_others), accepted.shape),
        }
        return sampling_result({"beta": beta}, stats), accepted[..., place]

    return build


@pytest.mark.parametrize(("place", "n_others"), [(0, 0), (0, 1), (1, 1), (1, 2)])
def test_columns_are_those_of_the_step_that_moved_the_variable(run, place, n_others):
    idata, accepted = run(place, n_others)
    own = columns_of_step(idata, ["beta"], 0)
    np.testing.assert_array_equal(own["accepted"], accepted)
    np.testing.assert_array_equal(own["scaling"], np.full(accepted.shape, float(place)))
    np.testing.assert_array_equal(own["n_rows"], 200)


def test_types_are_those_of_steps_that_may_stand_beside():
    # PyMC refuses to sample with two types under one name.
    ours, theirs = pma.PenaltyMH.stats_dtypes_shapes, pm.Metropolis.stats_dtypes_shapes
    shared = ours.keys() & theirs.keys()
    assert "accepted" in shared
    assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}
