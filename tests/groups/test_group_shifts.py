"""Shifts of coefficients against effects: which are found, that no row sees them, and the law that they draw from."""

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z, moment_z
from numba import njit

import pymc_austerity as pma
from pymc_austerity.compile.cache import cached
from pymc_austerity.groups.along_line import build_move_along
from pymc_austerity.groups.group_shift import build_shift
from pymc_austerity.kernel import pack_generators

G, H, N = 40, 33, 400
RNG = np.random.default_rng(8)
FIRST, SECOND = RNG.integers(G, size=N), RNG.integers(H, size=N)
#: A column of the first factor, one of the second, and one of rows.
COLUMNS = np.column_stack([RNG.normal(size=G)[FIRST], RNG.normal(size=H)[SECOND], RNG.normal(size=N)])
#: In a further column a single row is not as the others of its group.
ALMOST = RNG.normal(size=G)[FIRST]
ALMOST[17] += 1e-3
Y = RNG.integers(0, 2, size=N)
#: Where the intercept, the coefficients and the effects lie in θ, behind two scales.
INTERCEPT, COEFFICIENTS, EFFECTS, SECONDS = 2, slice(3, 7), slice(7, 7 + G), slice(7 + G, 7 + G + H)


@pytest.fixture(scope="module")
def decider():
    with pm.Model():
        log_scale = pm.Normal("log_scale", -0.3, 0.5, shape=2)
        eta = pm.Normal("intercept") + pm.math.dot(np.column_stack([COLUMNS, ALMOST]), pm.Normal("b", 0, 2, shape=4))
        eta += pm.Normal("first", 0, pm.math.exp(log_scale[0]), shape=G)[FIRST]
        eta += pm.Normal("second", 0, pm.math.exp(log_scale[1]), shape=H)[SECOND]
        pm.Bernoulli("y", logit_p=eta, observed=Y)
        return pma.GroupMH(test=pma.Exact(), rng=1, progressbar=False).decider


def _expected(theta_size):
    """Directions of the four shifts: effects up by a column, and its coefficient down."""
    found = np.zeros((4, theta_size))
    of_first, of_second = ([np.mean(x[i == g]) for g in range(n)] for x, i, n in _constant())
    for direction, place, column, coefficient in zip(
        found,
        (EFFECTS, EFFECTS, SECONDS, SECONDS),
        (1.0, of_first, 1.0, of_second),
        (INTERCEPT, 3, INTERCEPT, 4),
        strict=True,
    ):
        direction[place], direction[coefficient] = column, -1.0
    return found


def _constant():
    return (COLUMNS[:, 0], FIRST, G), (COLUMNS[:, 1], SECOND, H)


def _rows(decider, theta):
    prepared = decider.prepared
    return np.concatenate(list(decider.model.group_pass.rows(theta, decider.others, decider.fixed, prepared.rows)))


@pytest.mark.slow
def test_shifts_of_columns_that_are_constant_within_groups_are_found(decider):
    shifts, expected = decider.prepared.shifts, _expected(decider.theta0.size)
    assert decider.groups.first.tolist() == [0, G, G + H]
    # As many, and of one space; neither the column of rows nor the one of which a single row is not as the others.
    assert np.linalg.matrix_rank(np.vstack([shifts, expected]), tol=1e-6) == len(shifts) == 4


def _precision(theta):
    """Precisions of the normal prior of all but the scales."""
    of_effects = np.repeat(np.exp(-2 * theta[:2]), [G, H])
    return np.concatenate([[1.0], np.full(4, 0.25), of_effects])


def _shifted(decider, log_prior, shifts, n=4_000):
    """By shifts alone: the largest z of moments along the expected directions, and the largest change of a row."""
    shift = cached(build_shift(build_move_along(log_prior)))
    start = decider.start(np.random.default_rng(5))
    generators, theta, thetas = pack_generators(*np.random.default_rng(6).spawn(3)), start, []
    data = decider.data()._replace(shifts=shifts)
    for _ in range(n):
        theta, _ = shift(theta, data, generators)
        thetas.append(theta)
    directions = _expected(start.size)[:, 2:]
    along = np.linalg.lstsq(directions.T, (np.array(thetas) - start)[:, 2:].T, rcond=None)[0]
    precision = _precision(start)
    covariance = np.linalg.inv((directions * precision) @ directions.T)
    mean = -covariance @ directions @ (precision * start[2:])
    z = [
        np.abs(moment_z(x, m, sd)).max()
        for x, m, sd in zip(along.reshape(4, 4, -1), mean, np.sqrt(np.diag(covariance)))
    ]
    return max(z), np.abs(_rows(decider, theta) - _rows(decider, start)).max()


@pytest.mark.slow
@pytest.mark.parametrize("planted", [None, "half the prior", "another column", "wrong sign"])
def test_shifts_draw_from_the_prior_given_the_rows(decider, planted):
    log_prior, shifts = decider.parts.density.log_prior, decider.prepared.shifts

    @njit
    def half(links, theta, others, fixed):
        return log_prior(links, theta, others, fixed) / 2

    if planted == "another column":
        shifts = np.concatenate([shifts[:, : EFFECTS.start], np.roll(shifts[:, EFFECTS.start :], 1, axis=1)], axis=1)
    if planted == "wrong sign":
        shifts = np.concatenate([-shifts[:, : EFFECTS.start], shifts[:, EFFECTS.start :]], axis=1)
    largest_z, change = _shifted(decider, half if planted == "half the prior" else log_prior, shifts)
    assert (largest_z < MAX_Z) == (planted is None)
    assert (change < 1e-9) == (planted in (None, "half the prior"))
