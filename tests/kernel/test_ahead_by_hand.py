"""Draws ahead of a chain that is a random walk in Python: how many are made, and where they leave the chain."""

import time

import numpy as np
import pytest

from pymc_austerity.acceptance import DECIDED
from pymc_austerity.kernel import Ahead, ahead
from pymc_austerity.kernel.chain import Draw, Streams
from pymc_austerity.kernel.transition import Outcome

OTHERS, TEMPERATURE = np.array([0.5]), 2.0


class Walk:
    """A chain that is where its generator is, and notes how many draws it was asked for at a time."""

    def __init__(self, seconds=0.0):
        self._rng, self._seconds, self.made = np.random.default_rng(1), seconds, []

    @property
    def streams(self):
        return Streams((self._rng.bit_generator.state,), 0)

    def go_back(self, streams):
        (self._rng.bit_generator.state,) = streams.generators

    def draws(self, n_draws, n_transitions, theta, others, temperature):
        self.made.append(n_draws)
        time.sleep(self._seconds * n_draws)
        made = []
        for _ in range(n_draws):
            theta = theta + others + temperature * self._rng.standard_normal((n_transitions, theta.size)).sum(axis=0)
            made.append(Draw(Outcome(theta, DECIDED, True, 0, 0, 0.0, 0.0, -1, False, np.nan), 0.0))
        return made


def follow(n, walk, interfere=lambda made_ahead, k, theta: theta):
    """Draw `n` times, and let something happen before each."""
    made_ahead, theta = Ahead(walk, True), np.zeros(2)
    for k in range(n):
        theta = interfere(made_ahead, k, theta)
        theta = made_ahead.draw(3, theta, OTHERS, TEMPERATURE).outcome.theta
    made_ahead.settle()


@pytest.fixture
def hours(monkeypatch):
    """Let blocks grow on a busy machine as well."""
    monkeypatch.setattr(ahead, "_SECONDS", 3600.0)


def moved_at(*times):
    return lambda made_ahead, k, theta: theta + 0.1 * (k in times)


@pytest.mark.parametrize(
    ("n", "interfere", "blocks"),
    [
        (200, moved_at(), [1, 2, 4, 8, 16, 32, 64, 64, 64]),
        # One, two, four, and eight of which three were given, which are made again; and then one at a time.
        (20, moved_at(10), [1, 2, 4, 8, 3] + [1] * 10),
    ],
)
def test_blocks_double_until_a_point_was_moved(hours, n, interfere, blocks):
    walk = Walk()
    follow(n, walk, interfere)
    assert walk.made[: len(blocks)] == blocks
    assert len(walk.made) <= len(blocks) + 1


def test_what_is_forgotten_is_neither_given_nor_made_again(hours):
    walk = Walk()
    made_ahead, start = Ahead(walk, True), np.zeros(2)
    for _ in range(2):
        theta = made_ahead.draw(3, start, OTHERS, TEMPERATURE).outcome.theta
        start = theta
    left = walk.streams
    made_ahead.forget()
    made_ahead.settle()
    assert walk.made == [1, 2]
    assert walk.streams == left
    # From anywhere else there is nothing to bring back.
    made_ahead.draw(3, np.ones(2), OTHERS, TEMPERATURE)
    assert walk.made == [1, 2, 4]


def test_a_call_takes_no_longer_than_it_may():
    walk = Walk(seconds=1e-4)
    follow(40, walk)
    assert max(walk.made) <= 5
    quick = Walk()
    follow(200, quick)
    assert max(quick.made) > 2
