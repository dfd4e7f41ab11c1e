"""Whether draws lie where the posterior is and are as far apart, by its gradient at some of them; whether they move.

With g = ∇log π, draws of a posterior obey E[g] = 0 and E[−(θ_i − c) g_i] = 1 for every entry of θ and any c, where the
density is smooth in θ and falls to zero at the ends of its support; the page "Can I trust it?" says what follows where
they do not.  The log density varies by about √(D/2) over draws; a chain whose step size has collapsed keeps its own.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy import special

from pymc_austerity.diagnostics.convergence import of_entries, standard_errors
from pymc_austerity.diagnostics.density_on_rows import DensityOnRows
from pymc_austerity.diagnostics.drawn_states import DrawnStates
from pymc_austerity.diagnostics.measured_error import MeanShift
from pymc_austerity.diagnostics.spot_check import evaluate_pair
from pymc_austerity.diagnostics.verdicts import MOVEMENT, Finding, judge_level, judge_location, judge_scale
from pymc_austerity.kernel import Decider, Proposed

#: Ways between two draws along which the gradient is added up, and the numbers of places on each.
_WAYS, _NODES = 6, 5
#: By how much such a sum may miss the difference of the log density, absolute and relative.
_SMOOTH = 0.1
#: Draws are taken so many times further from their mean to see whether the support ends there.
_FURTHER = 4.0
#: Draws at which the gradient is taken, within so many row terms.
_FEWEST, _MOST, _ROW_BUDGET = 50, 400, 8_000_000
#: One minus the confidence of what is said of all entries of θ at once.
_LEVEL = 0.001
#: Of three draws, those furthest apart first.
_PAIRS = ((0, 2), (0, 1), (1, 2))


def states_of_place(n_rows: int, dimension: int) -> int:
    """Return at how many draws the gradient is taken, of so many rows and parameters."""
    return int(np.clip(_ROW_BUDGET // min(n_rows, 40 * dimension + 4_000), _FEWEST, _MOST))


def judge_place(
    density: DensityOnRows, states: DrawnStates, names: list[str], centre: np.ndarray | None
) -> list[Finding]:
    """Judge draws by the gradient of the log posterior at some of them; find nothing where it cannot tell.

    That is so for a density that jumps, as in a parameter that a switch compares with data, and for one that does not
    fall to zero at the ends of its support. The log posterior of some draws is put beside that of the proxy's `centre`.
    """
    if not _is_smooth(density, states) or not _is_open(density, states):
        return []
    slopes = np.array([density.sampled_slope(*at) for at in zip(states.theta, states.others)])
    if not np.isfinite(slopes).all() or not states.theta.std(axis=0).any():
        return []
    shift, spread, average = _by_gradient(states, slopes, names)
    found = [judge_location(shift, "the gradient of the log posterior"), judge_scale(spread, average)]
    if centre is None:
        return found
    ways = ((np.stack([states.theta[s], centre]), states.others[s]) for s in _some(states))
    below = float(np.mean([density.differences(*way)[1] for way in ways]))
    return found if np.isnan(below) else [*found, judge_level(below, len(names))]


def _by_gradient(states: DrawnStates, slopes: np.ndarray, names: list[str]) -> tuple[MeanShift, MeanShift, MeanShift]:
    """Return what gradients of shape (S, D) at S draws, some of which move, say of them.

    First how far they lie from the posterior's mean, in their standard deviations, in the entry of θ for which it is
    shown most; then the variance of the draws over that of the posterior, minus one: of such an entry, and on average.
    The intervals hold for all entries of θ at once (Bonferroni).
    """
    centred, sd = states.theta - states.theta.mean(axis=0), states.theta.std(axis=0)
    moving = sd > 0
    z, h = centred[:, moving] / sd[moving], slopes[:, moving] * sd[moving]
    (n, d), kept, errors = z.shape, [name for name, moves in zip(names, moving) if moves], _errors(states.chain)
    away = -(h @ z.T) @ z / n  # by the covariance of the draws, which is not put together
    excess = -z * h - 1
    average = excess.mean(axis=1, keepdims=True)
    least = np.sqrt(2 / n)  # as of squares of normal numbers
    spread = _most_shown(kept, excess.mean(axis=0), np.maximum(errors(excess), least), n)
    return (
        _most_shown(kept, away.mean(axis=0), errors(away), n),
        spread if moving.all() else MeanShift(names[int(np.argmin(moving))], -1.0, -1.0, -1.0),
        _most_shown(["all"], average.mean(axis=0), np.maximum(errors(average), least / np.sqrt(d)), n),
    )


def drift_of(moves: np.ndarray, accepted: np.ndarray, relaxation: np.ndarray, names: list[str]) -> MeanShift:
    """Return the shift of the draws that follows from where all rows would take them.

    Decided on all rows, proposals from draws of the posterior lead nowhere on average: E[(θ′ − θ) a] = 0. That needs no
    gradient, and sees less, the more so the smaller the moves. `accepted` are the S acceptance probabilities on all
    rows; `moves` and `relaxation` as in `mean_shift`.
    """
    n = len(moves)
    drift = moves * accepted[:, None] * -relaxation
    return _most_shown(names, drift.mean(axis=0), drift.std(axis=0, ddof=1) / np.sqrt(n), n)


def _some(states: DrawnStates) -> np.ndarray:
    return np.linspace(0, len(states.theta) - 1, _WAYS).astype(int)


def _is_smooth(density: DensityOnRows, states: DrawnStates) -> bool:
    """Whether the gradient adds up to the difference of the log density between draws; of the prior alone if it may."""
    nodes, weights = special.roots_legendre(_NODES)
    # Among the half of the draws in the middle: on a way to an outlier so few places would not do.
    low, middle, high = np.quantile(states.theta, [0.25, 0.5, 0.75], axis=0)
    outwards = np.argsort((((states.theta - middle) / np.where(high > low, high - low, 1.0)) ** 2).sum(axis=1))
    some, missed = np.sort(outwards[: max(2, len(outwards) // 2)])[:: max(1, len(outwards) // 2 // _WAYS)], 0
    for a, b in zip(some, np.roll(some, 1)):
        start, way, others = states.theta[a], states.theta[b] - states.theta[a], states.others[a]
        if np.any(way):
            difference = _value(density, states.theta[b], others) - _value(density, start, others)
            added = weights @ [_slope(density, start + (t + 1) / 2 * way, others) @ way for t in nodes] / 2
            missed += not abs(difference - added) <= _SMOOTH * (1 + abs(difference))
    return missed <= 1


def _is_open(density: DensityOnRows, states: DrawnStates) -> bool:
    """Whether the density goes on beyond the draws, in either direction."""
    centred = states.theta - states.theta.mean(axis=0)
    with np.errstate(all="ignore"):
        return all(
            _value(density, states.theta[s] + sign * _FURTHER * centred[s], states.others[s]) > -np.inf
            for s in _some(states)
            for sign in (1, -1)
            if np.any(centred[s])
        )


def _value(density: DensityOnRows, theta: np.ndarray, others: np.ndarray) -> float:
    return density.value(theta, others) if density.may_jump else density.prior(theta, others)[0]


def _slope(density: DensityOnRows, theta: np.ndarray, others: np.ndarray) -> np.ndarray:
    return density.slope(theta, others) if density.may_jump else density.prior(theta, others)[1]


def _errors(chain: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return the standard error of means over states: as of independent ones, or ArviZ's where that is larger."""
    chains = np.unique(chain)
    n = min(int((chain == c).sum()) for c in chains)

    def errors(values: np.ndarray) -> np.ndarray:
        found = values.std(axis=0, ddof=1) / np.sqrt(len(values))
        if n < 4:
            return found
        by_chain = np.stack([values[chain == c][:n] for c in chains])
        return np.fmax(found, of_entries(standard_errors, by_chain))

    return errors


def _most_shown(names: list[str], value: np.ndarray, error: np.ndarray, n: int) -> MeanShift:
    """Return the entry that is furthest from zero beyond its error."""
    half = -special.stdtrit(n - 1, _LEVEL / 2 / len(names)) * error
    k = int(np.argmax(np.abs(value) - half))
    return MeanShift(names[k], float(value[k]), float(value[k] - half[k]), float(value[k] + half[k]))


def least_movement(decider: Decider, states: DrawnStates) -> tuple[float, int]:
    """Return `movement` of the chain that goes least far, and the passes that it took for all chains."""
    of = [states.chain == chain for chain in np.unique(states.chain)]
    found = [movement(decider, states.theta[own][[0, own.sum() // 2, -1]], states.others[own][0]) for own in of]
    return min(change for change, _ in found), sum(passes for _, passes in found)


def movement_on_rows(density: DensityOnRows, states: DrawnStates) -> float:
    """Return what `least_movement` does, from a sample of the rows where these are many."""
    found = []
    for chain in np.unique(states.chain):
        own = np.flatnonzero(states.chain == chain)
        some = own[[0, own.size // 2, -1]]
        values = density.differences(states.theta[some], states.others[some[0]])
        if not np.isfinite(values).all():
            return np.inf  # impossible beside the present values of the others: it has moved
        changes = [abs(values[new] - values[old]) / np.sqrt(states.theta.shape[1]) for old, new in _PAIRS]
        found.append(next((change for change in changes if change > max(MOVEMENT)), max(changes)))
    return float(min(found))


def movement(decider: Decider, states: Sequence[np.ndarray], others: np.ndarray) -> tuple[float, int]:
    """Return the largest change of the log posterior between some draws over √D, and the passes that it took.

    The `states` are three draws of θ of one chain; those furthest apart are looked at first, and no more than are
    needed. Where a discrete variable is among them, which may stay where it is, the change is infinite.
    """
    if any(np.dtype(block.dtype).kind != "f" for block in decider.parts.likelihood.blocks):
        return np.inf, 0
    largest, passes = 0.0, 0
    for old, new in _PAIRS:
        if np.array_equal(states[old], states[new]):
            continue
        pair = evaluate_pair(decider, Proposed(states[new], states[old], others, 0.0))
        if pair is None or not np.isfinite(pair.terms).all():
            return np.inf, passes  # impossible beside the present values of the others: it has moved
        passes += 1
        change = pair.terms.sum() / float(decider.parts.temperature.final) + pair.offset
        largest = max(largest, abs(change) / np.sqrt(len(states[old])))
        if largest > max(MOVEMENT):
            break
    return float(largest), passes
