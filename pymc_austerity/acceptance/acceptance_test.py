"""What a test is asked, and what it sees.

Most tests see the same thing: the running mean and variance of l_i = ℓ_i(θ′) − ℓ_i(θ) over the n rows read so
far, the log ratio of everything that needs no rows (prior and proposal), and noise drawn once per transition.
They answer accept, reject, or not yet; then more rows are read.  At n = N a test must decide, and exactly.  One that
does not read batches which grow says how it reads instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from pymc_austerity.acceptance.by_looks import read_by_looks
from pymc_austerity.acceptance.decision import Conclude, RowReader
from pymc_austerity.acceptance.moment_signatures import Decide, DrawNoise, Threshold
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.rows import RowSource, Uniform


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


@njit
def no_threshold(looks, look, moments, scale, noise):  # type: ignore[no-untyped-def]
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
    reads_moments : bool
        Whether it decides on the mean and the variance of a batch, and so on their being those of normal numbers.
    resolves_remainders : bool
        Whether it needs what a proxy leaves of a row to a precision relative to that, however small it is.
    without_proxy : str
        Why it cannot do without a proxy and what to use instead; empty where it can.
    needs_all_rows : str
        Why it cannot do with rows that were drawn beforehand; empty where it can.
    remembers : bool
        Whether it decides on all rows and keeps their sum where a chain is, so that it reads them at a proposal alone.
    draws_by_bounds : bool
        Whether it draws rows in proportion to bounds on them, and not by their typical size.
    broken_bound : str
        What it means that a row broke its bound, and what to do; empty for a test that asks for none.
    rows : RowSource
        How rows are drawn where they all count the same.
    draw_noise : DrawNoise
    decide : Decide
        The log acceptance ratio of all rows is ``scale × (mean of l_i over all rows) + offset``.
    threshold : Threshold
    """

    uses_proxy: ClassVar[bool] = True
    corrects_noise: ClassVar[bool] = False
    designable: ClassVar[bool] = False
    reads_moments: ClassVar[bool] = True
    resolves_remainders: ClassVar[bool] = False
    without_proxy: ClassVar[str] = ""
    needs_all_rows: ClassVar[str] = "it reads all rows where fewer do not decide"
    remembers: ClassVar[bool] = False
    draws_by_bounds: ClassVar[bool] = False
    broken_bound: ClassVar[str] = ""
    rows: ClassVar[RowSource] = Uniform()
    draw_noise: ClassVar[DrawNoise]
    decide: ClassVar[Decide]
    threshold: ClassVar[Threshold] = staticmethod(no_threshold)

    @property
    def reads_shape(self) -> bool:
        """Whether `decide` looks at ``moments.shape``, which costs a pass over each batch."""
        return False

    def for_rows(self, reader: RowReader) -> Conclude:
        """Return the compiled way to a decision: by batches that grow from look to look, unless a test has another."""
        return read_by_looks(reader, self.decide, self.threshold, self.reads_shape)

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
