"""One chain of a `Decider`: its generators, the state of its proposal, and how far it has come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pymc.step_methods.state import DataClassState, RandomGeneratorState, WithSamplingState, dataclass_state

from pymc_austerity.acceptance import WITH_REPLACEMENT, AcceptanceTest
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.kernel.generators import pack_generators
from pymc_austerity.kernel.starting_point import draw_start
from pymc_austerity.kernel.transition import Outcome
from pymc_austerity.rows import Share

if TYPE_CHECKING:
    from pymc_austerity.kernel.decider import Decider


@dataclass_state
class ChainState(DataClassState):
    """What a chain needs to go on where it stopped."""

    rng_propose: RandomGeneratorState
    rng_decide: RandomGeneratorState
    rng_rows: RandomGeneratorState
    state: Any
    n_steps: int
    rows_used: int


class Draw(NamedTuple):
    """What happened in the transitions of a draw, and the logarithm of the scale of the last proposal."""

    outcome: Outcome
    log_scale: float


class Streams(NamedTuple):
    """How far a chain has used its generators, and rows that are given once."""

    generators: tuple[Mapping[str, Any], ...]
    rows_used: int


class Chain(WithSamplingState):
    """Everything that changes while a chain runs.

    Parameters
    ----------
    decider : Decider
    rng : numpy.random.Generator
        From which the generators of proposing, deciding and drawing rows are spawned, and that of the start.

    Attributes
    ----------
    state : NamedTuple
        Of the proposal.
    looks : NamedTuple
        Of the test, at all rows.
    start : numpy.ndarray or None
        Where the chain starts, in place of the model's initial point; None where that is as good.
    n_steps : int
        Transitions so far, as counted by whoever runs the chain.
    """

    _state_class = ChainState

    def __init__(self, decider: Decider, rng: np.random.Generator):
        self.rng_propose, self.rng_decide, self.rng_rows, rng_start = rng.spawn(4)
        self.n_steps = 0
        self._packed: tuple[tuple[np.random.Generator, ...], Any] | None = None
        self.decider = decider
        # Of the numbers in the key of a generator one counts the chains of a run; the others are the same for all.
        key = getattr(rng.bit_generator.seed_seq, "spawn_key", ())
        self._share = Share(sum(key), np.zeros(1, np.int64))
        self._row_state = decider.row_source.state(len(decider.rows), self._share)
        self.looks = _looks_at_all(decider)
        self.reset_tuning()
        self.start = draw_start(decider, rng_start)

    @property
    def rows_used(self) -> int:
        """Rows that were read once and are not read again, of a source that gives each row once."""
        return int(self._share.drawn[0])

    @rows_used.setter
    def rows_used(self, n: int) -> None:
        self._share.drawn[0] = n

    def reset_tuning(self) -> None:
        """Take back all adaptation of the proposal."""
        self.state = self.decider.new_state()

    def decide_by(self, test: AcceptanceTest) -> None:
        """Decide from here on by the same test with other settings."""
        self.decider = replace(self.decider, test=test)
        self.looks = _looks_at_all(self.decider)

    def transition(self, theta: np.ndarray, others: np.ndarray, temperature: float, looks: Any = None) -> Outcome:
        """Propose and decide from flat vectors of the step's variables and of all others.

        Parameters
        ----------
        theta, others : numpy.ndarray
        temperature : float
        looks : NamedTuple, optional
            Looks in place of those of the test.
        """
        at = self._at(theta, others, temperature, looks)
        (theta,), (numbers,) = uninterrupted(self.decider.repeated, 1, 1, *at)
        return _outcome(theta, numbers.tolist(), bool)

    def draws(
        self, n_draws: int, n_transitions: int, theta: np.ndarray, others: np.ndarray, temperature: float
    ) -> list[Draw]:
        """Make draws of so many transitions each without returning to Python between them.

        Parameters
        ----------
        n_draws, n_transitions : int
        theta, others : numpy.ndarray
        temperature : float

        Returns
        -------
        list of Draw
            Of states that as many calls of `transition` come to; fewer where the last could not be made.
        """
        at = self._at(theta, others, temperature)
        thetas, numbers = uninterrupted(self.decider.repeated, n_draws, n_transitions, *at)
        return [Draw(_outcome(*found), found[1][-1]) for found in zip(thetas, numbers.tolist(), strict=True)]

    @property
    def streams(self) -> Streams:
        """How far the chain has come."""
        return Streams(tuple(rng.bit_generator.state for rng in self._rngs), self.rows_used)

    def go_back(self, streams: Streams) -> None:
        """Use again what was used since."""
        for rng, state in zip(self._rngs, streams.generators, strict=True):
            rng.bit_generator.state = state
        self.rows_used = streams.rows_used

    def _at(self, theta: np.ndarray, others: np.ndarray, temperature: float, looks: Any = None) -> tuple[Any, ...]:
        """Return what a compiled transition is called with."""
        decider = self.decider
        return (
            decider.links,
            theta,
            others,
            *decider.data_at,
            self._row_state,
            self.state,
            self.looks if looks is None else looks,
            temperature,
            self._generators(),
            decider.bound_constants,
            decider.expansion,
        )

    def adapt(self, outcome: Outcome) -> None:
        """Tune the proposal after a transition."""
        self.decider.move.adapt(self.state, outcome.theta, bool(outcome.accepted))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_row_state": None, "_packed": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._row_state = self.decider.row_source.state(len(self.decider.rows), self._share)

    @property
    def _rngs(self) -> tuple[np.random.Generator, ...]:
        return self.rng_propose, self.rng_decide, self.rng_rows

    def _generators(self) -> Any:
        rngs = self._rngs
        if self._packed is None or self._packed[0] != rngs:  # generators are equal where they are the same
            self._packed = rngs, pack_generators(*rngs)
        return self._packed[1]


def _outcome(theta: np.ndarray, numbers: Sequence[float], accepted_as: type[float] = float) -> Outcome:
    """Return what compiled code says in numbers."""
    status, accepted, n_rows, n_stages, log_ratio, sd, row, full, threshold, _ = numbers
    whole = int(status), accepted_as(accepted), int(n_rows), int(n_stages)
    return Outcome(theta, *whole, log_ratio, sd, int(row), bool(full), threshold)


def _looks_at_all(decider: Decider) -> Any:
    """Return the looks of the test at all rows."""
    return decider.test.looks(len(decider.rows) if decider.row_source.complete else WITH_REPLACEMENT)
