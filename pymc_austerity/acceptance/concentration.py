"""Concentration inequalities, and the test that stops when one of them decides.

Each inequality bounds the distance of the mean of t rows from the mean of all N: with probability 1 − δ it is at
most ``per_sd × sd + per_bound × C``, where sd is the sample standard deviation (t − 1) of the rows read and C a
number with |l_i| ≤ C for all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from pymc_austerity.acceptance.acceptance_test import AcceptanceTest, check_batch_size, check_growth, growing_sizes
from pymc_austerity.acceptance.decision import ACCEPT, REJECT, UNDECIDED
from pymc_austerity.acceptance.moments import Moments
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.user_input import takes

#: κ of the empirical Bernstein–Serfling inequality (Bardenet and Maillard 2015, Theorem 4.3).
_KAPPA = 7 / 3 + 3 / np.sqrt(2)

#: ``inequality(t, n_rows, delta)`` returns ``per_sd`` and ``per_bound`` for arrays of t and δ.
Inequality = Callable[[np.ndarray, int, np.ndarray], tuple[np.ndarray, np.ndarray]]


@takes()
def hoeffding_serfling(t: np.ndarray, n_rows: int, delta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bound the mean of t rows by their range alone (Serfling 1974; Bardenet et al. 2014, equation 7).

    Parameters
    ----------
    t : numpy.ndarray of int
        Rows read, without replacement.
    n_rows : int
        Rows in all, N.
    delta : numpy.ndarray
        Probability with which the bound may fail.

    Returns
    -------
    per_sd, per_bound : numpy.ndarray
        Coefficients of the standard deviation and of C.
    """
    t, delta = _checked(t, n_rows, delta)
    return np.zeros(t.shape), np.sqrt(2 * (1 - (t - 1) / n_rows) * np.log(2 / delta) / t)


@takes()
def empirical_bernstein(t: np.ndarray, n_rows: int, delta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bound the mean of t rows by their standard deviation (Audibert et al. 2009; Bardenet et al. 2014, equation 9).

    Parameters
    ----------
    t, n_rows, delta
        As in `hoeffding_serfling`.

    Returns
    -------
    per_sd, per_bound : numpy.ndarray
        As in `hoeffding_serfling`.
    """
    t, delta = _checked(t, n_rows, delta)
    log = np.log(3 / delta)
    return _population_sd(t) * np.sqrt(2 * log / t), 6 * log / t


@takes()
def empirical_bernstein_serfling(t: np.ndarray, n_rows: int, delta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bound the mean of t rows by their standard deviation and the share read (Bardenet and Maillard 2015).

    Parameters
    ----------
    t, n_rows, delta
        As in `hoeffding_serfling`.

    Returns
    -------
    per_sd, per_bound : numpy.ndarray
        As in `hoeffding_serfling`.
    """
    t, delta = _checked(t, n_rows, delta)
    log = np.log(5 / delta)
    rho = np.where(t <= n_rows / 2, 1 - (t - 1) / n_rows, (1 - t / n_rows) * (1 + 1 / t))
    return _population_sd(t) * np.sqrt(2 * rho * log / t), _KAPPA * 2 * log / t


def _checked(t: np.ndarray, n_rows: int, delta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both as arrays, once they are what an inequality is about."""
    t, delta = np.asarray(t), np.asarray(delta)
    if not ((t >= 1) & (t <= n_rows)).all() or not ((delta > 0) & (delta < 1)).all():
        raise ValueError(
            f"A concentration inequality is about t= of 1 to n_rows={n_rows} rows that were read, and may fail with a "
            "probability delta= between 0 and 1."
        )
    return t, delta


def _population_sd(t: np.ndarray) -> np.ndarray:
    """Return what turns a standard deviation with t − 1 into the one with t that the inequalities are stated for."""
    return np.sqrt((t - 1) / t)


class BoundedLooks(NamedTuple):
    """The looks of a test that stops outside ``per_sd × sd + per_bound × C``."""

    sizes: np.ndarray  # rows read by the end of each look; the last is N
    per_sd: np.ndarray
    per_bound: np.ndarray


@njit
def decide_outside_bound(
    looks: BoundedLooks, look: int, moments: Moments, offset: float, scale: float, noise: float
) -> int:
    """Compare the mean of l_i with ψ = (log u − offset) / scale, once the inequality separates them."""
    distance = moments.mean - (noise - offset) / scale
    # Step 19 of the paper's Figure 3 leaves the loop at b > n, which b = min(n, ⌈γt⌉) never is: it means t = n.
    bound = looks.per_sd[look] * moments.sd + looks.per_bound[look] * moments.bound
    if moments.n == moments.n_total or abs(distance) >= bound:
        return ACCEPT if distance > 0 else REJECT
    return UNDECIDED


@dataclass(frozen=True)
class ConcentrationBound(AcceptanceTest):
    """The stopping rule of MHSubLhd (Bardenet, Doucet and Holmes 2014, Figure 3).

    Look number k may fail with probability δ_k = (p − 1)/(p k^p)·δ, so that all looks together decide wrongly with
    probability at most δ, and the acceptance probability is off by at most δ (Lemma 3.1), whatever the rows.
    """

    delta: float = 0.01  # δ, between 0 and 1
    gamma: float = 2.0  # γ, by which the batch grows from look to look
    p: float = 2.0  # how fast the looks use up δ, above 1
    batch_size: int = 50  # rows of the first look
    #: `empirical_bernstein_serfling`, `empirical_bernstein`, `hoeffding_serfling` or another of this form.
    inequality: Inequality = empirical_bernstein_serfling

    needs_all_rows: ClassVar[str] = (
        "its inequality is one for rows drawn without replacement, and it reads all of them where fewer do not decide"
    )
    needs_distinct_rows: ClassVar[str] = (
        "its inequalities bound the mean of rows drawn without replacement and with equal weight"
    )
    broken_bound: ClassVar[str] = (
        "The error of every decision so far is then not bounded by delta. Correct the bound, or use bound='scan'."
    )
    decide = staticmethod(decide_outside_bound)

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise ValueError(
                f"delta={self.delta} is not a probability of a wrong decision between 0 and 1. Use a small value such "
                "as 0.01; for exact decisions use ExactMH."
            )
        check_growth("gamma", self.gamma, 2)
        if not self.p > 1:
            raise ValueError(
                f"p={self.p} must be above 1: the errors allowed to the looks fall like k^-p and would not have a "
                "finite sum. Use 2."
            )
        check_batch_size(self.batch_size, "No inequality decides on fewer than some dozens; use 50.")
        if not callable(self.inequality):
            raise TypeError(
                f"inequality={self.inequality!r} is not a function. Pass pymc_austerity.empirical_bernstein_serfling, "
                "empirical_bernstein or hoeffding_serfling, without calling it."
            )

    @property
    def error(self) -> str:
        """What a decision takes for granted, or how often it errs."""
        return f"a decision errs with probability {self.delta:g} at most"

    def looks(self, n_rows: int) -> BoundedLooks:
        """Return looks at sizes that grow geometrically, with errors that fall like k^-p."""
        sizes = growing_sizes(self.batch_size, self.gamma, n_rows)
        k = np.arange(1, sizes.size + 1)
        delta = (self.p - 1) / (self.p * k**self.p) * self.delta
        per_sd, per_bound = self.inequality(sizes, n_rows, delta)
        return BoundedLooks(sizes, per_sd, per_bound)

    def remedy(self) -> str:
        """Return the advice to use a smaller delta."""
        return f"Use a smaller delta than {self.delta:g}."
