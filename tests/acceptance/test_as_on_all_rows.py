"""Tests that have read all rows make the decisions of the exact test, draw for draw."""

from functools import partial

import numpy as np
import pymc as pm
import pytest
from scipy import special

import pymc_austerity as pma
from pymc_austerity.acceptance import Barker, ExactBarker

N = 600
WALK = {"proxy": None, "proposal": pma.RandomWalk(scale=0.1)}
METROPOLIS, BARKER = partial(pma.ExactMH, **WALK), partial(pma.ExactMH, test=ExactBarker(), **WALK)
#: Steps that read on to all rows; what decides there, of every test, is in tests/test_contracts.py.
STEPS = {
    "a bound without end": (METROPOLIS, partial(pma.MHSubLhd, bound=lambda theta, new: 1e30, **WALK)),
    "no batch is normal": (
        BARKER,
        partial(pma.MinibatchBarker, batch_size=20, normality_tol=1e-9, skewness=True, **WALK),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def sample():
    """Sample a logistic regression with a step; a run that was made is not made again."""
    rng, made = np.random.default_rng(4), {}
    x = rng.normal(size=N)
    with pm.Model() as model:
        slope = pm.Normal("slope", 0.3, 0.1)
        pm.Bernoulli("y", logit_p=slope * x, observed=(rng.random(N) < 0.5).astype(int))

    def run(build):
        if build not in made:
            with model:
                made[build] = pm.sample(
                    300, tune=50, step=build(), chains=2, cores=1, random_seed=12, progressbar=False,
                    compute_convergence_checks=False,
                )  # fmt: skip
        return made[build]

    return run


@pytest.mark.slow
@pytest.mark.parametrize(("exact", "step"), STEPS.values(), ids=STEPS)
def test_draws_are_those_of_the_exact_test(sample, exact, step):
    ours, right = (sample(build).posterior["slope"].to_numpy() for build in (step, exact))
    np.testing.assert_array_equal(ours, right)
    assert len(np.unique(right)) > 50
    stats = sample(step).sample_stats
    assert (stats["n_rows"] == N).all()
    if exact is BARKER:
        assert stats["full_data"].all()
        assert stats["accept"].to_numpy() == pytest.approx(special.expit(stats["log_ratio"].to_numpy()))


@pytest.mark.slow
def test_draws_of_fewer_rows_or_another_test_differ(sample):
    careless = sample(partial(pma.ApproxMH, epsilon=0.2, batch_size=100, **WALK)).posterior["slope"]
    exact, barker = sample(METROPOLIS), sample(BARKER)
    assert not np.array_equal(careless, exact.posterior["slope"])
    assert barker.sample_stats["accepted"].mean() < exact.sample_stats["accepted"].mean()


def test_exact_step_refuses_another_test():
    with pm.Model():
        pm.Normal("y", pm.Normal("mu"), observed=np.arange(9.0))
        with pytest.raises(TypeError, match="its own step"):
            pma.ExactMH(proxy=None, test=Barker(100))
