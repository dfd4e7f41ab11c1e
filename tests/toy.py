"""Small parts and models with known answers, and parts with a planted mistake that a check must catch."""

from dataclasses import dataclass

import numpy as np
import pymc as pm
from numba import njit

import pymc_austerity as pma
from pymc_austerity.acceptance import ACCEPT, REJECT, UNDECIDED, Looks
from pymc_austerity.acceptance.sequential import SequentialT
from pymc_austerity.proposals.proposal import Move, Proposal, adapt_nothing
from pymc_austerity.proxy.surrogate import SurrogateState
from pymc_austerity.rows.sources import Uniform
from pymc_austerity.steps.row_step import RowStep


@njit
def _toggle(rng, theta, state, surroundings):
    return 1.0 - theta, 0.0, 0


@dataclass(frozen=True)
class Toggle(Proposal):
    """Propose 1 − θ: between 0 and 1 the row log ratios are known."""

    def for_model(self, target):
        return Move(_toggle, adapt_nothing, pma.RandomWalk(scale=1.0).for_model(target).make_state)


@njit
def _read_off(rng, order, start, stop):
    return order[start:stop]


@njit
def _leave(order, n_drawn):
    pass


@dataclass(frozen=True)
class Scripted(Uniform):
    """Rows in whatever order the test that uses it writes into the state."""

    draw = staticmethod(_read_off)
    restore = staticmethod(_leave)


@njit
def _decide_by_variance(looks, look, moments, offset, scale, noise):
    distance = moments.mean - (noise - offset) / scale
    if moments.n == moments.n_total or abs(distance) > looks.bounds[look] * moments.sd**2:
        return ACCEPT if distance > 0 else REJECT
    return UNDECIDED


@njit
def _decide_without_prior(looks, look, moments, offset, scale, noise):
    distance = moments.mean - noise / scale
    if moments.n == moments.n_total or abs(distance) > looks.bounds[look] * moments.sd:
        return ACCEPT if distance > 0 else REJECT
    return UNDECIDED


@dataclass(frozen=True)
class ScriptedT(SequentialT):
    """The right test on rows in a scripted order."""

    rows = Scripted()


@dataclass(frozen=True)
class MissingRoot(SequentialT):
    """Planted mistake: a variance where a standard deviation belongs."""

    decide = staticmethod(_decide_by_variance)


@dataclass(frozen=True)
class NoCorrection(SequentialT):
    """Planted mistake: no finite-population correction."""

    def looks(self, n_rows):
        sizes, bounds = super().looks(n_rows)
        n = sizes[:-1]
        return Looks(sizes, np.append(bounds[:-1] / np.sqrt(1 - (n - 1) / (n_rows - 1)), 0.0))


@dataclass(frozen=True)
class NoPrior(SequentialT):
    """Planted mistake: the prior's part of the acceptance ratio dropped."""

    decide = staticmethod(_decide_without_prior)


class AnyTest(RowStep):
    """A step with whatever test it is given, without a proxy unless one is asked for."""

    name = "any_test"

    def __init__(self, test, *, model, tune=False, proxy=None, **kwargs):
        super().__init__(test, model=model, tune=tune, proxy=proxy, **kwargs)
        self.model = model


def shift_model(values, prior_sd=1.0):
    """Build a model with ℓ_i(1) − ℓ_i(0) = values[i], and log prior ratio −1/(2 prior_sd²)."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, prior_sd)
        pm.Normal("y", mu, 1, observed=pm.Data("x", np.asarray(values, float) + 0.5))
    return model


def walk(step, point, n_steps):
    """Positions of a single variable, and the statistics, over some steps from `point`."""
    (name,) = point
    draws, stats = np.empty(n_steps), []
    for i in range(n_steps):
        point, (stat,) = step.step(point)
        draws[i] = point[name]
        stats.append(stat)
    return draws, stats


def sampled(model, step, draws, tune=500, seed=4, **options):
    """What ``pm.sample`` returns of two chains, or as many as are asked for, in this process."""
    options = {"chains": 2, "cores": 1, "progressbar": False, "compute_convergence_checks": False, **options}
    with model:
        return pm.sample(draws, tune=tune, step=step, random_seed=seed, **options)


#: A root of a covariance, and the centre of moves on a surrogate, that are neither white nor zero.
FACTOR, MOVES_ABOUT = np.array([[1.0, 0, 0], [0.5, 2.0, 0], [-0.3, 0.1, 0.5]]), np.array([1.0, -2.0, 0.5])


def surrogate_state(log_scale, search, linearisation):
    """The state of a move on a surrogate of three parameters that aims at an acceptance of a half."""
    return SurrogateState(
        log_scale=np.array([log_scale]),
        factor=FACTOR,
        whiten=np.linalg.inv(FACTOR),
        centre=MOVES_ABOUT,
        target=np.array([0.5]),
        t=np.zeros(1, np.int64),
        search=search,
        linearisation=linearisation,
    )


def arrow(size=40):
    """A matrix as in a hierarchical model: a diagonal, and one parameter that goes with all others."""
    rng = np.random.default_rng(1)
    matrix = np.diag(-1 - rng.random(size))
    matrix[-1, :-1] = matrix[:-1, -1] = rng.standard_normal(size - 1) / size
    return matrix
