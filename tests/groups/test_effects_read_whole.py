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
SPARSE = ps.as_sparse_variable(scipy.sparse.csr_matrix(X))
SLOPES = 0.4 * RNG.normal(size=D)
LABELS = (RNG.random(N) < 1 / (1 + np.exp(-X @ SLOPES))).astype(int)
LEVELS = 9
GROUP, MEMBERS = RNG.integers(0, LEVELS, N), RNG.integers(0, LEVELS, (N, 3))


def scaled(shape, eta):
    """Return what makes a predictor of effects that are not centred."""

    def effects():
        return eta(pm.HalfNormal("tau", 1, shape=shape[1:]), pm.Normal("z", 0, 1, shape=shape))

    return effects


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
    "local scales": scaled((D,), lambda tau, z: X @ (z * pm.HalfCauchy("lam", 1, shape=D) * tau)),
    "random walk": scaled((D,), lambda tau, z: X @ pt.cumsum(z * tau)),
    "scaled after": scaled((D,), lambda tau, z: 2 * pt.dot(X, z) * pm.HalfNormal("other") * tau),
    "scaled after data": scaled((D,), lambda tau, z: (pm.Data("X", X) @ z) * tau),
    "divided after": scaled((D,), lambda tau, z: (X @ z) / pt.sqrt(tau)),
    "contrasts": scaled((LEVELS - 1,), lambda tau, z: (tau * pt.dot(CONTRASTS, z))[GROUP]),
    "projected": scaled((LEVELS,), lambda tau, z: (tau * pt.dot(np.eye(LEVELS) - 1 / LEVELS, z))[GROUP]),
    "mean of members": scaled((LEVELS,), lambda tau, z: tau * z[MEMBERS].mean(axis=1)),
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


@pytest.mark.parametrize("name", TAKEN)
def test_what_takes_the_place_of_z(name):
    """The density and the maps of the new model are checked by numbers when it is made."""
    found = centred_model.centred_model(model_of(TAKEN[name]))
    assert set(found.replaced) == ({"z", "w"} if name == "two scales" else {"z"})


def centred():
    return X @ pm.Normal("z", 0, pm.HalfNormal("tau"), shape=D)


def correlated():
    sd = pm.HalfNormal.dist(1, shape=D)
    chol = pm.LKJCholeskyCov("chol", n=D, eta=2.0, sd_dist=sd, compute_corr=True)[0]
    return X @ pt.dot(chol, pm.Normal("z", shape=D))


def curved():
    return X @ pt.tanh(pm.Normal("z", 0, pm.HalfNormal("tau"), shape=D))


def scales_of_levels():
    """Each level has a scale of its own, of which a mean over levels does not go together."""
    z = pm.Normal("z", shape=LEVELS)
    return (pm.HalfNormal("tau", shape=LEVELS) * (z - z.mean()))[GROUP]


LEFT = {
    "centred": centred, "correlated": correlated, "curved": curved, "scales of levels": scales_of_levels,
    "read twice": scaled((D,), lambda tau, z: X @ (tau * z) + X[:, 0] * z[0]),
    "scale of a sum": scaled((D,), lambda tau, z: tau * (X @ z + 1)),
}  # fmt: skip


@pytest.mark.parametrize("effects", LEFT.values(), ids=LEFT)
def test_what_is_left_as_it_is(effects):
    found = centred_model.centred_model(model_of(effects))
    assert found is None or not found.replaced  # the covariance alone has other coordinates


def test_a_mean_of_levels_that_is_not_their_sum_is_refused(monkeypatch):
    """A planted mistake: scales of levels are put on z as if they were one scale."""
    monkeypatch.setattr(scales_on_effects, "axis_entering", lambda effects, at, source: at)
    with pytest.raises(pma.GroupsNotFoundError, match="fails its check"):
        centred_model.centred_model(model_of(scales_of_levels))


def behind_one_another():
    return pt.concatenate([pm.Normal("u", 0, pm.HalfNormal("s"), shape=LEVELS - 4), pm.Normal("w", shape=4)])[GROUP]


@pytest.mark.parametrize(
    ("effects", "remedy"),
    [(MEAN_TAKEN_OFF, "write pm.ZeroSumNormal"), (behind_one_another, "Write the parts as one variable")],
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
        centred_model.centred_model(model_of(TAKEN["product"]))


@pytest.mark.slow
def test_a_logistic_regression_is_moved_by_its_columns(caplog):
    with model_of(TAKEN["product"]):
        pma.PenaltyMH(progressbar=False)
    assert f"finds {D} coefficients of columns (z)" in caplog.text
