"""Proposals from drawn states, decided on all rows and, many times over, by the test that ran.

The terms l_i of all N rows are evaluated once a proposal.  The test then runs on them in the same compiled code as
when sampling, with a table of l_i in place of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pymc_austerity.acceptance import ACCEPT, Conclude, Moments, Question, RowReader
from pymc_austerity.acceptance.moments import NO_SHAPE, Decide, DrawNoise
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.diagnostics.measured_error import Repeats
from pymc_austerity.diagnostics.row_shape import RowShape, row_shape
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.kernel import Decider, Proposed
from pymc_austerity.likelihood import Density
from pymc_austerity.rows import CHUNK

#: The standard deviation of what a proxy leaves of a row, times N, from which on it matters to a decision: of this a
#: hundred rows estimate the sum to within 0.01.
_MATTERS = 0.1


class Pair(NamedTuple):
    """A proposal with everything that its decision depends on."""

    #: l_i of every row, or of what a proxy leaves of it; −∞ for a row that is impossible under θ′.
    terms: np.ndarray
    #: Log ratio of all that needs no rows: prior, proposal and proxy.
    offset: float
    #: A number no |l_i| exceeds, for tests that ask for one.
    bound: Any

    def reverse(self) -> Pair | None:
        """Return the proposal back to where this one came from; None where a row forbids to be there."""
        return Pair(-self.terms, -self.offset, self.bound) if np.isfinite(self.terms).all() else None


def evaluate_pair(decider: Decider, proposed: Proposed) -> Pair | None:
    """Evaluate all rows at a proposal, or return None where it needs no row: it stayed in place or has no prior."""
    theta_new, theta, others, log_q_ratio = proposed
    if not np.any(theta_new != theta):
        return None
    around = decider.surroundings(others)
    _, offset = uninterrupted(decider.offset_of, theta_new, theta, log_q_ratio, around)
    if not np.isfinite(offset):
        return None
    terms = _all_rows(decider, decider.density, proposed, decider.row_inputs)
    at = decider.place(theta_new, theta, others)
    return Pair(terms, float(offset), uninterrupted(decider.evaluate_bound, decider.bound_constants, at)[0])


def _all_rows(decider: Decider, density: Density, proposed: Proposed, inputs: Any) -> np.ndarray:
    """Return l_i of every row, −∞ for a row that is impossible under θ′; of a pool, times what a row stands for."""
    theta_new, theta, others, _ = proposed
    arrays, counts = decider.parts.stored.arrays, decider.row_source.counts
    terms = np.empty(len(arrays[0]))
    for start in range(0, terms.size, CHUNK):
        stop = min(start + CHUNK, terms.size)
        batch = tuple(np.array(a[start:stop], order="C") for a in arrays)
        new, old = uninterrupted(density.both_sides, theta_new, theta, others, *inputs, *batch)
        terms[start:stop] = np.where(np.isfinite(new), new - old, -np.inf)
    return terms if counts is None else terms * counts


def moments_of(pair: Pair) -> tuple[float, float]:
    """Return the sum and the variance of the row terms of a proposal, NaN where a row is impossible."""
    return (float(pair.terms.sum()), float(pair.terms.var())) if np.isfinite(pair.terms).all() else (np.nan, np.nan)


def against_rows(decider: Decider, proposals: Sequence[tuple[Proposed, tuple[float, float]]]) -> tuple[float, float]:
    """Compare a proxy with the rows as the model has them, at proposals each with the `moments_of` what is left there.

    Return the variance of the row terms that the proxy leaves over their variance without it, the median of proposals,
    zero where it changes no decision, and the largest error of a log ratio by what it knows of the sum over all rows;
    NaN where not all rows are at hand.
    """
    raw, known_sum, ratios, errors = decider.compiled.density, decider.density.known_sum, [], [np.nan]
    for proposed, (total_left, left) in proposals:
        theta_new, theta, others, _ = proposed
        whole = _all_rows(decider, raw, proposed, decider.parts.fixed)
        if not (np.isfinite(left) and np.isfinite(whole).all()):
            continue
        if whole.var() > 0:
            ratios.append(left / whole.var() if whole.size * np.sqrt(left) > _MATTERS else 0.0)
        if decider.row_source.counts is None:  # the rows of a pool are a sample
            new, old = (uninterrupted(known_sum, of, others, decider.expansion) for of in (theta_new, theta))
            errors.append(abs(whole.sum() - total_left - (new - old)) / float(decider.parts.temperature.final))
    return float(np.median(ratios)) if ratios else np.nan, float(np.fmax.reduce(errors))


def pair_shape(decider: Decider, pair: Pair) -> RowShape:
    """Return the shape of the row terms of a proposal as the step draws rows."""
    finite, weights = np.isfinite(pair.terms), decider.row_source.weights
    if weights is None:
        return row_shape(pair.terms[finite])
    return row_shape(np.where(finite, pair.terms, 0.0), weights)


@njit
def _look_up(numbers, terms):  # type: ignore[no-untyped-def]
    """Return the terms of some rows as one side of the log ratio, and zero as the other."""
    found = np.empty(numbers.size)
    for k in range(numbers.size):
        found[k] = terms[numbers[k]]
    return found, np.zeros(found.size)


class RepeatedTest:
    """The test of a step, to be run many times on the same proposal."""

    def __init__(self, decider: Decider, rng: np.random.Generator):
        self._test, self._temperature = decider.test, float(decider.parts.temperature.final)
        self._row_state = decider.row_source.state(len(decider.parts.stored))
        self._rng = rng
        conclude = decider.test.for_rows(RowReader(_look_up, decider.row_source))
        self._loop = _repeats(conclude, decider.test.decide, decider.test.draw_noise)

    def __call__(self, pair: Pair, n: int, looks: Any) -> Repeats:
        """Run the test `n` times, with the looks that it had in a chain."""
        rng_decide = np.random.default_rng(int(self._rng.integers(2**63)))
        counts = uninterrupted(self._loop, n, *pair, self._row_state, looks, self._temperature, self._rng, rng_decide)
        return Repeats(n, *counts)

    def log_ratio(self, pair: Pair) -> float:
        """Return the log acceptance ratio of all rows."""
        return float(pair.terms.sum()) / self._temperature + pair.offset

    def exact(self, log_ratio: float) -> float:
        """Return the acceptance probability at a log ratio of all rows."""
        return float(self._test.probability(log_ratio)) if np.isfinite(log_ratio) else 0.0

    def both_ways(self, pair: Pair, n: int, looks: Any) -> tuple[Repeats, Repeats | None]:
        """Run the test `n` times on a proposal and `n` times on its reverse."""
        back = pair.reverse()
        return self(pair, n, looks), None if back is None else self(back, n, looks)


@built_once
def _repeats(conclude: Conclude, decide: Decide, draw_noise: DrawNoise) -> Callable[..., Any]:
    @njit
    def loop(n, terms, offset, row_bound, row_state, looks, temperature, rng_rows, rng_decide):  # type: ignore[no-untyped-def]
        n_total, scale, last = terms.size, terms.size / temperature, looks.sizes.size - 1
        everything = Moments(n_total, n_total, terms.mean(), terms.std(), row_bound, NO_SHAPE)
        accepted, exact, both, rows_read, partial, partial_rows = 0, 0, 0, 0, 0, 0
        for _ in range(n):
            noise = draw_noise(rng_decide)
            decision = conclude(rng_rows, row_state, looks, Question(terms, n_total, row_bound, offset, scale, noise))
            yes = decide(looks, last, everything, offset, scale, noise) == ACCEPT
            accepted += decision.accepted
            exact += yes
            both += yes and decision.accepted
            rows_read += decision.n_rows
            if not decision.full_data:
                partial += 1
                partial_rows += decision.n_rows
        return accepted, exact, both, rows_read, partial, partial_rows

    return loop
