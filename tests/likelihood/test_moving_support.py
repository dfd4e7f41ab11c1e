"""Rows without likelihood beyond a limit: refused where parameters move it and a part of the rows decides."""

from contextlib import nullcontext

import numpy as np
import pymc as pm
import pytest
from rowwise import built, read

import pymc_austerity as pma
from pymc_austerity.likelihood import moving_support
from pymc_austerity.likelihood.moving_support import require_fixed_support

RNG = np.random.default_rng(26)
Y = RNG.uniform(0.1, 1.9, 500)


def uniform():
    pm.Uniform("y", 0, pm.HalfNormal("limit", 5), observed=Y)


def uniform_of_groups():
    pm.Uniform("y", 0, pm.HalfNormal("limit", 5, shape=5)[np.arange(500) % 5], observed=Y)


def truncated():
    limit = pm.Normal("limit", -3, 1)
    pm.Truncated("y", pm.Normal.dist(pm.Normal("mean"), 1), lower=limit, observed=Y)


def pareto():
    pm.Pareto("y", pm.HalfNormal("shape", 3), pm.HalfNormal("limit", 2, initval=0.05), observed=Y)


def shifted():
    pm.Potential("y", pm.logp(pm.Exponential.dist(2.0), Y - pm.Normal("limit", 0, 1)).sum())


MOVING = [uniform, uniform_of_groups, truncated, pareto, shifted]


@pytest.mark.parametrize("step", [pma.PenaltyMH, pma.MHSS])
def test_a_limit_that_a_parameter_moves_is_refused(step):
    """Where no proxy is found: the posterior lies against the limit."""
    with pytest.raises(ValueError, match=rf"{step.__name__}: rows have no likelihood beyond a limit that .*'limit"):
        step(model=built(uniform), progressbar=False)


@pytest.mark.slow
def test_all_rows_may_decide():
    with pm.Model():
        uniform()
        run = pm.sample(
            2_000, tune=1_000, chains=2, cores=1, step=pma.ExactMH(proxy=None, progressbar=False), random_seed=1,
            progressbar=False, compute_convergence_checks=False,
        )  # fmt: skip
    above = run["posterior"]["limit"].to_numpy() / Y.max() - 1
    assert above.min() >= 0
    assert 500 * above.mean() == pytest.approx(1, rel=0.3)  # an exponential law of rate n


def fixed_limits():
    mean = pm.Normal("mean")
    pm.Truncated("a", pm.Normal.dist(mean, 1), lower=0, upper=2, observed=Y)
    pm.Gamma("b", pm.HalfNormal("shape"), 1, observed=Y)
    pm.Uniform("c", 0, 2, observed=Y)


def jumps_in_a_mixture():
    """Beside a normal law no row is without likelihood."""
    parts = [pm.Uniform.dist(0, pm.HalfNormal("limit", 5)), pm.Normal.dist(0, 3)]
    pm.Mixture("y", [0.5, 0.5], parts, observed=Y)


def number_of_classes():
    """The length of a vector of parameters is compared with data."""
    pm.Categorical("y", pm.Dirichlet("p", np.ones(3)), observed=np.arange(500) % 3)


FIXED = [fixed_limits, jumps_in_a_mixture, number_of_classes]


@pytest.mark.parametrize("define", [*MOVING, *FIXED])
def test_only_what_parameters_move_is_a_limit(define, monkeypatch):
    likelihood = read(define)[1].likelihood
    with pytest.raises(ValueError, match="beyond a limit") if define in MOVING else nullcontext():
        require_fixed_support(likelihood, "step")
    # Control: with a walk that stops at the first operation, none is found.
    monkeypatch.setattr(moving_support, "_conditions", lambda graph: ())
    require_fixed_support(likelihood, "step")
