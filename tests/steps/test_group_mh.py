"""`GroupMH` as a step of PyMC: draws, processes, pickling, other data, and what it refuses."""

import pickle
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z
from grouped import by_group, largest_z, logistic_rows, moments
from numba import typeof

import pymc_austerity as pma
from pymc_austerity.compile.code_key import code_key
from pymc_austerity.diagnostics.results import as_dataset, group
from pymc_austerity.groups.moves_on_all_rows import build_carried_move

QUIET = {"progressbar": False, "compute_convergence_checks": False, "random_seed": 4}
#: Two groups have more rows than are read one by one; one has none.
SIZES = np.array([0, 5, 40, 160, 800, 1_500])
INDEX = np.random.default_rng(1).permutation(np.repeat(np.arange(6), SIZES))
SUCCESS = (np.random.default_rng(2).random(INDEX.size) < 1 / (1 + np.exp(-np.linspace(-1, 1, 6)[INDEX]))).astype(int)

#: Of five rows that were all zeros the effect would have a tail for which thousands of draws are few.
SUCCESS[np.flatnonzero(INDEX == 1)[0]] = 1


@pytest.fixture(scope="module")
def case():
    with pm.Model() as model:
        mean, log_scale = pm.Normal("mean"), pm.Normal("log_scale", -0.3, 0.7)
        effect = pm.Normal("effect", mean, pm.math.exp(log_scale), shape=6)
        index, y = pm.Data("index", INDEX), pm.Data("rows", SUCCESS)
        pm.Bernoulli("y", logit_p=effect[index], observed=y)
        return model, pma.GroupMH(refreshed=0.5, rng=1, progressbar=False)


@pytest.mark.slow
def test_an_index_that_was_changed_in_place_is_refused(case):
    model, step = case
    index = model["index"].get_value(borrow=True)
    index[0], known = 1 - index[0], index[0]
    with pytest.raises(ValueError, match="Data array 'index' was changed in place"):
        step.start_chain(np.random.default_rng(1))
    index[0] = known
    step.start_chain(np.random.default_rng(1))


@pytest.mark.slow
def test_a_chain_starts_where_the_marginal_is(case):
    """A normal approximation a thousand times too wide, as where groups say nothing of a scale."""
    decider = case[1].decider
    wide = replace(decider, prepared=decider.prepared._replace(factor=1e3 * decider.prepared.factor))
    starts = np.array([wide.start(np.random.default_rng(seed)) for seed in range(20)])
    shared = (starts[:, decider.model.groups.shared] - decider.prepared.mean) / np.diag(decider.prepared.factor)
    assert np.abs(shared).max() < 40


def _draws(idata):
    posterior = as_dataset(group(idata, "posterior"))
    effects = np.moveaxis(posterior["effect"].to_numpy(), -1, 0)
    return np.stack([posterior["mean"].to_numpy(), posterior["log_scale"].to_numpy(), *effects])


@pytest.mark.slow
def test_batches_keep_the_posterior(case):
    model, step = case
    with model:
        idata = pm.sample(4_000, tune=500, step=step, chains=2, cores=1, **QUIET)
    stats = as_dataset(group(idata, "sample_stats"))
    assert float(stats["n_rows"].mean()) < INDEX.size
    assert bool((stats["n_rows"] == stats["n_rows_carried"] + stats["n_rows_refreshed"]).all())
    assert bool((stats["n_refreshed"] == 3).all())
    assert 0.3 < float(stats["accepted"].mean()) <= 1
    assert float(stats["refresh_accept"].mean()) > 0.6
    assert largest_z(_draws(idata), moments(by_group(logistic_rows(SUCCESS), INDEX, 6))) < MAX_Z
    usage = pma.data_usage(idata)
    assert usage["total_rows"] == INDEX.size
    assert usage["setup_passes"] > 1


@pytest.mark.slow
def test_draws_do_not_depend_on_the_processes(case):
    model, step = case
    with model:
        first, second = (pm.sample(30, tune=120, step=step, chains=2, cores=cores, **QUIET) for cores in (1, 2))
    assert np.array_equal(_draws(first), _draws(second))
    assert len(np.unique(_draws(first)[0])) > 10
    # Or a process that is started afresh would compile the moves anew.
    assert typeof(pickle.loads(pickle.dumps(step)).decider.data()) == typeof(step.decider.data())


@pytest.mark.slow
def test_other_data_give_the_draws_of_a_new_step(case):
    (model, step), rows = case, INDEX.size // 2
    at = np.arange(rows) % INDEX.size
    with model:
        pm.set_data({"index": INDEX[at], "rows": SUCCESS[at]})
        anew, draws = pma.GroupMH(refreshed=0.5, rng=1, progressbar=False), []
        for one in (step, anew):
            one.set_rng(1)
            draws.append(_draws(pm.sample(40, tune=120, step=one, chains=1, **QUIET)))
        sums = step.decider.data().row_state.sums
        pm.set_data({"index": INDEX, "rows": SUCCESS})
        step.set_rng(1)
    np.testing.assert_array_equal(*draws)
    assert len(sums) == rows


def _key_of_moves(decider, **others):
    return code_key(build_carried_move(decider.parts._replace(**others)))


@pytest.mark.slow
def test_another_model_shares_the_code_of_its_moves(case):
    first = case[1].decider
    with pm.Model():
        mean, log_scale = pm.Normal("mean"), pm.Normal("log_scale", -0.3, 0.7)
        effect = pm.Normal("effect", 2 * mean, pm.math.log1pexp(log_scale), shape=6)
        index, y = pm.Data("index", INDEX), pm.Data("rows", SUCCESS)
        pm.Bernoulli("y", logit_p=effect[index], observed=y)
        second = pma.GroupMH(refreshed=0.5, rng=1, progressbar=False).decider
    assert second.parts.condition is first.parts.condition
    assert _key_of_moves(second) == _key_of_moves(first)
    assert not set(second.links.prior) & set(first.links.prior)
    # Planted: a function of the model itself among the parts is other code for every model.
    one, other = (_key_of_moves(of, condition=of.model.prior.terms) for of in (first, second))
    assert one != other


def _effects():
    effect = pm.Normal("effect", pm.Normal("mean"), 1, shape=6)
    pm.Bernoulli("y", logit_p=effect[INDEX], observed=SUCCESS)


def _switch():
    _effects()
    pm.Bernoulli("switch", 0.5)


def _many_slopes():
    slopes, effect = pm.Normal("slopes", 0, 1, shape=201), pm.Normal("effect", 0, 1, shape=300)
    pm.Normal("y", effect[INDEX] + np.ones((INDEX.size, 201)) @ slopes, 1, observed=SUCCESS)


@pytest.mark.parametrize(
    ("write", "arguments", "message"),
    [
        (_effects, {"refreshed": 0}, "share of the groups"),
        (_effects, {"refreshed": float("nan")}, "share of the groups"),
        (_effects, {"refreshed": "half"}, "share of the groups"),
        (_effects, {"vars": ["effect"]}, r"leaves out \['mean'\]"),
        (_switch, {}, "is discrete"),
        (_many_slopes, {}, "201 parameters are not those of the 300 groups"),
    ],
)
def test_what_is_refused(write, arguments, message):
    with pm.Model() as model:
        write()
        given = {k: [model[name] for name in v] if k == "vars" else v for k, v in arguments.items()}
        with pytest.raises(ValueError, match=message) as refused:
            pma.GroupMH(progressbar=False, **given)
    assert isinstance(refused.value, pma.GroupsNotFoundError) == (write is _many_slopes)
