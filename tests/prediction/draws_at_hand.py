"""Models with draws that are made up: what is asked of them holds for any draws."""

import arviz as az
import numpy as np
import pymc as pm
import xarray as xr

import pymc_austerity as pma

RNG = np.random.default_rng(20260101)
N, G = 3_000, 60
X = RNG.normal(size=(N, 3))
GROUP, OTHER = RNG.integers(0, G, N), RNG.integers(0, 20, N)
SEEN = RNG.random(N) < 1 / (1 + np.exp(-X.sum(axis=1) / 2))
REAL = X.sum(axis=1) / 2 + RNG.standard_t(4, size=N)


def logistic():
    pm.Bernoulli("y", logit_p=X @ pm.Normal("b", 0, 1, shape=3), observed=SEEN)


def unknown_scale():
    pm.Normal("y", X @ pm.Normal("b", 0, 1, shape=3), pm.HalfNormal("s"), observed=REAL)


def repeated():
    pm.Bernoulli("y", logit_p=(X > 0).astype(float) @ pm.Normal("b", 0, 1, shape=3), observed=SEEN)


def groups():
    effects = pm.Normal("m", 0, 1, shape=2) + pm.HalfNormal("s", shape=2) * pm.Normal("z", shape=(G, 2))
    pm.Bernoulli("y", logit_p=effects[GROUP, 0] + effects[GROUP, 1] * X[:, 0], observed=SEEN)


def crossed():
    u, w = pm.Normal("u", 0, pm.HalfNormal("s"), shape=G), pm.Normal("w", 0, 0.5, shape=20)
    pm.Normal("y", pm.Normal("m") + u[GROUP] + w[OTHER], 1.2, observed=REAL)


def paired():
    u = pm.Normal("u", 0, 1, shape=G)
    pm.Bernoulli("y", logit_p=u[GROUP] - u[(GROUP + 1 + OTHER) % G], observed=SEEN)


def two_outcomes():
    b = pm.Normal("b", 0, 1, shape=3)
    pm.Normal("y", X @ b, 1, observed=REAL)
    pm.Bernoulli("w", logit_p=X[:1000] @ b, observed=SEEN[:1000])


#: With the width of a draw about the middle, in the unconstrained space.
MODELS = {logistic: 0.05, unknown_scale: 0.03, groups: 0.2, crossed: 0.15, paired: 0.2, two_outcomes: 0.03}


def model_of(define):
    with pm.Model() as model:
        define()
    return model


def draws_of(model, spread, chains=4, draws=100, seed=1):
    """Return a run with draws of all variables, normal about 0.3 more or less, of scales log-normal."""
    posterior = {}
    for rv in model.free_RVs:
        rng = np.random.default_rng([seed, *map(ord, rv.name)])
        shape = model.eval_rv_shapes()[rv.name]
        values = rng.normal(0.3, 0.3, size=shape) + spread * rng.normal(size=(chains, draws, *shape))
        if model.rvs_to_transforms[rv] is not None:
            values = np.exp(values - 0.3)
        posterior[rv.name] = (("chain", "draw", *(f"{rv.name}_{k}" for k in range(len(shape)))), values)
    return run_of(posterior=xr.Dataset(posterior))


def in_blocks():
    """Return a logistic model of all rows, one of the first hundred, and the table of all."""

    def define(x, seen):
        with pm.Model() as model:
            b = pm.Normal("b", 0, 1, shape=3)
            pm.Bernoulli("y", logit_p=pm.math.dot(pm.Data("x", x), b), observed=pm.Data("seen", seen))
        return model

    seen = SEEN.astype(int)
    return define(X, seen), define(X[:100], seen[:100]), pma.Blocks({"x": X, "seen": seen})


def run_of(**groups):
    """Return what ``pm.sample`` would, under ArviZ 0.x and 1.x."""
    counted = {
        k: v.assign_coords(chain=range(v.sizes["chain"]), draw=range(v.sizes["draw"])) for k, v in groups.items()
    }
    if int(az.__version__.partition(".")[0]) < 1:
        return az.InferenceData(**counted)
    return xr.DataTree.from_dict(counted)


def elpd_of(result):
    """Return the estimate of leave-one-out, under ArviZ 0.x and 1.x."""
    return result["elpd_loo" if hasattr(result, "index") else "elpd"]


def pointwise(result):
    """Return what each row or group has in the estimate."""
    return result["loo_i"] if hasattr(result, "index") else result.elpd_i
