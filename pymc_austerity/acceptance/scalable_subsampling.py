"""Metropolis–Hastings with scalable subsampling: exact, on a Poisson number of rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from pymc_austerity.acceptance.acceptance_test import AcceptanceTest, Looks, Reads
from pymc_austerity.acceptance.decision import (
    BAD_BOUND,
    BAD_ROW,
    DECIDED,
    OUT_OF_REACH,
    ROWS_SPENT,
    Conclude,
    Decision,
    RowReader,
    Terms,
    examine,
)
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.rows import CHUNK, BoundedSource, RestoreRows, RowsLeft, draw_in_order

#: More rows than any pool holds.
_MOST_ROWS = 2.0**53


@njit
def keep_probability(v: float) -> float:
    """Return φ_i/(c_i M) = 1 + min(0, v), with v = ΔR_i/(c_i M) in [−1, 1]."""
    return 1.0 + min(0.0, v)


@njit
def log_factor(v: float) -> float:
    """Return log φ′_i/φ_i of a row that is kept: φ′_i = φ_i − ΔR_i, so that is log(1 − |v|), up for v < 0."""
    return np.copysign(np.log1p(-abs(v)), -v) if v != 0.0 else 0.0


@njit
def thin(rng: np.random.Generator, limits: np.ndarray, new: np.ndarray, old: np.ndarray) -> tuple[float, int]:
    """Return Σ log φ′_i/φ_i over the rows that are kept, and the place of one that breaks its bound or −1.

    `limits`, `new` and `old` are c_i M, −R_i(θ′) and −R_i(θ) of the B rows drawn.
    """
    total = 0.0
    for k in range(limits.size):
        v = (old[k] - new[k]) / limits[k]
        if not abs(v) <= 1.0:
            return total, k
        if rng.random() < keep_probability(v):
            total += log_factor(v)
    return total, -1


@dataclass(frozen=True)
class ScalableSubsampling(AcceptanceTest):
    """The test of MH-SS (Prado, Nemeth and Sherlock 2024), for rows that each have a bound.

    With R_i = −(ℓ_i − q_i) what the proxy leaves of row i, ΔR_i = R_i(θ′) − R_i(θ), and a symmetric M(θ, θ′) such that
    ΔR_i lies within ± c_i M: draw B ~ Poisson(C M) rows with probabilities c_i/C, C = Σc_i; keep each with probability
    φ_i/(c_i M), φ_i = min(0, ΔR_i) + c_i M; accept with probability min(1, r ∏ φ′_i/φ_i) over the kept, φ′_i = φ_i −
    ΔR_i and r the ratio of prior, proposal and proxy.  Where C M ≥ N, which is so seen from θ′ too, read all rows; that
    saves time and changes nothing, so of rows that were drawn before sampling B are read whatever B is, and only where
    M is infinite there is no decision.  At temperature K all of these are divided by K.

    The row source is a table of the c_i, the bound of a proposal is M, infinite where there is none.  Of rows that the
    table names to be read always, R_i is in r, like the proxy.
    """

    reads: ClassVar[Reads] = Reads.BY_BOUNDS
    corrects_noise: ClassVar[bool] = True
    needs_all_rows: ClassVar[str] = ""
    error = ""
    needs_distinct_rows: ClassVar[str] = "it draws rows by their bounds, and where they ask for all without replacement"
    broken_bound: ClassVar[str] = "No draw so far is then exact. Correct the bound, or sample with PenaltyMH."

    def looks(self, n_rows: int) -> Looks:
        """Return one look at all rows, for decisions whose bounds ask for them."""
        return Looks(np.array([n_rows]), np.zeros(1))

    def remedy(self) -> str:
        """Return the advice to check the bound, the one assumption of the test."""
        return "Check bound=, which a row that was not drawn may break; or sample with ExactMH."

    def for_rows(self, reader: RowReader) -> Conclude:
        """Return the compiled way to a decision: by a Poisson number of rows, or by all."""
        terms, rows, _ = reader
        by_bounds = cast("BoundedSource", rows)
        draws = by_bounds.rate, by_bounds.choose, by_bounds.limits
        return _concluding(terms, *draws, rows.left, rows.restore, rows.complete)


@built_once
def _concluding(
    terms: Terms,
    rate: Callable[..., float],
    choose: Callable[..., np.ndarray],
    limits: Callable[..., np.ndarray],
    left: RowsLeft,
    restore: RestoreRows,
    complete: bool,
) -> Conclude:
    @njit
    def conclude(rng, row_state, looks, asked):  # type: ignore[no-untyped-def]
        at, n_total, row_bound, scale, noise = asked.at, asked.n_total, asked.row_bound, asked.scale, asked.noise
        n_always = row_state.always.size
        mean_rows = rate(row_state, row_bound) * scale / n_total
        if complete:
            all_rows = not mean_rows + n_always < n_total
        else:
            all_rows = False
            if not mean_rows < _MOST_ROWS:
                return Decision(False, OUT_OF_REACH, 0, 0, np.nan, np.nan, -1, False, np.nan)
        n_exact = n_total if all_rows else n_always
        n, log_ratio = n_exact + (0 if all_rows else rng.poisson(mean_rows)), asked.offset
        start: Any = np.int64(0)  # a plain 0 is of a type of its own, compiled for too
        sd = 0.0 if all_rows else np.nan
        if n > left(row_state):
            return Decision(False, ROWS_SPENT, 0, 0, np.nan, np.nan, -1, False, np.nan)
        while start < n:  # one loop for all kinds: the model's code is compiled once for each call
            exactly = start < n_exact
            stop = min(start + CHUNK, n_exact if exactly else n)
            if all_rows:
                numbers = draw_in_order(rng, row_state, start, stop)
            elif exactly:
                numbers = row_state.always[start:stop]
            else:
                numbers = choose(rng, row_state, row_bound, start, stop)
            new, old = terms(numbers, at)
            if exactly:
                total_new, total_old = new.sum(), old.sum()
                status, settled, row = examine(numbers, new, old, total_new, total_old, np.inf)
                if settled:
                    return Decision(False, status, stop, 1, -np.inf, sd, row, stop == n_total, np.nan)
                log_ratio += scale / n_total * (total_new - total_old)
            else:
                change, broken = thin(rng, limits(row_state, row_bound, numbers), new, old)
                if broken >= 0:
                    status = BAD_BOUND if np.isfinite(old[broken]) else BAD_ROW
                    return Decision(False, status, n, 1, log_ratio, sd, int(numbers[broken]), False, noise)
                log_ratio += change
            start = stop
        if not complete:
            restore(row_state, n)
        return Decision(log_ratio > noise, DECIDED, n, 1, log_ratio, sd, -1, all_rows, noise)

    return conclude
