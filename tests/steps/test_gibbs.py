"""Gibbs sampling from part of the factors: against enumeration, and what happens when the wrong factors are read."""

from copy import copy
from itertools import combinations, product

import cloudpickle
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from evidence import MAX_Z, mean_z
from scipy import special, stats

import pymc_austerity as pma
from pymc_austerity.acceptance.sequential import SequentialT
from pymc_austerity.gibbs.factor_table import looks_of
from pymc_austerity.gibbs.gibbs_sweep import Incidence

D = 12
TRIPLES = np.array(list(combinations(range(D), 3)))
TABLE = np.random.default_rng(1).normal(0, 0.3, size=(len(TRIPLES), 2, 2, 2))
STATES = np.array(list(product([0, 1], repeat=D)))
PRIOR = np.linspace(0.3, 0.6, D)


def field_model():
    with pm.Model() as model:
        x = pm.Bernoulli("x", PRIOR, shape=D)
        table, triples = pm.Data("table", TABLE), pm.Data("triples", TRIPLES)
        own = pt.arange(table.shape[0])
        pm.Potential("log_psi", table[own, x[triples[:, 0]], x[triples[:, 1]], x[triples[:, 2]]])
    return model


def log_joint(states):
    """Log density of the field, up to a constant, written without the package."""
    found = np.where(states, np.log(PRIOR), np.log1p(-PRIOR)).sum(axis=-1)
    for (i, j, k), table in zip(TRIPLES, TABLE):
        found = found + table[states[..., i], states[..., j], states[..., k]]
    return found


@pytest.fixture(scope="module")
def field():
    with field_model() as model:
        return pma.ApproxGibbs([model["x"]], factors=TRIPLES, epsilon=0.0)


def reading(step, epsilon, batch_size):
    step.start_chain(np.random.default_rng(7))
    step._looks = looks_of(step._incidence, SequentialT(epsilon, batch_size).looks)
    return step


def sweeps(step, n):
    theta, draws, rows = np.zeros(D), np.empty((n, D), int), 0
    for i in range(n):
        outcome = step.sweep(theta, np.empty(0))
        theta, rows = outcome.theta, rows + outcome.n_rows
        draws[i] = theta
    return draws, rows / n / D


@pytest.mark.slow
def test_reading_in_batches_changes_nothing_when_all_are_read(field):
    whole, rows = sweeps(reading(field, 0.0, 500), 300)
    batches, _ = sweeps(reading(field, 0.0, 7), 300)
    assert rows == 55
    assert np.array_equal(whole, batches)
    assert np.ptp(whole, axis=0).all()


def conditional(step, state, variable, n):
    """Frequency of 1 in n draws of one variable given the others, its exact probability, and factors read."""
    ones = rows = 0
    for _ in range(n):
        outcome = step.sweep(state.astype(float), np.empty(0), np.array([variable]))
        ones, rows = ones + outcome.theta[variable], rows + outcome.n_rows
    both = np.array([np.where(np.arange(D) == variable, v, state) for v in (0, 1)])
    return ones, special.expit(np.diff(log_joint(both))[0]), rows / n


def p_value(ones, p, rows):
    return stats.binomtest(int(ones), 2_000, p).pvalue


CASES = [(STATES[s], s % D) for s in np.random.default_rng(3).integers(0, len(STATES), 12)]


def test_conditional_probabilities(field):
    exact = reading(field, 0.0, 500)
    assert min(p_value(*conditional(exact, state, variable, 2_000)) for state, variable in CASES) > 1e-5
    approximate = [conditional(reading(field, 0.05, 20), state, variable, 2_000) for state, variable in CASES]
    ones, p, rows = np.array(approximate).T
    assert np.abs(ones / 2_000 - p).max() < 0.1
    assert rows.mean() < 50


def test_factors_without_the_variable_are_caught(field):
    step = reading(copy(field), 0.0, 500)
    members = [np.flatnonzero((d != TRIPLES).all(axis=1))[:55] for d in range(D)]
    step._incidence = Incidence(np.arange(D + 1) * 55, np.concatenate(members))
    step.members = step._incidence.members.copy()
    assert min(p_value(*conditional(step, state, variable, 2_000)) for state, variable in CASES) < 1e-5


@pytest.mark.contract
def test_a_copy_in_another_process_goes_on_alike(field):
    step = reading(field, 0.05, 20)
    there = cloudpickle.loads(cloudpickle.dumps(step))
    assert np.array_equal(sweeps(step, 50)[0], sweeps(there, 50)[0])


@pytest.mark.contract
@pytest.mark.slow
def test_discrete_variables_beside_a_continuous_one():
    rng, group, switch = np.random.default_rng(4), np.repeat(np.arange(4), 15), np.tile([0, 1], 30)
    y = rng.normal(np.array([-0.5, 0.7, 0.0, 0.7])[group] + 0.5 * switch, 1.0)
    levels, weights = np.array([-0.5, 0.0, 0.7]), np.array([0.2, 0.5, 0.3])
    with pm.Model():
        z, x, mu = pm.Categorical("z", weights, shape=4), pm.Bernoulli("x", 0.4, shape=2), pm.Normal("mu", 0, 0.5)
        groups, switches = pm.Data("group", group), pm.Data("switch", switch)
        pm.Normal("y", mu + pt.as_tensor(levels)[z[groups]] + 0.5 * x[switches], 1, observed=y)
        steps = [
            pma.ApproxGibbs([z, x], factors={"z": group, "x": switch}, epsilon=0.0),
            pma.ExactMH([mu], proxy=None, proposal=pma.RandomWalk(scale=0.3), tune=False),
        ]
        run = pm.sample(8_000, tune=100, step=steps, chains=2, cores=1, random_seed=1, progressbar=False)
    law, grid, states = [], np.linspace(-2, 2, 401), list(product(*[range(3)] * 4, range(2), range(2)))
    for state in states:
        shift = levels[np.array(state[:4])][group] + 0.5 * np.array(state[4:])[switch]
        prior = np.log(weights[list(state[:4])]).sum() + np.log(np.where(state[4:], 0.4, 0.6)).sum()
        residual = y - shift
        fit = -0.5 * (np.sum(residual**2) - 2 * grid * residual.sum() + 60 * grid**2) - 0.5 * (grid / 0.5) ** 2
        law.append(prior + special.logsumexp(fit))
    law = special.softmax(law)
    states, z_draws, x_draws = np.array(states), run.posterior["z"].to_numpy(), run.posterior["x"].to_numpy()
    cells = list(product(range(4), range(3)))
    found = [mean_z(z_draws[..., j] == value, law[states[:, j] == value].sum()) for j, value in cells]
    found += [mean_z(x_draws[..., j], law[states[:, 4 + j] == 1].sum()) for j in range(2)]
    assert np.abs(found).max() < MAX_Z
    prior_only = [mean_z(z_draws[..., j] == value, weights[value]) for j, value in cells]
    assert np.abs(prior_only).max() > 2 * MAX_Z


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"factors": TRIPLES[:-1]}, "one row for each of the 220 factors"),
        ({"factors": TRIPLES.astype(float)}, "whole numbers"),
        ({"factors": TRIPLES + 1}, "between 0 and 11"),
        ({"factors": {"y": TRIPLES}}, "has tables for"),
        (
            {"factors": np.where(np.arange(660).reshape(-1, 3) == 302, -1, TRIPLES)},
            r"Factor 100 changes with x\[\d+\], which factors=",
        ),
        ({"factors": TRIPLES, "vars": ["x", "other"]}, r"pm\.Bernoulli and pm\.Categorical"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with field_model() as model:
        pm.Poisson("other", 3)
        given = {"vars": ["x"], **arguments}
        with pytest.raises(ValueError, match=message):
            pma.ApproxGibbs(**{**given, "vars": [model[name] for name in given["vars"]]})
