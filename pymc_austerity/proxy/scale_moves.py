"""Moves of a scale together with the effects that it is the scale of, on the surrogate.

Where the rows allow a scale to be zero, the posterior is a funnel, through which no trajectory with one mass matrix
gets.  Along the line (log τ + δ, e^δ u) the standardised effects u/τ stay as they are, and so does their prior: a slice
step along it moves τ as far as rows and prior of τ allow (interweaving: Yu and Meng 2011; moves by a group of
transformations: Liu and Sabatti 2000).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pymc_austerity.compile.bounded_integers import integer_below
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.proxy.full_pass import Sums

#: Parameters and scales of a model beyond which none are looked for: each costs some Hessians of the prior.
_MOST_PARAMETERS, _MOST_SCALES = 300, 150
#: What the rows say of effects, in units of what their prior says, from which on trajectories need no help.
_INFORMED = 20.0
#: Steps of log τ at which the curvature of the prior is compared, and relative error of the comparison.
_STEPS, _ERROR = (0.5, -0.5), 1e-6
#: Slice steps in a transition, at most; the width of a slice in log τ, and so many widths that it may be long.
_MOST_SLICES, _WIDTH, _LONGEST = 8, 1.5, 8
_MOST_SHRINKS = 200


class ScaleMoves(NamedTuple):
    """Scales and their effects, as arrays for compiled code."""

    place: np.ndarray  # int64 (S,): where log τ lies in θ, or another function whose unit changes it by a factor
    first: np.ndarray  # int64 (S + 1,): the effects of scale s are ``effects[first[s] : first[s + 1]]``
    effects: np.ndarray  # int64 (M,): where they lie in θ
    power: np.ndarray  # (M,): effects are multiplied by e^(power δ) where θ changes by δ


NO_SCALES = ScaleMoves(np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0))


def find_scales(
    prior: Callable[[np.ndarray, Sequence[np.ndarray], np.ndarray], Sums],
    psi: np.ndarray,
    fixed: Sequence[np.ndarray],
    coordinates: np.ndarray,
    of_rows: np.ndarray,
) -> ScaleMoves:
    """Find the scales of effects about zero that the rows say little of.

    `prior` is a `PriorCurvature`; `coordinates`, shape (E,), are the entries of θ that the rows read, and `of_rows` is
    what the rows add to the precision of each.
    """
    others = np.setdiff1d(np.arange(psi.size), coordinates)
    if psi.size > _MOST_PARAMETERS or others.size > _MOST_SCALES:
        return NO_SCALES
    at = psi.copy()
    at[coordinates] += np.random.default_rng(2011).standard_normal(coordinates.size)
    here = prior(at, fixed, coordinates)
    precision = -np.diag(here.hessian)
    about_zero = np.abs(here.gradient - here.hessian @ at[coordinates]) <= _ERROR * np.abs(here.gradient).max(initial=0)
    at_centre = -np.diag(prior(psi, fixed, coordinates).hessian)
    place, effects, power = [], [], []
    for k in others:
        powers = []
        for step in _STEPS:
            moved = at + step * (np.arange(psi.size) == k)
            with np.errstate(all="ignore"):
                powers.append(np.log(-precision / np.diag(prior(moved, fixed, coordinates).hessian)) / (2 * step))
        is_scale = about_zero & (np.abs(powers[0] - powers[1]) <= _ERROR) & (np.abs(powers[0]) > _ERROR)
        if is_scale.any() and np.mean(of_rows[is_scale] / at_centre[is_scale]) < _INFORMED:
            place.append(k)
            effects.append(coordinates[is_scale])
            power.append(powers[0][is_scale])
    if not place:
        return NO_SCALES
    first = np.cumsum([0, *map(len, effects)])
    return ScaleMoves(np.array(place, np.int64), first.astype(np.int64), np.concatenate(effects), np.concatenate(power))


@njit
def rescaled(theta, s, delta, scales):  # type: ignore[no-untyped-def]
    """Return θ with a scale moved by `delta` and its effects by what it changes, and log |∂θ′/∂θ|."""
    moved, log_jacobian = theta.copy(), 0.0
    moved[scales.place[s]] += delta
    for m in range(scales.first[s], scales.first[s + 1]):
        moved[scales.effects[m]] *= np.exp(scales.power[m] * delta)
        log_jacobian += scales.power[m] * delta
    return moved, log_jacobian


def build_rescaling(surrogate: Callable[..., Any]) -> Callable[..., Any]:
    """Compile ``rescale(rng, theta, value, state, surroundings)``: θ′ and log π̃(θ′) after some slice steps.

    Each along the line of a scale that is drawn at random, by stepping out and shrinking (Neal 2003): together they are
    reversible for π̃.
    """

    @njit
    def raised(theta, s, delta, state, surroundings):  # type: ignore[no-untyped-def]
        there, log_jacobian = rescaled(theta, s, delta, state.scales)
        value = surrogate(there, state.linearisation, surroundings)[0]
        return there, value, value + log_jacobian

    @njit
    def along(rng, theta, value, s, state, surroundings):  # type: ignore[no-untyped-def]
        level = value - rng.standard_exponential()
        low = -_WIDTH * rng.random()
        high = low + _WIDTH
        down = int(_LONGEST * rng.random())
        up = _LONGEST - 1 - down
        while down > 0 and raised(theta, s, low, state, surroundings)[2] > level:
            low, down = low - _WIDTH, down - 1
        while up > 0 and raised(theta, s, high, state, surroundings)[2] > level:
            high, up = high + _WIDTH, up - 1
        for _ in range(_MOST_SHRINKS):
            delta = low + (high - low) * rng.random()
            there, value_there, height = raised(theta, s, delta, state, surroundings)
            if height > level:
                return there, value_there
            if delta < 0.0:
                low = delta
            else:
                high = delta
        return theta, value

    @njit
    def rescale(rng, theta, value, state, surroundings):  # type: ignore[no-untyped-def]
        n_scales = state.scales.place.size
        for _ in range(min(n_scales + 1, _MOST_SLICES)):
            theta, value = along(rng, theta, value, integer_below(rng, n_scales), state, surroundings)
        return theta, value

    return rescale
