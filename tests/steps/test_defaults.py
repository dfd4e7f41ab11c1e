"""What a step does when it is told nothing: a proxy where there can be one, and a plain word where there cannot."""

import logging
import warnings
from dataclasses import replace

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy import stats
from zoo import SPLIT

import pymc_austerity as pma
from pymc_austerity.kernel.chain import draw_start
from pymc_austerity.proposals.crank_nicolson import adapt_rho
from pymc_austerity.proxy import mode
from pymc_austerity.rows.weighted import WeightedRows

RNG = np.random.default_rng(11)
X = RNG.normal(size=(2_000, 2))
Y = RNG.random(2_000) < 1 / (1 + np.exp(-X @ [1.0, -0.5]))


@pytest.fixture(scope="module")
def by_default():
    with pm.Model():
        pm.Bernoulli("y", logit_p=X @ pm.Normal("beta", 0, 1, shape=2), observed=Y)
        return pma.MinibatchBarker()


@pytest.mark.slow
def test_a_mode_gives_a_proxy_weighted_rows_and_the_cheap_move(by_default):
    assert by_default.decider.parts.prepared.order == 2
    assert isinstance(by_default.decider.row_source, WeightedRows)
    assert by_default.decider.parts.prepared.normality > 0.99
    assert by_default.decider.move.adapt is adapt_rho


@pytest.mark.slow
def test_a_prior_far_from_normal_takes_hamiltonian_moves():
    rng = np.random.default_rng(12)
    with pm.Model():  # two rows a group: the scale stays as skewed as its prior
        scale = pm.HalfNormal("scale")
        effect = pm.Normal("effect", 0, scale, shape=6)
        pm.Normal("y", effect[np.arange(12) % 6], 1.0, observed=rng.normal(size=12))
        step = pma.PenaltyMH(batch_size=5, proxy=pma.Taylor())
    assert step.decider.parts.prepared.normality < 0.9
    assert hasattr(step.chain.state, "search")
    assert step.decider.move.adapt is not adapt_rho


def test_discrete_variables_go_without_a_proxy(caplog):
    model = next(case for case in SPLIT if case.name == "a discrete switch").build()
    with caplog.at_level(logging.INFO, logger="pymc_austerity"):
        step = pma.ApproxMH(model=model)
    assert step.decider.parts.prepared is None
    assert "is discrete" in caplog.text


@pytest.mark.slow
def test_a_chain_starts_where_the_posterior_is(by_default):
    """Draws in the far tails of a prior, as of the scales of a horseshoe, are come nearer to."""
    decider, prepared = by_default.decider, by_default.decider.parts.prepared
    mean, centre = prepared.draws.mean(axis=0), prepared.expansion.centre[: prepared.draws.shape[1]]

    def starts(times):
        draws = mean + times * (prepared.draws - mean)
        wide = replace(decider, parts=replace(decider.parts, prepared=prepared._replace(draws=draws)))
        return draws, np.array([draw_start(wide, np.random.default_rng(seed)) for seed in range(20)])

    draws, usual = starts(1.0)
    assert all(np.isclose((start - mean) / 2 + mean, draws).all(axis=1).any() for start in usual)
    _, near = starts(8.0)
    assert np.isfinite(near).all()
    assert np.abs((near - mean) / prepared.draws.std(axis=0)).max() < 40
    _, nowhere = starts(1e6)
    assert (nowhere == centre).all()


def separable():
    pm.Bernoulli("y", logit_p=X @ pm.Flat("beta", shape=2), observed=X[:, 0] > 0)


def two_modes(sigma=10.0):
    """A wide valley between θ = 2 and −2, with this standard deviation."""
    pm.Normal(
        "y", pm.Normal("theta", 0, 10) ** 2, sigma, observed=4 + sigma * stats.norm.ppf((np.arange(50) + 0.5) / 50)
    )


def saddle():
    """The likelihood sees only the sum of the two, the prior neither."""
    pm.Normal("y", pm.Flat("a") + pm.Flat("b"), 1.0, observed=RNG.normal(size=500))


def many_parameters():
    beta = pm.Normal("beta", 0, 1, shape=6_001)
    pm.Normal("y", beta[np.arange(9_000) % 6_001], 1.0, observed=np.zeros(9_000))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("define", "words"),
    [
        (separable, "infinity"),
        (two_modes, "two modes"),
        # The curvature along a − b is a rounding of zero, whose sign decides in which words it is refused.
        (saddle, "(not negative definite|does not fall off|neither rows nor prior inform)"),
        (many_parameters, "6,001 parameters.*serves up to 6,000: give this step fewer vars"),
    ],
)
def test_no_proxy_without_a_mode_or_of_too_many(define, words):
    with pm.Model():
        define()
        with pytest.warns(UserWarning, match=f"No proxy could be built: .*{words}"):
            step = pma.ApproxMH()
        assert step.decider.parts.prepared is None
        if define is separable:
            with pytest.raises(ValueError, match=f"cannot be built for this model: .*{words}"):
                pma.ApproxMH(proxy=pma.Taylor())


@pytest.mark.parametrize(("start", "found"), [(0.0, 2.0), (-0.3, -2.0)])
def test_one_of_two_modes_is_sampled_and_said(start, found, caplog):
    """Of two between which no chain passes that of the start is drawn from, as its own posterior has it."""
    with pm.Model() as model:
        two_modes(sigma=1.0)
        step = pma.PenaltyMH(initial_point={"theta": start}, progressbar=False)
        idata = pm.sample(400, tune=300, step=step, chains=2, cores=1, random_seed=8, progressbar=False)
    said = [r.getMessage() for r in caplog.records if "two modes" in r.getMessage()]
    assert len(said) == 1
    assert "between which no chain passes: 'theta' is " in said[0]
    assert abs(idata.posterior["theta"].mean() - found) < 0.01  # its standard deviation is 0.035
    checks = pma.reliability(idata, model, step=step, progressbar=False).checks
    assert checks.loc["modes", "verdict"] == "trust with care"


def test_two_modes_are_compared_on_more_rows(monkeypatch):
    """A few rows may take a mode for as likely that all of them show to be negligible."""
    looked_at, single_mode = [], mode._single_mode

    def looks(objective, *given):
        looked_at.append(len(objective.part))
        return single_mode(objective, *given)

    monkeypatch.setattr(mode, "_single_mode", looks)
    with pm.Model():
        pm.Normal("y", pm.Normal("theta", 0, 10) ** 2, 1, observed=RNG.normal(4, 1, 20_000))
        pma.PenaltyMH(progressbar=False)
    few, more = looked_at
    assert 5 * few < more


@pytest.mark.parametrize(
    ("given", "left_out"),
    [
        ({"proxy": pma.Taylor()}, "proxy="),
        ({"proposal": pma.SurrogateHMC(), "rows": pma.Weighted()}, "proposal=, rows="),
    ],
    ids=lambda of: of if isinstance(of, str) else "",
)
def test_what_asks_for_a_proxy_is_named_where_there_is_none(given, left_out):
    with pm.Model() as model:
        included = pm.Bernoulli("included", 0.5, shape=2)
        pm.Normal("y", X @ (included * pm.Normal("beta", shape=2)), 1, observed=X[:, 0])
    words = rf"no derivative. To sample without a proxy leave out {left_out}\.$"
    with pytest.raises(pma.UnsupportedModelError, match=words):
        pma.PenaltyMH(model=model, progressbar=False, **given)
    kept = {name: value for name, value in given.items() if f"{name}=" not in left_out}
    assert pma.PenaltyMH(model=model, progressbar=False, **kept).decider.parts.prepared is None


@pytest.mark.slow
@pytest.mark.parametrize("events", [0.1, 1.0])
def test_a_log_rate_that_is_nearly_all_tail(events):
    """One interval of a survival model has no event and next to no exposure: its rate has a gamma law."""
    exposure, interval = np.full(400, 2.0), np.arange(400) % 2
    exposure[interval == 1] = 0.0
    exposure[1] = 1.0
    deaths = RNG.poisson(0.5 * exposure) * (interval == 0)
    with pm.Model():
        shape = pm.Data("shape", events)  # so that both are the same code
        rate = pm.Gamma("rate", shape, shape, shape=2)
        pm.Poisson("deaths", exposure * rate[interval], observed=deaths)
        step = pma.PenaltyMH(proxy=pma.Taylor(), progressbar=False)
        idata = pm.sample(1_500, tune=500, step=step, chains=2, cores=1, random_seed=3, progressbar=False)
    draws = np.log(idata.posterior["rate"].to_numpy()[..., 1])
    for of, right in ((events, True), (2 * events, False)):
        law = np.log(stats.gamma.ppf([0.1, 0.5, 0.9], of, scale=1 / (1 + of)))
        error = [az.mcse(draws, method="quantile", prob=p) for p in (0.1, 0.5, 0.9)]
        assert (np.abs((np.quantile(draws, [0.1, 0.5, 0.9]) - law) / error).max() < 4) == right


@pytest.mark.slow
def test_rare_columns_with_cases_alone(caplog):
    """Rows are expanded in the tail of such a slope, which decides on fewer of them; of many in no place."""
    rng = np.random.default_rng(9)
    rare = rng.random((4_000, 8)) < 0.003
    y = (rng.random(4_000) < 0.3) | rare.any(1)

    def step_of(n):
        with pm.Model() as model:
            eta = pm.Normal("a", 0, 2) + rare[:, :n] @ pm.Normal("slope", 0, 10, shape=n)
            pm.Bernoulli("y", logit_p=eta, observed=np.where(rare[:, n:].any(1), rng.random(4_000) < 0.3, y))
            return model, pma.PenaltyMH(progressbar=False)

    model, step = step_of(1)
    assert "in the tail of 'slope[0]'" in caplog.text
    with model:
        exact, draws = pma.ExactMH(progressbar=False), {"tune": 1_000, "chains": 2, "cores": 1, "progressbar": False}
        ours, right = (pm.sample(3_000, step=of, random_seed=4, **draws).posterior["slope"] for of in (step, exact))
    ours, right = ours.to_numpy()[..., 0], right.to_numpy()[..., 0]
    error = np.hypot(az.mcse(ours), az.mcse(right))
    assert abs(ours.mean() - right.mean()) < 4 * error
    assert error < 0.1 * right.std()
    with pytest.warns(UserWarning, match="the posterior of 'slope.*' is nearly all tail"):
        assert step_of(8)[1].decider.parts.prepared is None


@pytest.mark.slow
def test_the_centre_does_not_leave_the_posterior():
    """Of products of a scale and standardised effects, as in bambi's ``y ~ x + (x|g)``, a quadratic runs away."""
    rng = np.random.default_rng(7)
    g, x = rng.integers(0, 20, 2_000), rng.normal(size=2_000)
    effects = rng.normal(size=(20, 2)) * [0.7, 0.4]
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 2.5), pm.Normal("b", 0, 2.5)
        u = pm.HalfNormal("scale", 3, shape=2) * pm.Normal("z", 0, 1, shape=(20, 2))
        y = 1 + 0.5 * x + effects[g, 0] + effects[g, 1] * x + rng.normal(size=2_000)
        pm.Normal("y", a + b * x + u[g, 0] + u[g, 1] * x, pm.HalfStudentT("error", nu=4, sigma=1.5), observed=y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        prepared = pma.PenaltyMH(model=model, merge_rows=False).decider.parts.prepared  # one decision
    if prepared is None:
        assert "noncentered=False" in str(caught[-1].message)
    else:
        assert np.abs(prepared.draws).max() < 10


@pytest.mark.slow
def test_starts_without_derivatives_are_left_out():
    # The chain starts where neither rows nor prior say much, so that a start some way off may overflow the exponential.
    counts = np.random.default_rng(13).poisson(3.0, size=400)
    with pm.Model():
        rate = pm.math.exp(pm.Normal("log_rate", 0, 1_000, initval=-50.0))
        pm.Poisson("y", rate, observed=counts)
        step = pma.PenaltyMH()
    assert step.decider.expansion.centre == pytest.approx(np.log(counts.mean()), abs=1e-3)
