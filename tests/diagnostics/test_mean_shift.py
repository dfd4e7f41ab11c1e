"""The shift of a posterior mean that follows from moves out of balance, on a chain that can be written down."""

import numpy as np
import pytest
from evidence import stationary_law
from scipy import special, stats

from pymc_austerity.diagnostics.measured_error import mean_shift, spread_shift

STATES = np.linspace(-4, 4, 81)
WIDTH = STATES[1] - STATES[0]
LAW = stats.norm.pdf(STATES) / stats.norm.pdf(STATES).sum()
LOG_RATIOS = np.log(LAW) - np.log(LAW)[:, None]
TO_THE_RIGHT, OUTWARDS = (np.sign(to - to[:, None]) for to in (STATES, np.abs(STATES)))


def acceptance(bias, moves):
    """Barker's acceptance with some moves accepted too often, by so much where the states are alike."""
    return special.expit(LOG_RATIOS) + bias * moves * np.exp(-(LOG_RATIOS**2))


def matrix(accept, sd):
    moves = stats.norm.pdf(STATES - STATES[:, None], scale=sd) * WIDTH * accept
    np.fill_diagonal(moves, 0.0)
    return moves + np.diag(1 - moves.sum(axis=1))


def measured(bias, moves, sd, function):
    """Return by how much the mean of a function is shifted, 20,000 proposals, and what is measured at them."""
    rng, accept = np.random.default_rng(5), acceptance(bias, moves)
    shift = (stationary_law(matrix(accept, sd)) - LAW) @ function
    here = rng.choice(STATES.size, 20_000, p=LAW)
    there = np.clip(np.rint(here + rng.normal(0, sd / WIDTH, here.size)).astype(int), 0, 80)
    log_ratio = LOG_RATIOS[here, there]
    weights = np.exp(-np.maximum(log_ratio, 0)), np.exp(np.minimum(log_ratio, 0))
    error = accept[here, there] * weights[0] - accept[there, here] * weights[1]
    correlation = (LAW * function) @ matrix(acceptance(0.0, moves), sd) @ function / (LAW @ function**2)
    return shift, STATES[here][:, None], STATES[there][:, None], (error, log_ratio, np.array([1 / (1 - correlation)]))


@pytest.mark.parametrize("sd", [0.3, 1.0])
def test_the_shift_is_that_of_the_stationary_law(sd):
    expected, old, new, found_there = measured(0.003, TO_THE_RIGHT, sd, STATES)
    found = mean_shift(new - old, *found_there, ["x"], 1e-4)
    assert found.low < expected < found.high
    assert found.shown > expected / 2
    # A chain that moves by small steps is shifted further by the same error.
    assert (expected > 0.02) == (sd == 0.3)


@pytest.mark.parametrize(("bias", "sign"), [(0.006, 1), (-0.006, -1), (0.0, 0)])
def test_the_spread_is_that_of_the_stationary_law(bias, sign):
    """Moves outwards that are accepted too often, or too seldom; the control is in balance."""
    shift, old, new, found_there = measured(bias, OUTWARDS, 0.6, STATES**2 - LAW @ STATES**2)
    found = spread_shift(old, new, *found_there, 1e-4)
    assert np.sign(shift) == sign or abs(shift) < 1e-9
    # The square of a walk does not forget at one rate, as the formula takes it to.
    assert found.value == pytest.approx(shift / 2, rel=0.15, abs=1e-12)
    assert (found.shown > abs(shift) / 4) == (sign != 0)
