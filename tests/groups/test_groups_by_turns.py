"""Groups of which a row reads several, refreshed by turns, against sums over a grid.

Four players meet in a circle, so that given the scale the law of one is a product of matrices over the others.
"""

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z
from grouped import largest_z, tuned_draws

import pymc_austerity as pma
from pymc_austerity.groups.prepared_groups import Turns, find_turns

RNG, DRAWS, PLAYERS = np.random.default_rng(23), 6_000, 4
#: Games that each player has with the next one, and how many of them he wins.
GAMES, WON = np.array([30, 22, 26, 34]), np.array([24, 8, 17, 25])
FIRST = np.repeat(np.arange(PLAYERS), GAMES)
Y = np.concatenate([np.arange(n) < won for n, won in zip(GAMES, WON)]).astype(int)
LOG_SCALES, POINTS = np.linspace(-5, 3, 160), np.linspace(-6, 6, 241)


@pytest.fixture(scope="module")
def decider():
    """A prior that is not normal splits over groups all the same; so few that are normal would move together."""
    with pm.Model() as model:
        scale = pm.math.exp(pm.Normal("log_scale", -0.5, 0.7))
        rating = pm.StudentT("rating", nu=4, mu=0, sigma=scale, shape=PLAYERS)
        pm.Bernoulli("y", logit_p=rating[FIRST] - rating[(FIRST + 1) % PLAYERS], observed=Y)
    return pma.GroupMH(test=pma.Exact(), model=model, rng=1, progressbar=False).decider


def law():
    """Means and sds of the log scale and of the ratings."""
    gaps = np.subtract.outer(POINTS, POINTS)
    of_games = [np.exp(won * gaps - n * np.logaddexp(0, gaps)) for n, won in zip(GAMES, WON)]
    found = []
    for a in LOG_SCALES:
        prior = (1 + (POINTS / np.exp(a)) ** 2 / 4) ** -2.5
        links = [prior[:, None] * of for of in of_games]  # from each player to the next
        around = [np.linalg.multi_dot([*links[k:], *links[:k]]).diagonal() for k in range(PLAYERS)]
        found.append(np.exp(-PLAYERS * a - ((a + 0.5) / 0.7) ** 2 / 2) * np.array(around))
    mass = np.array(found)  # by log scale, player, point
    players, scales = mass.sum(axis=0), mass[:, 0].sum(axis=1)
    scales, players = scales / scales.sum(), players / players.sum(axis=1, keepdims=True)
    means = np.r_[scales @ LOG_SCALES, players @ POINTS]
    return means, np.sqrt(np.r_[scales @ LOG_SCALES**2, players @ POINTS**2] - means**2)


def test_turns_are_a_colouring():
    """Of players who meet at random, and groups of another factor, which all have one turn."""
    n, others = 60, 7
    pairs = np.unique(RNG.integers(0, n, (200, 2)), axis=0)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    pairs = np.concatenate([pairs, np.column_stack([RNG.integers(0, n, 90), RNG.integers(n, n + others, 90)])])
    both = np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)

    class Expansion:
        first = np.array([0, n, n + others])
        cell_start, cell_with = np.searchsorted(both[:, 0], np.arange(n + others + 1)), both[:, 1].astype(np.uint32)

    found = find_turns(Expansion, (False, False))
    assert np.array_equal(np.sort(found.groups), np.arange(n + others))
    turn = np.empty(n + others, int)
    turn[found.groups] = np.repeat(np.arange(len(found.start) - 1), np.diff(found.start))
    inside = both[both.max(axis=1) < n]
    assert (turn[inside[:, 0]] != turn[inside[:, 1]]).all()
    assert len(set(turn[n:])) == 1
    assert len(set(turn)) < 12
    assert np.array_equal(find_turns(Expansion, (True, False)).groups, np.arange(n, n + others))


@pytest.mark.slow
def test_draws_have_the_law_of_the_grid(decider):
    assert largest_z(tuned_draws(decider, DRAWS).T, law()) < MAX_Z


@pytest.mark.slow
def test_all_players_at_once_are_seen(decider):
    """The planted mistake: players who meet decide at once, each on what the other was."""
    at_once = Turns(np.array([0, PLAYERS]), np.arange(PLAYERS))
    data = decider.data()._replace(turns=at_once, n_refreshed=np.array([PLAYERS]))
    state = decider.new_state()._replace(next=np.zeros(1, np.int64))
    assert largest_z(tuned_draws(decider, 4 * DRAWS, data, state).T, law()) > 2 * MAX_Z
