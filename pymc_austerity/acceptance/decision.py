"""A decision at one proposal, and what a test is given to make it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

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
    """A decision, and what it took.

    Attributes
    ----------
    accepted : bool
    status : int
        DECIDED, or that the log-likelihood of a row is not finite at the present point (BAD_ROW), that a row broke
        its bound (BAD_BOUND), that there are not as many rows as the decision asks for (ROWS_SPENT),
        or that only all rows could decide, which are not at hand (OUT_OF_REACH).
    n_rows : int
        Rows evaluated, each counted once whether at one end of the move or at both.
    n_stages : int
        Looks at the data.
    log_ratio, log_ratio_sd : float
        Estimate of the log acceptance ratio of all rows, and its standard error: 0 at full data, not a number where
        the test has none.
    row : int
        The offending row where there is one, or −1.
    full_data : bool
        Whether it was made on all rows.
    threshold : float
        What `log_ratio` had to exceed; not a number where the test does not tell.
    """

    accepted: bool
    status: int
    n_rows: int
    n_stages: int
    log_ratio: float
    log_ratio_sd: float
    row: int
    full_data: bool
    threshold: float


class RowReader(NamedTuple):
    """The rows at a proposal, compiled, as a test reads them.

    Attributes
    ----------
    terms : Terms
    source : RowSource
        How rows are chosen.
    terms_at : TermsAt or None
        The rows at one end, in place of `terms`, for a test that `remembers` the other.
    """

    terms: Terms
    source: RowSource
    terms_at: TermsAt | None = None


class Question(NamedTuple):
    """What is to be decided.

    Attributes
    ----------
    at : Any
        The proposal, for ``RowReader.terms``.
    n_total : int
        Rows there are, N.
    row_bound : float or numpy.ndarray
        The bound on |l_i| at this proposal, infinite where none is known; for rows in cones that of each cone.
    offset, scale : float
        The log acceptance ratio of all rows is ``scale × (mean of l_i over all rows) + offset``.
    noise : Any
        Random numbers of the test.
    """

    at: Any
    n_total: int
    row_bound: Any
    offset: float
    scale: float
    noise: Any


class Conclude(Protocol):
    """The compiled reading of rows by a test until they decide."""

    def __call__(self, rng: np.random.Generator, row_state: Any, looks: Any, asked: Question) -> Decision:
        """Return the decision.

        Parameters
        ----------
        rng : numpy.random.Generator
            For choosing rows; the noise of the test was drawn before.
        row_state : Any
            Of the row source.
        looks : Any
            Of the test.
        asked : Question
        """
        ...


@njit
def examine(
    numbers: np.ndarray, new: np.ndarray, old: np.ndarray, total_new: float, total_old: float, limit: float
) -> tuple[int, bool, int]:
    """Return a status, whether a row alone settles the decision, and the offending row, for a batch of row terms.

    Parameters
    ----------
    numbers : numpy.ndarray of int
        Of the rows.
    new, old : numpy.ndarray
        ℓ_i(θ′) and ℓ_i(θ).
    total_new, total_old : float
        Their sums.
    limit : float
        What no |l_i| should exceed.
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
