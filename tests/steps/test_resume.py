"""A run goes on from where its chains stopped, with the proposal that they had tuned."""

import numpy as np
import pymc as pm
import pytest

import pymc_austerity as pma

QUIET = {"progressbar": False, "compute_convergence_checks": False}
N = 2_000
RNG = np.random.default_rng(5)
X = RNG.normal(size=N)
Y = 1 + 2 * X + RNG.normal(size=N)


def build(shift=0.0, s="s", prior_sd=3):
    with pm.Model(coords={"term": ["one", "x"]}) as model:
        b = pm.Normal("b", 0, 10, dims="term")
        sd = pm.HalfNormal(s, prior_sd)
        pm.Normal("y", b[0] + b[1] * X, sd, observed=Y + shift)
    return model


@pytest.fixture(scope="module")
def model():
    return build()


@pytest.mark.slow
def test_the_tuned_proposal_is_kept(model):
    """Scales after the break are those before it, in another step built anew; and chains begin where they stopped."""
    with model:
        step, again = (pma.ExactMH(proxy=None) for _ in range(2))
        first = pm.sample(150, tune=150, chains=2, cores=1, step=step, random_seed=1, **QUIET)
        whole = pma.resume(first, 100, step=again, cores=2, random_seed=2, **QUIET)
    assert dict(whole.posterior.sizes) == {"chain": 2, "draw": 250, "term": 2}
    assert (whole.posterior["draw"].to_numpy() == np.arange(250)).all()
    scaling = whole.sample_stats["scaling"].to_numpy()
    np.testing.assert_allclose(scaling[:, 150:], scaling[0, 149])
    np.testing.assert_array_equal(whole.posterior["s"][:, :150], first.posterior["s"])
    same = whole.posterior["s"].to_numpy()[:, 150] == first.posterior["s"].to_numpy()[:, -1]
    np.testing.assert_array_equal(same, whole.sample_stats["accepted"].to_numpy()[:, 150] == 0)
    assert again.tuned_before is None


@pytest.mark.slow
def test_a_resumed_run_has_the_posterior(model):
    """Against least squares; a run that began far away and never tuned would be off by its start."""
    with model:
        step = pma.PenaltyMH()
        whole = pm.sample(50, tune=100, chains=2, cores=1, step=step, random_seed=1, **QUIET)
        for k in range(2):
            whole = pma.resume(whole, 1_000, step=step, cores=1, random_seed=10 + k, **QUIET)
    assert whole.posterior.sizes["draw"] == 2_050
    expected = np.linalg.lstsq(np.column_stack([np.ones(N), X]), Y, rcond=None)[0]
    found = whole.posterior["b"].mean(("chain", "draw")).to_numpy()
    assert np.abs(found - expected).max() < 4 * 0.0224 / np.sqrt(1_000)


@pytest.mark.slow
def test_groups_tune_anew_and_go_on(caplog):
    rng = np.random.default_rng(2)
    g = np.repeat(np.arange(20), 30)
    with pm.Model():
        u = pm.Normal("u", 0, pm.HalfNormal("tau", 1), shape=20)
        pm.Normal("y", u[g], 1, observed=rng.normal(0, 0.5, 20)[g] + rng.normal(size=600))
        step = pma.PenaltyMH()
        first = pm.sample(50, tune=100, chains=1, cores=1, step=step, random_seed=1, **QUIET)
        with caplog.at_level("INFO"):
            whole = pma.resume(first, 60, step=step, cores=1, random_seed=2, **QUIET)
    assert step.moves_groups
    assert whole.posterior.sizes["draw"] == 110
    assert any("tunes anew" in message for message in caplog.messages)


@pytest.mark.slow
def test_a_run_of_another_sampler_goes_on(model):
    """Its statistics and those of the step have no name in common, and are left out."""
    with model:
        first = pm.sample(20, tune=20, step=pm.Slice(), chains=2, cores=1, random_seed=1, **QUIET)
        step = pma.ExactMH(proxy=None, progressbar=False)
        run = pma.resume(first, 30, step=step, cores=1, random_seed=2, **QUIET)
    assert run["posterior"].sizes["draw"] == 50


@pytest.mark.slow
def test_resume_refuses_other_data_and_what_the_run_decides(model):
    with model:
        step = pma.ExactMH(proxy=None)
        first = pm.sample(20, tune=20, chains=1, cores=1, step=step, random_seed=1, **QUIET)
        with pytest.raises(TypeError, match="chains"):
            pma.resume(first, 10, step=step, chains=3)
        with pytest.raises(ValueError, match="draws"):
            pma.resume(first, 0.5, step=step)
    others = {"has no variable": build(s="sd"), "laws": build(prior_sd=4), "other data": build(shift=1.0)}
    for what, other in others.items():
        of_other = pma.ExactMH(proxy=None, progressbar=False, model=other)
        for judge in (pma.reliability, pma.resume):
            with pytest.raises(ValueError, match=f"step= was built for a.*{what}"):
                judge(first, model=model, step=of_other)
    of_same = pma.ExactMH(proxy=None, progressbar=False, model=build())
    with pytest.raises(ValueError, match="step= was built for another copy of this model"):
        pma.resume(first, 10, model=model, step=of_same)
    with build(shift=1.0), pytest.raises(ValueError, match="other data"):
        pma.resume(first, 10)
