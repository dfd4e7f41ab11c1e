"""Decisions on all rows.  The sum at the point where a chain is has been found by the decision that brought it there.

So rows are read at the proposal alone, unless something else has changed: a variable of another step, or the data, for
which a chain starts anew.  What is kept are sums over chunks of rows, whose differences lose no more than the sums of a
chunk do, and not the sum over all rows, whose rounding grows with their number.

A trial chain looks at fewer rows than there are, to learn how far they differ.  Then nothing is remembered, and rows
are read at both ends of a move.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pymc_austerity.acceptance.acceptance_test import AcceptanceTest, Looks
from pymc_austerity.acceptance.by_looks import merge_batch, read_by_looks
from pymc_austerity.acceptance.decision import ACCEPT, BAD_ROW, DECIDED, Conclude, Decision, RowReader, TermsAt
from pymc_austerity.acceptance.moment_signatures import Decide, Threshold
from pymc_austerity.acceptance.moments import NO_SHAPE, Moments, standard_error
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.rows import CHUNK, InOrder, is_at, move_to


class OnAllRows(AcceptanceTest):
    """A test that decides on all rows, and remembers what they are where the chain is."""

    uses_proxy: ClassVar[bool] = False
    remembers: ClassVar[bool] = True
    rows: ClassVar[InOrder] = InOrder()

    def looks(self, n_rows: int) -> Looks:
        """Look once, at everything."""
        return Looks(np.array([n_rows]), np.zeros(1))

    def for_rows(self, reader: RowReader) -> Conclude:
        """Return the compiled way to a decision: from the sums at both ends of a move."""
        if reader.terms_at is None:
            return read_by_looks(reader, self.decide, self.threshold, self.reads_shape)
        return _comparing_sums(reader.terms_at, self.decide, self.threshold)


@built_once
def _comparing_sums(terms_at: TermsAt, decide: Decide, threshold_of: Threshold) -> Conclude:
    @njit
    def conclude(rng, last, looks, at, n_total, row_bound, offset, scale, noise):  # type: ignore[no-untyped-def]
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
            else:  # what all rows say is certain, so that nobody asks how far they differ
                mean += (batch_mean - mean) * numbers.size / n
        if not known:
            last.point[:] = np.nan  # until all chunks are those of one point
        if mean == -np.inf:
            return Decision(False, status, n, 1, -np.inf, 0.0, row, n == n_total, np.nan)
        moments = Moments(n, n_total, mean, np.sqrt(m2 / max(n - 1, 1)), row_bound, NO_SHAPE)
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
