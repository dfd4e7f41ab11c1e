"""Barker's acceptance test, on all rows and on a minibatch whose own noise is part of the test.

Barker (1965) accepts with probability 1/(1 + exp(−Δ)), that is, when Δ + X > 0 for a standard logistic X.
A batch estimate Δ* ~ N(Δ, s²) already carries normal noise; what it lacks to be logistic is added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import special

from pymc_austerity.acceptance.acceptance_test import (
    AcceptanceTest,
    Looks,
    check_batch_size,
    check_growth,
    growing_sizes,
)
from pymc_austerity.acceptance.all_rows import OnAllRows
from pymc_austerity.acceptance.correction import correction
from pymc_austerity.acceptance.decision import ACCEPT, REJECT, UNDECIDED
from pymc_austerity.acceptance.moments import Moments, absolute_moments, standard_error, third_central_moment
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.user_input import takes_fields

#: Standard deviation of the logistic distribution.
_LOGISTIC_SD = np.pi / np.sqrt(3)
#: Below, the grid of the correction distribution, in units of σ, would take minutes to solve.
_MIN_SIGMA = 0.3
#: The skewed noise z + c(z² − 1) has skewness 6c only while c is small.
_MAX_SKEWNESS = 1.0
#: Of sup|P − Φ| ≤ (6.4·E|X|³ + 2·E|X|)/√n (Seita et al. 2016, Corollary 1, from Novak 2005).
_NOVAK_THIRD, _NOVAK_FIRST = 6.4, 2.0


class BarkerNoise(NamedTuple):
    """The random numbers of one decision; which of them are used depends on where it falls."""

    logistic: float
    normal: float
    uniform: float


class BarkerLooks(NamedTuple):
    """The looks of the minibatch test, and what it needs at each."""

    sizes: np.ndarray  # rows read by the end of each look; the last is N
    variance: float  # σ²
    tolerance: float  # largest normality error
    skewness: bool  # whether the noise is skewed against that of the batch
    atoms: np.ndarray  # of the correction distribution
    cumulative: np.ndarray  # its probabilities, summed


@njit
def draw_barker_noise(rng: np.random.Generator) -> BarkerNoise:
    """Draw one of each, so that the generator is at the same place after any decision."""
    return BarkerNoise(rng.logistic(0.0, 1.0), rng.standard_normal(), rng.random())


@njit
def logistic_threshold(looks: Looks, look: int, moments: Moments, scale: float, noise: BarkerNoise) -> float:
    """Return the logistic number that Δ has to exceed."""
    return -noise.logistic


@njit
def decide_logistic(looks: Looks, look: int, moments: Moments, offset: float, scale: float, noise: BarkerNoise) -> int:
    """Accept when Δ + X > 0."""
    return ACCEPT if scale * moments.mean + offset + noise.logistic > 0 else REJECT


@njit
def barker_threshold(looks: BarkerLooks, look: int, moments: Moments, scale: float, noise: BarkerNoise) -> float:
    """Return −(X_nc + X_corr), which Δ* has to exceed (Seita et al. 2016, Algorithm 1)."""
    if moments.n == moments.n_total:
        return -noise.logistic
    remaining = looks.variance - (scale * standard_error(moments)) ** 2
    normal, bias = noise.normal, 0.0
    if looks.skewness and look == 0:
        normal = skew_against(moments, scale, remaining, normal)
    elif looks.skewness:
        bias = stopping_bias(moments, scale)
    added = looks.atoms[np.searchsorted(looks.cumulative, noise.uniform, side="right")]  # a uniform is below 1
    return -(bias + np.sqrt(remaining) * normal + added)


@njit
def decide_barker(
    looks: BarkerLooks, look: int, moments: Moments, offset: float, scale: float, noise: BarkerNoise
) -> int:
    """Accept when Δ* + X_nc + X_corr > 0, once the variance of Δ* is below σ² and its law near enough to normal."""
    if moments.n < moments.n_total:
        if not (scale * standard_error(moments)) ** 2 < looks.variance:
            return UNDECIDED
        if looks.tolerance < np.inf and normality_error(moments) > looks.tolerance:
            return UNDECIDED
    above = scale * moments.mean + offset > barker_threshold(looks, look, moments, scale, noise)
    return ACCEPT if above else REJECT


@njit
def normality_error(moments: Moments) -> float:
    """Bound the distance of the studentised mean from a normal variable (Seita et al. 2016, Corollary 1)."""
    if moments.sd**3 == 0:
        return 0.0
    first, third = absolute_moments(moments.shape, moments.n, moments.mean)
    return (_NOVAK_THIRD * third / moments.sd**3 + _NOVAK_FIRST * first / moments.sd) / np.sqrt(moments.n)


@njit
def skew_against(moments: Moments, scale: float, variance: float, z: float) -> float:
    """Return a normal z made skew, so that noise of the given variance cancels the skewness of Δ* and its s².

    With κ the third cumulant of Δ* the sum Δ* + X_nc has third cumulant −2κ: κ from Δ* itself and −3κ because the
    variance left for X_nc, σ² − s², falls when s² is large, which for skewed rows is when Δ* is large
    (Cov(Δ*, s²) = κ).  This is the term (2x² + 1)φ(x) in the Edgeworth expansion of a studentised mean.
    """
    n = moments.n
    fraction = n / moments.n_total
    third = third_central_moment(moments.shape, n, moments.mean, moments.sd)
    # Drawn without replacement: κ = μ₃(1 − f)(1 − 2f)/n² and Cov(mean, s²) = μ₃(1 − f)²/n².
    cumulant = scale**3 * third / n**2 * (1 - fraction) * (3 * (1 - fraction) - (1 - 2 * fraction))
    c = min(max(cumulant / variance**1.5, -_MAX_SKEWNESS), _MAX_SKEWNESS) / 6
    return (z + c * (z * z - 1)) / np.sqrt(1 + 2 * c * c)


@njit
def stopping_bias(moments: Moments, scale: float) -> float:
    """Return what Δ* lacks on average when reading stopped because the variance had become small.

    For skewed rows a small sample variance comes with a small sample mean.  The number of rows n is proportional to
    the estimated variance v, and by Wald's identity E[mean] − μ = −Cov(Σl_i, n)/n², with Cov(mean, v) = μ₃/n:
    the bias is −μ₃/(v n).
    """
    third = third_central_moment(moments.shape, moments.n, moments.mean, moments.sd)
    return scale * third / (moments.sd**2 * moments.n) * (1 - moments.n / moments.n_total)


def barker_probability(log_ratio: float) -> float:
    """Return 1/(1 + exp(−log ratio))."""
    return float(special.expit(log_ratio))


@takes_fields
@dataclass(frozen=True)
class ExactBarker(OnAllRows):
    """Barker's test on all rows: the oracle of `Barker`.

    Accepts at most half as often as Metropolis–Hastings where the two densities are alike, for the same posterior
    (Barker 1965, Australian Journal of Physics 18, 119).
    """

    probability = staticmethod(barker_probability)
    draw_noise = staticmethod(draw_barker_noise)
    threshold = staticmethod(logistic_threshold)
    decide = staticmethod(decide_logistic)


@dataclass(frozen=True)
class Barker(AcceptanceTest):
    """The minibatch Barker test of Seita, Pan, Chen and Canny (2016, Algorithm 1).

    Rows are read until the estimated variance s² of the log ratio is below σ².  Then N(0, σ² − s²) noise brings the
    variance to σ², and a variable of the correction distribution makes the sum logistic.  At all rows the noise is
    logistic itself.
    """

    batch_size: int  # rows of the first look, m in the paper
    #: σ.  Smaller reads more rows; the correction is off by less than 1e-7 up to 1, by 2e-5 at 1.2, by .002 at 1.5 and
    #: by .011 at 1.7.
    sigma: float = 1.0
    growth: float = 1.5  # by how much the batch grows from look to look
    #: Largest distance of the batch mean from normal, by the bound of Corollary 1.  A worst case: 0.1 takes fourteen
    #: thousand rows even where they are normal.
    normality_tol: float | None = None
    #: Take the skewness of the rows into account to first order, in the noise (the term of Appendix A.5) and in the
    #: estimate, which is biased because reading stops when the sample variance is small.
    skewness: bool = False

    corrects_noise: ClassVar[bool] = True
    needs_all_rows: ClassVar[str] = ""
    error = "the noise of a batch is taken for normal"
    probability = staticmethod(barker_probability)
    draw_noise = staticmethod(draw_barker_noise)
    threshold = staticmethod(barker_threshold)
    decide = staticmethod(decide_barker)

    def __post_init__(self) -> None:
        check_batch_size(self.batch_size, "The test needs a batch mean that is nearly normal; 50 to 100 is a start.")
        if not _MIN_SIGMA <= self.sigma < _LOGISTIC_SD:
            raise ValueError(
                f"sigma={self.sigma} must lie between {_MIN_SIGMA} and π/√3 = 1.814: a normal variable as wide as a "
                "logistic one leaves nothing to correct, and a narrower one takes 1/σ² times the rows. Use 1."
            )
        check_growth("growth", self.growth, 1.5)
        if self.normality_tol is not None and not self.normality_tol > 0:
            raise ValueError(
                f"normality_tol={self.normality_tol} must be positive: no batch mean is exactly normal, so every "
                "test would read all rows. Leave it out, or use a value such as 0.2."
            )

    @property
    def reads_shape(self) -> bool:
        """Whether third moments are needed."""
        return self.skewness or self.normality_tol is not None

    def looks(self, n_rows: int) -> BarkerLooks:
        """Return looks at sizes that grow geometrically."""
        sizes = growing_sizes(self.batch_size, self.growth, n_rows)
        tolerance = np.inf if self.normality_tol is None else float(self.normality_tol)
        return BarkerLooks(sizes, self.sigma**2, tolerance, self.skewness, *correction(float(self.sigma)))

    def with_replacement(self) -> Barker:
        """Return the test itself: its moments say how the rows were drawn."""
        return self
