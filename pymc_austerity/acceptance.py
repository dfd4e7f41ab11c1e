"""The tests that decide whether a proposal is accepted, side by side.

Every test sees the same thing: the running mean and variance of l_i = ℓ_i(θ′) − ℓ_i(θ) over the n rows read so
far, the log ratio of everything that needs no rows (prior and proposal), and noise drawn once per transition.
It answers accept, reject, or not yet; then more rows are read.  At n = N it must decide, and exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import njit
from scipy import special

from pymc_austerity.rows import InOrder, RowSource, Uniform

UNDECIDED, REJECT, ACCEPT = -1, 0, 1


class Stages(NamedTuple):
    """The looks of a sequential test.

    Attributes
    ----------
    sizes : numpy.ndarray of int64
        Rows read by the end of each stage; the last is N.
    bounds : numpy.ndarray of float64
        The test stops at a stage when the mean of l_i is further than ``bounds × sd`` from its threshold,
        sd being the sample standard deviation of l_i.
    """

    sizes: np.ndarray
    bounds: np.ndarray


class Moments(NamedTuple):
    """What a test knows of l_i after some rows.

    Attributes
    ----------
    n, n_total : int
        Rows read, and rows there are.
    mean, sd : float
        Sample mean and standard deviation (n − 1) of l_i.
    """

    n: int
    n_total: int
    mean: float
    sd: float


class AcceptanceTest(Protocol):
    """What the transition needs of a test; the functions are compiled by numba.

    ``draw_noise(rng)`` returns the one random number of the test, drawn before any row is read.
    ``decide(stages, stage, moments, offset, scale, noise)`` returns ACCEPT, REJECT or UNDECIDED, where the log
    acceptance ratio of all rows is ``scale × (mean of l_i over all rows) + offset``.
    """

    @property
    def draw_noise(self) -> Callable[..., Any]:
        """Compiled noise."""
        ...

    @property
    def decide(self) -> Callable[..., Any]:
        """Compiled decision."""
        ...

    @property
    def rows(self) -> RowSource:
        """How this test wants its rows drawn."""
        ...

    def stages(self, n_rows: int) -> Stages:
        """Lay out the looks at `n_rows` rows."""
        ...


@njit
def draw_log_uniform(rng: np.random.Generator) -> float:
    """Log of a uniform number: the noise of a Metropolis–Hastings test."""
    return np.log1p(-rng.random())  # 1 − [0, 1) is never zero


@njit
def decide_against_threshold(
    stages: Stages, stage: int, moments: Moments, offset: float, scale: float, noise: float
) -> int:
    """Compare the mean of l_i with μ0 = (log u − offset) / scale, once it is far enough from it."""
    distance = moments.mean - (noise - offset) / scale
    if moments.n == moments.n_total or abs(distance) > stages.bounds[stage] * moments.sd:
        return ACCEPT if distance > 0 else REJECT
    return UNDECIDED


@dataclass(frozen=True)
class Exact:
    """The Metropolis–Hastings test on all rows: the oracle of every other test."""

    draw_noise = staticmethod(draw_log_uniform)
    decide = staticmethod(decide_against_threshold)
    rows = InOrder()

    def stages(self, n_rows: int) -> Stages:
        """Look once, at everything."""
        return Stages(np.array([n_rows]), np.zeros(1))


@dataclass(frozen=True)
class SequentialT:
    """The sequential t-test of Korattikara, Chen and Welling (2014, Algorithm 1).

    After n rows, drawn without replacement, the standard error of the mean of l_i is
    s = sd/√n · √(1 − (n−1)/(N−1)).  The test stops when P(t_{n−1} > |mean − μ0|/s) < ε.

    Parameters
    ----------
    epsilon : float
        Error allowed at each look, in [0, 0.5].  0 reads all rows, 0.5 decides on the first batch.
    batch_size : int
        Rows a look, at least 2.

    Raises
    ------
    ValueError
        For settings outside their range.
    """

    epsilon: float
    batch_size: int

    draw_noise = staticmethod(draw_log_uniform)
    decide = staticmethod(decide_against_threshold)
    rows = Uniform()

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon <= 0.5:
            raise ValueError(
                f"epsilon={self.epsilon} is not a probability of a wrong decision between 0 and 0.5. Above 0.5 the "
                "test would stop when it knows least. Use a small value such as 0.01; 0 reads every row."
            )
        if int(self.batch_size) != self.batch_size or self.batch_size < 2:
            raise ValueError(
                f"batch_size={self.batch_size} must be a whole number of at least 2 rows: fewer have no standard "
                "deviation. The test needs a batch mean that is nearly normal; 500 is a sensible start."
            )

    def stages(self, n_rows: int) -> Stages:
        """Look after every batch; bounds are critical values of t with the finite-population correction."""
        sizes = np.append(np.arange(self.batch_size, n_rows, self.batch_size), n_rows)
        n = sizes[:-1]
        critical = -special.stdtrit(n - 1, self.epsilon) if self.epsilon > 0 else np.full(n.size, np.inf)
        correction = np.sqrt(1 - (n - 1) / (n_rows - 1))
        return Stages(sizes, np.append(critical * correction / np.sqrt(n), 0.0))
