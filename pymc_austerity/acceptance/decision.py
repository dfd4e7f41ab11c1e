"""A decision at one proposal, and what a test is given to make it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pymc_austerity.acceptance.moments import Moments
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.rows import RowSource

UNDECIDED, REJECT, ACCEPT = -1, 0, 1

#: Status of a decision; BAD_PRIOR is set by the transition.
DECIDED, BAD_PRIOR, BAD_ROW, BAD_BOUND, ROWS_SPENT, OUT_OF_REACH = 0, 1, 2, 3, 4, 5


#: ``terms(numbers, at)``: ℓ_i(θ′) and ℓ_i(θ) of the rows with these numbers, or what a proxy leaves of them; `at` is
#: the proposal, as given in `Question`.
Terms = Callable[..., tuple[np.ndarray, np.ndarray]]
#: ``terms_at(numbers, theta, at)``: ℓ_i(θ) of the rows with these numbers, everything else as in the proposal `at`.
TermsAt = Callable[..., np.ndarray]


class Decision(NamedTuple):
    """A decision, and what it took."""

    accepted: bool
    #: DECIDED, or that the log-likelihood of a row is not finite at the present point (BAD_ROW), that a row broke its
    #: bound (BAD_BOUND), that there are not as many rows as the decision asks for (ROWS_SPENT), or that only all rows
    #: could decide, which are not at hand (OUT_OF_REACH).
    status: int
    n_rows: int  # rows evaluated, each counted once whether at one end of the move or at both
    n_stages: int  # looks at the data
    log_ratio: float  # estimate of the log acceptance ratio of all rows
    log_ratio_sd: float  # its standard error: 0 at full data, not a number where the test has none
    row: int  # the offending row where there is one, or −1
    full_data: bool  # whether it was made on all rows
    threshold: float  # what `log_ratio` had to exceed; not a number where the test does not tell


class RowReader(NamedTuple):
    """The rows at a proposal, compiled, as a test reads them."""

    terms: Terms
    source: RowSource  # how rows are chosen
    terms_at: TermsAt | None = None  # the rows at one end, in place of `terms`, for a test that `remembers` the other


class Question(NamedTuple):
    """What is to be decided."""

    at: Any  # the proposal, for ``RowReader.terms``
    n_total: int  # rows there are, N
    #: The bound on |l_i| at this proposal, infinite where none is known; for rows in cones that of each cone.
    row_bound: Any
    offset: float  # the log acceptance ratio of all rows is ``scale × (mean of l_i over all rows) + offset``
    scale: float
    noise: Any  # random numbers of the test


#: ``conclude(rng, row_state, looks, asked)``: the `Decision` on a `Question`, once rows that `rng` chooses decide; the
#: noise of the test was drawn before.
Conclude = Callable[..., Decision]


@njit
def examine(
    numbers: np.ndarray, new: np.ndarray, old: np.ndarray, total_new: float, total_old: float, limit: float
) -> tuple[int, bool, int]:
    """Return a status, whether a row alone settles the decision, and the offending row, for a batch of row terms.

    `new` and `old` are ℓ_i(θ′) and ℓ_i(θ) of the rows `numbers`, with their sums; no |l_i| should exceed `limit`.
    """
    if not np.isfinite(total_old):
        return BAD_ROW, True, int(numbers[np.flatnonzero(~np.isfinite(old))[-1]])
    if not np.isfinite(total_new):
        return DECIDED, True, -1
    if limit < np.inf:
        for i in range(new.size):
            if abs(new[i] - old[i]) > limit:
                return BAD_BOUND, True, int(numbers[i])
    return DECIDED, False, -1


@njit
def draw_log_uniform(rng: np.random.Generator) -> float:
    """Log of a uniform number: the noise of a Metropolis–Hastings test."""
    return np.log1p(-rng.random())  # 1 − [0, 1) is never zero


@njit
def log_uniform_threshold(looks: Any, look: int, moments: Moments, scale: float, noise: float) -> float:
    """Return log u, which the log ratio has to exceed."""
    return noise


@njit
def decide_against_threshold(looks: Any, look: int, moments: Moments, offset: float, scale: float, noise: float) -> int:
    """Compare the mean of l_i with μ0 = (log u − offset) / scale, once it is far enough from it."""
    distance = moments.mean - (noise - offset) / scale
    if moments.n == moments.n_total or abs(distance) > looks.bounds[look] * moments.sd:
        return ACCEPT if distance > 0 else REJECT
    return UNDECIDED


def metropolis_probability(log_ratio: float) -> float:
    """Return min(1, exp(log ratio))."""
    return float(np.exp(min(0.0, log_ratio)))
