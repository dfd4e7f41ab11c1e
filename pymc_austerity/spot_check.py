"""Proposals from drawn states, decided on all rows and, many times over, by the test that ran.

The terms l_i of all N rows are evaluated once a proposal.  The test then runs on them in the same compiled
transition as when sampling, with a table of l_i in place of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit

from pymc_austerity.acceptance import ACCEPT, Moments
from pymc_austerity.compile_cache import cached
from pymc_austerity.kernel import Density, build_transition, compile_density, no_bound
from pymc_austerity.measured_error import Repeats
from pymc_austerity.moments import NO_SHAPE
from pymc_austerity.proposals import RowMove, Surroundings
from pymc_austerity.row_shape import RowShape, row_shape
from pymc_austerity.surrogate import SurrogateState
from pymc_austerity.weights import AliasTable

if TYPE_CHECKING:
    from pymc_austerity.row_step import RowStep

_CHUNK = 8192


class Proposed(NamedTuple):
    """A proposal: θ′, θ, the variables of other steps, and log q(θ|θ′) − log q(θ′|θ)."""

    theta_new: np.ndarray
    theta: np.ndarray
    others: np.ndarray
    log_q_ratio: float


class Pair(NamedTuple):
    """A proposal with everything that its decision depends on.

    Attributes
    ----------
    terms : numpy.ndarray, shape (N,)
        l_i of every row, or of what a proxy leaves of it; −∞ for a row that is impossible under θ′.
    offset : float
        Log ratio of all that needs no rows: prior, proposal and proxy.
    bound : float
        A number no |l_i| exceeds, for tests that ask for one.
    """

    terms: np.ndarray
    offset: float
    bound: float


def propose_from(step: RowStep, walk: Any, theta: np.ndarray, others: np.ndarray, rng: np.random.Generator) -> Proposed:
    """Propose from θ with a tuned proposal."""
    if isinstance(walk, SurrogateState):
        walk.others[:] = others
        walk.temperature[0] = float(step.temperature.final)
    if isinstance(step.proposal, RowMove):
        surroundings = Surroundings(others, *step.data, float(step.temperature.final), step.expansion)
        theta_new, log_q_ratio, _ = step.proposal.propose(rng, theta, walk, surroundings)
    else:
        theta_new, log_q_ratio = step.proposal.propose(rng, theta, walk)
    return Proposed(theta_new, theta, others, float(log_q_ratio))


def evaluate_pair(step: RowStep, proposed: Proposed) -> Pair | None:
    """Evaluate all rows at a proposal, or return None where it needs no row: it stayed in place or has no prior."""
    theta_new, theta, others, log_q_ratio = proposed
    density, expansion = step.density, step.expansion
    fixed, arrays = step.data
    if not np.any(theta_new != theta):
        return None
    prior, prior_new = (density.log_prior(t, others, *fixed)[0].item() for t in (theta, theta_new))
    if not np.isfinite(prior_new) or log_q_ratio == -np.inf:
        return None
    known = density.known_sum(theta_new, others, expansion) - density.known_sum(theta, others, expansion)
    offset = prior_new - prior + log_q_ratio + known / float(step.temperature.final)
    row_inputs = (expansion[0], *fixed) if density.expands else fixed
    terms = _all_rows(density, theta_new, theta, others, row_inputs, arrays)
    return Pair(terms, float(offset), step.bound_at(theta_new, theta, others))


def _all_rows(
    density: Density, theta_new: np.ndarray, theta: np.ndarray, others: np.ndarray, inputs: Any, arrays: Any
) -> np.ndarray:
    terms = np.empty(len(arrays[0]))
    for start in range(0, terms.size, _CHUNK):
        stop = min(start + _CHUNK, terms.size)
        batch = tuple(np.array(a[start:stop], order="C") for a in arrays)
        new, old = density.both_sides(theta_new, theta, others, *inputs, *batch)
        terms[start:stop] = np.where(np.isfinite(new), new - old, -np.inf)
    return terms


def variance_left(step: RowStep, proposals: Sequence[Proposed]) -> float:
    """Return the variance of the row terms that a proxy leaves over their variance without it (median of proposals)."""
    raw = compile_density(step.likelihood)
    fixed, arrays = step.data
    ratios = []
    for proposed in proposals:
        pair = evaluate_pair(step, proposed)
        whole = _all_rows(raw, proposed.theta_new, proposed.theta, proposed.others, fixed, arrays)
        if pair is not None and np.isfinite(whole).all() and whole.var() > 0:
            ratios.append(pair.terms.var() / whole.var())
    return float(np.median(ratios)) if ratios else float("nan")


def pair_shape(step: RowStep, pair: Pair) -> RowShape:
    """Return the shape of the row terms of a proposal as the step draws rows."""
    finite = np.isfinite(pair.terms)
    state = step.row_source.state(len(pair.terms)) if step.row_source.weighted else None
    if not isinstance(state, AliasTable):
        return row_shape(pair.terms[finite])
    return row_shape(np.where(finite, pair.terms, 0.0), state.weight)


class _Fixed(NamedTuple):
    log_q_ratio: float


@njit
def _propose(rng, theta, state):  # type: ignore[no-untyped-def]
    return theta + 1.0, state.log_q_ratio


@njit
def _nothing(theta, others):  # type: ignore[no-untyped-def]
    return (np.zeros(()),)


@njit
def _look_up(theta_new, theta, others, terms):  # type: ignore[no-untyped-def]
    return terms, np.zeros(terms.size)


@njit
def _known_bound(constants, theta_new, theta, others, fixed, arrays):  # type: ignore[no-untyped-def]
    return constants[0], 0


class _ProposeOnce:
    """A proposal whose log ratio is known beforehand."""

    propose = staticmethod(_propose)


class RepeatedTest:
    """The test of a step, to be run many times on the same proposal.

    Parameters
    ----------
    step : RowStep
    rng : numpy.random.Generator
    """

    def __init__(self, step: RowStep, rng: np.random.Generator):
        self._test, self._temperature = step.test, float(step.temperature.final)
        n_rows = len(step.data[1][0])
        self._row_state = step.row_source.state(n_rows)
        self._rng = rng
        bound = _known_bound if step.is_bounded else no_bound
        self._loop = _repeats(step.test, step.row_source, bound)

    def __call__(self, pair: Pair, n: int, stages: Any) -> Repeats:
        """Run the test `n` times, with the looks that it had in a chain."""
        seed = int(self._rng.integers(2**63))
        decide, twin = np.random.default_rng(seed), np.random.default_rng(seed)
        counts = self._loop(
            n, pair.terms, pair.offset, self._row_state, stages, self._temperature, pair.bound,
            self._rng, decide, twin,
        )  # fmt: skip
        return Repeats(n, *counts)

    def exact(self, pair: Pair) -> tuple[float, float]:
        """Return the log acceptance ratio of all rows, and the acceptance probability."""
        log_ratio = float(pair.terms.sum()) / self._temperature + pair.offset
        return log_ratio, float(self._test.probability(log_ratio)) if np.isfinite(log_ratio) else 0.0


#: Compiled loops by the compiled parts that they are made of.
_LOOPS: dict[tuple[Any, ...], Callable[..., Any]] = {}


def _repeats(test: Any, rows: Any, bound: Callable[..., Any]) -> Callable[..., Any]:
    parts = (test.decide, test.draw_noise, test.reads_shape, rows.draw, rows.restore, rows.weigh, rows.weighted, bound)
    if parts not in _LOOPS:
        _LOOPS[parts] = _compile_repeats(test, rows, bound)
    return _LOOPS[parts]


def _compile_repeats(test: Any, rows: Any, bound: Callable[..., Any]) -> Callable[..., Any]:
    density = Density(_nothing, _look_up)
    transition = build_transition(density, (1,), _ProposeOnce(), test, rows, bound)  # type: ignore[arg-type]
    decide, draw_noise = test.decide, test.draw_noise

    @njit
    def loop(n, terms, offset, row_state, stages, temperature, row_bound, rng, rng_decide, rng_twin):  # type: ignore[no-untyped-def]
        theta, none = np.zeros(1), np.zeros(0)
        n_total, last = terms.size, stages.sizes.size - 1
        everything = Moments(n_total, n_total, terms.mean(), terms.std(), row_bound, NO_SHAPE)
        accepted, exact, both, rows_read, partial, partial_rows = 0, 0, 0, 0, 0, 0
        for _ in range(n):
            noise = draw_noise(rng_twin)  # the number that the transition is about to draw
            outcome = transition(
                theta, none, (), (terms,), row_state, _Fixed(offset), stages, temperature, rng, rng_decide, rng,
                (row_bound,), (),
            )  # fmt: skip
            yes = decide(stages, last, everything, offset, n_total / temperature, noise) == ACCEPT
            accepted += outcome[2]
            exact += yes
            both += yes and outcome[2]
            rows_read += outcome[3]
            if not outcome[8]:
                partial += 1
                partial_rows += outcome[3]
        return accepted, exact, both, rows_read, partial, partial_rows

    return cached(loop)
