"""The statistics of one step, in a run that it made together with steps of PyMC's own."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.diagnostics.statistics_of_step import columns_of_step, stats_of_step

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
def test_columns_are_those_of_the_step_that_moved(run, place, n_others):
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


N_ROWS = 4_000


@pytest.fixture(scope="module")
def two_of_ours():
    """Sample two variables by a step each, of one design but for how far they go, with thin= as asked for."""
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(2, N_ROWS))

    @cache
    def build(thin=(1, 1), sizes=(100, 100), draws=300):
        with pm.Model() as model:
            level, slope = pm.Normal("level"), pm.Normal("slope")
            pm.Normal("y", level + slope * x, 1, observed=y)
            walks = [pma.AdaptiveMetropolis(target_accept=target) for target in (0.15, 0.7)]
            steps = [
                pma.PenaltyMH([rv], batch_size=size, proposal=walk, thin=n, progressbar=False)
                for rv, size, walk, n in zip((level, slope), sizes, walks, thin, strict=True)
            ]
        return sampled(model, steps, draws, tune=400, seed=1, quiet=True), model, steps

    return build


@pytest.mark.slow
@pytest.mark.parametrize("thin", [1, 2])
def test_of_two_steps_of_one_design_the_one_that_moves(two_of_ours, thin):
    idata, model, steps = two_of_ours((thin, thin))
    rates = idata.sample_stats["accepted"].mean(("chain", "draw")).to_numpy()
    assert rates[1] - rates[0] > 0.3
    found = [stats_of_step(idata, model, step.decider)[0]["accepted"].mean() for step in steps]
    assert found == pytest.approx(rates)
    # Planted: the first that fits.
    assert found[1] != pytest.approx(rates[0], abs=0.1)


@pytest.mark.slow
def test_another_batch_size_is_noticed_in_thinned_draws(two_of_ours):
    idata, model, steps = two_of_ours((3, 3), sizes=(100, 130), draws=50)
    found = [stats_of_step(idata, model, step.decider)[0]["n_rows"] for step in steps]
    np.testing.assert_allclose([np.min(n) for n in found], [100, 130], rtol=0.35)
    with model:
        other = pma.PenaltyMH([model["slope"]], batch_size=77, proposal=pma.AdaptiveMetropolis(), thin=3)
    with pytest.raises(ValueError, match=r"another step made them"):
        stats_of_step(idata, model, other.decider)


@pytest.mark.slow
def test_what_the_statistics_do_not_say_is_refused(two_of_ours):
    idata, model, steps = two_of_ours((1, 2), draws=20)
    with pytest.raises(ValueError, match=r"some have thin= above 1 and others not"):
        stats_of_step(idata, model, steps[1].decider)


@pytest.mark.slow
def test_steps_that_moved_together_are_not_told_apart(two_of_ours, sampling_result):
    idata, model, steps = two_of_ours((1, 1))
    stats = {name: values.to_numpy() for name, values in idata.sample_stats.items() if name != "warning"}
    stats["accepted"] = np.ones_like(stats["accepted"])
    posterior = {name: idata.posterior[name].to_numpy() for name in ("level", "slope")}
    with pytest.raises(ValueError, match=r"2 steps of this run decide as .* not say which of them moved \['slope'\]"):
        stats_of_step(sampling_result(posterior, stats), model, steps[1].decider)
