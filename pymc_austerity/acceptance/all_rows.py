"""Decisions on all rows, whose sums at the current point are kept from the decision that led there.

Rows are read at the proposal alone, unless a variable of another step has changed.  Sums are kept over chunks of rows,
whose differences lose less to rounding than those of sums over all rows.  A trial chain that looks at fewer rows keeps
nothing and reads rows at both ends of a move.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pymc_austerity.acceptance.acceptance_test import AcceptanceTest, Looks, Reads
from pymc_austerity.acceptance.by_looks import merge_batch, read_by_looks
from pymc_austerity.acceptance.decision import ACCEPT, BAD_ROW, DECIDED, Conclude, Decision, RowReader, TermsAt
from pymc_austerity.acceptance.moments import NO_SHAPE, Decide, Moments, Threshold, standard_error
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.rows import CHUNK, InOrder
from pymc_austerity.rows.sources import is_at, move_to
from pymc_austerity.user_input import takes_fields


class OnAllRows(AcceptanceTest):
    """A test that decides on all rows and keeps their sums at the current point."""

    reads: ClassVar[Reads] = Reads.ALL
    rows: ClassVar[InOrder] = InOrder()
    error = ""

    def looks(self, n_rows: int) -> Looks:
        """Return one look at all rows."""
        return Looks(np.array([n_rows]), np.zeros(1))

    def for_rows(self, reader: RowReader) -> Conclude:
        """Return the compiled decision from the sums at both ends of a move."""
        if reader.terms_at is None:
            return read_by_looks(reader, self.decide, self.threshold, self.reads_shape)
        return _comparing_sums(reader.terms_at, self.decide, self.threshold)


@takes_fields
@dataclass(frozen=True)
class Exact(OnAllRows):
    """The Metropolis–Hastings test on all rows: the oracle of every other test."""

    needs_all_rows: ClassVar[str] = "every decision reads all rows"


@built_once
def _comparing_sums(terms_at: TermsAt, decide: Decide, threshold_of: Threshold) -> Conclude:
    @njit
    def conclude(rng, last, looks, asked):  # type: ignore[no-untyped-def]
        at, n_total, offset, scale, noise = asked.at, asked.n_total, asked.offset, asked.scale, asked.noise
        here, there = last.sums[0], last.sums[1]
        size = min(looks.sizes[0], n_total)
        known = size == n_total and is_at(last.point, at.theta, at.others)
        n, mean, m2, status, row, old = 0, 0.0, 0.0, DECIDED, -1, np.empty(0)
        for k in range(-(-size // CHUNK)):
            numbers = np.arange(n, min(n + CHUNK, size))
            n += numbers.size
            if not known:
                old = terms_at(numbers, at.theta, at)
                here[k] = old.sum()
                if not np.isfinite(here[k]):
                    status, row = BAD_ROW, numbers[np.flatnonzero(~np.isfinite(old))[-1]]
                    mean = -np.inf
                    break
            new = terms_at(numbers, at.theta_new, at)
            there[k] = new.sum()
            if not np.isfinite(there[k]):
                mean = -np.inf
                break
            batch_mean = (there[k] - here[k]) / numbers.size
            if size < n_total:
                mean, m2 = merge_batch(n - numbers.size, mean, m2, batch_mean, new, old)
            else:  # at all rows the standard error is zero
                mean += (batch_mean - mean) * numbers.size / n
        if not known:
            last.point[:] = np.nan  # until all chunks are those of one point
        if mean == -np.inf:
            return Decision(False, status, n, 1, -np.inf, 0.0, row, n == n_total, np.nan)
        moments = Moments(n, n_total, mean, np.sqrt(m2 / max(n - 1, 1)), asked.row_bound, NO_SHAPE)
        accepted = decide(looks, 0, moments, offset, scale, noise) == ACCEPT
        if size == n_total:
            if accepted:
                for k in range(here.size):
                    here[k] = there[k]
            move_to(last.point, at.theta_new if accepted else at.theta, at.others)
        threshold = threshold_of(looks, 0, moments, scale, noise)
        log_ratio = scale * mean + offset if n else np.nan
        sd = scale * standard_error(moments)
        return Decision(accepted, DECIDED, n, 1, log_ratio, sd, -1, n == n_total, threshold)

    return conclude
