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


APART = np.array([-3.0, -1.0, 1.0, 3.0])
#: How large steps are and how far apart chains start, in posterior standard deviations, and the verdicts.
STUCK = {
    "they stay where they start": (0.001, APART, {"chains": DO_NOT_TRUST, "acceptance": TRUST}),
    # Chains in one place agree, accept and decide rightly; their own spread does not say how far they go.
    "a step size that collapsed": (1e-9, 0 * APART, {"movement": DO_NOT_TRUST, "acceptance": TRUST}),
    "they move": (2.4, APART, {"movement": TRUST}),
}


@pytest.mark.parametrize("kind", STUCK)
def test_chains_that_do_not_move_are_told_from_those_that_do(mean_model, caplog, kind):
    (model, centre, sd), (scale, starts, verdicts) = mean_model, STUCK[kind]
    with model:
        step = pma.ExactMH(proposal=pma.RandomWalk(scale=scale * sd), proxy=None, tune=False)
    initial = [{"mu": mu} for mu in centre + sd * starts]
    _, report, said = sampled(model, step, caplog, draws=400, tune=100, initvals=initial)
    assert report.checks.loc[list(verdicts), "verdict"].to_dict() == verdicts
    chains = report.checks.loc["chains"]
    if scale > 1:
        assert "collapsed" not in said
        assert chains["value"] < 1.05
        assert chains["verdict"] in (TRUST, NOT_KNOWN)  # 4 chains of few draws
    elif starts.any():
        assert chains["value"] > 2
    else:
        assert "do not trust" in said
        assert "step size has collapsed" in said
