"""Coefficients of columns with scales that are estimated, moved as one group: ridge, horseshoe, HSGP, beside groups."""

from itertools import product

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from evidence import MAX_Z, moment_z
from scipy import stats

import pymc_austerity as pma
from pymc_austerity.groups import GroupsNotFoundError, group_mode, group_steering, grouping, read_groups, scaled_columns

RNG = np.random.default_rng(29)
N, K, GROUPS = 240, 6, 12
X, G, WEEK = RNG.normal(size=(N, K)), RNG.integers(0, GROUPS, N), RNG.integers(0, 40, N)
Y = X @ RNG.normal(0, 0.4, K) + RNG.normal(0, 0.6, GROUPS)[G] + RNG.normal(size=N)
COUNTS = RNG.poisson(np.exp(0.3 * X[:, 0]))
TIME = np.linspace(-1, 1, 40)
QUIET = {"chains": 2, "cores": 1, "progressbar": False, "random_seed": 3, "compute_convergence_checks": False}


def ridge(of):
    return of(pm.Normal("b", 0, pm.HalfNormal("tau", 1), shape=K))


def not_centred(of):
    return of(pm.HalfNormal("tau", 1) * pm.Normal("b", 0, 1, shape=K))


def horseshoe(of):
    return of(pm.Normal("b", 0, 1, shape=K) * pm.HalfCauchy("lam", 1, shape=K) * pm.HalfNormal("tau", 1))


def laplace(of):
    return of(pm.Laplace("b", 0, pm.HalfNormal("tau", 1), shape=K))


def by_week(of):
    length = pm.InverseGamma("length", 5, 2)
    process = pm.gp.HSGP(m=[K], L=[1.5], cov_func=pm.gp.cov.ExpQuad(1, ls=length))
    return process.prior("f", X=TIME[:, None])[WEEK]


def model_of(write, of=lambda b: X @ b, beside=0.0):
    with pm.Model() as model:
        eta = write(of)
        if beside:
            eta += pm.Normal("u", 0, pm.HalfNormal("s", 1), shape=GROUPS)[G]
        pm.Poisson("y", pm.math.exp(eta), observed=COUNTS)
    return model


@pytest.mark.parametrize("write", [ridge, not_centred, horseshoe, laplace, by_week])
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside groups"])
def test_coefficients_are_one_group(write, beside):
    groups = read_groups(model_of(write, beside=beside)).groups
    assert np.diff(groups.first).tolist() == [GROUPS, 1][not beside :]
    assert groups.size[-1] == K
    assert groups.moves_together.tolist() == ([False, True] if beside else [False])


@pytest.mark.parametrize(
    "of",
    [
        lambda b: pm.math.dot(X, b),
        lambda b: (X * b).sum(axis=1),
        lambda b: pm.Data("X", X) @ b,
        lambda b: (b[None] @ X.T)[0],
        lambda b: pt.dot(X[:, :3], b[:3]) + pt.dot(X[:, 3:], b[3:]),
    ],
    ids=["dot", "sum", "pm.Data", "transposed", "in two parts"],
)
def test_every_spelling_is_read(of):
    assert read_groups(model_of(ridge, of)).groups.size.tolist() == [K]


def test_a_table_of_coefficients_is_one_group():
    with pm.Model() as model:
        b = pm.Normal("b", 0, pm.HalfNormal("tau", 1, shape=2), shape=(K, 2))
        eta = pt.concatenate([pt.zeros((N, 1)), X @ b], axis=1)
        pm.Categorical("y", p=pm.math.softmax(eta, axis=1), observed=WEEK % 3)
    assert read_groups(model).groups.size.tolist() == [2 * K]


def a_known_scale(of):
    return of(pm.Normal("b", 0, 1, shape=K))


def read_in_another_way(of):
    b = pm.Normal("b", 0, pm.HalfNormal("tau", 1), shape=K)
    return of(b) + b[0] ** 2


def times_another(of):
    return ridge(of) * pm.Normal("v", 1, pm.HalfNormal("s", 1), shape=K)[G % K]


@pytest.mark.parametrize("write", [a_known_scale, read_in_another_way])
def test_other_coefficients_are_shared_parameters(write):
    with pytest.raises(GroupsNotFoundError, match="indexed on its first axis"):
        read_groups(model_of(write))


def test_effects_that_multiply_coefficients_are_moved_without_them():
    assert read_groups(model_of(times_another)).groups.names == ("v",)


def test_too_many_derivatives_of_rows_are_not_taken(monkeypatch):
    monkeypatch.setattr(scaled_columns, "_MOST_DERIVATIVES", 1_000)
    with pytest.raises(GroupsNotFoundError):
        read_groups(model_of(ridge))


def least_effective(idata, *names):
    return min(float(pm.stats.ess(idata)[name].min()) for name in names)


def normal_model():
    with pm.Model() as model:
        eta = X @ (pm.HalfNormal("tau", 1) * pm.Normal("z", 0, 1, shape=K))
        eta += pm.Normal("u", 0, pm.HalfNormal("s", 1), shape=GROUPS)[G]
        pm.Normal("y", eta, 1, observed=Y)
    return model


def scales_by_quadrature():
    """Return means and standard deviations of tau and s; given both the rows are jointly normal."""
    dummies, scales = np.eye(GROUPS)[G], np.linspace(0.02, 2.5, 90)
    joint = np.empty((90, 90))
    for (i, tau), (j, s) in product(enumerate(scales), repeat=2):
        covariance = np.eye(N) + tau**2 * X @ X.T + s**2 * dummies @ dummies.T
        factor = np.linalg.cholesky(covariance)
        white = np.linalg.solve(factor, Y)
        joint[i, j] = -0.5 * white @ white - np.log(np.diag(factor)).sum() - (tau**2 + s**2) / 2
    p = np.exp(joint - joint.max())
    p /= p.sum()
    mean = np.array([p.sum(1) @ scales, p.sum(0) @ scales])
    return mean, np.sqrt(np.array([p.sum(1) @ scales**2, p.sum(0) @ scales**2]) - mean**2)


@pytest.mark.slow
def test_scales_of_columns_and_groups_have_their_posterior():
    with normal_model():
        step = pma.PenaltyMH(progressbar=False)
        idata = pm.sample(4_000, tune=500, step=step, **QUIET)
    assert "exact, reads none" in str(step)
    for name, mean, sd in zip(("tau", "s"), *scales_by_quadrature(), strict=True):
        draws = idata.posterior[name].to_numpy()
        assert np.abs(moment_z(draws, mean, sd)).max() < MAX_Z
        assert np.abs(moment_z(draws, 1.2 * mean, sd)).max() > MAX_Z  # a planted mistake
    assert least_effective(idata, "tau", "s", "z", "u") > 1_000


def few_coefficients(law):
    """Return a Poisson regression on two columns of few values, and its counts of each pair of these."""
    pairs = np.array(list(product((-1.0, 0.0, 1.0), repeat=2)))
    rows = pairs[np.arange(450) % 9]
    y = np.random.default_rng(8).poisson(np.exp(0.5 * rows[:, 0]))
    with pm.Model() as model:
        b = law("b", 0, pm.HalfNormal("tau", 1), shape=2)
        pm.Poisson("y", pm.math.exp(rows @ b), observed=y)
    return model, pairs, np.array([y[k::9].sum() for k in range(9)])


@pytest.mark.slow
@pytest.mark.parametrize(("law", "density"), [(pm.Normal, stats.norm), (pm.Laplace, stats.laplace)])
def test_a_poisson_regression_has_its_posterior(law, density):
    model, pairs, sums = few_coefficients(law)
    with model:
        idata = pm.sample(6_000, tune=500, step=pma.PenaltyMH(progressbar=False), **QUIET)
    tau, first, second = np.linspace(0.005, 4, 200), np.linspace(0, 1, 90), np.linspace(-0.5, 0.5, 90)
    eta = pairs[:, 0, None, None] * first[:, None] + pairs[:, 1, None, None] * second
    of_rows = np.einsum("k,kij->ij", sums, eta) - 50 * np.exp(eta).sum(0)
    prior = density.logpdf(first[:, None], 0, tau)[:, None] + density.logpdf(second[:, None], 0, tau)[None]
    joint = of_rows[:, :, None] + prior - tau**2 / 2
    p = np.exp(joint - joint.max())
    p /= p.sum()
    for draws, marginal, values in [
        (idata.posterior["tau"].to_numpy(), p.sum((0, 1)), tau),
        (idata.posterior["b"].to_numpy()[..., 0], p.sum((1, 2)), first),
        (idata.posterior["b"].to_numpy()[..., 1], p.sum((0, 2)), second),
    ]:
        mean = marginal @ values
        sd = np.sqrt(marginal @ (values - mean) ** 2)
        assert np.abs(moment_z(draws, mean, sd)).max() < MAX_Z
        assert np.abs(moment_z(draws, mean + 0.3 * sd, sd)).max() > MAX_Z  # a planted mistake


def test_a_part_of_the_prior_is_found_out(monkeypatch):
    """The check of the groups refuses a prior from which half of what the coefficients add is missing."""
    found = grouping.find_columns
    monkeypatch.setattr(grouping, "find_columns", lambda *of: (c := found(*of))._replace(log_prior=c.log_prior / 2))
    with model_of(ridge, beside=True):
        step = pma.GroupMH
        with pytest.raises(GroupsNotFoundError, match="change more of the log prior"):
            step(progressbar=False)


def waves():
    """Return counts by week with a process whose quickest waves are narrower than what is rounded off a number."""
    rng, time = np.random.default_rng(5), np.linspace(-1, 1, 150)
    week = rng.integers(0, 150, 12_000)
    y = rng.poisson(np.exp(0.5 + 0.5 * np.sin(4 * time[week])))
    with pm.Model() as model:
        length, scale = pm.InverseGamma("length", 5, 2), pm.HalfNormal("scale", 1)
        process = pm.gp.HSGP(m=[25], L=[1.5], cov_func=scale**2 * pm.gp.cov.ExpQuad(1, ls=length))
        f = process.prior("f", X=time[:, None])
        pm.Poisson("y", pm.math.exp(pm.Normal("a") + f[week]), observed=y)
    return model


def sampled_waves():
    with waves():
        step = pma.PenaltyMH(progressbar=False)
        return step, pm.sample(2_000, tune=500, step=step, **QUIET)


@pytest.mark.slow
def test_a_length_scale_with_waves_of_no_width_moves():
    step, idata = sampled_waves()
    assert step.decider.prepared.steps.axes.min() > 0.05
    assert float(idata.sample_stats["log_ratio"].min()) > -1e4
    assert least_effective(idata, "length", "scale") > 600


@pytest.mark.slow
def test_waves_that_are_not_taken_for_zero_are_rounded_off(monkeypatch):
    """A planted case of the last test: to far length scales no move is accepted."""
    for module in (group_mode, group_steering):
        monkeypatch.setattr(module, "with_zeros", lambda effects, _: effects)
    _, idata = sampled_waves()
    assert float(idata.sample_stats["log_ratio"].min()) < -1e6


@pytest.mark.slow
def test_a_search_that_ends_as_it_begins_is_stuck(monkeypatch):
    """Another one: a first step to where the surrogate has no density ends the search for its mode."""
    monkeypatch.setattr(group_mode, "_NEARER", (1.0,))
    with waves():
        step = pma.PenaltyMH(progressbar=False)
    assert not hasattr(step.decider, "prepared") or step.decider.prepared.steps.axes.min() < 0.01


@pytest.mark.slow
def test_nearly_collinear_columns_beside_groups_find_their_mode():
    """As bambi writes a Gaussian process: its first steps are many standard deviations long."""
    rng = np.random.default_rng(5)
    x, g = rng.uniform(0, 1, 4_000), rng.integers(0, 30, 4_000)
    with pm.Model():
        length, scale = pm.InverseGamma("length", 3, 2), pm.Exponential("scale", 1)
        process = pm.gp.HSGP(m=[15], L=[0.75], cov_func=scale**2 * pm.gp.cov.ExpQuad(1, ls=length))
        f = process.prior("f", X=x[:, None] - 0.5)
        u = pm.HalfNormal("s", 2) * pm.Normal("z", shape=30)
        pm.Normal("y", f + u[g], pm.HalfStudentT("sigma", 4, 1), observed=np.sin(10 * x) + rng.normal(0, 0.4, 4_000))
        step = pma.PenaltyMH(progressbar=False)
        idata = pm.sample(1_000, tune=500, step=step, **QUIET)
    assert "exact, reads none" in str(step)
    assert least_effective(idata, "length", "scale", "s", "sigma") > 200
