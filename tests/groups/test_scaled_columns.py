"""Coefficients of columns with scales that are estimated, moved as one group: ridge, horseshoe, HSGP, beside groups."""

from itertools import product

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from cases import cases
from evidence import MAX_Z
from grouped import largest_z, law_of_normal_rows, mean_and_sd, search_of
from scipy import stats
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.cholesky import NoFactorError
from pymc_austerity.groups import (
    GroupModeError,
    GroupsNotFoundError,
    group_averages,
    group_mode,
    grouping,
    read_groups,
    scaled_columns,
)
from pymc_austerity.likelihood import entries

RNG = np.random.default_rng(29)
N, K, GROUPS = 240, 6, 12
X, G, WEEK = RNG.normal(size=(N, K)), RNG.integers(0, GROUPS, N), RNG.integers(0, 40, N)
Y = X @ RNG.normal(0, 0.4, K) + RNG.normal(0, 0.6, GROUPS)[G] + RNG.normal(size=N)
COUNTS = RNG.poisson(np.exp(0.3 * X[:, 0]))


def ridge(of):
    return of(pm.Normal("b", 0, pm.HalfNormal("tau", 1), shape=K))


def not_centred(of):
    return of(pm.HalfNormal("tau", 1) * pm.Normal("b", 0, 1, shape=K))


def horseshoe(of):
    return of(pm.Normal("b", 0, 1, shape=K) * pm.HalfCauchy("lam", 1, shape=K) * pm.HalfNormal("tau", 1))


def laplace(of):
    return of(pm.Laplace("b", 0, pm.HalfNormal("tau", 1), shape=K))


def by_week(of):
    return process(np.linspace(-1, 1, 40), m=K)[WEEK]


def process(x, m, c=1.5, scale=lambda: 1.0, alpha=5):
    """A Gaussian process at `x` by `m` waves."""
    length = pm.InverseGamma("length", alpha, 2)
    waves = pm.gp.HSGP(m=[m], L=[c], cov_func=scale() ** 2 * pm.gp.cov.ExpQuad(1, ls=length))
    return waves.prior("f", X=x[:, None])


def model_of(write, of=lambda b: X @ b, beside=False):
    with pm.Model() as model:
        eta = write(of)
        if beside:
            eta += pm.Normal("u", 0, pm.HalfNormal("s", 1), shape=GROUPS)[G]
        pm.Poisson("y", pm.math.exp(eta), observed=COUNTS)
    return model


@pytest.mark.parametrize(
    ("write", "beside"),
    [(not_centred, False), (laplace, False), (horseshoe, False), (horseshoe, True), (by_week, True)],
)
def test_coefficients_are_one_group(write, beside):
    groups = read_groups(model_of(write, beside=beside)).groups
    assert np.diff(groups.first).tolist() == [GROUPS, 1][not beside :]
    assert groups.size[-1] == K
    assert groups.moves_together.tolist() == ([False, True] if beside else [False])


PLACES, MATRIX = np.linspace(-1, 1, GROUPS), RNG.normal(size=(GROUPS, K))
#: A process over the places of groups that have effects of their own, and a table of these times coefficients.
AT_GROUPS = {
    "process, of rows": lambda u: process(PLACES[G], K) + u[G],
    "process, added before": lambda u: (process(PLACES, K) + u)[G],
    "process, added after": lambda u: process(PLACES, K)[G] + u[G],
    "process, named": lambda u: pm.Deterministic("mean", process(PLACES, K) + u)[G],
    "columns, of rows": lambda u: not_centred(lambda b: MATRIX[G] @ b) + u[G],
    "columns, added before": lambda u: (not_centred(lambda b: pt.dot(MATRIX, b)) + u)[G],
    "columns, in data": lambda u: (not_centred(lambda b: MATRIX @ b) + u)[pm.Data("g", G)],
}


@pytest.mark.parametrize(
    "written",
    cases([n for n in AT_GROUPS if "of rows" not in n], ["process, added after", "columns, added before"]),
)
def test_coefficients_of_groups_are_those_of_their_rows(written):
    """They were shared parameters beside the scale of their own, few of whose draws were effective."""
    found, expected = (expansion_at_groups(name) for name in (written, written.partition(",")[0] + ", of rows"))
    assert found.size.tolist() == [1] * GROUPS + [K]
    np.testing.assert_allclose(found.hessian, expected.hessian)
    np.testing.assert_allclose(found.cell_hessian, expected.cell_hessian)


def test_coefficients_of_groups_with_very_many_rows_stay_shared(monkeypatch):
    written = "columns, added before"
    assert read_groups(model_at_groups(written)).groups.size.tolist() == [1] * GROUPS + [K]
    monkeypatch.setattr(entries, "_MOST_NUMBERS", N * K - 1)
    assert read_groups(model_at_groups(written)).groups.size.tolist() == [1] * GROUPS


def model_at_groups(written):
    with pm.Model() as model:
        u = pm.Normal("u", 0, pm.HalfNormal("s", 1), shape=GROUPS)
        pm.Poisson("y", pm.math.exp(AT_GROUPS[written](u)), observed=COUNTS)
    return model


def expansion_at_groups(written):
    search = search_of(model_at_groups(written))
    return search.expand(search.data.theta0)


SPELLINGS = {
    "sum": lambda b: (X * b).sum(axis=1),
    "transposed": lambda b: (b[None] @ X.T)[0],
    "in two parts": lambda b: pt.dot(X[:, :3], b[:3]) + pt.dot(X[:, 3:], b[3:]),
}


@pytest.mark.parametrize("of", SPELLINGS.values(), ids=SPELLINGS)
def test_every_spelling_is_read(of):
    assert read_groups(model_of(ridge, of)).groups.size.tolist() == [K]


def test_a_table_of_coefficients_is_one_group():
    with pm.Model() as model:
        b = pm.Normal("b", 0, pm.HalfNormal("tau", 1, shape=2), shape=(K, 2))
        eta = pt.concatenate([pt.zeros((N, 1)), X @ b], axis=1)
        pm.Categorical("y", p=pm.math.softmax(eta, axis=1), observed=WEEK % 3)
    assert read_groups(model).groups.size.tolist() == [2 * K]


def read_in_another_way(of):
    b = pm.Normal("b", 0, pm.HalfNormal("tau", 1), shape=K)
    return of(b) + b[0] ** 2


@pytest.mark.parametrize(
    ("write", "most"),
    [(lambda of: of(pm.Normal("b", 0, 1, shape=K)), None), (read_in_another_way, None), (ridge, 1_000)],
    ids=["a known scale", "read in another way", "too many derivatives of rows"],
)
def test_other_coefficients_are_shared_parameters(write, most, monkeypatch):
    monkeypatch.setattr(scaled_columns, "_MOST_DERIVATIVES", most or scaled_columns._MOST_DERIVATIVES)
    with pytest.raises(GroupsNotFoundError, match="indexed on its first axis"):
        read_groups(model_of(write))


def test_effects_that_multiply_coefficients_move_without_them():
    def times_another(of):
        return ridge(of) * pm.Normal("v", 1, pm.HalfNormal("s", 1), shape=K)[G % K]

    assert read_groups(model_of(times_another)).groups.names == ("v",)


def least_effective(idata, *names):
    return min(float(pm.stats.ess(idata)[name].min()) for name in names)


def law():
    """Means and standard deviations of both scales, of a coefficient and of an effect."""
    design, scales = np.column_stack([X, np.eye(GROUPS)[G]]), np.linspace(0.02, 2.5, 90)

    def prior(tau, s):
        return -(tau**2 + s**2) / 2, np.repeat([tau**-2, s**-2], [K, GROUPS])

    return law_of_normal_rows(design, Y, [scales, scales], prior, np.eye(K + GROUPS)[[0, K]])


@pytest.mark.slow
def test_scales_of_columns_and_groups_have_their_posterior():
    """Draws are of the user's variables, of which rows read products."""
    with pm.Model() as model:
        eta = X @ (pm.HalfNormal("tau", 1) * pm.Normal("z", 0, 1, shape=K))
        eta += pm.Normal("u", 0, pm.HalfNormal("s", 1), shape=GROUPS)[G]
        pm.Normal("y", eta, 1, observed=Y)
    step = pma.PenaltyMH(model=model, progressbar=False)
    idata = sampled(model, step, 4_000, seed=3)
    assert "exact, reads none" in str(step)
    assert step.coordinates.replaced == ("z",)
    tau, s, z, u = (idata.posterior[name].to_numpy() for name in ("tau", "s", "z", "u"))
    mean, sd = law()
    draws = [tau, s, tau * z[..., 0], u[..., 0]]
    assert largest_z(draws, (mean, sd)) < MAX_Z
    for k in range(4):
        assert largest_z(draws[k : k + 1], ([mean[k] + 0.2 * sd[k]], sd[k : k + 1])) > MAX_Z  # planted mistakes
    assert least_effective(idata, "tau", "s", "z", "u") > 1_000
    assert pma.reliability(idata, model, progressbar=False).verdict == "trust"


def law_of_horseshoe(design, y):
    """Means and sds of a global and two local scales, each s as s / (1 + s), where errors are standard normal."""
    logs = np.linspace(-7, 7, 71)
    points = np.stack(np.meshgrid(logs, logs, logs, indexing="ij"), axis=-1).reshape(-1, 3)
    scales, gram, moment = np.exp(points), design.T @ design, design.T @ y
    of_effects = scales[:, :1] * scales[:, 1:]
    inverse = np.linalg.inv(gram + of_effects[:, :, None] ** -2 * np.eye(2))
    log_weights = (np.log(scales) - np.log1p(scales**2)).sum(axis=1) + np.einsum(
        "i,nij,j->n", moment, inverse, moment
    ) / 2
    return mean_and_sd(
        log_weights + np.linalg.slogdet(inverse)[1] / 2 - np.log(of_effects).sum(axis=1), 1 / (1 + 1 / scales)
    )


@pytest.mark.slow
def test_the_scales_of_a_horseshoe_have_their_posterior():
    design, y = X[:60, :2], 0.7 * X[:60, 0] + np.random.default_rng(6).normal(size=60)
    with pm.Model() as model:
        tau, local = pm.HalfCauchy("tau", 1), pm.HalfCauchy("local", 1, shape=2)
        pm.Normal("y", design @ (pm.Normal("z", 0, 1, shape=2) * local * tau), 1, observed=y)
    step = pma.PenaltyMH(model=model, progressbar=False)
    assert len(step.decider.prepared.shifts) == 1  # of the global scale against both
    idata = sampled(model, step, 8_000, seed=3)
    tau, local = (idata.posterior[name].to_numpy() for name in ("tau", "local"))
    draws = [1 / (1 + 1 / of) for of in (tau, local[..., 0], local[..., 1])]
    mean, sd = law_of_horseshoe(design, y)
    assert largest_z(draws, (mean, sd)) < MAX_Z
    for k in range(3):
        assert largest_z(draws[k : k + 1], (mean[k : k + 1] + 0.2 * sd[k], sd[k : k + 1])) > MAX_Z  # planted mistakes


@pytest.mark.slow
def test_a_poisson_regression_has_its_posterior(caplog):
    """Of two columns of few values, whose coefficients have a prior with a kink."""
    pairs = np.array(list(product((-1.0, 0.0, 1.0), repeat=2)))
    rows = pairs[np.arange(450) % 9]
    y = np.random.default_rng(8).poisson(np.exp(0.5 * rows[:, 0]))
    with pm.Model() as model:
        b = pm.Laplace("b", 0, pm.HalfNormal("tau", 1), shape=2)
        pm.Poisson("y", pm.math.exp(rows @ b), observed=y)
    sums = np.array([y[k::9].sum() for k in range(9)])
    posterior = sampled(model, pma.PenaltyMH(model=model, progressbar=False), 6_000, seed=3).posterior
    assert "finds 2 coefficients of columns (b)" in caplog.text
    tau, first, second = np.linspace(0.005, 4, 200), np.linspace(0, 1, 90), np.linspace(-0.5, 0.5, 90)
    eta = pairs[:, 0, None, None] * first[:, None] + pairs[:, 1, None, None] * second
    of_rows = np.einsum("k,kij->ij", sums, eta) - 50 * np.exp(eta).sum(0)
    prior = stats.laplace.logpdf(first[:, None, None], 0, tau) + stats.laplace.logpdf(second[:, None], 0, tau)
    joint = of_rows[:, :, None] + prior - tau**2 / 2
    points = np.column_stack([of.ravel() for of in np.meshgrid(first, second, tau, indexing="ij")])
    mean, sd = mean_and_sd(joint.ravel(), points)
    b = posterior["b"].to_numpy()
    for k, draws in enumerate((b[..., 0], b[..., 1], posterior["tau"].to_numpy())):
        assert largest_z([draws], (mean[k : k + 1], sd[k : k + 1])) < MAX_Z
        assert largest_z([draws], (mean[k : k + 1] + 0.3 * sd[k], sd[k : k + 1])) > MAX_Z  # a planted mistake


@pytest.mark.slow
def test_a_part_of_the_prior_is_found_out(monkeypatch):
    """The check of the groups refuses a prior from which half of what the coefficients add is missing."""
    found = grouping.find_columns
    monkeypatch.setattr(grouping, "find_columns", lambda *of: (c := found(*of))._replace(log_prior=c.log_prior / 2))
    with model_of(ridge, beside=True), pytest.raises(GroupsNotFoundError, match="change more of the log prior"):
        pma.GroupMH(progressbar=False)


def waves():
    """Return counts by week with a process whose quickest waves are narrower than what is rounded off a number."""
    rng, time = np.random.default_rng(5), np.linspace(-1, 1, 150)
    week = rng.integers(0, 150, 12_000)
    y = rng.poisson(np.exp(0.5 + 0.5 * np.sin(4 * time[week])))
    with pm.Model() as model:
        f = process(time, m=25, scale=lambda: pm.HalfNormal("scale", 1))
        pm.Poisson("y", pm.math.exp(pm.Normal("a") + f[week]), observed=y)
    return model


def sampled_waves():
    model = waves()
    step = pma.PenaltyMH(model=model, progressbar=False)
    return step, sampled(model, step, 2_000, seed=3)


@pytest.mark.slow
def test_a_length_scale_with_waves_of_no_width_moves():
    step, idata = sampled_waves()
    assert step.decider.prepared.steps.axes.min() > 0.05
    assert float(idata.sample_stats["log_ratio"].min()) > -1e4
    assert least_effective(idata, "length", "scale") > 600


@pytest.mark.slow
def test_waves_that_are_not_taken_for_zero_are_rounded_off(monkeypatch):
    """A planted case of the last test: to far length scales no move is accepted."""
    for module in (group_mode, group_averages):
        monkeypatch.setattr(module, "with_zeros", lambda effects, _: effects)
    _, idata = sampled_waves()
    assert float(idata.sample_stats["log_ratio"].min()) < -1e6


@pytest.mark.slow
def test_a_search_that_ends_as_it_begins_is_stuck(monkeypatch):
    """Another one: a first step to where the surrogate has no density ends the search for its mode."""
    search = search_of(waves())

    def least_width():
        try:
            factor = group_mode.find_group_centre(search).factor
        except NoFactorError:  # no width at all, which rounding decides
            return 0.0
        return 1 / np.linalg.norm(np.linalg.inv(factor), axis=0).max()

    assert least_width() > 0.02
    monkeypatch.setattr(group_mode, "_NEARER", (1.0,))
    assert least_width() < 0.004


@pytest.mark.slow
def test_nearly_collinear_columns_beside_groups_find_their_mode(monkeypatch):
    """As bambi writes a Gaussian process: its first steps are many standard deviations long.

    Planted: every group goes by as much of its step as its own width allows.
    """
    rng = np.random.default_rng(5)
    x, g = rng.uniform(0, 1, 4_000), rng.integers(0, 30, 4_000)
    with pm.Model() as model:
        f = process(x - 0.5, m=15, c=0.75, scale=lambda: pm.Exponential("scale", 1), alpha=3)
        u = pm.HalfNormal("s", 2) * pm.Normal("z", shape=30)
        pm.Normal("y", f + u[g], pm.HalfStudentT("sigma", 4, 1), observed=np.sin(10 * x) + rng.normal(0, 0.4, 4_000))
    search = search_of(model)
    found = group_mode.find_group_centre(search)
    names = [b.name for b in search.model.likelihood.blocks if b.stop - b.start == 1]
    assert found.mean[names.index("sigma_log__")] == pytest.approx(np.log(0.4), abs=0.05)
    monkeypatch.setattr(group_mode, "are_columns", lambda first: np.zeros(len(first) - 1, bool))
    with pytest.raises(GroupModeError, match="did not end"):
        group_mode.find_group_centre(search)
