"""Effects of two factors that multiply each other, as in an item response model, against sums over a grid.

With two items there are four patterns of answers, and the abilities of all who gave one have the same law.
"""

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z, moment_z
from grouped import tuned_draws

import pymc_austerity as pma
from pymc_austerity.kernel import pack_generators

DRAWS = 8_000
#: Persons with each pattern of answers to the two items.
PATTERNS = {(0, 0): 5, (0, 1): 2, (1, 0): 9, (1, 1): 8}
ANSWERS = np.repeat(list(PATTERNS), list(PATTERNS.values()), axis=0)
PERSONS, ITEMS = ANSWERS.shape
PERSON, ITEM = np.repeat(np.arange(PERSONS), ITEMS), np.tile(np.arange(ITEMS), PERSONS)
LOG_SCALES, LOG_SLOPES = np.linspace(-2, 1.4, 35), np.linspace(-2.6, 2.6, 27)
DIFFICULTIES, ABILITIES = np.linspace(-6, 6, 49), np.linspace(-5, 5, 61)


def model_of(*, pooled=True):
    with pm.Model() as model:
        scale = pm.math.exp(pm.Normal("log_scale", -0.3, 0.4)) if pooled else 1.0
        ability = pm.Normal("ability", 0, 1, shape=PERSONS)
        slope, difficulty = pm.LogNormal("slope", 0, 0.5, shape=ITEMS), pm.Normal("difficulty", 0, scale, shape=ITEMS)
        predictor = slope[ITEM] * (ability[PERSON] - difficulty[ITEM])
        pm.Bernoulli("y", logit_p=predictor, observed=ANSWERS.ravel())
    return model


def law():
    """Means and sds of the log scale, of an ability of each pattern, of both log slopes and of both difficulties."""
    shape = LOG_SLOPES.size, DIFFICULTIES.size
    right = 1 / (1 + np.exp(-np.exp(LOG_SLOPES)[:, None, None] * (ABILITIES - DIFFICULTIES[:, None])))
    answers = {0: 1 - right.reshape(-1, ABILITIES.size), 1: right.reshape(-1, ABILITIES.size)}
    weights, powers = np.exp(-(ABILITIES**2) / 2), ABILITIES ** np.arange(3)[:, None]
    of_patterns = {(i, j): [(answers[i] * (weights * x)) @ answers[j].T for x in powers] for i, j in PATTERNS}
    likelihood = np.prod([of_patterns[p][0] ** n for p, n in PATTERNS.items()], axis=0).reshape(*shape, *shape)
    by_difficulty = np.exp(-(DIFFICULTIES**2) / 2 / np.exp(2 * LOG_SCALES[:, None]) - LOG_SCALES[:, None])
    of_scale = np.exp(-(((LOG_SCALES + 0.3) / 0.4) ** 2) / 2)
    of_slope = np.exp(-((LOG_SLOPES / 0.5) ** 2) / 2)
    likelihood *= of_slope[:, None, None, None] * of_slope[:, None]
    scales = of_scale * np.einsum("abcd,sb,sd->s", likelihood, by_difficulty, by_difficulty)
    mass = likelihood * np.einsum("s,sb,sd->bd", of_scale, by_difficulty, by_difficulty)[:, None, :]
    moments = [of_points(LOG_SCALES, scales)]
    for zeroth, first, second in of_patterns.values():
        flat = mass.reshape(zeroth.shape)
        mean, square = ((flat * of / zeroth).sum() / flat.sum() for of in (first, second))
        moments.append((mean, np.sqrt(square - mean**2)))
    moments += [of_points(LOG_SLOPES, mass.sum(axis=other)) for other in ((1, 2, 3), (0, 1, 3))]
    moments += [of_points(DIFFICULTIES, mass.sum(axis=other)) for other in ((0, 2, 3), (0, 1, 2))]
    return np.array(moments).T


def of_points(points, mass):
    mean, square = (mass @ points**power / mass.sum() for power in (1, 2))
    return mean, np.sqrt(square - mean**2)


@pytest.fixture(scope="module")
def decider():
    return pma.PenaltyMH(model=model_of(), rng=1, progressbar=False).decider


@pytest.fixture(scope="module")
def compared(decider):
    """Where what the law tells of lies in θ."""
    at = {b.name: np.arange(b.start, b.stop) for b in decider.model.likelihood.blocks}
    persons = np.flatnonzero(np.r_[True, (ANSWERS[1:] != ANSWERS[:-1]).any(axis=1)])
    return np.concatenate([at["log_scale"], at["ability"][persons], at["slope_log__"], at["difficulty"]])


def largest_z(decider, compared, start=None, n=DRAWS):
    """Distance of draws from the law; `start` takes the place of where the rows of groups begin."""
    data = None if start is None else decider.data()._replace(start=start)
    split = tuned_draws(decider, n, data)[:, compared].T
    return max(np.abs(moment_z(x.reshape(4, -1), *of)).max() for x, *of in zip(split, *law(), strict=True))


@pytest.mark.slow
def test_products_are_expanded_at_their_means(decider, compared):
    """Within half a standard deviation; where the search for a joint mode goes, slopes grow and abilities vanish."""
    mean, sd = law()
    assert (np.abs(decider.prepared.expansion.centre[compared] - mean) < 0.5 * sd).all()


@pytest.mark.slow
def test_products_of_effects_with_fixed_priors_are_groups():
    """Nothing is shared: the groups of two factors move by turns, and start where all is finite."""
    step = pma.PenaltyMH(model=model_of(pooled=False), rng=1, progressbar=False)
    decider, rng = step.decider, np.random.default_rng(3)
    assert decider.model.groups.shared.size == 0
    theta, state, generators = decider.start(rng), decider.new_state(), pack_generators(*rng.spawn(3))
    moved = [theta]
    for _ in range(60):
        moved.append(decider.move(moved[-1], decider.data(), state, decider.looks_of_large(), generators)[1].theta)
    changes = (np.diff(moved, axis=0) != 0).mean(axis=0)
    assert changes.min() > 0.3


@pytest.mark.slow
def test_products_have_the_law_of_the_grid(decider, compared):
    assert largest_z(decider, compared) < MAX_Z


@pytest.mark.slow
def test_rows_left_out_of_an_item_are_seen(decider, compared):
    """The planted mistake: the second item does not read its last five rows."""
    start = decider.data().start.copy()
    start[-1] -= 5
    assert largest_z(decider, compared, start) > 2 * MAX_Z
