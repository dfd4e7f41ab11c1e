"""Chains that start where rounding would decide are refused by name and value; others start where they are told to."""

import numpy as np
import pymc as pm
import pytest
from pymc.exceptions import SamplingError
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.kernel import chain

#: PyTensor tries whether a value fits into single precision.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in cast")

N = 400
_rng = np.random.default_rng(7)
X = _rng.normal(size=(N, 3))
Y = X[:, 0] + _rng.normal(size=N)


def horseshoe():
    tau, local = pm.HalfCauchy("tau", 1), pm.HalfCauchy("local", 1, shape=3)
    pm.Normal("y", X @ (pm.Normal("z", shape=3) * local * tau), 1.0, observed=Y)


def regression():
    pm.Normal("y", X @ pm.Normal("b", shape=3), 1.0, observed=Y)


def groups():
    u = pm.Normal("u", pm.Normal("mu"), pm.HalfNormal("s"), shape=20)
    pm.Bernoulli("y", logit_p=u[np.arange(N) % 20], observed=(Y > 0).astype(int))


def started(define, initvals):
    with pm.Model() as model:
        define()
        step = pma.PenaltyMH(progressbar=False) if define is groups else pma.ExactMH(proxy=None, progressbar=False)
    return sampled(model, step, 500, seed=1, chains=1, initvals=initvals)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("define", "initvals", "named"),
    [
        (horseshoe, {"tau": 1e39, "local": np.full(3, 1e39)}, r"(tau|local)_log__ = \[?89\.8"),
        (regression, {"b": np.full(3, 1e39)}, r"b = \[1\.e\+39"),
        pytest.param(groups, {"mu": 1e39}, r"mu = 1\.e\+39", marks=pytest.mark.slow),
    ],
)
def test_a_start_at_1e39_is_refused_by_name(define, initvals, named):
    """In the horseshoe the density of the start itself is finite, as z is zero there; that beside it is not."""
    with pytest.raises(SamplingError, match=rf"starts at .*{named}.*initvals="):
        started(define, initvals)


def test_a_start_that_a_chain_can_leave_is_taken():
    """The control: a start five units off, at a log density of some −10⁴, is left within the tuning draws."""
    draws = started(regression, {"b": np.full(3, 5.0)}).posterior["b"].to_numpy()[0, -1]
    assert np.abs(draws - [1, 0, 0]).max() < 1


def n_starts_that_are_left(decider):
    """How many of sixty starts some of a hundred proposals lead away from."""
    others, left = decider.parts.others0, 0
    for seed in range(60):
        start, rng = chain.draw_start(decider, np.random.default_rng(seed)), np.random.default_rng([seed, 1])
        state = decider.new_state()
        left += any((decider.propose(start, others, state, rng).theta_new != start).any() for _ in range(100))
    return left


def test_a_chain_starts_where_trajectories_lead_away(monkeypatch):
    """Slopes that are zero, with priors above zero: far out in their logarithms no trajectory was accepted."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(100_000, 3))
    with pm.Model():
        a, b, s = pm.Normal("a"), pm.HalfNormal("b", 1, shape=3), pm.HalfNormal("s", 1)
        pm.Normal("y", a + table @ b, s, observed=rng.normal(size=len(table)))
        decider = pma.PenaltyMH(progressbar=False).decider
    assert n_starts_that_are_left(decider) == 60
    monkeypatch.setattr(chain, "_is_left", lambda decider, theta: True)
    assert n_starts_that_are_left(decider) < 58
