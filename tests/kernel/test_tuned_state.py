"""What tuning made of a proposal comes back from the statistics of a run, bit for bit."""

import numpy as np
import pymc as pm
import pytest
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.diagnostics.drawn_states import state_of_chain
from pymc_austerity.diagnostics.results import group
from pymc_austerity.diagnostics.statistics_of_step import columns_of_step
from pymc_austerity.kernel.tuned_state import TUNED, restore

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(60)
X = RNG.normal(size=(400, 6))
Y = X @ [1.0, -0.5, 0.3, 0.0, 0.2, -0.1] + RNG.normal(size=400)
LABELS = RNG.random(400) < 1 / (1 + np.exp(-X[:, 0]))
#: Long enough for a covariance to be used and for a path to be chosen.
TUNE = 200


def linear():
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=6)
        pm.Normal("y", pm.math.dot(X, beta), 1, observed=Y)
    return model


def logistic():
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=2)
        pm.Bernoulli("y", logit_p=pm.math.dot(X[:, :2], beta), observed=LABELS)
    return model


def walk(**kwargs):
    return pma.ApproxMH(proxy=None, epsilon=0.1, batch_size=50, **kwargs)


KINDS = {
    "AdaptiveMetropolis": (linear, lambda: walk(proposal=pma.AdaptiveMetropolis())),
    # Trajectories of tiny steps are cut short, whatever their length is meant to be, so that the shortest is chosen.
    "SurrogateHMC": (logistic, lambda: pma.PenaltyMH(batch_size=50, proposal=pma.SurrogateHMC(step_size=0.002))),
}


def tuned(step, state=None):
    return [a.copy() for a in step.decider.move.tuned(step.chain.state if state is None else state)]


def equal(found, expected):
    return all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(found, expected, strict=True))


def restored(step, stats, chain=-1):
    return tuned(step, state_of_chain(step.decider, stats, chain))


def without_the_record(step, stats, chain=-1):
    """Planted mistake: the scale alone is restored."""
    state = step.decider.new_state()
    state.log_scale[0] = np.log(stats["scaling"].isel(chain=chain, draw=-1).item())
    return tuned(step, state)


@pytest.fixture(scope="module", params=KINDS)
def ran(request):
    """A model, a step and its run in this process; the step still holds the state of the last chain."""
    build, make = KINDS[request.param]
    model = build()
    with model:
        step = make()
    idata = sampled(model, step, 60, TUNE, seed=6)
    return model, step, idata, tuned(step)


def test_the_state_of_the_last_chain_is_restored(ran):
    _, step, idata, expected = ran
    stats = group(idata, "sample_stats")
    assert equal(restored(step, stats), expected)
    assert not equal(without_the_record(step, stats), expected)
    assert not equal(tuned(step, step.decider.new_state()), expected)
    if not hasattr(step.chain.state, "search"):  # both chains choose the shortest path
        assert not equal(restored(step, stats, chain=0), expected)


def test_a_run_that_does_not_hold_all_of_it_is_refused(ran):
    model, step, idata, expected = ran
    stats = group(idata, "sample_stats")
    text = b"".join(stats[TUNED].isel(chain=-1).to_numpy())
    needed = -(-len(text) // stats[TUNED].dtype.itemsize)
    told = f"the first {needed} draws of a chain hold in sample_stats\\['tuned'\\].*at least as many draws, not thinned"
    assert equal(restored(step, stats.isel(draw=slice(needed))), expected)
    for broken in (stats.isel(draw=slice(needed - 1)), stats.isel(draw=slice(1, None)), stats.drop_vars(TUNED)):
        if broken.sizes["draw"]:
            with pytest.raises(ValueError, match=told):
                state_of_chain(step.decider, broken, -1)
    with pytest.raises(ValueError, match=told):
        pma.reliability(idata.isel(draw=slice(1, None)), model, step=step, n_states=5)


@pytest.fixture(scope="module")
def together():
    """A run of two walks that learn covariances of different sizes, and of one between them that learns a scale."""
    with pm.Model() as model:
        beta, mu, sd = pm.Normal("beta", 0, 1, shape=6), pm.Normal("mu", 0, 1), pm.HalfNormal("sd", 1, shape=2)
        pm.Normal("y", pm.math.dot(X, beta) + mu, sd[np.arange(400) % 2], observed=Y)
        steps = [walk(vars=[beta]), walk(vars=[mu], proposal=pma.RandomWalk(scale=0.1)), walk(vars=[sd])]
    return model, steps, sampled(model, steps, 60, TUNE, seed=6)


def test_steps_beside_each_other_keep_to_their_own(together):
    _, steps, idata = together
    first, plain, last = steps
    for k, step in ((0, first), (2, last)):
        assert equal(restored(step, columns_of_step(idata, [], k)), tuned(step))
        assert not equal(without_the_record(step, columns_of_step(idata, [], k)), tuned(step))
    assert restored(plain, columns_of_step(idata, [], 1))[0] == pytest.approx(tuned(plain)[0], rel=1e-12)


def test_data_that_want_another_proposal_go_with_the_step():
    """Of one row the posterior is no normal one, and PyMC has read by then which statistics there are."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=4_000)
    y = (rng.random(4_000) < 1 / (1 + np.exp(-x))).astype(int)
    with pm.Model() as model:
        b = pm.Normal("b", 0, 10)
        pm.Bernoulli("o", logit_p=b * pm.Data("x", x), observed=pm.Data("y", y))
        step = pma.MHSS(progressbar=False)
        before = type(step.decider.proposal)
        pm.set_data({"x": x[:1], "y": y[:1]})
    idata = sampled(model, step, 20, tune=20, seed=1, chains=1)
    assert type(step.decider.proposal) is not before
    columns = [idata.sample_stats["tuned"].to_numpy()[0]]
    assert restore(step.decider, columns, 1.0).log_scale == step.chain.state.log_scale
