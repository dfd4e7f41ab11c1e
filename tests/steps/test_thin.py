"""Several transitions a draw: the states of a chain of single ones, thinned, and statistics that add up."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
from pymc.exceptions import SamplingError
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.kernel import Chain

N, THIN = 300, 3
RNG = np.random.default_rng(18)
X = RNG.normal(size=(N, 2))
LABELS = (RNG.random(N) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)

with pm.Model() as MODEL:
    beta = pm.Normal("beta", 0, 1, shape=2)
    pm.Bernoulli("y", logit_p=X @ beta, observed=LABELS)


@cache
def step(thin):
    """Tests share the steps, and start chains of their own."""
    cooled = pma.Annealing(5.0, 40)
    return pma.ApproxMH(proxy=None, epsilon=0.1, batch_size=50, temperature=cooled, model=MODEL, thin=thin)


def run(thin, draws=150, step=step):
    return sampled(MODEL, step(thin), draws // thin, tune=60, seed=3, discard_tuned_samples=False, quiet=True)


def in_threes(values):
    return values.reshape(2, -1, THIN)


@pytest.fixture(scope="module")
def runs():
    return run(1), run(THIN)


def test_draws_are_every_third_state_and_tuning_is_what_it_was(runs):
    single, several = runs
    expected, found = (r.posterior["beta"].to_numpy() for r in runs)
    assert np.ptp(expected[:, THIN - 1 :: THIN], axis=1).min() > 0
    np.testing.assert_array_equal(found, expected[:, THIN - 1 :: THIN])
    np.testing.assert_array_equal(single.warmup_posterior["beta"], several.warmup_posterior["beta"])
    assert set(several.warmup_sample_stats["n_transitions"].to_numpy().ravel()) == {1}


def test_rows_and_looks_are_summed_and_acceptance_is_a_share(runs):
    single, several = (r.sample_stats for r in runs)
    assert (several["n_transitions"] == THIN).all()
    assert "n_transitions" not in single
    for name in ("n_rows", "n_stages"):
        np.testing.assert_array_equal(several[name], in_threes(single[name].to_numpy()).sum(axis=-1))
    np.testing.assert_allclose(several["accepted"], in_threes(single["accepted"].to_numpy()).mean(axis=-1))
    assert 0 < float(several["accepted"].mean()) < 1
    for name in ("full_data", "log_ratio", "log_ratio_sd", "threshold"):
        np.testing.assert_array_equal(several[name], in_threes(single[name].to_numpy())[..., -1])


def test_one_transition_fewer_would_be_seen(monkeypatch):
    made = Chain.draws
    monkeypatch.setattr(Chain, "draws", lambda self, n_draws, n, *at: made(self, n_draws, max(1, n - 1), *at))
    single, several = (run(thin, draws=30).posterior["beta"].to_numpy() for thin in (1, THIN))
    assert not np.array_equal(several, single[:, THIN - 1 :: THIN])


def test_what_was_read_is_counted_and_judged(runs):
    single, several = (pma.data_usage(r)["mean"] for r in runs)
    assert several == pytest.approx(THIN * single)
    exact = pma.MHSS(model=MODEL, thin=THIN)
    judged = pma.reliability(run(THIN, step=lambda thin: exact), MODEL, step=exact, n_states=5)
    assert judged.verdict != "do not trust"


def test_a_row_beyond_its_bound_stops_the_chain_within_a_draw():
    words = r"Row \d+ of the data changes .*at the point .*'beta'.* No draw so far is then exact"
    wrong = pma.MHSS(bound=lambda *region: np.full(N, 1e-5), thin=100_000, model=MODEL)
    wrong.stop_tuning()
    with pytest.raises(SamplingError, match=words):
        wrong.step(MODEL.initial_point())
