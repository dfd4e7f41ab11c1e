"""Effects that their prior ties to each other, against joint normal laws summed over a grid of what they share.

Rows are normal with a known scale, so that effects are jointly normal given the parameters of their prior.
"""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from evidence import MAX_Z
from grouped import largest_z, law_of_normal_rows
from numba import njit

import pymc_austerity as pma
from pymc_austerity.compile import graph_compiler
from pymc_austerity.compile.by_reference import by_reference
from pymc_austerity.compile.cache import cached
from pymc_austerity.groups import GroupsNotFoundError, read_groups, tied_prior
from pymc_austerity.groups.group_conditional import Conditional, build_surrogate, place_all
from pymc_austerity.groups.group_density import compile_group_prior
from pymc_austerity.groups.group_model import GroupModel
from pymc_austerity.groups.group_parts import data_by_reference
from pymc_austerity.groups.group_pass import GroupPass
from pymc_austerity.groups.moves_on_all_rows import adapt_tied, build_carried_move, build_tied_move
from pymc_austerity.groups.shared_move import adapt_shared
from pymc_austerity.kernel import pack_generators
from pymc_austerity.unsupported_model import UnsupportedModelError

T, N, DRAWS = 12, 120, 4_000
RNG = np.random.default_rng(17)
#: Some rows read one group by both indices.
OTHER, WEIGHT = RNG.integers(0, T, N), RNG.normal(size=N)
LEVEL, STORE = RNG.integers(0, T, N), RNG.integers(0, 15, N)
DIFFERENCES, NEIGHBOURS = np.diff(np.eye(T), axis=0), np.zeros((T, T))
for _i, _j in [*zip(range(T - 1), range(1, T)), (0, 5), (2, 9), (4, 11)]:
    NEIGHBOURS[_i, _j] = NEIGHBOURS[_j, _i] = 1
LAPLACIAN = np.diag(NEIGHBOURS.sum(0)) - NEIGHBOURS
KERNEL = np.exp(-np.abs(np.subtract.outer(np.arange(T), np.arange(T))) / 4.0) + 0.1 * np.eye(T)
FIRST = np.outer(np.eye(T)[0], np.eye(T)[0])
SMOOTH, FLAT = np.cumsum(RNG.normal(0, 0.5, T)), np.zeros(T)


def log_scale(name="log_sd"):
    return pm.Normal(name, -1, 1)


def walk():
    sd = pm.math.exp(log_scale())
    return pm.GaussianRandomWalk("x", sigma=sd, init_dist=pm.Normal.dist(0, 1), shape=T)[LEVEL]


def walk_by_potential():
    sd, x = pm.math.exp(log_scale()), pm.Flat("x", shape=T)
    pm.Potential("steps", pm.logp(pm.Normal.dist(0, sd), x[1:] - x[:-1]))
    pm.Potential("first", pm.logp(pm.Normal.dist(0, 1), x[0]))
    return x[LEVEL]


def walk_by_steps():
    sd, z = pm.math.exp(log_scale()), pm.Normal("x", shape=T)
    return pt.cumsum(pt.concatenate([[1.0], pt.repeat(sd, T - 1)]) * z)[LEVEL]


def autoregression():
    sd, rho = pm.math.exp(log_scale()), pm.Uniform("rho", -1, 1)
    return pm.AR("x", rho=[rho], sigma=sd, init_dist=pm.Normal.dist(0, 1), shape=T)[LEVEL]


def regions_and_own():
    own = pm.Normal("own", 0, pm.math.exp(log_scale("log_own")), shape=T)
    return (pm.math.exp(log_scale()) * pm.ICAR("x", W=NEIGHBOURS) + own)[LEVEL]


def walk_and_stores():
    return walk() + pm.Normal("store", 0, pm.math.exp(log_scale("log_store")), shape=15)[STORE]


def memberships():
    x = pm.Normal("x", shape=T) * pm.math.exp(log_scale())
    return (1 - WEIGHT) * x[LEVEL] + WEIGHT * x[OTHER]


def of_walk(sd):
    return DIFFERENCES.T @ DIFFERENCES / sd**2 + FIRST


def of_autoregression(sd, rho):
    steps = DIFFERENCES + (1 - rho) * np.eye(T)[:-1]
    return steps.T @ steps / sd**2 + FIRST


def of_both(sd, other):
    """The precision of the sum."""
    of_regions = (LAPLACIAN + 1 / (0.001 * T) ** 2) / sd**2
    return np.linalg.inv(np.linalg.inv(of_regions) + other**2 * np.eye(T))


def of_walk_and_stores(sd, other):
    whole = np.eye(T + 15) / other**2
    whole[:T, :T] = of_walk(sd)
    return whole


#: The predictor, and the precision of what rows read given the scales.
CASES = {
    "walk": (walk, of_walk), "by potential": (walk_by_potential, of_walk), "by steps": (walk_by_steps, of_walk),
    "AR(1)": (autoregression, of_autoregression), "BYM": (regions_and_own, of_both),
    "MvNormal": (
        lambda: pm.MvNormal("x", np.zeros(T), cov=KERNEL * pm.math.exp(2 * log_scale()), shape=T)[LEVEL],
        lambda sd: np.linalg.inv(KERNEL) / sd**2,
    ),
    "memberships": (memberships, lambda sd: np.eye(T) / sd**2),
    "walk and stores": (walk_and_stores, of_walk_and_stores),
}  # fmt: skip
#: One of each structure, with scales beside the log sd; that other spellings are read as these is seen in their
#: precision.
SAMPLED = {"BYM": ["log_own"], "memberships": [], "walk and stores": ["log_store"]}
SCALES = np.linspace(-6, 2.5, 60)
#: What rows read of the levels.
LEVELS, MEMBERS = np.eye(T)[LEVEL], (1 - WEIGHT)[:, None] * np.eye(T)[LEVEL] + WEIGHT[:, None] * np.eye(T)[OTHER]


def outcomes(levels, read=LEVELS):
    return read @ levels + np.random.default_rng(3).normal(size=N)


def model_of(name, y):
    with pm.Model() as model:
        pm.Normal("y", CASES[name][0](), 1, observed=y)
    return model


def law(name, y):
    """Means and sds of the log sd, of other shared parameters, and of what the rows read."""
    precision_at, n_scales = CASES[name][1], 1 + len(SAMPLED.get(name, []))
    stores = np.eye(15)[STORE] if name == "walk and stores" else np.empty((N, 0))
    design = np.column_stack([MEMBERS if name == "memberships" else LEVELS, stores])

    def prior(a, *others):
        return -sum((x + 1) ** 2 for x in (a, *others)) / 2, precision_at(*np.exp([a, *others]))

    return law_of_normal_rows(design, y, [SCALES] * n_scales, prior, np.eye(design.shape[1]))


def run(decider, carried=None, tied=None, n=DRAWS):
    """Draws of θ, and the shares that were accepted; `carried` and `tied` take the place of the step's own moves."""
    looks, state, rng = decider.looks_of_large(), decider.new_state(), np.random.default_rng(2)
    generators, theta, draws, accepted = pack_generators(*rng.spawn(3)), decider.start(rng), [], []
    read = data_by_reference(decider.data()), by_reference(state)
    for i in range(-400, n):
        if carried is not None:
            state.phi[:] = np.nan
            theta = carried(theta, *read, generators)[0].theta
        if tied is not None:
            theta = tied(theta, *read, generators).theta
        if carried is None:
            first, second, about_centre = decider.move(theta, *read, looks, generators)
            theta = second.theta
            if i < 0:
                adapt_shared(first.theta[decider.model.groups.shared], first.accepted, about_centre, state.shared, 3.0)
                adapt_tied(state)
            accepted.append((first.accepted, second.n_accepted / second.n_groups))
        draws.append(theta)
    return np.array(draws[400:]), np.mean(accepted, axis=0) if accepted else None


def columns(name, decider, draws):
    """The same quantities as in `law`, of draws."""
    blocks = {b.name: draws[:, b.start : b.stop] for b in decider.model.likelihood.blocks}
    shared = [blocks["log_sd"], *(blocks[of] for of in SAMPLED.get(name, []))]
    return np.column_stack([*shared, blocks["x"], *([blocks["store"]] if name == "walk and stores" else [])]).T


def decider_of(name, y):
    return pma.GroupMH(model=model_of(name, y), rng=1, progressbar=False).decider


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLED)
def test_draws_have_the_law_of_linear_algebra(name):
    y = outcomes(SMOOTH, MEMBERS if name == "memberships" else LEVELS)
    decider = decider_of(name, y)
    assert decider.model.groups.tied.count(True) == 1
    draws, accepted = run(decider)
    assert accepted.min() > 0.3
    assert largest_z(columns(name, decider, draws), law(name, y)) < MAX_Z


@pytest.fixture(scope="module")
def walked():
    y = outcomes(SMOOTH)
    return decider_of("walk", y), law("walk", y)


@pytest.mark.slow
def test_log_determinant_left_out_is_seen(walked):
    """The planted mistake: the carried move without the determinant of the map of effects."""
    decider, expected = walked
    condition = decider.parts.condition

    @njit
    def without(links, theta, others, fixed, e):
        given = condition(links, theta, others, fixed, e)
        return Conditional(given.mean, given.alone, given.factor, 0.0, given.left, given.normals)

    tied, parts = cached(build_tied_move(decider.parts)), decider.parts
    for of, right in ((parts, True), (parts._replace(condition=without, surrogate=build_surrogate(without)), False)):
        draws = run(decider, cached(build_carried_move(of)), tied)[0]
        assert (largest_z(columns("walk", decider, draws), expected) < (1 if right else 2) * MAX_Z) == right


@pytest.mark.slow
def test_steps_of_another_group_are_seen(walked):
    """The planted mistake: every level gets the step of its neighbour."""
    decider, expected = walked

    @njit
    def of_neighbour(theta, z, e, conditional):
        place_all(theta, z, e, conditional)
        last = theta[e.own[-1, 0]]
        for g in range(e.own.shape[0] - 1, 0, -1):
            theta[e.own[g, 0]] = theta[e.own[g - 1, 0]]
        theta[e.own[0, 0]] = last

    wrong, carried = cached(build_tied_move(decider.parts, of_neighbour)), cached(build_carried_move(decider.parts))
    assert largest_z(columns("walk", decider, run(decider, carried, wrong)[0]), expected) > 2 * MAX_Z


def precision_of(read, theta):
    """The precision of tied effects as the step has it at θ, and what of it lies between groups."""
    data, groups = read.data, read.groups
    t, prior = groups.ties, GroupModel(data.likelihood, groups, False, None).prior
    fixed = data.likelihood.fixed_at(data.fixed)
    arrays = t.at, t.probes, t.weights, t.own_at, t.own, t.between
    _, own, between = cached(prior.derivatives)(theta, data.others0, fixed, groups.own, groups.size, *arrays)
    size = groups.own.shape[1]
    found = np.zeros((len(groups.own) * size,) * 2)
    for g, block in enumerate(own):
        found[g * size : (g + 1) * size, g * size : (g + 1) * size] = block
    found[t.row, t.column] = found[t.column, t.row] = between
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["by potential", "by steps", "AR(1)", "MvNormal"])
def test_precision_is_that_of_the_prior(name):
    read = read_groups(model_of(name, outcomes(FLAT)))
    theta = RNG.normal(size=read.data.theta0.size) / 2
    blocks = {b.name: theta[b.start] for b in read.data.likelihood.blocks}
    given = [2 / (1 + np.exp(-blocks["rho_interval__"])) - 1] if name == "AR(1)" else []
    expected = CASES[name][1](np.exp(blocks["log_sd"]), *given)
    found = precision_of(read, theta)
    as_expected = pytest.approx(expected, rel=1e-7, abs=1e-9 * np.abs(expected).max())
    assert found == as_expected
    assert np.roll(found, 1, (0, 1)) != as_expected


def student_walk():
    x = pm.Flat("x", shape=T)
    pm.Potential("steps", pm.logp(pm.StudentT.dist(nu=4, sigma=pm.math.exp(log_scale())), x[1:] - x[:-1]))
    return x[LEVEL]


def own_scales():
    z, sd = pm.Normal("x", shape=T), pm.LogNormal("sd", shape=T)
    return pt.cumsum(sd * z)[LEVEL]


@pytest.mark.parametrize("predictor", [student_walk, own_scales], ids=lambda f: f.__name__)
def test_prior_that_is_not_normal_is_refused(predictor, monkeypatch):
    monkeypatch.setattr(tied_prior, "_FIRST_POINTS", None)  # matrices, which take long, are not looked for
    with pm.Model() as model:
        pm.Normal("y", predictor(), 1, observed=outcomes(FLAT))
    with pytest.raises(GroupsNotFoundError, match="does not split over groups") as refused:
        read_groups(model)
    refused.match("taken together the prior of .* is not normal")


def test_what_is_no_precision_of_the_prior_is_refused(monkeypatch):
    """A planted mistake: entries of the precision are shifted by one."""
    times = tied_prior._times
    monkeypatch.setattr(tied_prior, "_times", lambda row, column, v, x: times(row, column, np.roll(v, 1), x))
    with pytest.raises(GroupsNotFoundError, match="slope is not linear"):
        read_groups(model_of("walk", outcomes(FLAT)))


@pytest.mark.slow
def test_derivatives_by_both_indices_at_once_are_refused(monkeypatch):
    """A planted mistake: rows are expanded along what they read by either index, which says nothing of one group.

    Steps to the centre go astray with such a Hessian; where they end all the same, the derivatives are checked.
    """
    monkeypatch.setattr(GroupPass, "_at_index", lambda self, direction, i: self.at_all_indices(direction))
    with pytest.raises(UnsupportedModelError, match="a derivative of the likelihood is wrong|did not end"):
        decider_of("memberships", outcomes(FLAT))


def test_entry_before_is_refused():
    with pm.Model() as model:
        x, at = pm.Normal("x", 0, pm.HalfNormal("sd"), shape=T), pm.Data("at", LEVEL)
        pm.Normal("y", x[at] - x[at - 1], 1, observed=outcomes(FLAT))
    with pytest.raises(GroupsNotFoundError, match="several entries of one variable"):
        read_groups(model)


@pytest.mark.slow
@pytest.mark.parametrize("excluded", [graph_compiler._FAILING, "nothing"])
def test_a_long_walk_with_a_level_prints_no_traceback(excluded, monkeypatch, caplog):
    """PyTensor 3.3.8 logs that a rewrite has failed; the second case shows that the rewrite does without the mend."""
    monkeypatch.setattr(graph_compiler, "_FAILING", excluded)
    monkeypatch.setattr(graph_compiler, "_compiled", [])
    day = np.arange(400) % 200
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 0.2)
        walk = pm.GaussianRandomWalk("walk", 0, scale, init_dist=pm.Normal.dist(0, 0.1), shape=200)
        pm.Poisson("y", pm.math.exp((pm.Normal("level") + walk)[day]), observed=day)
    found = read_groups(model)
    compile_group_prior(found.data.likelihood, found.groups, {})
    failed = [record for record in caplog.records if "local_subtensor_merge_slice" in record.getMessage()]
    assert bool(failed) == (excluded == "nothing" and pytensor.__version__ == "3.3.8")
