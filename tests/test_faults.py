"""Models and data on which the method fails: each has to end in a warning and a verdict, none silently.

The control is the same model on data that it describes.
"""

import logging

import numpy as np
import pymc as pm
import pytest

import pymc_austerity as pma
from pymc_austerity.diagnostics.verdicts import DO_NOT_TRUST, NOT_KNOWN, TRUST

pytestmark = pytest.mark.slow

QUIET = {"cores": 1, "random_seed": 1, "progressbar": False}
N = 4_000


def well_behaved(seed=1):
    return np.random.default_rng(seed).normal(1, 2, size=N)


def normal_model():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 100)
        sigma = pm.HalfNormal("sigma", 100)
        pm.Normal("y", mu, sigma, observed=pm.Data("data", well_behaved()))
    return model


def sampled(model, step, caplog, *, draws=500, tune=800, chains=4, **settings):
    """Run, judge, and return the verdict's report with all that was said while sampling."""
    caplog.clear()
    caplog.set_level(logging.INFO)
    with model:
        idata = pm.sample(draws, tune=tune, chains=chains, step=step, **{**QUIET, **settings})
    report = pma.reliability(idata, model, step=step, n_states=60)
    return idata, report, " ".join(r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING)


@pytest.fixture(scope="module")
def walking():
    """A sequential test whose data can be replaced."""
    model = normal_model()
    with model:
        return model, pma.ApproxMH(epsilon=0.05, batch_size=100, proxy=None)


@pytest.fixture(scope="module")
def steered():
    """A test on remainders with weighted rows; replacing the data would build the proxy anew."""
    model = normal_model()
    with model:
        return model, pma.PenaltyMH(proxy=pma.Taylor(), rows=pma.Weighted())


@pytest.mark.contract
@pytest.mark.slow
def test_a_well_behaved_model_is_trusted_without_a_warning(steered, caplog):
    idata, report, said = sampled(*steered, caplog)
    assert report.verdict == TRUST, str(report)
    assert said == ""
    assert (report.checks["remedy"] == "").all()
    names = (
        "chains, acceptance, batch means, estimated error, proxy, sums, spot check, means, spread, movement, "
        "location, scale, log posterior, record"
    )
    assert set(report.checks.index) == set(names.split(", "))
    usage = pma.data_usage(idata)
    assert usage["share"] < 0.1
    assert usage["setup_passes"] == steered[1].decider.reported.setup_passes > 1


@pytest.mark.slow
def test_chains_with_a_proxy_start_apart(steered):
    """R-hat compares chains; it can tell where they end only if they start apart."""
    step = steered[1]
    starts = []
    for seed in range(200):
        step.start_chain(np.random.default_rng(seed))
        starts.append(step.chain.start)
    spread = np.std(starts, axis=0) / step.decider.parts.prepared.draws.std(axis=0)
    assert (np.abs(spread - 2) < 0.4).all()  # of 200 starts: 4.4 standard errors of 5%, and as much of 300 draws


def replace(model, y):
    with model:
        pm.set_data({"data": y})


def start_at(y):
    """Start near the posterior: what fails is to be the decisions, not the way there."""
    return {"mu": float(y.mean()), "sigma": float(y.std())}


def test_log_normal_rows(walking, caplog):
    """A tail that batches do not see: Bardenet, Doucet and Holmes (2014), section 4.1."""
    y = np.random.default_rng(2).lognormal(0, 2, size=N)
    replace(walking[0], y)
    idata, report, said = sampled(*walking, caplog, initvals=start_at(y))
    assert report.verdict == DO_NOT_TRUST
    for check in ("batch means", "estimated error", "spot check"):
        assert report.checks.loc[check, "verdict"] == DO_NOT_TRUST, check
    assert "ApproxMH: do not trust" in said
    assert "of the decisions would have been otherwise" in said
    assert "warning" not in idata["sample_stats"]  # by a message, and not in the result
    assert "batch_size" in report.checks.loc["batch means", "remedy"]


@pytest.mark.slow
def test_a_proxy_at_a_wrong_mode(caplog):
    """The moves lead to where the surrogate is, a dozen posterior standard deviations from the posterior."""
    model = normal_model()
    with model:
        step = pma.PenaltyMH(proxy=pma.Taylor(centre={"mu": 0.5, "sigma_log__": np.log(2.8)}), rows=pma.Weighted())
    _, report, said = sampled(model, step, caplog, draws=300, tune=200)
    assert report.verdict == DO_NOT_TRUST
    # What the proxy leaves may be small beside the changes of the rows and still be large beside the posterior.
    assert report.checks.loc["chains", "verdict"] == DO_NOT_TRUST, str(report)
    assert said


@pytest.mark.slow
def test_separable_data_without_a_prior(caplog):
    """There is no posterior: the chains drift off for ever, and at different speeds."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=1_000)
    with pm.Model() as model:
        slope = pm.Flat("slope")
        pm.Bernoulli("y", logit_p=slope * x, observed=x > 0)
        step = pma.ApproxMH(epsilon=0.01, batch_size=100, proxy=None)
    _, report, _ = sampled(model, step, caplog, initvals=[{"slope": s} for s in (1.0, 5.0, 20.0, 50.0)])
    assert report.checks.loc["chains", "verdict"] == DO_NOT_TRUST


@pytest.fixture(scope="module")
def mean_model():
    y = well_behaved(5)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 100)
        pm.Normal("y", mu, 2.0, observed=y)
    return model, y.mean(), 2 / np.sqrt(N)


class TestStuckChains:
    """R-hat against chains that do not move, started further apart than the posterior is wide."""

    def run(self, model, scale, starts, caplog):
        with model:
            step = pma.ExactMH(proposal=pma.RandomWalk(scale=scale), proxy=None, tune=False)
        return sampled(model, step, caplog, draws=400, tune=100, initvals=[{"mu": s} for s in starts])

    def test_chains_that_stay_where_they_start_disagree(self, mean_model, caplog):
        model, centre, sd = mean_model
        starts = centre + sd * np.array([-3.0, -1.0, 1.0, 3.0])
        _, report, _ = self.run(model, sd / 1000, starts, caplog)
        chains = report.checks.loc["chains"]
        assert chains["verdict"] == DO_NOT_TRUST
        assert chains["value"] > 2
        # Acceptance alone would say that all is well: steps that small are nearly always accepted.
        assert report.checks.loc["acceptance", "verdict"] == TRUST

    def test_a_step_size_that_collapsed_is_told_apart(self, mean_model, caplog):
        """Chains in one place agree, accept and decide rightly; their own spread does not say how far they go."""
        model, centre, sd = mean_model
        _, report, said = self.run(model, 1e-9 * sd, [centre] * 4, caplog)
        assert report.checks.loc["movement", "verdict"] == DO_NOT_TRUST
        assert report.checks.loc["acceptance", "verdict"] == TRUST
        assert "do not trust" in said
        assert "step size has collapsed" in said

    def test_chains_that_move_agree(self, mean_model, caplog):
        model, centre, sd = mean_model
        starts = centre + sd * np.array([-3.0, -1.0, 1.0, 3.0])
        _, report, said = self.run(model, 2.4 * sd, starts, caplog)
        assert report.checks.loc["movement", "verdict"] == TRUST
        assert "collapsed" not in said
        assert report.checks.loc["chains", "value"] < 1.05
        assert report.checks.loc["chains", "verdict"] in (TRUST, NOT_KNOWN)  # 4 chains of few draws
