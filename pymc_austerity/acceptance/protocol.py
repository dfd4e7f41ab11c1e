"""What a test is asked, and what it sees.

Every test sees the same thing: the running mean and variance of l_i = ℓ_i(θ′) − ℓ_i(θ) over the n rows read so
far, the log ratio of everything that needs no rows (prior and proposal), and noise drawn once per transition.
It answers accept, reject, or not yet; then more rows are read.  At n = N it must decide, and exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numba import njit

from pymc_austerity.acceptance.moments import NO_SHAPE, Shape
from pymc_austerity.rows import RowSource, Uniform

UNDECIDED, REJECT, ACCEPT = -1, 0, 1


class Looks(NamedTuple):
    """The looks of a sequential test.

    Attributes
    ----------
    sizes : numpy.ndarray of int64
        Rows read by the end of each look; the last is N.
    bounds : numpy.ndarray of float64
        The test stops at a look when the mean of l_i is further than ``bounds × sd`` from its threshold,
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
def no_threshold(looks, look, moments, scale, noise):  # type: ignore[no-untyped-def]
    """Tell nothing of what a decision was compared with."""
    return np.nan


class Decide(Protocol):
    """A compiled decision."""

    def __call__(self, looks: Any, look: int, moments: Moments, offset: float, scale: float, noise: Any) -> int:
        """Return ACCEPT, REJECT or UNDECIDED after look number `look`."""
        ...


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
        Compiled ``decide(looks, look, moments, offset, scale, noise)`` returns ACCEPT, REJECT or UNDECIDED, where the
        log acceptance ratio of all rows is ``scale × (mean of l_i over all rows) + offset``.
    threshold : callable
        Compiled ``threshold(looks, look, moments, scale, noise)`` returns what the estimated log ratio of a decision
        had to exceed; NaN where the test does not tell.
    """

    uses_proxy: ClassVar[bool] = True
    corrects_noise: ClassVar[bool] = False
    designable: ClassVar[bool] = False
    rows: ClassVar[RowSource] = Uniform()
    draw_noise: ClassVar[Callable[..., Any]]
    decide: ClassVar[Decide]
    threshold: ClassVar[Callable[..., Any]] = staticmethod(no_threshold)

    @property
    def reads_shape(self) -> bool:
        """Whether `decide` looks at ``moments.shape``, which costs a pass over each batch."""
        return False

    def looks(self, n_rows: int) -> Any:
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
