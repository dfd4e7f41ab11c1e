"""Posterior moments of a model with groups by quadrature: effects N(mean, scale) whose rows are independent given them.

The mean has a standard normal prior and the log scale N(−.3, .7); an effect is integrated out for each group by itself.
"""

from itertools import product

import numpy as np
import pytest
from evidence import moment_z
from scipy import special, stats

from pymc_austerity.compile.by_reference import by_reference
from pymc_austerity.groups import read_groups
from pymc_austerity.groups.group_model import GroupModel
from pymc_austerity.groups.group_parts import data_by_reference
from pymc_austerity.groups.group_search import GroupSearch
from pymc_austerity.groups.shared_move import adapt_shared
from pymc_austerity.kernel import pack_generators

#: Grids of the mean, the log scale and an effect.
MEAN, LOG_SCALE, EFFECT = np.linspace(-3.5, 3.5, 101), np.linspace(-3.5, 2.5, 101), np.linspace(-9, 9, 901)


def by_group(rows, index, n_groups):
    """Sum log-likelihoods of rows, shape (N, U), over the groups."""
    return np.array([rows[g == index].sum(axis=0) for g in range(n_groups)])


def logistic_rows(y):
    return y[:, None] * EFFECT - np.logaddexp(0, EFFECT)


def mean_and_sd(log_weights, values, variances=0.0):
    """Means and standard deviations of quantities, shape (points, Q), over points of such log weights."""
    weight = special.softmax(log_weights)
    mean = weight @ np.asarray(values)
    return mean, np.sqrt(weight @ (np.asarray(values) ** 2 + variances) - mean**2)


def law_of_normal_rows(design, y, grids, prior, read):
    """Means and sds of some parameters and of `read` @ coefficients, where rows have unit normal errors.

    `prior` returns the log prior of parameters, which are summed over the product of their grids, and the precision of
    the coefficients given them: a matrix, or its diagonal.
    """
    gram, moment, log_weights, values, variances = design.T @ design, design.T @ y, [], [], []
    for point in product(*grids):
        log_prior, precision = prior(*point)
        precision = np.diag(precision) if np.ndim(precision) == 1 else precision
        covariance = np.linalg.inv(precision + gram)
        mean = covariance @ moment
        dets = np.linalg.slogdet(precision)[1] + np.linalg.slogdet(covariance)[1]
        log_weights.append(log_prior + dets / 2 + moment @ mean / 2)
        values.append(np.r_[point, read @ mean])
        variances.append(np.r_[np.zeros(len(point)), ((read @ covariance) * read).sum(axis=1)])
    return mean_and_sd(log_weights, values, variances)


def largest_z(draws, law):
    """Largest distance of draws, one quantity after the other, from the means and standard deviations of a law."""
    by_chain = [np.reshape(x, (4, -1)) if np.ndim(x) == 1 else x for x in draws]
    return max(np.abs(moment_z(x, *of)).max() for x, *of in zip(by_chain, *law, strict=True))


def search_of(model, expands=False):
    """The rows of a model by their groups, and the model compiled: a step would compile moves besides."""
    read = read_groups(model)
    return GroupSearch.of(read.data, GroupModel(read.data.likelihood, read.groups, expands, None))


def moments(log_likelihoods, density=stats.norm.pdf):
    """Means, and standard deviations, of the mean, of the log scale and of the effect of each group.

    Parameters
    ----------
    log_likelihoods : array of shape (G, U)
        Of each group on the grid of effects.
    density : callable
        Of an effect about the mean, in units of the scale, up to a constant.
    """
    peak = log_likelihoods.max(axis=1, keepdims=True)
    scale = np.exp(LOG_SCALE)[:, None]
    prior = density((EFFECT - MEAN[:, None, None]) / scale) / scale  # mean, log scale, effect
    integrals = [prior @ np.exp(group) for group in log_likelihoods - peak]
    weight = np.prod(integrals, axis=0) * np.exp(-0.5 * MEAN[:, None] ** 2 - 0.5 * ((LOG_SCALE + 0.3) / 0.7) ** 2)
    weight /= weight.sum()

    def of(first, second):
        mean = (weight * first).sum()
        return mean, np.sqrt((weight * second).sum() - mean**2)

    found = [of(MEAN[:, None], MEAN[:, None] ** 2), of(LOG_SCALE, LOG_SCALE**2)]
    for group, integral in zip(log_likelihoods - peak, integrals):
        # Far out of the grid the integral, and with it the weight, is zero.
        powers = [(prior @ (np.exp(group) * EFFECT**k)) / np.where(integral > 0, integral, 1) for k in (1, 2)]
        found.append(of(*powers))
    return np.transpose(found)


def moves(decider, n, data=None, state=None, theta=None, seed=11, tune=0):
    """Yield θ before each draw, its carried move and its refresh; `data` and `state` replace those of the step."""
    rng, shared = np.random.default_rng(seed), decider.model.groups.shared
    generators, looks = pack_generators(*rng.spawn(3)), decider.looks_of_large()
    state, theta = state or decider.new_state(), decider.start(rng) if theta is None else theta
    read = data_by_reference(data or decider.data()), by_reference(state)  # once, as a chain does: it is slow
    for i in range(-tune, n):
        carried, refresh, about_centre = decider.move(theta, *read, looks, generators)
        if i < 0:
            adapt_shared(carried.theta[shared], carried.accepted, about_centre, state.shared, 3.0)
        else:
            yield theta, carried, refresh
        theta = refresh.theta


def tuned_draws(decider, n, data=None, state=None):
    """Return draws, shape (n, D), by the step's own moves after 400 of tuning."""
    return np.array([refresh.theta for *_, refresh in moves(decider, n, data, state, seed=2, tune=400)])


def check_ratio(decider, log_density, thetas, n, step, allowed):
    """Compare the ratios of carried moves about the centre with PyMC's density and the Jacobian of the map.

    The Jacobian is the determinant of the compiled map, by differences of so long a step, for the first `n` moves that
    are accepted; it is no number that could be left out.
    """
    found, looks, shared = decider.prepared, decider.looks_of_large(), decider.model.groups.shared
    own = np.concatenate([of[:size] for of, size in zip(decider.model.groups.own, decider.model.groups.size)])
    data, jacobians = data_by_reference(decider.data()._replace(steps=found.steps._replace(share=0.0))), []

    def carry(theta, seed):
        generators = pack_generators(*np.random.default_rng(seed).spawn(3))
        return decider.move(theta, data, decider.new_state(), looks, generators)[0]

    for seed, theta in enumerate(thetas):
        carried = carry(theta, seed)
        if len(jacobians) == n or not carried.accepted:
            continue
        by_difference = np.empty((own.size, own.size))
        for k in range(own.size):
            near = theta.copy()
            near[own[k]] += step
            there = carry(near, seed)
            assert there.accepted
            assert np.array_equal(there.theta[shared], carried.theta[shared])
            by_difference[:, k] = (there.theta - carried.theta)[own] / step
        jacobians.append(np.linalg.slogdet(by_difference)[1])
        at, at_new = (log_density(t) for t in (theta, carried.theta))
        q, q_new = (np.sum(np.linalg.solve(found.factor, t[shared] - found.mean) ** 2) for t in (theta, carried.theta))
        assert carried.log_ratio == pytest.approx(at_new - at + jacobians[-1] + (q_new - q) / 2, abs=allowed)
    assert len(jacobians) == n
    assert np.abs(jacobians).min() > 1e-2
