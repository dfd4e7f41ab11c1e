"""The tests that decide whether a proposal is accepted, side by side.

Every test sees the same thing: the running mean and variance of l_i = ℓ_i(θ′) − ℓ_i(θ) over the n rows read so
far, the log ratio of everything that needs no rows (prior and proposal), and noise drawn once per transition.
It answers accept, reject, or not yet; then more rows are read.  At n = N it must decide, and exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numba import njit
from scipy import special

from pymc_austerity.moments import NO_SHAPE, Shape
from pymc_austerity.rows.sources import InOrder, RowSource, Uniform

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
    bound : float
        A number C with |l_i| ≤ C for all rows; infinite where none was asked for.
    shape : Shape
        Higher moments of l_i; zero unless the test reads them.
    """

    n: int
    n_total: int
    mean: float
    sd: float
    bound: float = np.inf
    shape: Shape = NO_SHAPE


@njit
def standard_error(moments: Moments) -> float:
    """Return the standard error of the mean of l_i when the rows are drawn without replacement."""
    n = moments.n
    return moments.sd * np.sqrt((1 - (n - 1) / (moments.n_total - 1)) / n)


@njit
def no_threshold(stages, stage, moments, scale, noise):  # type: ignore[no-untyped-def]
    """Tell nothing of what a decision was compared with."""
    return np.nan


class NeedsDistinctRowsError(ValueError):
    """A test whose reasoning does not hold for rows that are drawn with replacement and weights."""


class AcceptanceTest(Protocol):
    """What the rest of the package asks of a test; a class that inherits from this one answers the rest by default.

    Attributes
    ----------
    uses_proxy : bool
        Whether it decides on what a proxy leaves of the rows; a test that reads all rows, or none, gains nothing by it.
    corrects_noise : bool
        Whether the noise of the batch is part of the test, so that a decision other than that of all rows is no error.
    designable : bool
        Whether it compares the mean of l_i with the threshold of Metropolis and Hastings and stops where the two are
        far enough apart, which is what `design_test` analyses.
    rows : RowSource
        How rows are drawn where they all count the same.
    draw_noise : callable
        Compiled ``draw_noise(rng)`` returns the random numbers of the test, always as many, drawn before any row is
        read.
    decide : callable
        Compiled ``decide(stages, stage, moments, offset, scale, noise)`` returns ACCEPT, REJECT or UNDECIDED, where the
        log acceptance ratio of all rows is ``scale × (mean of l_i over all rows) + offset``.
    threshold : callable
        Compiled ``threshold(stages, stage, moments, scale, noise)`` returns what the estimated log ratio of a decision
        had to exceed; NaN where the test does not tell.
    """

    uses_proxy: ClassVar[bool] = True
    corrects_noise: ClassVar[bool] = False
    designable: ClassVar[bool] = False
    rows: ClassVar[RowSource] = Uniform()
    draw_noise: ClassVar[Callable[..., Any]]
    decide: ClassVar[Callable[..., Any]]
    threshold: ClassVar[Callable[..., Any]] = staticmethod(no_threshold)

    @property
    def reads_shape(self) -> bool:
        """Whether `decide` looks at ``moments.shape``, which costs a pass over each batch."""
        return False

    def stages(self, n_rows: int) -> Any:
        """Lay out the looks at `n_rows` rows: a named tuple whose ``sizes`` end at `n_rows` or at a decision."""
        ...

    def probability(self, log_ratio: float) -> float:
        """Return the acceptance probability at the log ratio of all rows."""
        ...

    def with_replacement(self) -> AcceptanceTest:
        """Return the test for rows that are drawn with replacement and weights.

        Raises
        ------
        NeedsDistinctRowsError
            With the reason, where there is none.
        """
        raise NeedsDistinctRowsError("it is written for rows drawn without replacement and with equal weight")

    def as_recorded(self, settings: Mapping[str, float]) -> AcceptanceTest:
        """Return the test with the settings that a chain recorded in its statistics, where it records any."""
        return self

    def remedy(self) -> str:
        """Say how the test can be made to decide better, in terms of its arguments."""
        return "Let the test read more rows."


@njit
def draw_log_uniform(rng: np.random.Generator) -> float:
    """Log of a uniform number: the noise of a Metropolis–Hastings test."""
    return np.log1p(-rng.random())  # 1 − [0, 1) is never zero


@njit
def log_uniform_threshold(stages: Stages, stage: int, moments: Moments, scale: float, noise: float) -> float:
    """Return log u, which the log ratio has to exceed."""
    return noise


@njit
def decide_against_threshold(
    stages: Stages, stage: int, moments: Moments, offset: float, scale: float, noise: float
) -> int:
    """Compare the mean of l_i with μ0 = (log u − offset) / scale, once it is far enough from it."""
    distance = moments.mean - (noise - offset) / scale
    if moments.n == moments.n_total or abs(distance) > stages.bounds[stage] * moments.sd:
        return ACCEPT if distance > 0 else REJECT
    return UNDECIDED


def check_batch_size(batch_size: int, advice: str) -> None:
    """Refuse a number of rows that has no standard deviation, with advice on what to use."""
    if int(batch_size) != batch_size or batch_size < 2:
        raise ValueError(
            f"batch_size={batch_size} must be a whole number of at least 2 rows: fewer have no standard deviation. "
            f"{advice}"
        )


def growing_sizes(first: int, ratio: float, n_rows: int) -> np.ndarray:
    """Return the sizes t ← ⌈ratio·t⌉ from `first` on, the last being `n_rows`."""
    sizes = [min(first, n_rows)]
    while sizes[-1] < n_rows:
        sizes.append(min(n_rows, math.ceil(ratio * sizes[-1])))
    return np.array(sizes)


def metropolis_probability(log_ratio: float) -> float:
    """Return min(1, exp(log ratio))."""
    return float(np.exp(min(0.0, log_ratio)))


@dataclass(frozen=True)
class Exact(AcceptanceTest):
    """The Metropolis–Hastings test on all rows: the oracle of every other test."""

    uses_proxy: ClassVar[bool] = False
    designable: ClassVar[bool] = True
    probability = staticmethod(metropolis_probability)
    draw_noise = staticmethod(draw_log_uniform)
    threshold = staticmethod(log_uniform_threshold)
    decide = staticmethod(decide_against_threshold)
    rows = InOrder()

    def stages(self, n_rows: int) -> Stages:
        """Look once, at everything."""
        return Stages(np.array([n_rows]), np.zeros(1))


@dataclass(frozen=True)
class SequentialT(AcceptanceTest):
    """The sequential t-test of Korattikara, Chen and Welling (2014, Algorithm 1).

    After n rows, drawn without replacement, the standard error of the mean of l_i is
    s = sd/√n · √(1 − (n−1)/(N−1)).  The test stops when P(t_{n−1} > |mean − μ0|/s) < ε.

    Parameters
    ----------
    epsilon : float
        Error allowed at each look, in [0, 0.5].  0 reads all rows, 0.5 decides on the first batch.
    batch_size : int
        Rows a look, at least 2.
    replacement : bool
        Whether rows are drawn with replacement, which leaves out the finite-population correction.
    alpha : float
        Shape of the boundary, in [0.5, 1] (appendix D, after Wang and Tsiatis 1987): with a share π of the rows read
        the test stops beyond G0·π^{0.5−α} standard errors, G0 = Φ⁻¹(1 − ε).  0.5 is Pocock's boundary, the same at
        every look; 1 is O'Brien and Fleming's, which hardly ever stops early.

    Raises
    ------
    ValueError
        For settings outside their range.
    """

    epsilon: float
    batch_size: int
    replacement: bool = False
    alpha: float = 0.5

    designable: ClassVar[bool] = True
    probability = staticmethod(metropolis_probability)
    draw_noise = staticmethod(draw_log_uniform)
    threshold = staticmethod(log_uniform_threshold)
    decide = staticmethod(decide_against_threshold)

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon <= 0.5:
            raise ValueError(
                f"epsilon={self.epsilon} is not a probability of a wrong decision between 0 and 0.5. Above 0.5 the "
                "test would stop when it knows least. Use a small value such as 0.01; 0 reads every row."
            )
        if not 0.5 <= self.alpha <= 1:
            raise ValueError(
                f"alpha={self.alpha} is not between 0.5 (the same bound at every look) and 1 (a bound that falls with "
                "the square root of the rows read). Below 0.5 the test would be the bolder the less it knows."
            )
        check_batch_size(self.batch_size, "The test needs a batch mean that is nearly normal; 500 is a sensible start.")

    def normal_bounds(self, n: np.ndarray, n_rows: int) -> np.ndarray:
        """Return G_j = Φ⁻¹(1 − ε)·(n_j/N)^{0.5−α}, the bounds on |z| after n_j rows if the sd of l_i were known."""
        return -special.ndtri(self.epsilon) * (n / n_rows) ** (0.5 - self.alpha)

    def stages(self, n_rows: int) -> Stages:
        """Look after every batch; bounds are critical values of t with the finite-population correction."""
        sizes = np.append(np.arange(self.batch_size, n_rows, self.batch_size), n_rows)
        n = sizes[:-1]
        # The quantile of t that has the tail of the normal bound beyond it.
        tail = np.full(n.size, self.epsilon) if self.alpha == 0.5 else special.ndtr(-self.normal_bounds(n, n_rows))
        critical = np.full(n.size, np.inf)
        critical[tail > 0] = -special.stdtrit(n[tail > 0] - 1, tail[tail > 0])
        correction = np.ones(n.size) if self.replacement else np.sqrt(1 - (n - 1) / (n_rows - 1))
        return Stages(sizes, np.append(critical * correction / np.sqrt(n), 0.0))

    def with_replacement(self) -> SequentialT:
        """Return the test without the finite-population correction."""
        return replace(self, replacement=True)

    def as_recorded(self, settings: Mapping[str, float]) -> SequentialT:
        """Return the test that was designed when tuning ended, where one was."""
        if not {"epsilon", "batch_size", "alpha"} <= set(settings):
            return self
        return replace(
            self,
            epsilon=float(settings["epsilon"]),
            batch_size=int(settings["batch_size"]),
            alpha=float(settings["alpha"]),
        )

    def remedy(self) -> str:
        """Say which epsilon decides more carefully."""
        smaller = f"epsilon={self.epsilon / 10:g}" if self.epsilon > 0 else "epsilon=0"
        return f"Decide more carefully ({smaller} in place of {self.epsilon:g})."


@njit
def decide_at_once(stages: Stages, stage: int, moments: Moments, offset: float, scale: float, noise: float) -> int:
    """Take the mean of the batch for the mean of all rows."""
    return ACCEPT if scale * moments.mean + offset > noise else REJECT


@dataclass(frozen=True)
class FixedBatch(AcceptanceTest):
    """Gao's mini-batch rule: the rows of one batch stand for all rows, and nothing corrects for it.

    The batch likelihood is raised to the power N/n (Gao, section 2).  The noise of the batch makes the chain
    over-dispersed, the more the smaller the batch; there is no error bound.  For baselines and negative controls.

    Parameters
    ----------
    batch_size : int
        Rows a decision, n in the paper; all rows decide exactly.

    Raises
    ------
    ValueError
        For fewer than two rows.
    """

    batch_size: int

    probability = staticmethod(metropolis_probability)
    draw_noise = staticmethod(draw_log_uniform)
    threshold = staticmethod(log_uniform_threshold)
    decide = staticmethod(decide_at_once)

    def __post_init__(self) -> None:
        check_batch_size(self.batch_size, "The chain is the more over-dispersed the fewer rows it reads.")

    def stages(self, n_rows: int) -> Stages:
        """Look once, at one batch."""
        return Stages(np.array([min(self.batch_size, n_rows)]), np.zeros(1))

    def remedy(self) -> str:
        """Say that there is none."""
        return "A fixed batch has no remedy but more rows: use ApproxMH, MinibatchBarker or PenaltyMH."
