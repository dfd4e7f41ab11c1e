"""Whether draws lie where the posterior is, and are as far apart, from its gradient at some of them.

With g = ∇log π, draws of a posterior obey E[g] = 0 and E[−(θ_i − c) g_i] = 1 for every entry of θ and any c.  Draws of
other data, draws that were shifted or stretched, and draws that do not move break one or the other.  For a posterior
that is near normal, with covariance Σ, Σ E[g] is the way from the mean of the draws to that of the posterior, and
E[−(θ_i − c) g_i] the variance of the draws over that of the posterior.

Both hold where the density is smooth in θ and falls to zero at the ends of its support.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import xarray as xr
from pymc.model import Model
from pytensor.gradient import NullTypeGradError, grad
from scipy import special

from pymc_austerity.compile.graph_compiler import interpret_log_density
from pymc_austerity.diagnostics.convergence import standard_errors
from pymc_austerity.diagnostics.drawn_states import DrawnStates, drawn_states
from pymc_austerity.diagnostics.mean_shift import MeanShift, relaxation_of
from pymc_austerity.diagnostics.results import SamplingResult
from pymc_austerity.diagnostics.spot_check import evaluate_pair
from pymc_austerity.diagnostics.verdicts import Finding, judge_level, judge_location, judge_scale
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.kernel import Decider, Proposed
from pymc_austerity.likelihood import ModelData, RowLikelihood
from pymc_austerity.proposals import summed_gradient
from pymc_austerity.rows import Rows

#: Rows evaluated at once.
_CHUNK = 50_000
#: Ways between two draws along which the gradient is added up, and the numbers of places on each.
_WAYS, _NODES = 6, 5
#: By how much such a sum may miss the difference of the log density, absolute and relative.
_SMOOTH = 0.1
#: Draws are taken so many times further from their mean to see whether the support ends there.
_FURTHER = 4.0

#: Draws at which the gradient is taken, within so many row terms.
_FEWEST, _MOST, _ROW_BUDGET = 50, 400, 40_000_000
#: One minus the confidence of what is said of all entries of θ at once.
LEVEL_OF_PLACE = 0.001


class Place(NamedTuple):
    """What the gradient of the log posterior says of draws.

    Attributes
    ----------
    shift : MeanShift
        From the posterior's mean, in standard deviations of the draws, of the entry of θ for which it is shown most.
    spread, average : MeanShift
        Variance of the draws over that of the posterior, minus one: of such an entry, and on average over all.
    dimension : int
    passes : int
    below : float
        How far the log posterior lies below that of the centre of the proxy at some draws, on average; NaN without one.
    """

    shift: MeanShift
    spread: MeanShift
    average: MeanShift
    dimension: int
    passes: int = 0
    below: float = np.nan


class Slope(Protocol):
    """The gradient of the log posterior."""

    def __call__(self, theta: np.ndarray, others: np.ndarray, /) -> np.ndarray:
        """Return it."""
        ...


class Change(Protocol):
    """The difference of the log posterior between two points."""

    def __call__(self, theta_new: np.ndarray, theta: np.ndarray, others: np.ndarray, /) -> float:
        """Return log π(θ′) − log π(θ)."""
        ...


def find_place(idata: SamplingResult, model: Model, data: Decider | ModelData, temperature: float) -> Place | None:
    """Return what the gradient of the log posterior says of the draws of a run, or None where it cannot tell.

    That is so for discrete parameters, for a density that jumps, as in a parameter that a switch compares with data,
    and for one that does not fall to zero at the ends of its support.

    Parameters
    ----------
    idata : InferenceData or DataTree
    model : pymc.Model
    data : Decider or ModelData
        The likelihood and its data.
    temperature : float
    """
    if any(np.dtype(block.dtype).kind != "f" for block in data.likelihood.blocks):
        return None
    try:
        slope = _Counted(slope_of(data.likelihood, data.rows, data.fixed, temperature))
    except (ValueError, NotImplementedError, NullTypeGradError):  # an operation that PyTensor cannot differentiate
        return None
    change = _Counted(change_of(data, temperature))
    states = drawn_states(idata, model, data, int(np.clip(_ROW_BUDGET // len(data.rows), _FEWEST, _MOST)))
    if not _is_smooth(slope, change, states) or not _is_open(change, states):
        return None
    slopes = np.array([slope(*at) for at in zip(states.theta, states.others)])
    _, names = relaxation_of(idata, model, data)
    place = place_of(states, slopes, names, LEVEL_OF_PLACE) if np.isfinite(slopes).all() else None
    if place is None:
        return None
    if (prepared := getattr(data, "prepared", None)) is not None:
        centre, some = prepared.expansion.centre[: len(names)], _some(states)
        below = np.mean([change(centre, states.theta[s], states.others[s]) for s in some])
        place = place._replace(below=float(below))
    return place._replace(passes=slope.calls + change.calls)


class _Counted:
    """A function that counts its calls, a pass over the data each."""

    def __init__(self, function: Callable[..., Any]):
        self._function, self.calls = function, 0

    def __call__(self, *arguments: np.ndarray) -> Any:
        self.calls += 1
        return self._function(*arguments)


def judged_place(place: Place) -> list[Finding]:
    """Judge it."""
    found = [judge_location(place.shift, "the gradient of the log posterior"), judge_scale(place.spread, place.average)]
    return found if np.isnan(place.below) else [*found, judge_level(place.below, place.dimension)]


def slope_of(likelihood: RowLikelihood, rows: Rows, fixed: Sequence[np.ndarray], temperature: float) -> Slope:
    """Return the gradient of the log posterior as a function of θ and the others, evaluated by NumPy.

    Raises
    ------
    ValueError
        For a likelihood without a derivative.
    """
    at = [likelihood.theta, likelihood.others, *likelihood.fixed]
    prior = grad(likelihood.log_prior, likelihood.theta, disconnected_inputs="ignore")
    of_prior = interpret_log_density(at, [prior])
    of_rows = interpret_log_density([*at, *likelihood.batches], [summed_gradient(likelihood)])

    def slope(theta: np.ndarray, others: np.ndarray) -> np.ndarray:
        total = np.array(uninterrupted(of_prior, theta, others, *fixed)[0], dtype=float)
        for batch in _batches(rows):
            total += uninterrupted(of_rows, theta, others, *fixed, *batch)[0] / temperature
        return total

    return slope


def change_of(data: Decider | ModelData, temperature: float) -> Change:
    """Return log π(θ′) − log π(θ) as a function of θ′, θ and the others; −∞ where θ′ is impossible."""
    if isinstance(data, Decider):

        def by_decider(theta_new: np.ndarray, theta: np.ndarray, others: np.ndarray) -> float:
            pair = evaluate_pair(data, Proposed(theta_new, theta, others, 0.0))
            return -np.inf if pair is None else float(pair.terms.sum()) / temperature + pair.offset

        return by_decider
    likelihood, at = data.likelihood, [data.likelihood.theta, data.likelihood.others, *data.likelihood.fixed]
    of_prior = interpret_log_density(at, [likelihood.log_prior])
    of_rows = interpret_log_density([*at, *likelihood.batches], [likelihood.row_log_likelihood.sum()])

    def log_density(theta: np.ndarray, others: np.ndarray) -> float:
        prior = float(uninterrupted(of_prior, theta, others, *data.fixed)[0])
        rows = (uninterrupted(of_rows, theta, others, *data.fixed, *batch)[0] for batch in _batches(data.rows))
        return prior + float(sum(rows)) / temperature

    def change(theta_new: np.ndarray, theta: np.ndarray, others: np.ndarray) -> float:
        return log_density(theta_new, others) - log_density(theta, others)

    return change


def _batches(rows: Rows) -> Iterator[tuple[np.ndarray, ...]]:
    for start in range(0, len(rows), _CHUNK):
        yield tuple(np.array(a[start : start + _CHUNK], order="C") for a in rows.arrays)


def place_of(states: DrawnStates, slopes: np.ndarray, names: list[str], level: float) -> Place | None:
    """Return what the gradient at some draws says of them; None where they do not move.

    Parameters
    ----------
    states : DrawnStates
    slopes : numpy.ndarray, shape (S, D)
    names : list of str, length D
    level : float
        One minus the confidence of the intervals, shared among the entries of θ (Bonferroni).
    """
    centred, sd = states.theta - states.theta.mean(axis=0), states.theta.std(axis=0)
    moving = sd > 0
    if not moving.any():
        return None
    z, h = centred[:, moving] / sd[moving], slopes[:, moving] * sd[moving]
    (n, d), kept, errors = z.shape, [name for name, moves in zip(names, moving) if moves], _errors(states.chain)
    away = -(h @ z.T) @ z / n  # by the covariance of the draws, which is not put together
    excess = -z * h - 1
    average = excess.mean(axis=1, keepdims=True)
    least = np.sqrt(2 / n)  # as of squares of normal numbers
    spread = _most_shown(kept, excess.mean(axis=0), np.maximum(errors(excess), least), n, level)
    return Place(
        _most_shown(kept, away.mean(axis=0), errors(away), n, level),
        spread if moving.all() else MeanShift(names[int(np.argmin(moving))], -1.0, -1.0, -1.0),
        _most_shown(["all"], average.mean(axis=0), np.maximum(errors(average), least / np.sqrt(d)), n, level),
        len(names),
    )


def drift_of(
    moves: np.ndarray, accepted: np.ndarray, relaxation: np.ndarray, names: list[str], level: float
) -> MeanShift:
    """Return the shift of the draws that follows from where all rows would take them.

    Decided on all rows, proposals from draws of the posterior lead nowhere on average: E[(θ′ − θ) a] = 0.  That needs
    no gradient, and sees less, the more so the smaller the moves.

    Parameters
    ----------
    moves : numpy.ndarray, shape (S, D)
        θ′ − θ, in standard deviations of the draws.
    accepted : numpy.ndarray, shape (S,)
        Acceptance probabilities on all rows.
    relaxation : numpy.ndarray, shape (D,)
        Draws in which a deviation of the mean decays (see `mean_shift`).
    names : list of str
    level : float
    """
    n = len(moves)
    drift = moves * accepted[:, None] * -relaxation
    return _most_shown(names, drift.mean(axis=0), drift.std(axis=0, ddof=1) / np.sqrt(n), n, level)


def _some(states: DrawnStates) -> np.ndarray:
    return np.linspace(0, len(states.theta) - 1, _WAYS).astype(int)


def _is_smooth(slope: Slope, change: Change, states: DrawnStates) -> bool:
    """Whether the gradient adds up to the difference of the log density between draws."""
    nodes, weights = special.roots_legendre(_NODES)
    # Among the half of the draws in the middle: on a way to an outlier so few places would not do.
    low, middle, high = np.quantile(states.theta, [0.25, 0.5, 0.75], axis=0)
    outwards = np.argsort((((states.theta - middle) / np.where(high > low, high - low, 1.0)) ** 2).sum(axis=1))
    some, missed = np.sort(outwards[: max(2, len(outwards) // 2)])[:: max(1, len(outwards) // 2 // _WAYS)], 0
    for a, b in zip(some, np.roll(some, 1)):
        start, way, others = states.theta[a], states.theta[b] - states.theta[a], states.others[a]
        if np.any(way):
            difference = change(states.theta[b], start, others)
            added = weights @ [slope(start + (t + 1) / 2 * way, others) @ way for t in nodes] / 2
            missed += not abs(difference - added) <= _SMOOTH * (1 + abs(difference))
    return missed <= 1


def _is_open(change: Change, states: DrawnStates) -> bool:
    """Whether the density goes on beyond the draws, in either direction."""
    centred = states.theta - states.theta.mean(axis=0)
    with np.errstate(all="ignore"):
        return all(
            change(states.theta[s] + sign * _FURTHER * centred[s], states.theta[s], states.others[s]) > -np.inf
            for s in _some(states)
            for sign in (1, -1)
            if np.any(centred[s])
        )


def _errors(chain: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return the standard error of means over states: as of independent ones, or ArviZ's where that is larger."""
    chains = np.unique(chain)
    n = min(int((chain == c).sum()) for c in chains)

    def errors(values: np.ndarray) -> np.ndarray:
        found = values.std(axis=0, ddof=1) / np.sqrt(len(values))
        if n < 4:
            return found
        by_chain = np.stack([values[chain == c][:n] for c in chains])
        correlated = standard_errors(xr.Dataset({"x": (("chain", "draw", "entry"), by_chain)}))["x"].to_numpy()
        return np.fmax(found, correlated)

    return errors


def _most_shown(names: list[str], value: np.ndarray, error: np.ndarray, n: int, level: float) -> MeanShift:
    """Return the entry that is furthest from zero beyond its error."""
    half = -special.stdtrit(n - 1, level / 2 / len(names)) * error
    k = int(np.argmax(np.abs(value) - half))
    return MeanShift(names[k], float(value[k]), float(value[k] - half[k]), float(value[k] + half[k]))
