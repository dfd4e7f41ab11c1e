"""The shift of a posterior mean that follows from moves out of balance, on a chain that can be written down."""

import numpy as np
import pytest
from evidence import stationary_law
from scipy import special, stats

from pymc_austerity.diagnostics.measured_error import mean_shift, spread_shift

STATES = np.linspace(-4, 4, 81)
LAW = stats.norm.pdf(STATES) / stats.norm.pdf(STATES).sum()


def acceptance(bias):
    """Barker's acceptance with moves to the right accepted too often, by so much where the states are alike."""
    log_ratio = np.log(LAW) - np.log(LAW)[:, None]
    return special.expit(log_ratio) + bias * np.sign(STATES - STATES[:, None]) * np.exp(-(log_ratio**2))


def proposed(sd, rng):
    """Return where proposals from draws of the law start and end, and their log ratios."""
    here = rng.choice(STATES.size, 20_000, p=LAW)
    there = np.clip(np.rint(here + rng.normal(0, sd / (STATES[1] - STATES[0]), here.size)).astype(int), 0, 80)
    return here, there, np.log(LAW[there] / LAW[here])


def imbalance(accept, here, there, log_ratio):
    weights = np.exp(-np.maximum(log_ratio, 0)), np.exp(np.minimum(log_ratio, 0))
    return accept[here, there] * weights[0] - accept[there, here] * weights[1]


def matrix(accept, sd):
    moves = stats.norm.pdf(STATES - STATES[:, None], scale=sd) * (STATES[1] - STATES[0]) * accept
    np.fill_diagonal(moves, 0.0)
    return moves + np.diag(1 - moves.sum(axis=1))


@pytest.mark.parametrize("sd", [0.3, 1.0])
def test_the_shift_is_that_of_the_stationary_law(sd):
    bias, rng = 0.003, np.random.default_rng(5)
    accept = acceptance(bias)
    expected = (stationary_law(matrix(accept, sd)) - LAW) @ STATES
    here, there, log_ratio = proposed(sd, rng)
    error = imbalance(accept, here, there, log_ratio)
    correlation = (LAW * STATES) @ matrix(acceptance(0.0), sd) @ STATES / (LAW @ STATES**2)
    found = mean_shift(
        (STATES[there] - STATES[here])[:, None], error, log_ratio, np.array([1 / (1 - correlation)]), ["x"], 1e-4
    )
    assert found.low < expected < found.high
    assert found.shown > expected / 2
    # A chain that moves by small steps is shifted further by the same error.
    assert (expected > 0.02) == (sd == 0.3)


@pytest.mark.parametrize(("bias", "sign"), [(0.006, 1), (-0.006, -1), (0.0, 0)])
def test_the_spread_is_that_of_the_stationary_law(bias, sign):
    """Moves outwards that are accepted too often, or too seldom; the control is in balance."""
    sd, rng = 0.6, np.random.default_rng(6)
    log_ratios = np.log(LAW) - np.log(LAW)[:, None]
    outwards = np.sign(np.abs(STATES) - np.abs(STATES[:, None]))
    accept = special.expit(log_ratios) + bias * outwards * np.exp(-(log_ratios**2))
    squares = STATES**2 - LAW @ STATES**2
    expected = (stationary_law(matrix(accept, sd)) - LAW) @ squares / 2
    here, there, log_ratio = proposed(sd, rng)
    error = imbalance(accept, here, there, log_ratio)
    correlation = (LAW * squares) @ matrix(special.expit(log_ratios), sd) @ squares / (LAW @ squares**2)
    relaxation = np.array([1 / (1 - correlation)])
    found = spread_shift(STATES[here][:, None], STATES[there][:, None], error, log_ratio, relaxation, 1e-4)
    assert np.sign(expected) == sign or abs(expected) < 1e-9
    # The square of a walk does not forget at one rate, as the formula takes it to.
    assert found.value == pytest.approx(expected, rel=0.15, abs=1e-12)
    assert (found.shown > abs(expected) / 2) == (sign != 0)
