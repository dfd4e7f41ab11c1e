"""A step that learns from new data: as one that is built on them, with what was compiled for the old ones."""

import numpy as np
import pymc as pm
from scipy.special import expit

import pymc_austerity as pma

X = np.random.default_rng(1).normal(size=(300, 2))


def labels(seed):
    return (np.random.default_rng(seed).random(len(X)) < expit(X @ [1.0, -0.5])).astype(int)


def built(y):
    with pm.Model() as model:
        pm.Bernoulli("obs", logit_p=X @ pm.Normal("beta", 0, 1, shape=2), observed=pm.Data("y", y))
        return model, pma.PenaltyMH(progressbar=False)


def test_what_is_learnt_from_new_data_is_what_a_new_step_learns():
    model, step = built(labels(2))
    compiled, old = step.decider.compiled.derivatives, step.decider.prepared
    pm.set_data({"y": labels(3)}, model=model)
    step.start_chain(np.random.default_rng(0))
    assert step.decider.compiled.derivatives is compiled
    anew, fresh = step.decider.prepared, built(labels(3))[1].decider.prepared
    for name in ("centre", "gradient", "hessian"):
        np.testing.assert_allclose(getattr(anew.expansion, name), getattr(fresh.expansion, name), rtol=1e-6, atol=1e-6)
    assert not np.allclose(anew.expansion.centre, old.expansion.centre, rtol=1e-3)
