"""Moves that the prior decides: of what no row reads given the effects, and shifts of coefficients against effects."""

import tracemalloc
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z
from grouped import largest_z, mean_and_sd, search_of
from numba import njit

import pymc_austerity as pma
from pymc_austerity.compile.by_reference import by_reference
from pymc_austerity.compile.cache import cached
from pymc_austerity.groups import bounded_variables
from pymc_austerity.groups.group_mode import find_group_centre
from pymc_austerity.groups.group_parts import data_by_reference
from pymc_austerity.groups.group_shifts import find_shifts
from pymc_austerity.groups.prior_moves import build_move_along, build_move_given, build_shift
from pymc_austerity.groups.shared_steps import find_shared_steps
from pymc_austerity.kernel import pack_generators

G, H, N = 40, 33, 400
RNG = np.random.default_rng(8)
FIRST, SECOND = RNG.integers(G, size=N), RNG.integers(H, size=N)
#: A column of the first factor, one of the second, and one of rows.
COLUMNS = np.column_stack([RNG.normal(size=G)[FIRST], RNG.normal(size=H)[SECOND], RNG.normal(size=N)])
#: In a further column a single row is not as the others of its group.
ALMOST = RNG.normal(size=G)[FIRST]
ALMOST[17] += 1e-3
Y = RNG.integers(0, 2, size=N)
#: Where the intercept and the effects lie in θ, behind two scales.
INTERCEPT, FIRSTS, SECONDS = 2, slice(7, 7 + G), slice(7 + G, 7 + G + H)


@pytest.fixture(scope="module")
def decider():
    with pm.Model():
        log_scale = pm.Normal("log_scale", -0.3, 0.5, shape=2)
        eta = pm.Normal("intercept") + pm.math.dot(np.column_stack([COLUMNS, ALMOST]), pm.Normal("b", 0, 2, shape=4))
        eta += pm.Normal("first", 0, pm.math.exp(log_scale[0]), shape=G)[FIRST]
        eta += pm.Normal("second", 0, pm.math.exp(log_scale[1]), shape=H)[SECOND]
        pm.Bernoulli("y", logit_p=eta, observed=Y)
        return pma.GroupMH(test=pma.Exact(), rng=1, progressbar=False).decider


def _expected(theta_size):
    """Directions of the four shifts: effects up by a column, and its coefficient down."""
    found = np.zeros((4, theta_size))
    of_first = [np.mean(COLUMNS[g == FIRST, 0]) for g in range(G)]
    of_second = [np.mean(COLUMNS[g == SECOND, 1]) for g in range(H)]
    found[:2, FIRSTS], found[2:, SECONDS] = np.array([np.ones(G), of_first]), np.array([np.ones(H), of_second])
    found[range(4), [INTERCEPT, 3, INTERCEPT, 4]] = -1.0
    return found


def _rows(decider, theta):
    at = decider.others, decider.fixed, decider.prepared.rows
    return np.concatenate(list(decider.model.group_pass.rows(theta, *at)))


@pytest.mark.slow
def test_shifts_of_columns_constant_within_groups_are_found(decider):
    shifts, expected = decider.prepared.shifts, _expected(decider.theta0.size)
    assert decider.model.groups.first.tolist() == [0, G, G + H]
    # As many, and of one space; neither the column of rows nor the one of which a single row is not as the others.
    assert np.linalg.matrix_rank(np.vstack([shifts, expected]), tol=1e-6) == len(shifts) == 4


def _precision(theta):
    """Precisions of the normal prior of all but the scales."""
    of_effects = np.repeat(np.exp(-2 * theta[:2]), [G, H])
    return np.concatenate([[1.0], np.full(4, 0.25), of_effects])


def _shifted(decider, log_prior, shifts, n=4_000):
    """By shifts alone: the largest z of moments along the expected directions, and the largest change of a row."""
    shift = cached(build_shift(build_move_along(log_prior)))
    start = decider.start(np.random.default_rng(5))
    generators, theta, thetas = pack_generators(*np.random.default_rng(6).spawn(3)), start, []
    data = data_by_reference(decider.data()._replace(shifts=shifts))
    for _ in range(n):
        theta, _ = shift(theta, data, generators)
        thetas.append(theta)
    directions = _expected(start.size)[:, 2:]
    along = np.linalg.lstsq(directions.T, (np.array(thetas) - start)[:, 2:].T, rcond=None)[0]
    precision = _precision(start)
    covariance = np.linalg.inv((directions * precision) @ directions.T)
    mean = -covariance @ directions @ (precision * start[2:])
    change = np.abs(_rows(decider, theta) - _rows(decider, start)).max()
    return largest_z(along, (mean, np.sqrt(np.diag(covariance)))), change


@pytest.mark.slow
@pytest.mark.parametrize("planted", [None, "half the prior", "another column"])
def test_shifts_draw_from_the_prior_given_the_rows(decider, planted):
    log_prior, shifts = decider.parts.density.log_prior, decider.prepared.shifts

    @njit
    def half(links, theta, others, fixed):
        return log_prior(links, theta, others, fixed) / 2

    if planted == "another column":
        shifts = np.concatenate([shifts[:, : FIRSTS.start], np.roll(shifts[:, FIRSTS.start :], 1, axis=1)], axis=1)
    furthest, change = _shifted(decider, half if planted == "half the prior" else log_prior, shifts)
    assert (furthest < MAX_Z) == (planted is None)
    assert (change < 1e-9) == (planted in (None, "half the prior"))


INDEX = np.repeat(np.arange(5), 5)
EFFECTS = np.array([0.3, -1.1, 0.8, 2.0, 0.1])


@pytest.fixture(scope="module")
def effects_alone():
    """A step, and a weight that counts the prior of the effects once more where it is one."""
    with pm.Model():
        mean, log_scale = pm.Normal("mean"), pm.Normal("log_scale", -0.3, 0.7)
        effect = pm.Normal("effect", mean, pm.math.exp(log_scale), shape=5)
        again = pm.logp(pm.Normal.dist(mean, pm.math.exp(log_scale)), effect)
        pm.Potential("again", pm.Data("weight", 0.0) * again)
        pm.Normal("y", effect[INDEX], 1, observed=np.arange(25.0) % 2)
        return pma.GroupMH(test=pma.Exact(), rng=1, progressbar=False).decider


def _law():
    """Means and standard deviations of the mean and the log scale given the effects, on a grid."""
    m, s = np.meshgrid(np.linspace(-4, 4, 401), np.linspace(-3, 3, 401), indexing="ij")
    rows = -0.5 * ((EFFECTS[:, None, None] - m) / np.exp(s)) ** 2 - s
    log_weight = rows.sum(axis=0) - 0.5 * m**2 - 0.5 * ((s + 0.3) / 0.7) ** 2
    return mean_and_sd(log_weight.ravel(), np.column_stack([m.ravel(), s.ravel()]))


@pytest.mark.slow
def test_parameters_no_row_reads_have_their_law_given_effects(effects_alone):
    """And another where the prior of the effects counts twice, which is the planted mistake."""
    decider, n = effects_alone, 20_000
    log_prior, steps = decider.parts.density.log_prior, decider.prepared.steps
    assert steps.sliced_as.tolist() == [-1, 0]  # by moves, and by slices
    move = build_move_given(build_move_along(log_prior), log_prior)

    @njit
    def run(theta, data, state, generators, n):
        draws = np.empty((n, theta.size))
        for i in range(n):
            theta = move(theta, data, state, generators)
            draws[i] = theta
        return draws

    for weight in (0.0, 1.0):
        generators = pack_generators(*np.random.default_rng(3).spawn(3))
        data = decider.data()._replace(fixed=decider.model.likelihood.fixed_at((np.array(weight),)))
        read = data_by_reference(data), by_reference(decider.new_state())
        draws = run(np.concatenate([[0.0, 0.0], EFFECTS]), *read, generators, n)
        assert (draws[:, 2:] == EFFECTS).all()
        assert len(np.unique(draws[:, 0])) > n / 4
        assert (largest_z(draws[:, :2].T, _law()) < MAX_Z) == (weight == 0)


class Links(NamedTuple):
    rows: float


class Data(NamedTuple):
    links: Links
    others: float
    fixed: float


def test_a_prior_that_ends_is_sampled_up_to_its_ends():
    """Beside an end the curvature is infinite, as where the square of a horseshoe's scale overflows."""

    @njit
    def log_prior(links, theta, others, fixed):
        return -0.5 * theta[0] ** 2 if abs(theta[0]) < 1 else -np.inf

    move = build_move_along(log_prior)

    @njit
    def run(data, generators, n):
        theta, draws = np.zeros(1), np.empty(n)
        for i in range(n):
            theta, _ = move(theta, np.ones(1), 0.4, data, generators)
            draws[i] = theta[0]
        return draws

    draws = run(Data(Links(0.0), 0.0, 0.0), pack_generators(*np.random.default_rng(3).spawn(3)), 40_000)
    at = np.linspace(-1, 1, 4_001)
    assert largest_z(draws[:, None].T, mean_and_sd(-0.5 * at**2, at[:, None])) < MAX_Z


def horseshoe(tau=lambda: pm.HalfCauchy("tau", 0.5)):
    with pm.Model() as model:
        local = pm.HalfCauchy("local", 1, shape=8)
        X = np.random.default_rng(9).normal(size=(N, 8))
        pm.Normal("y", X @ pm.Normal("b", 0, local * tau(), shape=8), pm.HalfNormal("s", 1), observed=Y)
    return model


@pytest.mark.parametrize(("model", "n"), [(horseshoe(), 1), (horseshoe(lambda: 0.5), 0)], ids=["two scales", "one"])
def test_a_scale_is_shifted_against_local_ones(model, n):
    """And by as much as their prior allows: the sum of logarithms of a half-Cauchy has no other scale."""
    search, theta = search_of(model), np.zeros(18 - (n == 0))
    shifts = find_shifts(search, theta)
    assert len(shifts) == n
    for shift in shifts:
        assert shift[:9] == pytest.approx(np.r_[np.ones(8), -1.0] * shift[0])
        here = search.log_prior(theta)
        assert search.log_prior(theta + shift) + search.log_prior(theta - shift) - 2 * here == pytest.approx(
            -1, abs=0.2
        )


def test_shifts_of_many_effects_need_little_memory():
    """In proportion to the effects: their square would not fit for 25,000 of them."""
    rng = np.random.default_rng(8)
    with pm.Model() as model:
        effects = [pm.Normal(u, 0, pm.HalfNormal(f"sd_{u}", 1), shape=1_000)[rng.integers(0, 1_000, N)] for u in "uv"]
        pm.Normal("y", effects[0] + effects[1], 1, observed=Y)
    search = search_of(model)
    tracemalloc.start()
    try:
        find_shifts(search, np.zeros(2_002))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50e6


def test_local_scales_have_no_slices_of_their_own():
    """Given the coefficients they move far, by the prior alone; the global one and that of the errors do not."""
    search = search_of(horseshoe())
    found = find_group_centre(search)
    steps = find_shared_steps(search, found.expansion, found.mean, found.factor)
    names = [b.name for b in search.model.likelihood.blocks for _ in range(b.start, b.stop)]
    assert {names[found.expansion.shared[steps.sliced[k]]] for k in steps.chosen} >= {"tau_log__", "s_log__"}
    assert len(steps.chosen) < 7 < len(steps.sliced)


@pytest.mark.parametrize("unit", [1.0, 1e9, 1e-9])
def test_shifts_of_crossed_effects_are_as_long_as_their_unit(unit):
    """Half a unit was no step that a prior of 1e9 saw: a scale of the other factor went along with the effects."""
    rng = np.random.default_rng(3)
    i, j = rng.integers(0, 20, 800), rng.integers(0, 12, 800)
    with pm.Model() as model:
        u = pm.Normal("u", 0, pm.HalfNormal("su", unit), shape=20)
        v = pm.Normal("v", 0, pm.HalfNormal("sv", unit), shape=12)
        mean = pm.Normal("mean", 0, unit) + u[i] + v[j]
        pm.StudentT("y", nu=5, mu=mean, sigma=pm.HalfNormal("s", unit), observed=unit * rng.normal(size=800))
    search = search_of(model)
    theta = search.data.theta0
    shifts = find_shifts(search, theta)
    blocks = {b.name: np.arange(b.start, b.stop) for b in search.model.likelihood.blocks}
    scales = np.concatenate([blocks[name] for name in blocks if name.endswith("_log__")])
    assert len(shifts) == 1  # the mean is that of the first effects, and goes along with them
    assert not shifts[:, scales].any()
    for shift in shifts:
        sides = search.log_prior(theta + shift) + search.log_prior(theta - shift)
        assert 2 * search.log_prior(theta) - sides == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("unit", [1.0, 1e-9])
def test_a_shift_that_rows_see_is_none_in_any_unit(unit):
    """Far out in units of 1e-9 it changed rows by what was taken for rounding, and draws were off by .6 sds."""
    rng, weeks = np.random.default_rng(1), 80
    week, true = rng.integers(0, weeks, 8_000), 20 + np.cumsum(rng.normal(0, 0.3, weeks))
    with pm.Model() as model:
        steps = pm.HalfNormal("s", unit) * pm.Normal("z", shape=weeks)
        walk = pm.Normal("first", 0, 30 * unit) + pm.math.cumsum(steps)
        pm.Normal("y", walk[week], pm.HalfNormal("sd", 10 * unit), observed=unit * rng.normal(true[week], 1))
    search = search_of(model)
    assert len(find_shifts(search, find_group_centre(search).expansion.centre)) == 0


def test_levels_of_ratings_that_walk_are_shifted_all_at_once():
    """A constant may be added to all ratings of a season; given the other seasons' it hardly moves."""
    rng, seasons = np.random.default_rng(2), 5
    home, season = rng.integers(0, 6, N), rng.integers(0, seasons, N)
    away = (home + rng.integers(1, 6, N)) % 6
    with pm.Model() as model:
        walk = pm.GaussianRandomWalk(
            "walk", sigma=pm.HalfNormal("s", 0.5), init_dist=pm.Normal.dist(), shape=(6, seasons)
        )
        pm.Bernoulli("y", logit_p=walk[home, season] - walk[away, season], observed=Y)
    search, theta = search_of(model), np.zeros(31)
    shifts = find_shifts(search, theta)
    assert len(shifts) == seasons
    for mix in rng.normal(size=(5, seasons)):
        sides = search.log_prior(theta + mix @ shifts) + search.log_prior(theta - mix @ shifts)
        assert 2 * search.log_prior(theta) - sides == pytest.approx(mix @ mix)
        assert search.total(theta + mix @ shifts) == pytest.approx(search.total(theta))
    one = theta + np.eye(31)[-seasons]
    assert abs(search.total(one) - search.total(theta)) > 1e-3  # a rating alone changes rows


@pytest.mark.parametrize(("changes", "named"), [(True, ()), (False, ("slope",))])
def test_slopes_far_from_quadratic_are_named(changes, named, monkeypatch):
    """The data say of one that it is a standard error above zero, about, and of another that it is 1.5.

    In the logarithm of the first the rows are far from quadratic, and not in what moves in its place.
    """
    if not changes:
        monkeypatch.setattr(bounded_variables, "_bounded", lambda *_: None)
    rng, n = np.random.default_rng(4), 4_000
    x, group = rng.normal(size=(n, 2)), np.arange(n) % 20
    p = 1 / (1 + np.exp(-1.5 * x[:, 1]))
    y = (rng.random(n) < p).astype(int)
    error = y - p
    x[:, 0] += (np.sqrt(np.sum(p * (1 - p))) - x[:, 0] @ error) / (error @ error) * error
    with pm.Model():
        slope, steep = pm.HalfNormal("slope", 1), pm.HalfNormal("steep", 1)
        u = pm.Normal("u", 0, pm.HalfNormal("s", 1), shape=20)
        pm.Bernoulli("y", logit_p=slope * x[:, 0] + steep * x[:, 1] + u[group], observed=y)
        assert pma.PenaltyMH(progressbar=False).decider.prepared.far_from_quadratic == named
