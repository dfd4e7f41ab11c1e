"""`GroupMH` on two crossed factors as a step of PyMC: processes, pickling and other data."""

import pickle

import numpy as np
import pymc as pm
import pytest
from numba import typeof

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import as_dataset, group

pytestmark = pytest.mark.slow

QUIET = {"progressbar": False, "compute_convergence_checks": False, "random_seed": 4, "chains": 2, "tune": 60}
#: Groups of the two factors; with fewer than 31 the second would move with what is shared.
FACTORS, N = (40, 35), 900
RNG = np.random.default_rng(8)
CODES = [RNG.integers(0, size, N) for size in FACTORS]
LATE = (RNG.random(N) < 1 / (1 + np.exp(0.5 - RNG.normal(size=40)[CODES[0]] - RNG.normal(size=35)[CODES[1]]))).astype(
    int
)
#: The same table with two thirds of its rows.
FEWER = {"first": CODES[0][:600], "second": CODES[1][:600], "rows": LATE[:600]}


@pytest.fixture(scope="module")
def case():
    with pm.Model() as model:
        intercept, log_scale = pm.Normal("intercept"), pm.Normal("log_scale", -0.3, 0.5, shape=2)
        effects = [
            pm.Normal(f"effects_{k}", 0, pm.math.exp(log_scale[k]), shape=FACTORS[k])[pm.Data(name, CODES[k])]
            for k, name in enumerate(("first", "second"))
        ]
        pm.Bernoulli("y", logit_p=intercept + effects[0] + effects[1], observed=pm.Data("rows", LATE))
        return model, pma.GroupMH(rng=1, progressbar=False)


def _draws(idata):
    return np.concatenate([v.to_numpy().ravel() for v in as_dataset(group(idata, "posterior")).values()])


def test_draws_do_not_depend_on_the_processes(case):
    model, step = case
    assert len(step.decider.model.groups.own) == sum(FACTORS)
    with model:
        first, second = (pm.sample(30, step=step, cores=cores, **QUIET) for cores in (1, 2))
    assert np.array_equal(_draws(first), _draws(second))
    assert len(np.unique(_draws(first))) > 1_000


def test_a_pickled_step_goes_on_alike(case):
    model, step = case
    there, point = pickle.loads(pickle.dumps(step)), model.initial_point()
    mine, theirs = point, point
    for one in (step, there):
        one.set_rng(5)
    for _ in range(5):
        (mine, _), (theirs, _) = step.step(mine), there.step(theirs)
    assert all(np.array_equal(mine[name], theirs[name]) for name in point)
    assert any(not np.array_equal(mine[name], point[name]) for name in point)
    # Otherwise another process would compile the moves anew.
    assert typeof(there.decider.data()) == typeof(step.decider.data())


def test_other_rows_give_the_draws_of_a_new_step(case):
    model, step = case
    with model:
        pm.set_data(FEWER)
        anew = pma.GroupMH(rng=1, progressbar=False)
        step.set_rng(1)
        anew.set_rng(1)
        after, fresh = (pm.sample(30, step=one, cores=1, **QUIET) for one in (step, anew))
        pm.set_data({"first": CODES[0], "second": CODES[1], "rows": LATE})
        step.set_rng(1)
        before = pm.sample(30, step=step, cores=1, **QUIET)
    np.testing.assert_array_equal(_draws(after), _draws(fresh))
    assert not np.array_equal(_draws(after), _draws(before))
