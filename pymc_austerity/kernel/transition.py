"""One compiled transition: propose, evaluate what needs no rows, and let the test read rows until it decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from pymc_austerity.acceptance import BAD_PRIOR, DECIDED, AcceptanceTest, Conclude, DrawNoise, RowReader, Terms, TermsAt
from pymc_austerity.bounds import EvaluateBound, no_bound
from pymc_austerity.compile.addresses import Addresses, n_rows_at
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.kernel.generators import DECIDE, PROPOSE, ROWS
from pymc_austerity.likelihood import (
    KnownSum,
    LinkedBothSides,
    LinkedDensity,
    LinkedLogPrior,
    LinkedOneSide,
    Links,
    Place,
    Surroundings,
)
from pymc_austerity.proposals import Propose
from pymc_austerity.rows import RowSource, TotalRows


class Outcome(NamedTuple):
    """What happened in one transition, or in several that make one draw.

    Of several, rows and looks are those of all together, `accepted` is the share of them that were accepted, and all
    that is told of a decision is told of the last.

    Attributes
    ----------
    theta : numpy.ndarray, shape (D,)
        The next draw.
    status : int
        DECIDED, or that the log prior (BAD_PRIOR) or a row's log-likelihood (BAD_ROW) is not finite at the
        current point, that a row broke the bound on all rows (BAD_BOUND), or that no rows are left (ROWS_SPENT).
    accepted : bool or float
    n_rows : int
        Rows evaluated, each counted once whether at one end of the move or at both, those of a scan for a bound and
        those that the proposal read included.
    n_stages : int
        Looks at the data.
    log_ratio, log_ratio_sd : float
        Estimate of the log acceptance ratio of all rows, and its standard error (0 at full data).  Not a number where
        no row was read.
    row : int
        The offending row where status is BAD_ROW or BAD_BOUND.
    full_data : bool
        Whether the decision was made on all rows.
    threshold : float
        What `log_ratio` had to exceed; NaN where the test does not tell or did not have to decide.
    """

    theta: np.ndarray
    status: int
    accepted: float
    n_rows: int
    n_stages: int
    log_ratio: float
    log_ratio_sd: float
    row: int
    full_data: bool
    threshold: float


class OffsetOf(Protocol):
    """The part of a decision that needs no rows, compiled."""

    def __call__(
        self,
        links: Links,
        theta_new: np.ndarray,
        theta: np.ndarray,
        log_q_ratio: float,
        others: np.ndarray,
        fixed: Addresses,
        temperature: float,
        expansion: Any,
    ) -> tuple[int, float]:
        """Return DECIDED or BAD_PRIOR, and the log ratio of prior, proposal and proxy.

        It is −∞ where θ′ is impossible whatever the rows say.
        """
        ...


class Transition(Protocol):
    """A proposal and its decision, compiled, for compiled code alone."""

    def __call__(
        self,
        links: Links,
        theta: np.ndarray,
        others: np.ndarray,
        fixed: Addresses,
        arrays: Addresses,
        row_state: Any,
        state: Any,
        looks: Any,
        temperature: float,
        generators: Any,
        bound_constants: Any,
        expansion: Any,
    ) -> tuple[Any, ...]:
        """Return the fields of an `Outcome`.

        The generators are given as `pack_generators` returns them.
        """
        ...


def build_offset(density: LinkedDensity) -> OffsetOf:
    """Compile the part of a decision that needs no rows."""
    return _offset_of(density.log_prior, density.known_sum)


@built_once
def _offset_of(log_prior: LinkedLogPrior, known_sum: KnownSum) -> OffsetOf:
    @njit
    def offset_of(links, theta_new, theta, log_q_ratio, others, fixed, temperature, expansion):  # type: ignore[no-untyped-def]
        prior = log_prior(links, theta, others, fixed)
        prior_new = log_prior(links, theta_new, others, fixed)
        if not np.isfinite(prior):
            return BAD_PRIOR, np.nan
        if not np.isfinite(prior_new) or log_q_ratio == -np.inf:
            return DECIDED, -np.inf
        offset = prior_new - prior + log_q_ratio
        offset += (known_sum(theta_new, others, expansion) - known_sum(theta, others, expansion)) / temperature
        return DECIDED, offset

    return offset_of


@njit
def _whole(numbers: np.ndarray) -> np.ndarray:
    """Return row numbers, which a source may keep in fewer bytes, as the model takes them."""
    whole = np.empty(numbers.size, np.int64)
    for k in range(numbers.size):
        whole[k] = numbers[k]
    return whole


@built_once
def build_terms(both_sides: LinkedBothSides) -> Terms:
    """Compile ``terms(numbers, at)``: both sides of the log ratio for some rows, at a `Place`."""

    @njit
    def terms(numbers, at):  # type: ignore[no-untyped-def]
        return both_sides(at.links, at.theta_new, at.theta, at.others, at.centre, at.fixed, at.arrays, _whole(numbers))

    return terms


@built_once
def _terms_at(one_side: LinkedOneSide) -> TermsAt:
    @njit
    def terms_at(numbers, theta, at):  # type: ignore[no-untyped-def]
        return one_side(at.links, theta, at.others, at.fixed, at.arrays, _whole(numbers))

    return terms_at


@built_once
def _centre_in(expands: bool) -> Callable[[Any, np.ndarray], np.ndarray]:
    @njit
    def centre_in(expansion, otherwise):  # type: ignore[no-untyped-def]
        return expansion[0] if expands else otherwise

    return centre_in


def build_transition(
    density: LinkedDensity,
    propose: Propose,
    test: AcceptanceTest,
    rows: RowSource,
    bound: EvaluateBound = no_bound,
) -> Transition:
    """Compose a proposal, a test and a way to draw rows into one compiled function, which compiled code calls.

    Parameters
    ----------
    density : LinkedDensity
    propose, test, rows
        The parts; see `Propose`, `AcceptanceTest` and `RowSource`.
    bound : EvaluateBound, optional
    """
    terms_at = None if density.one_side is None else _terms_at(density.one_side)
    conclude = test.for_rows(RowReader(build_terms(density.both_sides), rows, terms_at))
    of_density = build_offset(density), _centre_in(density.expands)
    return _transition_of(*of_density, propose, bound, rows.n_total, test.draw_noise, conclude)


@built_once
def _transition_of(
    offset_of: OffsetOf,
    centre_in: Callable[[Any, np.ndarray], np.ndarray],
    propose: Propose,
    bound: EvaluateBound,
    n_rows_of: TotalRows,
    draw_noise: DrawNoise,
    conclude: Conclude,
) -> Transition:
    # Python asks for several draws, or for one, by `RepeatedTransition`: to unpack the arguments takes long to compile.
    @njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
    def transition(  # type: ignore[no-untyped-def]
        links,
        theta,
        others,
        fixed,
        arrays,
        row_state,
        state,
        looks,
        temperature,
        generators,
        bound_constants,
        expansion,
    ):
        n_total = n_rows_of(row_state, n_rows_at(arrays))
        scale = n_total / temperature
        noise = draw_noise(generators[DECIDE])
        around = Surroundings(others, fixed, arrays, temperature, expansion, links)
        theta_new, log_q_ratio, n_read = propose(generators[PROPOSE], theta, state, around)
        if not np.any(theta_new != theta):  # nothing moved, nothing to decide
            return Outcome(theta, DECIDED, False, n_read, 0, 0.0, 0.0, -1, False, np.nan)[:]
        status, offset = offset_of(links, theta_new, theta, log_q_ratio, others, fixed, temperature, expansion)
        if status == BAD_PRIOR or offset == -np.inf:
            sd = np.nan if status == BAD_PRIOR else 0.0
            return Outcome(theta, status, False, n_read, 0, offset, sd, -1, False, np.nan)[:]
        at = Place(links, theta_new, theta, others, centre_in(expansion, others), fixed, arrays)
        row_bound, n_scanned = bound(bound_constants, at)
        decision = conclude(generators[ROWS], row_state, looks, at, n_total, row_bound, offset, scale, noise)
        return Outcome(
            theta_new if decision.accepted else theta, decision.status, decision.accepted,
            decision.n_rows + n_scanned + n_read, decision.n_stages, decision.log_ratio, decision.log_ratio_sd,
            decision.row, decision.full_data, decision.threshold,
        )[:]  # fmt: skip

    return transition
