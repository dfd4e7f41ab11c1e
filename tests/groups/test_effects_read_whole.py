"""Effects that a matrix is multiplied by, not centred: moved as the rows read them, in every spelling."""

import numpy as np
import pymc as pm
import pytensor.sparse as ps
import pytensor.tensor as pt
import pytest
import scipy.sparse

import pymc_austerity as pma
from pymc_austerity.groups import centred_model, change_of_variables, read_groups, scales_on_effects

N, D = 3_000, 6
RNG = np.random.default_rng(11)
X = RNG.normal(size=(N, D))
SLOPES = 0.4 * RNG.normal(size=D)
LABELS = (RNG.random(N) < 1 / (1 + np.exp(-X @ SLOPES))).astype(int)
LEVELS = 9
GROUP, MEMBERS = RNG.integers(0, LEVELS, N), RNG.integers(0, LEVELS, (N, 3))


def scaled(n=D):
    return pm.HalfNormal("tau", 1), pm.Normal("z", 0, 1, shape=n)


def product():
    tau, z = scaled()
    return pm.math.dot(X, z * tau)


def with_mean():
    tau, z = scaled()
    return X @ (pm.Normal("mu") + tau * z)


def summed():
    tau, z = scaled()
    return (X * (tau * z)).sum(axis=1)


def sparse():
    tau, z = scaled()
    return ps.structured_dot(ps.as_sparse_variable(scipy.sparse.csr_matrix(X)), (tau * z)[:, None])[:, 0]


def two_scales():
    first = pm.HalfNormal("tau") * pm.Normal("z", shape=2)
    return X @ pt.concatenate([first, pm.HalfNormal("other") * pm.Normal("w", shape=D - 2)])


def local_scales():
    tau, z = scaled()
    return X @ (z * pm.HalfCauchy("lam", 1, shape=D) * tau)


def random_walk():
    tau, z = scaled()
    return X @ pt.cumsum(z * tau)


def scaled_after_in_turn():
    tau, z = scaled()
    return 2 * pt.dot(X, z) * pm.HalfNormal("other") * tau


def scaled_after_by_data():
    pm.modelcontext(None).add_coord("column", range(D))
    return (pm.Data("X", X) @ pm.Normal("z", dims="column")) * pm.Exponential("tau", 1)


def divided_after():
    return (X @ pm.Normal("z", shape=D)) / pt.sqrt(pm.Gamma("precision", 2, 1))


def contrasts():
    tau, z = scaled(LEVELS - 1)
    return (tau * pt.dot(np.vstack([np.eye(LEVELS - 1), -np.ones(LEVELS - 1)]), z))[GROUP]


def projected():
    tau, z = scaled(LEVELS)
    return (tau * pt.dot(np.eye(LEVELS) - 1 / LEVELS, z))[GROUP]


def scaled_mean_of_members():
    tau, z = scaled(LEVELS)
    return tau * z[MEMBERS].mean(axis=1)


def mean_taken_off():
    tau, z = scaled(LEVELS)
    return (tau * (z - z.mean()))[GROUP]


def mean_taken_off_rows():
    tau, z = scaled(LEVELS)
    return pm.Normal("a") + tau * (z - pt.mean(z))[GROUP] * X[:, 0]


def mean_taken_off_columns():
    z = pm.Normal("z", shape=(LEVELS, 2))
    b = pm.Normal("mu", shape=2) + pm.HalfNormal("tau", shape=2) * (z - z.mean(axis=0))
    return b[GROUP, 0] + b[GROUP, 1] * X[:, 0]


def last_is_minus_the_others():
    tau, z = scaled(LEVELS - 1)
    return (tau * pt.concatenate([z, [-z.sum()]]))[GROUP]


def reshaped():
    b = pm.Normal("z", shape=2 * LEVELS).reshape((LEVELS, 2)) * pm.HalfNormal("tau", shape=2)
    return b[GROUP, 0] + b[GROUP, 1] * X[:, 0]


def model_of(effects):
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=effects(), observed=LABELS)
    return model


TAKEN = [
    product, with_mean, summed, sparse, two_scales, local_scales, random_walk, scaled_after_in_turn,
    scaled_after_by_data, divided_after, contrasts, projected, scaled_mean_of_members, mean_taken_off,
    mean_taken_off_rows, mean_taken_off_columns, last_is_minus_the_others, reshaped,
]  # fmt: skip


@pytest.mark.parametrize("effects", TAKEN, ids=lambda effects: effects.__name__)
def test_what_takes_the_place_of_z(effects):
    """The density and the maps of the new model are checked by numbers when it is made."""
    found = centred_model.centred_model(model_of(effects))
    assert set(found.replaced) == ({"z", "w"} if effects is two_scales else {"z"})


def centred():
    return X @ pm.Normal("z", 0, pm.HalfNormal("tau"), shape=D)


def read_twice():
    tau, z = scaled()
    return X @ (tau * z) + X[:, 0] * z[0]


def correlated():
    sd = pm.HalfNormal.dist(1, shape=D)
    chol = pm.LKJCholeskyCov("chol", n=D, eta=2.0, sd_dist=sd, compute_corr=True)[0]
    return X @ pt.dot(chol, pm.Normal("z", shape=D))


def curved():
    return X @ pt.tanh(pm.Normal("z", 0, pm.HalfNormal("tau"), shape=D))


def scale_of_a_sum():
    tau, z = scaled()
    return tau * (X @ z + 1)


def scales_of_levels():
    """Each level has a scale of its own, of which a mean over levels does not go together."""
    z = pm.Normal("z", shape=LEVELS)
    return (pm.HalfNormal("tau", shape=LEVELS) * (z - z.mean()))[GROUP]


LEFT = [centred, read_twice, correlated, curved, scale_of_a_sum, scales_of_levels]


@pytest.mark.parametrize("effects", LEFT, ids=lambda effects: effects.__name__)
def test_what_is_left_as_it_is(effects):
    assert centred_model.centred_model(model_of(effects)) is None


def test_a_mean_of_levels_that_is_not_their_sum_is_refused(monkeypatch):
    """A planted mistake: scales of levels are put on z as if they were one scale."""
    monkeypatch.setattr(scales_on_effects, "axis_entering", lambda effects, at, source: at)
    with pytest.raises(pma.GroupsNotFoundError, match="fails its check"):
        centred_model.centred_model(model_of(scales_of_levels))


def behind_one_another():
    return pt.concatenate([pm.Normal("u", 0, pm.HalfNormal("s"), shape=LEVELS - 4), pm.Normal("w", shape=4)])[GROUP]


@pytest.mark.parametrize(
    ("effects", "remedy"),
    [(mean_taken_off, "write pm.ZeroSumNormal"), (behind_one_another, "Write the parts as one variable")],
)
def test_effects_that_do_not_split_have_a_remedy(effects, remedy):
    with pytest.raises(pma.GroupsNotFoundError, match=remedy):
        read_groups(model_of(effects))


def test_a_wrong_jacobian_is_found(monkeypatch):
    def without_jacobian(effects, source, new):
        inverse, _ = inverse_by_ops(effects, source, new)
        return inverse, pt.constant(0.0)

    inverse_by_ops = change_of_variables.inverse_by_ops
    monkeypatch.setattr(change_of_variables, "inverse_by_ops", without_jacobian)
    with pytest.raises(pma.GroupsNotFoundError, match="fails its check"):
        centred_model.centred_model(model_of(product))


@pytest.mark.slow
def test_a_logistic_regression_is_moved_by_its_columns(caplog):
    with model_of(product):
        pma.PenaltyMH(progressbar=False)
    assert f"finds {D} coefficients of columns (z)" in caplog.text
