"""Effects that a matrix is multiplied by, not centred: moved as the rows read them, or as those of groups."""

import numpy as np
import pymc as pm
import pytensor.sparse as ps
import pytensor.tensor as pt
import pytest
import scipy.sparse
from cases import cases

import pymc_austerity as pma
from pymc_austerity.compile.graph_compiler import interpret_log_density
from pymc_austerity.groups import centred_model, read_groups

N, D = 300, 6
RNG = np.random.default_rng(11)
X = RNG.normal(size=(N, D))
SPARSE = ps.as_sparse_variable(scipy.sparse.csr_matrix(X))
LABELS = RNG.integers(0, 2, N)
LEVELS = 14
GROUP = RNG.integers(0, LEVELS, N)


def scaled(shape, eta):
    """Return what makes a predictor of effects that are not centred."""
    return lambda: eta(pm.HalfNormal("tau", 1, shape=shape[1:]), pm.Normal("z", 0, 1, shape=shape))


def two_scales(tau, z):
    return X @ pt.concatenate([tau * z, pm.HalfNormal("other") * pm.Normal("w", shape=D - 2)])


def mean_of_columns_taken_off(tau, z):
    b = pm.Normal("mu", shape=2) + tau * (z - z.mean(axis=0))
    return b[GROUP, 0] + b[GROUP, 1] * X[:, 0]


def reshaped(tau, z):
    b = tau * z.reshape((LEVELS, 2)) * pm.HalfNormal("other", shape=2)
    return b[GROUP, 0] + b[GROUP, 1] * X[:, 0]


CONTRASTS = np.vstack([np.eye(LEVELS - 1), -np.ones(LEVELS - 1)])
MEAN_TAKEN_OFF = scaled((LEVELS,), lambda tau, z: (tau * (z - z.mean()))[GROUP])
TAKEN = {
    "product": scaled((D,), lambda tau, z: pm.math.dot(X, z * tau)),
    "with a mean": scaled((D,), lambda tau, z: X @ (pm.Normal("mu") + tau * z)),
    "summed": scaled((D,), lambda tau, z: (X * (tau * z)).sum(axis=1)),
    "sparse": scaled((D,), lambda tau, z: ps.structured_dot(SPARSE, (tau * z)[:, None])[:, 0]),
    "two scales": scaled((2,), two_scales),
    "random walk": scaled((D,), lambda tau, z: X @ pt.cumsum(z * tau)),
    "scaled after": scaled((D,), lambda tau, z: 2 * pt.dot(X, z) * pm.HalfNormal("other") * tau),
    "scaled after data": scaled((D,), lambda tau, z: (pm.Data("X", X) @ z) * tau),
    "divided after": scaled((D,), lambda tau, z: (X @ z) / pt.sqrt(tau)),
    "contrasts": scaled((LEVELS - 1,), lambda tau, z: (tau * pt.dot(CONTRASTS, z))[GROUP]),
    "projected": scaled((LEVELS,), lambda tau, z: (tau * pt.dot(np.eye(LEVELS) - 1 / LEVELS, z))[GROUP]),
    "mean taken off": MEAN_TAKEN_OFF,
    "mean taken off rows": scaled((LEVELS,), lambda tau, z: tau * (z - pt.mean(z))[GROUP] * X[:, 0]),
    "mean of columns": scaled((LEVELS, 2), mean_of_columns_taken_off),
    "minus the others": scaled((LEVELS - 1,), lambda tau, z: (tau * pt.concatenate([z, [-z.sum()]]))[GROUP]),
    "reshaped": scaled((2 * LEVELS,), reshaped),
}


def model_of(effects):
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=effects(), observed=LABELS)
    return model


@pytest.mark.parametrize(
    "name",
    cases(TAKEN, ["product", "with a mean", "sparse", "two scales", "random walk", "contrasts", "minus the others"]),
)
def test_what_takes_the_place_of_z(name):
    """The density and the maps of the new model are checked by numbers when it is made."""
    found = centred_model.centred_model(model_of(TAKEN[name]))
    assert set(found.replaced) == ({"z", "w"} if name == "two scales" else {"z"})


def correlated():
    sd = pm.HalfNormal.dist(1, shape=D)
    chol = pm.LKJCholeskyCov("chol", n=D, eta=2.0, sd_dist=sd, compute_corr=True)[0]
    return X @ pt.dot(chol, pm.Normal("z", shape=D))


def scales_of_levels():
    """Each level has a scale of its own, of which a mean over levels does not go together."""
    z = pm.Normal("z", shape=LEVELS)
    return (pm.HalfNormal("tau", shape=LEVELS) * (z - z.mean()))[GROUP]


LEFT = {
    "centred": lambda: X @ pm.Normal("z", 0, pm.HalfNormal("tau"), shape=D),
    "correlated": correlated,
    "curved": lambda: X @ pt.tanh(pm.Normal("z", 0, pm.HalfNormal("tau"), shape=D)),
    "scales of levels": scales_of_levels,
    "read twice": scaled((D,), lambda tau, z: X @ (tau * z) + X[:, 0] * z[0]),
    "scale of a sum": scaled((D,), lambda tau, z: tau * (X @ z + 1)),
}


@pytest.mark.parametrize("effects", LEFT.values(), ids=LEFT)
def test_what_is_left_as_it_is(effects):
    found = centred_model.centred_model(model_of(effects))
    assert found is None or not found.replaced  # the covariance alone has other coordinates


def minus_the_others():
    u = pm.Normal("u", 0, pm.HalfNormal("s"), shape=LEVELS - 1)
    return pt.concatenate([u, [-u.sum()]])[GROUP]


def slopes_behind_one_another():
    u, w = pm.Normal("u", 0, pm.HalfNormal("s"), shape=(LEVELS - 4, 2)), pm.Normal("w", shape=(4, 2))
    return (pt.concatenate([u, w])[GROUP] * X[:, :2]).sum(axis=1)


#: Both members of some rows are the same.
MEMBERS = RNG.integers(0, LEVELS, (N, 2))
DUMMIES, WEIGHTS = np.eye(LEVELS)[MEMBERS[:, 0]], RNG.dirichlet([2, 2], N)
SHARES = WEIGHTS[:, :1] * DUMMIES + WEIGHTS[:, 1:] * np.eye(LEVELS)[MEMBERS[:, 1]]
DUMMIES_READ = {
    "scaled after": lambda tau, z: tau * (DUMMIES @ z),
    "slopes": lambda tau, z: (DUMMIES * X[:, :1]) @ (tau * z),
    "on the second axis": lambda tau, z: pm.math.dot(tau * z, DUMMIES.T),
    "sparse, on the second axis": lambda tau, z: ps.dot(tau * z, scipy.sparse.csr_matrix(DUMMIES.T)),
    "sparse": lambda tau, z: ps.structured_dot(scipy.sparse.csr_matrix(DUMMIES), (tau * z)[:, None])[:, 0],
    "shares": lambda tau, z: SHARES @ (tau * z),
    "mean": lambda tau, z: tau * z[MEMBERS].mean(axis=1),
    "weights": lambda tau, z: tau * (WEIGHTS * z[MEMBERS]).sum(axis=1),
}


@pytest.mark.parametrize("name", cases(DUMMIES_READ, ["scaled after", "slopes", "sparse", "weights"]))
def test_dummies_are_read_as_numbers_of_groups(name):
    """So are tables of numbers."""
    found = read_groups(model_of(scaled((LEVELS,), DUMMIES_READ[name]))).groups
    assert (found.names, len(found.own)) == (("z",), LEVELS)


CHOICES = {
    "scaled before": lambda tau, z: (tau * z)[MEMBERS],
    "scaled after": lambda tau, z: tau * z[MEMBERS],
    "with covariates": lambda tau, z: tau * z[MEMBERS] + pm.Normal("b", 0, 1) * WEIGHTS,
}


@pytest.mark.parametrize("form", CHOICES)
def test_items_that_are_chosen_from_are_groups(form):
    """Each row has a table of items of its own, over which a softmax goes; the planted mistake is another's column."""
    with pm.Model() as model:
        tau, z = pm.HalfNormal("tau", 1), pm.Normal("z", 0, 1, shape=LEVELS)
        pm.Categorical("y", logit_p=CHOICES[form](tau, z), observed=RNG.integers(0, 2, N))
    read = read_groups(model)
    assert (read.groups.names, len(read.groups.own), len(read.groups.indices)) == (("z",), LEVELS, 2)
    assert "tau_log__" not in read.data.likelihood.read
    point = {k: RNG.normal(size=v.shape) for k, v in model.initial_point().items()}
    theta = read.data.coordinates.theta(point)
    for wrong in (0, 1):
        arrays = [np.roll(a, wrong, axis=0) if a.dtype.kind == "i" and wrong else a for a in read.data.rows.arrays]
        likelihood = read.data.likelihood
        rows = interpret_log_density([likelihood.theta, *likelihood.batches], likelihood.row_log_likelihood)
        (expected,) = model.compile_logp(model["y"], sum=False)(point)
        assert np.allclose(rows(theta, *arrays), expected) == (not wrong)


@pytest.mark.parametrize(
    "matrix",
    [np.column_stack([np.ones(N), DUMMIES]), RNG.normal(size=(N, 3)), np.eye(3)[GROUP % 3][:, 1:]],
    ids=["intercept", "covariates", "against a reference"],
)
def test_other_matrices_are_columns(matrix):
    model = model_of(lambda: matrix @ pm.Normal("b", 0, pm.HalfNormal("s"), shape=matrix.shape[1]))
    assert read_groups(model).groups.size.tolist() == [matrix.shape[1]]


@pytest.mark.parametrize(
    ("effects", "remedy"),
    [
        (MEAN_TAKEN_OFF, "write pm.ZeroSumNormal"),
        (minus_the_others, "write pm.ZeroSumNormal"),
        (slopes_behind_one_another, "Write the parts as one variable"),
        (scaled((LEVELS,), lambda tau, z: pm.Data("Z", DUMMIES) @ (tau * z)), "argmax"),
        (scaled((LEVELS,), lambda tau, z: z[pm.Data("M", MEMBERS)].sum(-1)), "M_0"),
    ],
    ids=[
        "mean taken off",
        "minus the others",
        "behind one another",
        "dummies that may be replaced",
        "numbers that may be replaced",
    ],
)
def test_effects_that_do_not_split_have_a_remedy(effects, remedy):
    with pytest.raises(pma.GroupsNotFoundError, match=remedy):
        read_groups(model_of(effects))
