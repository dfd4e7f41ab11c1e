"""One chain of a `Decider`: its generators, the state of its proposal, and its start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from pymc.step_methods.state import DataClassState, RandomGeneratorState, WithSamplingState, dataclass_state

from pymc_austerity.acceptance import DECIDED, AcceptanceTest
from pymc_austerity.acceptance.by_looks import WITH_REPLACEMENT
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.kernel.transition import Outcome, TransitionArguments, pack_generators
from pymc_austerity.likelihood import Surroundings
from pymc_austerity.rows import Share
from pymc_austerity.rows.by_bounds import PooledByBounds

if TYPE_CHECKING:
    from pymc_austerity.kernel.decider import Decider

#: Proposals in a row that lead to a starting point among sub-models; and how many of them lead away from any start.
_STARTING_PROPOSALS, _LEAD_AWAY = 20, 5
#: How much further out, in draws, a chain may be after its first steps.
_ROOM = 0.5
#: Times that a start is taken half as far from the centre, and rows that say where the posterior is.
NEARER, _ROWS = 5, 10_000


@dataclass_state
class ChainState(DataClassState):
    """The state that a chain resumes from."""

    rng_propose: RandomGeneratorState
    rng_decide: RandomGeneratorState
    rng_rows: RandomGeneratorState
    state: Any
    n_steps: int
    rows_used: int


class Draw(NamedTuple):
    """The outcome of the transitions of a draw."""

    outcome: Outcome
    log_scale: float  # logarithm of the scale of the last proposal
    more: Mapping[str, Any] = MappingProxyType({})  # statistics that only some chains have


class Streams(NamedTuple):
    """The state of the generators of a chain, and the rows of a pool that it has used."""

    generators: tuple[Mapping[str, Any], ...]
    rows_used: int


class AnyChain(WithSamplingState):
    """What changes while a chain runs, whatever decides: generators, and a state that tuning changes.

    `rng` is that from which the generators of proposing, deciding and drawing rows are spawned, and that of the start;
    `start` is where the chain starts, in place of the model's initial point, or None where that is as good; `n_steps`
    counts the draws so far, by whoever runs the chain.
    """

    _state_class = ChainState
    runs_ahead: ClassVar[bool]  # whether many draws are made in one compiled call
    rows_used = 0
    start: np.ndarray | None
    state: Any

    def __init__(self, decider: Any, rng: np.random.Generator):
        self.rng_propose, self.rng_decide, self.rng_rows, self._rng_start = rng.spawn(4)
        self.n_steps = 0
        self._packed: tuple[tuple[np.random.Generator, ...], Any] | None = None
        self.decider = decider
        self.reset_tuning()

    def reset_tuning(self) -> None:
        """Take back all adaptation."""
        self.state = self.decider.new_state()

    @property
    def _rngs(self) -> tuple[np.random.Generator, ...]:
        return self.rng_propose, self.rng_decide, self.rng_rows

    def _generators(self) -> Any:
        rngs = self._rngs
        if self._packed is None or self._packed[0] != rngs:  # generators are equal where they are the same
            self._packed = rngs, pack_generators(*rngs)
        return self._packed[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed": None}


class Chain(AnyChain):
    """One chain of a `Decider`: its state is that of the proposal, and `looks` are those of the test at all rows."""

    decider: Decider
    runs_ahead = True

    def __init__(self, decider: Decider, rng: np.random.Generator):
        super().__init__(decider, rng)
        # Of the numbers in the key of a generator one counts the chains of a run; the others are the same for all.
        key = getattr(rng.bit_generator.seed_seq, "spawn_key", ())
        self._share = Share(sum(key), np.zeros(1, np.int64))
        self._row_state = decider.row_source.state(len(decider.parts.stored), self._share)
        self.looks = _looks_at_all(decider)
        self.start = draw_start(decider, self._rng_start)

    @property
    def rows_used(self) -> int:
        """Rows that were read once and are not read again, of a source that gives each row once."""
        return int(self._share.drawn[0])

    @rows_used.setter
    def rows_used(self, n: int) -> None:
        self._share.drawn[0] = n

    def decide_by(self, test: AcceptanceTest) -> None:
        """Decide from here on by the same test with other settings."""
        self.decider = replace(self.decider, test=test)
        self.looks = _looks_at_all(self.decider)

    def transition(self, theta: np.ndarray, others: np.ndarray, temperature: float, looks: Any = None) -> Outcome:
        """Decide on a proposal from flat vectors of the step's variables and of others; `looks` replace the test's."""
        given = self._arguments(others, temperature, looks)
        (theta,), (numbers,) = uninterrupted(self.decider.repeated, 1, 1, theta, self._generators(), given)
        return _outcome(theta, numbers.tolist(), bool)

    def tuning_draw(self, theta: np.ndarray, others: np.ndarray, temperature: float, adapts: bool) -> Draw:
        """Make one transition, and tune the proposal by it if the chain `adapts`."""
        outcome = self.transition(theta, others, temperature)
        if adapts and outcome.status == DECIDED:
            self.adapt(outcome)
        return Draw(outcome, self.state.log_scale[0])

    def draws(
        self, n_draws: int, n_transitions: int, theta: np.ndarray, others: np.ndarray, temperature: float
    ) -> list[Draw]:
        """Make draws of so many transitions each; fewer where the last could not be made."""
        given = self._arguments(others, temperature)
        thetas, numbers = uninterrupted(self.decider.repeated, n_draws, n_transitions, theta, self._generators(), given)
        return [Draw(_outcome(*found), found[1][-1]) for found in zip(thetas, numbers.tolist(), strict=True)]

    @property
    def streams(self) -> Streams:
        """The state of the generators, and the rows used."""
        return Streams(tuple(rng.bit_generator.state for rng in self._rngs), self.rows_used)

    def go_back(self, streams: Streams) -> None:
        """Set generators and rows used back to an earlier state."""
        for rng, state in zip(self._rngs, streams.generators, strict=True):
            rng.bit_generator.state = state
        self.rows_used = streams.rows_used

    def _arguments(self, others: np.ndarray, temperature: float, looks: Any = None) -> TransitionArguments:
        decider, looks = self.decider, self.looks if looks is None else looks
        around = Surroundings(others, *decider.data_at, temperature, decider.expansion, decider.links)
        constants = decider.bound_constants
        return TransitionArguments(around, self._row_state, self.state, looks, constants)

    def adapt(self, outcome: Outcome) -> None:
        """Tune the proposal after a transition."""
        self.decider.move.adapt(self.state, outcome.theta, bool(outcome.accepted))

    def stop_tuning(self) -> None:
        """Leave the proposal as it is: it has learnt from every draw already."""

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_row_state": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._row_state = self.decider.row_source.state(len(self.decider.parts.stored), self._share)


def _outcome(theta: np.ndarray, numbers: Sequence[float], accepted_as: type[float] = float) -> Outcome:
    """Return the numbers of a draw as an `Outcome`."""
    status, accepted, n_rows, n_stages, log_ratio, sd, row, full, threshold, _ = numbers
    whole = int(status), accepted_as(accepted), int(n_rows), int(n_stages)
    return Outcome(theta, *whole, log_ratio, sd, int(row), bool(full), threshold)


def _looks_at_all(decider: Decider) -> Any:
    """Return the looks of the test at all rows."""
    return decider.test.looks(len(decider.parts.stored) if decider.row_source.complete else WITH_REPLACEMENT)


def draw_start(decider: Decider, rng: np.random.Generator) -> np.ndarray | None:
    """Draw a start further from the centre than a draw would be, so that R-hat can tell chains apart.

    Nearer where the log posterior is far lower than at the mode, as in the tails of a horseshoe: twice as far in the
    logarithm of a scale is the square of it.  And where nothing but all rows could decide, of which there are none, or
    where every trajectory is too coarse for the slope of the surrogate.
    """
    if decider.parts.prepared is None:
        return None
    if decider.compiled.selected is not None:  # only the surrogate knows which coefficients to start with
        theta, state, around = decider.parts.theta0, decider.new_state(), decider.surroundings(decider.parts.others0)
        for _ in range(_STARTING_PROPOSALS):
            theta = uninterrupted(decider.move.propose, rng, theta, state, around)[0]
        return theta
    draws = decider.parts.prepared.draws
    mean = draws.mean(axis=0)
    further = further_start(mean.size)
    away = draws[rng.integers(len(draws))] - mean
    for nearer in range(NEARER):
        start = mean + further / 2**nearer * away
        near_enough = _fall(decider, start) < largest_fall(mean.size, further)
        if near_enough and _is_left(decider, start) and _is_decided(decider, start + _ROOM * away):
            return start
    return decider.parts.prepared.expansion.centre[: mean.size].copy()


def _is_left(decider: Decider, theta: np.ndarray) -> bool:
    """Whether the proposal leads away from a place, a quarter of the time at least."""
    rng, state = np.random.default_rng(1980), decider.new_state()
    tried = (decider.propose(theta, decider.parts.others0, state, rng) for _ in range(_STARTING_PROPOSALS))
    return sum((of.theta_new != theta).any() for of in tried) >= _LEAD_AWAY


def _is_decided(decider: Decider, theta: np.ndarray) -> bool:
    """Whether rows of a pool can decide there, as far as that depends on the place."""
    if not isinstance(decider.row_source, PooledByBounds):
        return True
    at = decider.place(theta, theta, decider.parts.others0)
    return bool(np.isfinite(uninterrupted(decider.evaluate_bound, decider.bound_constants, at)[0]))


def further_start(size: int) -> float:
    """Return how many times further from the centre than a draw a chain of that many parameters starts.

    Twice as far in up to ten dimensions; twice as far in 800 is sixty standard deviations of the log density away, a
    place that a proxy knows nothing about and that no proposal leads back from.
    """
    return float(np.sqrt(1 + 3 * np.sqrt(10 / max(10, size))))


def largest_fall(size: int, further: float) -> float:
    """Return how much lower than at the mode the log posterior may be where a chain of that many parameters starts."""
    return 50 + 10 * further**2 * size


def _fall(decider: Decider, start: np.ndarray) -> float:
    """Return how much lower than at the mode the log posterior is, or the surrogate where that falls by more.

    What the proxy leaves is estimated from some rows; far out, where it is large, the surrogate says enough.
    """
    assert decider.parts.prepared is not None
    others, stored, counts = decider.parts.others0, len(decider.parts.stored), decider.row_source.counts
    numbers = np.sort(np.random.default_rng(1980).choice(stored, min(_ROWS, stored), replace=False))
    rows = decider.parts.stored.take(numbers).arrays
    mode, around = decider.parts.prepared.expansion.centre[: start.size], decider.surroundings(others)
    _, offset = uninterrupted(decider.offset_of, start, mode, 0.0, around)
    inputs = (decider.expansion[0], *decider.parts.fixed) if decider.density.expands else decider.parts.fixed
    new, old = uninterrupted(decider.density.both_sides, start, mode, others, *inputs, *rows)
    with np.errstate(invalid="ignore"):
        total = ((new - old) * (1.0 if counts is None else counts[numbers])).mean() * stored
        fall = -offset - total / around.temperature
    return float(max(fall, -offset)) if np.isfinite(fall) else np.inf
