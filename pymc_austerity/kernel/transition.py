"""One compiled transition: propose, evaluate what needs no rows, and let the test read rows until it decides."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pymc_austerity.acceptance import BAD_PRIOR, DECIDED, AcceptanceTest, RowReader
from pymc_austerity.kernel.generators import DECIDE, PROPOSE, ROWS
from pymc_austerity.likelihood import LinkedDensity, Links, Surroundings, no_bound
from pymc_austerity.proposals import Propose
from pymc_austerity.rows import RowSource, build_gather


class Outcome(NamedTuple):
    """What happened in one transition.

    Attributes
    ----------
    theta : numpy.ndarray, shape (D,)
        The next draw.
    status : int
        DECIDED, or that the log prior (BAD_PRIOR) or a row's log-likelihood (BAD_ROW) is not finite at the
        current point, that a row broke the bound on all rows (BAD_BOUND), or that no rows are left (ROWS_SPENT).
    accepted : bool
    n_rows : int
        Row likelihoods evaluated, both sides of the ratio counted once, those of a scan for a bound and those that
        the proposal read included.
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
    accepted: bool
    n_rows: int
    n_stages: int
    log_ratio: float
    log_ratio_sd: float
    row: int
    full_data: bool
    threshold: float


class Place(NamedTuple):
    """A proposal, and the data that its rows are evaluated with.

    Attributes
    ----------
    links : Links
        Where the model's own functions lie.
    theta_new, theta, others : numpy.ndarray
    inputs : tuple of numpy.ndarray
        Data that are not indexed by row, the centre of the expansion first where there is one.
    arrays : tuple of numpy.ndarray
        The rows.
    """

    links: Links
    theta_new: np.ndarray
    theta: np.ndarray
    others: np.ndarray
    inputs: tuple[np.ndarray, ...]
    arrays: tuple[np.ndarray, ...]


def build_offset(density: LinkedDensity) -> Callable[..., Any]:
    """Compile the part of a decision that needs no rows.

    Returns
    -------
    callable
        ``offset_of(links, theta_new, theta, log_q_ratio, others, fixed, temperature, expansion)`` returns a status,
        DECIDED or BAD_PRIOR, and the log ratio of prior, proposal and proxy: −∞ where θ′ is impossible whatever the
        rows say.
    """
    return _offset_of(density.log_prior, density.known_sum)


@cache
def _offset_of(log_prior: Callable[..., Any], known_sum: Callable[..., Any]) -> Callable[..., Any]:
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


def build_terms(density: LinkedDensity, array_ndims: tuple[int, ...]) -> Callable[..., Any]:
    """Compile ``terms(numbers, at)``: both sides of the log ratio for some rows, at a `Place`."""
    return _terms_of(density.both_sides, build_gather(array_ndims))


@cache
def _terms_of(both_sides: Callable[..., Any], gather: Callable[..., Any]) -> Callable[..., Any]:
    @njit
    def terms(numbers, at):  # type: ignore[no-untyped-def]
        return both_sides(at.links, at.theta_new, at.theta, at.others, at.inputs, gather(at.arrays, numbers))

    return terms


def build_transition(
    density: LinkedDensity,
    array_ndims: tuple[int, ...],
    propose: Propose,
    test: AcceptanceTest,
    rows: RowSource,
    bound: Callable[..., Any] = no_bound,
) -> Callable[..., Any]:
    """Compose a proposal, a test and a way to draw rows into one compiled function.

    Parameters
    ----------
    density : LinkedDensity
    array_ndims : tuple of int
        Number of dimensions of each data array.
    propose, test, rows
        The parts; see `Propose`, `AcceptanceTest` and `RowSource`.
    bound : callable, optional
        Compiled ``bound(constants, theta_new, theta, others, fixed, arrays)``, which returns a number C with
        |l_i| ≤ C for all rows and how many rows it evaluated to find it.  With a proxy l_i is a remainder, and the
        centre comes first in ``fixed``.

    Returns
    -------
    callable
        ``transition(links, theta, others, fixed, arrays, row_state, state, looks, temperature, generators,
        bound_constants, expansion)``, which returns the fields of an `Outcome`, as a plain tuple because Python makes
        the named ones; the generators as `pack_generators` gives them.
    """
    offset_of, expands = build_offset(density), density.expands
    n_rows_of = rows.n_total
    conclude = test.for_rows(RowReader(build_terms(density, array_ndims), rows))
    draw_noise = test.draw_noise

    @njit
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
        n_total = n_rows_of(row_state, len(arrays[0]))
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
        inputs = (expansion[0],) + fixed if expands else fixed
        row_bound, n_scanned = bound(bound_constants, theta_new, theta, others, inputs, arrays)
        at = Place(links, theta_new, theta, others, inputs, arrays)
        decision = conclude(generators[ROWS], row_state, looks, at, n_total, row_bound, offset, scale, noise)
        return Outcome(
            theta_new if decision.accepted else theta, decision.status, decision.accepted,
            decision.n_rows + n_scanned + n_read, decision.n_stages, decision.log_ratio, decision.log_ratio_sd,
            decision.row, decision.full_data, decision.threshold,
        )[:]  # fmt: skip

    return transition
