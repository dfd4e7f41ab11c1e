"""The noise-penalty test: Metropolis–Hastings on a batch estimate of the log ratio, less a penalty for its variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from pymc_austerity.acceptance.acceptance_test import AcceptanceTest, check_batch_size, check_growth, growing_sizes
from pymc_austerity.acceptance.decision import ACCEPT, REJECT, UNDECIDED
from pymc_austerity.acceptance.moments import Moments, standard_error
from pymc_austerity.compile.lean_njit import njit

#: Above this χ²/n the series for an estimated variance is no longer small (Ceperley and Dewing 1999).
_MAX_VARIANCE_PER_ROW = 0.25


class PenaltyLooks(NamedTuple):
    """The looks of the test."""

    sizes: np.ndarray  # rows read by the end of each look; the last is N
    max_variance: float  # variance of the log ratio up to which it is decided on a batch


@njit
def penalty(variance: float, n: int) -> float:
    """Return what is subtracted from a log ratio whose variance was estimated from n rows.

    A known variance s² costs s²/2: then E min(1, exp(Δ* − s²/2)) satisfies detailed balance for Δ* ~ N(Δ, s²).
    An estimated one costs χ²/2 + χ⁴/(4(n+1)) + χ⁶/(3(n+1)(n+3)) + …
    (Ceperley and Dewing 1999, J. Chem. Phys. 110, 9812).
    """
    return variance / 2 + variance**2 / (4 * (n + 1)) + variance**3 / (3 * (n + 1) * (n + 3))


@njit
def penalised_threshold(looks: PenaltyLooks, look: int, moments: Moments, scale: float, noise: float) -> float:
    """Return log u and the penalty, which the estimated log ratio has to exceed."""
    if moments.n == moments.n_total:
        return noise
    return noise + penalty((scale * standard_error(moments)) ** 2, moments.n)


@njit
def decide_with_penalty(
    looks: PenaltyLooks, look: int, moments: Moments, offset: float, scale: float, noise: float
) -> int:
    """Accept with probability min(1, exp(Δ* − penalty)), once the variance of Δ* is small."""
    estimate = scale * moments.mean + offset
    variance = (scale * standard_error(moments)) ** 2
    if moments.n < moments.n_total and (variance > looks.max_variance or variance > _MAX_VARIANCE_PER_ROW * moments.n):
        return UNDECIDED
    return ACCEPT if estimate > penalised_threshold(looks, look, moments, scale, noise) else REJECT


@dataclass(frozen=True)
class NoisePenalty(AcceptanceTest):
    """The penalty method of Ceperley and Dewing (1999).

    The batch grows until the variance of the estimated log ratio is below `max_variance`; the test then accepts with
    probability min(1, exp(Δ* − s²/2 − …)), which keeps the exact posterior when Δ* is normal.  At all rows it is
    Metropolis–Hastings.
    """

    batch_size: int  # rows of the first look
    max_variance: float = 1.0  # largest variance to decide on.  Acceptance falls with it like 2Φ(−s/2)
    growth: float = 1.5  # by how much the batch grows from look to look

    corrects_noise: ClassVar[bool] = True
    needs_all_rows: ClassVar[str] = ""
    error = "the noise of a batch is taken for normal"
    threshold = staticmethod(penalised_threshold)
    decide = staticmethod(decide_with_penalty)

    def __post_init__(self) -> None:
        check_batch_size(self.batch_size, "The penalty needs a batch that estimates its own variance; 200 is a start.")
        if not (np.isfinite(self.max_variance) and self.max_variance > 0):
            raise ValueError(
                f"max_variance={self.max_variance} must be positive and finite: a test with variance 0 would read all "
                "rows, and one without a limit would reject almost everything. Use 1."
            )
        check_growth("growth", self.growth, 1.5)

    def looks(self, n_rows: int) -> PenaltyLooks:
        """Return looks at sizes that grow geometrically."""
        return PenaltyLooks(growing_sizes(self.batch_size, self.growth, n_rows), float(self.max_variance))

    def with_replacement(self) -> NoisePenalty:
        """Return the test itself: its moments say how the rows were drawn."""
        return self
