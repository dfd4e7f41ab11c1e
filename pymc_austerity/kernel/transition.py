"""One compiled transition: propose, evaluate the prior, and read rows until the test decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba.typed import List

from pymc_austerity.acceptance import BAD_PRIOR, DECIDED, AcceptanceTest, Conclude, Question, RowReader, Terms
from pymc_austerity.acceptance.decision import TermsAt
from pymc_austerity.acceptance.moments import DrawNoise
from pymc_austerity.bounds import EvaluateBound, no_bound
from pymc_austerity.compile.addresses import n_rows_at
from pymc_austerity.compile.cache import built_once, njit_on_disk
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.likelihood import KnownSum, LinkedBothSides, LinkedDensity, LinkedLogPrior, Place, Surroundings
from pymc_austerity.likelihood.linked_functions import LinkedOneSide
from pymc_austerity.proposals import Propose
from pymc_austerity.rows import RowSource
from pymc_austerity.rows.sources import TotalRows

#: Places of the generators in their list.
PROPOSE, DECIDE, ROWS = 0, 1, 2


#: ``offset_of(theta_new, theta, log_q_ratio, surroundings)``: DECIDED or BAD_PRIOR, and the log ratio of prior,
#: proposal and proxy; −∞ where θ′ is impossible whatever the rows say.
OffsetOf = Callable[..., tuple[int, float]]
#: ``transition(theta, generators, given)``: the fields of an `Outcome`, given what `pack_generators` returns and
#: `TransitionArguments`; called by compiled code.
Transition = Callable[..., tuple[Any, ...]]


@njit_on_disk()
def pack_generators(propose: np.random.Generator, decide: np.random.Generator, rows: np.random.Generator) -> Any:
    """Return the generators of a chain as one list: numba takes eight microseconds to unbox each by itself."""
    packed = List()
    packed.append(propose)
    packed.append(decide)
    packed.append(rows)
    return packed


class Outcome(NamedTuple):
    """The outcome of one transition, or of several that make one draw.

    Of several, rows and looks are summed, `accepted` is the share accepted, and the rest is of the last.
    """

    theta: np.ndarray  # (D,): the next draw
    #: DECIDED, or that the log prior (BAD_PRIOR) or a row's log-likelihood (BAD_ROW) is not finite at the current
    #: point, that a row broke the bound on all rows (BAD_BOUND), or that no rows are left (ROWS_SPENT).
    status: int
    accepted: float
    #: Rows evaluated, each counted once whether at one end of the move or at both, those of a scan for a bound and
    #: those that the proposal read included.
    n_rows: int
    n_stages: int  # looks at the data
    #: Estimate of the log acceptance ratio of all rows, and its standard error (0 at full data).  Not a number where no
    #: row was read.
    log_ratio: float
    log_ratio_sd: float
    row: int  # the offending row where status is BAD_ROW or BAD_BOUND
    full_data: bool  # whether the decision was made on all rows
    threshold: float  # what `log_ratio` had to exceed; NaN where the test does not tell or did not have to decide


class TransitionArguments(NamedTuple):
    """The arguments of a transition beside θ and the generators.

    A list of generators inside a tuple would have numba find the type of all anew at each call, in 0.3 ms.
    """

    surroundings: Surroundings  # what the density depends on beside θ
    row_state: Any  # of the row source
    state: Any  # of the proposal
    looks: Any  # of the test
    bound_constants: Any  # of the bound on the rows


@built_once
def build_offset(log_prior: LinkedLogPrior, known_sum: KnownSum) -> OffsetOf:
    """Compile the part of a decision that needs no rows."""

    @njit
    def offset_of(theta_new, theta, log_q_ratio, around):  # type: ignore[no-untyped-def]
        prior = log_prior(around.links, theta, around.others, around.fixed)
        prior_new = log_prior(around.links, theta_new, around.others, around.fixed)
        if not np.isfinite(prior):
            return BAD_PRIOR, np.nan
        if not np.isfinite(prior_new) or log_q_ratio == -np.inf:
            return DECIDED, -np.inf
        offset = prior_new - prior + log_q_ratio
        known = known_sum(theta, around.others, around.expansion)
        offset += (known_sum(theta_new, around.others, around.expansion) - known) / around.temperature
        return DECIDED, offset

    return offset_of


@built_once
def build_terms(both_sides: LinkedBothSides) -> Terms:
    """Compile ``terms(numbers, at)``: both sides of the log ratio for some rows, at a `Place`."""

    @njit
    def terms(numbers, at):  # type: ignore[no-untyped-def]
        whole = numbers.astype(np.int64)
        return both_sides(at.links, at.theta_new, at.theta, at.others, at.centre, at.fixed, at.arrays, whole)

    return terms


@built_once
def _terms_at(one_side: LinkedOneSide) -> TermsAt:
    @njit
    def terms_at(numbers, theta, at):  # type: ignore[no-untyped-def]
        return one_side(at.links, theta, at.others, at.fixed, at.arrays, numbers.astype(np.int64))

    return terms_at


def build_transition(
    density: LinkedDensity, propose: Propose, test: AcceptanceTest, rows: RowSource, bound: EvaluateBound = no_bound
) -> Transition:
    """Compose a proposal, a test and a way to draw rows into one compiled function, which compiled code calls."""
    terms_at = None if density.one_side is None else _terms_at(density.one_side)
    conclude = test.for_rows(RowReader(build_terms(density.both_sides), rows, terms_at))
    offset_of = build_offset(density.log_prior, density.known_sum)
    return _transition_of(offset_of, density.expands, propose, bound, rows.n_total, test.draw_noise, conclude)


@built_once
def _transition_of(
    offset_of: OffsetOf,
    expands: bool,
    propose: Propose,
    bound: EvaluateBound,
    n_rows_of: TotalRows,
    draw_noise: DrawNoise,
    conclude: Conclude,
) -> Transition:
    # Python asks for several draws, or for one, by `RepeatedTransition`: to unpack the arguments takes long to compile.
    @njit
    def transition(theta, generators, given):  # type: ignore[no-untyped-def]
        around = given.surroundings
        n_total = n_rows_of(given.row_state, n_rows_at(around.arrays))
        scale = n_total / around.temperature
        noise = draw_noise(generators[DECIDE])
        theta_new, log_q_ratio, n_read = propose(generators[PROPOSE], theta, given.state, around)
        if not np.any(theta_new != theta):  # nothing moved, nothing to decide
            return Outcome(theta, DECIDED, False, n_read, 0, 0.0, 0.0, -1, False, np.nan)[:]
        status, offset = offset_of(theta_new, theta, log_q_ratio, around)
        if status == BAD_PRIOR or offset == -np.inf:
            sd = np.nan if status == BAD_PRIOR else 0.0
            return Outcome(theta, status, False, n_read, 0, offset, sd, -1, False, np.nan)[:]
        centre = around.expansion[0] if expands else around.others
        at = Place(around.links, theta_new, theta, around.others, centre, around.fixed, around.arrays)
        row_bound, n_scanned = bound(given.bound_constants, at)
        asked = Question(at, n_total, row_bound, offset, scale, noise)
        decision = conclude(generators[ROWS], given.row_state, given.looks, asked)
        return Outcome(
            theta_new if decision.accepted else theta, decision.status, decision.accepted,
            decision.n_rows + n_scanned + n_read, decision.n_stages, decision.log_ratio, decision.log_ratio_sd,
            decision.row, decision.full_data, decision.threshold,
        )[:]  # fmt: skip

    return transition
