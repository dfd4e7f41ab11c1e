"""The `Decider`: everything that a decision needs, compiled."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numba import NumbaPerformanceWarning

from pymc_austerity.acceptance import AcceptanceTest
from pymc_austerity.bounds import Bound, EvaluateBound
from pymc_austerity.compile.addresses import Addresses
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.kernel.parts import Compiled, Parts
from pymc_austerity.kernel.repeated import RepeatedTransition
from pymc_austerity.kernel.reported import Reported
from pymc_austerity.kernel.transition import (
    OffsetOf,
    Transition,
    TransitionArguments,
    build_offset,
    build_transition,
    pack_generators,
)
from pymc_austerity.likelihood import Density, LinkedDensity, Links, Place, Surroundings, numba_options
from pymc_austerity.proposals import AdaptiveMetropolis, CrankNicolson, Move, Proposal, RandomWalk, SurrogateHMC, Target
from pymc_austerity.proxy import Prepared
from pymc_austerity.rows import RowSource, number_in_table

#: Rows of the transition that compiles everything before sampling starts.
WARM_UP_ROWS = 64
#: Above this many parameters a dense proposal covariance costs more than it gains by default.
_MAX_DENSE = 200
#: Proposals of moves between models, of which the first tenth is dropped.
_PROPOSALS = 100
#: A surrogate that accepts this share of independent draws from its normal approximation is as good as normal.
_NORMAL_ENOUGH = 0.9


class Proposed(NamedTuple):
    """A proposal: θ′, θ, the variables of other steps, and log q(θ|θ′) − log q(θ′|θ)."""

    theta_new: np.ndarray
    theta: np.ndarray
    others: np.ndarray
    log_q_ratio: float


@dataclass(frozen=True, eq=False)
class Decider:
    """A test, a proposal and a way to draw rows, compiled for one model and its data.

    Pickled by its parts; another process compiles for itself.
    """

    parts: Parts
    test: AcceptanceTest  # for rows as they are drawn
    move: Move
    row_source: RowSource
    density: Density  # as the test sees it: remainders where there is a proxy and the test reads a part of the rows
    linked: LinkedDensity  # the same, as compiled code asks for it
    bound: Bound  # on what the test sees
    bound_constants: tuple[Any, ...]
    evaluate_bound: EvaluateBound
    offset_of: OffsetOf
    transition: Transition
    compiled: Compiled
    proposal: Proposal  # that of the parts, or the one that was chosen for them

    @cached_property
    def repeated(self) -> RepeatedTransition:
        """The compiled loop over draws and transitions."""
        return RepeatedTransition(self.transition)

    @property
    def n_rows(self) -> int:
        """N, the rows of a sum over all rows, whether or not they are all stored."""
        return self.row_source.n_rows(len(self.parts.stored))

    @property
    def n_table(self) -> int:
        """Rows of the user's data: of the table behind a pool, and each of those that were merged into one."""
        return self.parts.stored.n_table if self.row_source.complete else self.n_rows

    @property
    def reported(self) -> Reported:
        """What a step reports of it."""
        passes = 0.0 if self.parts.prepared is None else self.parts.prepared.passes
        numbers = partial(number_in_table, self.parts.stored)
        test, moves = self.test, type(self.proposal).__name__
        return Reported(self.n_table, passes, test.error, self.row_source.called, numbers, moves, test.broken_bound)

    @cached_property
    def data_at(self) -> tuple[Addresses, Addresses]:
        """Addresses of the data that are not indexed by row, and of the rows."""
        return self.parts.likelihood.fixed_at(self.parts.fixed), self.parts.likelihood.rows_at(self.parts.stored.arrays)

    @property
    def expansion(self) -> Any:
        """The expansion of the proxy; nothing without one."""
        return () if self.parts.prepared is None else self.parts.prepared.expansion

    @property
    def row_inputs(self) -> tuple[np.ndarray, ...]:
        """What `density` takes before the rows: data that are not indexed by row, behind the centre of the proxy."""
        return (self.expansion[0], *self.parts.fixed) if self.density.expands else self.parts.fixed

    @cached_property
    def links(self) -> Links:
        """Addresses of the model's functions in this process."""
        links = self.linked.links._replace(**{name: r.address for name, r in self.move.reached.items()})
        if self.parts.prepared is None:
            return links
        return links._replace(prior_slope=self.compiled.surrogate.links.prior_slope)

    def surroundings(self, others: np.ndarray) -> Surroundings:
        """Return what the density depends on beside θ, at the temperature of the draws."""
        temperature = float(self.parts.temperature.final)
        return Surroundings(others, *self.data_at, temperature, self.expansion, self.links)

    def place(self, theta_new: np.ndarray, theta: np.ndarray, others: np.ndarray) -> Place:
        """Return a proposal, and what its rows are evaluated with."""
        centre = np.empty(0) if self.parts.prepared is None else self.parts.prepared.expansion.centre
        return Place(self.links, theta_new, theta, others, centre, *self.data_at)

    def new_state(self) -> Any:
        """Return the state of the proposal at the start of a chain."""
        blocks = self.parts.likelihood.blocks
        discrete = np.repeat([np.dtype(b.dtype).kind in "iub" for b in blocks], [b.stop - b.start for b in blocks])
        return self.move.make_state(self.parts.theta0, discrete, self.n_table)

    def propose(self, theta: np.ndarray, others: np.ndarray, state: Any, rng: np.random.Generator) -> Proposed:
        """Propose from θ with a state of the proposal."""
        around = self.surroundings(others)
        theta_new, log_q_ratio, _ = uninterrupted(self.move.propose, rng, theta, state, around)
        return Proposed(theta_new, theta, others, float(log_q_ratio))

    def draws_of_surrogate(self) -> np.ndarray:
        """Return draws of θ, shape (k, D); where coefficients are selected, by moves between models."""
        assert self.parts.prepared is not None
        if self.compiled.selected is None:
            return self.parts.prepared.draws
        rng, state, draws = np.random.default_rng(0), self.new_state(), [self.parts.theta0]
        for _ in range(_PROPOSALS):
            draws.append(self.propose(draws[-1], self.parts.others0, state, rng).theta_new)
        return np.array(draws[_PROPOSALS // 10 :])

    def __reduce__(self) -> Any:
        return _assemble_again, (self.parts, self.test, self.bound_constants)


def _assemble_again(parts: Parts, test: AcceptanceTest, bound_constants: tuple[Any, ...]) -> Decider:
    """Assemble a decider in another process, from what has been learnt already."""
    return replace(complete(parts, bound_constants, Compiled(parts)), test=test)


def complete(parts: Parts, bound_constants: tuple[Any, ...] | None, compiled: Compiled) -> Decider:
    """Choose what goes with the proxy, or with none, and compile the transition."""
    test, prepared = parts.test, parts.prepared
    bound, row_source, density, surrogate = parts.bound_of_seen, test.rows, None, None
    if prepared is not None:
        surrogate = compiled.surrogate
        if prepared.table is not None:
            test, row_source = test.with_replacement(), prepared.table.source()
        if test.reads.a_part:
            remainders = compiled.remainders(prepared.bent, prepared.order)
            density = remainders if compiled.selected is None else compiled.selected.at_theta(remainders)
    density = density or compiled.density
    proposal = parts.proposal or _default_proposal(parts.theta0.size, prepared)
    options = numba_options(parts.compile_kwargs)
    with quiet_compilation():
        move = proposal.for_model(
            Target(parts.likelihood, prepared, test.probability(0.0), options, surrogate, parts.fixed)
        )
        if move.reads_rows and not row_source.complete:
            raise ValueError(f"data= does not go with proposal={proposal!r}, which reads rows of its own.")
        bound_constants = bound_constants or bound.constants(parts.stored, parts.fixed)
        evaluate_bound = bound.build(bound_constants)
        if compiled.selected is not None and bound.reads_theta:
            evaluate_bound = compiled.selected.bound_at_theta(evaluate_bound)
        row_source = bound.row_source(bound_constants) or row_source
        row_source = row_source.for_points(parts.theta0.size + parts.others0.size)
        linked = density.linked(parts.likelihood)
        transition = build_transition(linked, move.propose, test, row_source, evaluate_bound)
        decider = Decider(
            parts, test, move, row_source, density, linked, bound, bound_constants, evaluate_bound,
            build_offset(linked.log_prior, linked.known_sum), transition, compiled, proposal,
        )  # fmt: skip
        _warm_up(decider)
    return decider


def _default_proposal(dimension: int, prepared: Prepared | None) -> Proposal:
    """Return a walk without a proxy, and with one the cheaper move where the surrogate is as good as normal."""
    if prepared is None:
        return AdaptiveMetropolis() if dimension <= _MAX_DENSE else RandomWalk()
    is_normal = prepared.normality >= _NORMAL_ENOUGH and not prepared.move.scales.place.size
    return CrankNicolson() if is_normal else SurrogateHMC()


def _warm_up(decider: Decider) -> None:
    """Compile by running a transition once on a few rows, so that forked chains inherit the code."""
    parts, state = decider.parts, decider.new_state()
    arrays = parts.stored.some(WARM_UP_ROWS)
    n_rows = len(arrays[0])
    around = decider.surroundings(parts.others0)._replace(arrays=parts.likelihood.rows_at(arrays))
    given = TransitionArguments(
        around, decider.row_source.state(n_rows), state, decider.test.looks(n_rows), decider.bound_constants
    )
    generators = pack_generators(*np.random.default_rng(0).spawn(3))
    uninterrupted(decider.repeated, 1, 1, parts.theta0, generators, given)
    decider.move.adapt(state, parts.theta0, False)


@contextmanager
def quiet_compilation() -> Iterator[None]:
    """Silence what compilation says of PyTensor's derivatives, which no user can change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumbaPerformanceWarning)  # transposed products
        # Derivatives of log-gamma functions, for which PyTensor calls SciPy: slower, not wrong.
        warnings.filterwarnings("ignore", "Numba will use object mode", UserWarning)
        yield
