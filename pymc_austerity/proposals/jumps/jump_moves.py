"""Update, birth and death: the moves of `ReversibleJump`, compiled."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pymc_austerity.compile.bounded_integers import integer_below
from pymc_austerity.compile.cache import njit_on_disk
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.likelihood.prior_laws import LAPLACE, NORMAL
from pymc_austerity.proposals.jumps.excluded_law import excluded_law_at
from pymc_austerity.proposals.proposal import Propose
from pymc_austerity.proxy import towards_target

UPDATE, BIRTH, DEATH = 0, 1, 2
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


class JumpState(NamedTuple):
    """State of the moves, of arrays only, so that compiled code can update it in place."""

    log_scale: np.ndarray  # (1,): log of the scale of the last update
    log_scales: np.ndarray  # (D,): log of the standard deviation of an update, one for each coefficient
    updates: np.ndarray  # int64 (D,): updates adapted to so far
    last: np.ndarray  # int64 (1,): coefficient of the last move if that was an update, else −1
    target: np.ndarray  # (1,): acceptance rate of updates to reach


class Layout(NamedTuple):
    """Where coefficients and indicators sit in θ, and the settings of the moves."""

    #: Positions of the first of each.
    coefficients: int
    indicators: int
    size: int  # D, the number of either
    weights: np.ndarray  # (3,): relative frequencies of updates, births and deaths where all three are possible
    #: Limits to the number of included coefficients.
    smallest: int
    largest: int
    #: (D,).
    birth_centre: np.ndarray
    birth_scale: np.ndarray


@njit
def move_probabilities(layout: Layout, k: int) -> np.ndarray:
    """Return the probabilities of an update, a birth and a death with `k` coefficients included."""
    weights = layout.weights.copy()
    if k == 0:
        weights[UPDATE] = 0.0
    if k >= layout.largest:
        weights[BIRTH] = 0.0
    if k <= layout.smallest:
        weights[DEATH] = 0.0
    return weights / weights.sum()


@njit
def log_normal(x: float, centre: float, scale: float) -> float:
    """Log density of a normal law."""
    return -0.5 * ((x - centre) / scale) ** 2 - np.log(scale) - _HALF_LOG_TWO_PI


@njit
def draw_law(rng: np.random.Generator, family: int, loc: float, scale: float, df: float) -> float:
    """Draw from a law of `prior_laws`."""
    if family == NORMAL:
        return loc + scale * rng.standard_normal()
    if family == LAPLACE:
        return loc + scale * rng.laplace(0.0, 1.0)
    return loc + scale * rng.standard_normal() / np.sqrt(rng.chisquare(df) / df)


@njit
def log_law(x: float, family: int, loc: float, scale: float, df: float) -> float:
    """Log density of a law of `prior_laws`."""
    if family == NORMAL:
        return log_normal(x, loc, scale)
    z = (x - loc) / scale
    if family == LAPLACE:
        return -abs(z) - np.log(2 * scale)
    constant = math.lgamma(0.5 * (df + 1)) - math.lgamma(0.5 * df) - 0.5 * np.log(df * np.pi)
    return constant - 0.5 * (df + 1) * np.log1p(z * z / df) - np.log(scale)


@njit
def choose(rng: np.random.Generator, indicators: np.ndarray, included: bool) -> int:
    """Pick one of the coefficients that are included, or one that is not, with equal probability."""
    candidates = np.flatnonzero((indicators > 0.5) == included)
    return candidates[integer_below(rng, candidates.size)]


@njit
def log_birth_ratio(layout: Layout, k: int) -> float:
    """Log of P(death)·P(pick the one born) over P(birth)·P(pick it), from `k` to `k` + 1 coefficients."""
    birth = move_probabilities(layout, k)[BIRTH] / (layout.size - k)
    death = move_probabilities(layout, k + 1)[DEATH] / (k + 1)
    return np.log(death) - np.log(birth)


def build_jump(layout: Layout, family: int) -> Propose:
    """Compile the proposal; `family` is that of the law from which an excluded coefficient is drawn."""

    @njit
    def propose(rng, theta, state, surroundings):  # type: ignore[no-untyped-def]
        first, size = layout.coefficients, layout.size
        indicators = theta[layout.indicators : layout.indicators + size]
        k = int(np.sum(indicators > 0.5))
        probabilities = move_probabilities(layout, k)
        u = rng.random()
        theta_new = theta.copy()
        state.last[0] = -1
        if u < probabilities[UPDATE]:
            j = choose(rng, indicators, True)
            state.last[0] = j
            state.log_scale[0] = state.log_scales[j]
            theta_new[first + j] += np.exp(state.log_scales[j]) * rng.standard_normal()
            return theta_new, 0.0, 0
        birth = u < probabilities[UPDATE] + probabilities[BIRTH]
        j = choose(rng, indicators, not birth)
        theta_new[layout.indicators + j] = 1.0 if birth else 0.0
        at = (theta if birth else theta_new, surroundings.others, surroundings.fixed)
        loc, scale, df = excluded_law_at(surroundings.links, *at)
        centre, spread = layout.birth_centre[j], layout.birth_scale[j]
        if birth:
            value, discarded = centre + spread * rng.standard_normal(), theta[first + j]
        else:
            discarded, value = draw_law(rng, family, loc[j], scale[j], df[j]), theta[first + j]
        theta_new[first + j] = value if birth else discarded
        log_ratio = log_law(discarded, family, loc[j], scale[j], df[j]) - log_normal(value, centre, spread)
        log_ratio += log_birth_ratio(layout, k if birth else k - 1)
        return theta_new, log_ratio if birth else -log_ratio, 0

    return propose


@njit_on_disk()
def adapt_updates(state: JumpState, theta: np.ndarray, accepted: bool) -> None:
    """Adapt the scale of the coefficient that was updated last; births and deaths have none to adapt."""
    j = state.last[0]
    if j < 0:
        return
    state.updates[j] += 1
    state.log_scales[j] = towards_target(state.log_scales[j], accepted, state.target[0], state.updates[j])
