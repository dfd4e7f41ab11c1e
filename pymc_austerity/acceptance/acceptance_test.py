"""The interface of an acceptance test, and the sizes of the batches that it reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from pymc_austerity.acceptance.by_looks import read_by_looks
from pymc_austerity.acceptance.decision import (
    Conclude,
    RowReader,
    decide_against_threshold,
    draw_log_uniform,
    log_uniform_threshold,
    metropolis_probability,
)
from pymc_austerity.acceptance.moments import Decide, DrawNoise, Threshold
from pymc_austerity.argument_kinds import is_whole
from pymc_austerity.rows import RowSource, Uniform


class Looks(NamedTuple):
    """The looks of a sequential test."""

    sizes: np.ndarray  # rows read by the end of each look; the last is N
    #: The test stops at a look when the mean of l_i is further than ``bounds × sd`` from its threshold, sd being the
    #: sample standard deviation of l_i.
    bounds: np.ndarray


class Reads(Enum):
    """Which rows a test reads."""

    BATCHES = auto()  # batches that grow until their mean and variance decide
    BY_BOUNDS = auto()  # rows in proportion to bounds on what a proxy leaves of them
    ALL = auto()  # all rows, whose sums at the current point are kept
    NONE = auto()

    @property
    def a_part(self) -> bool:
        """Whether a part of the rows may decide, so that a proxy saves rows."""
        return self in (Reads.BATCHES, Reads.BY_BOUNDS)


class NeedsDistinctRowsError(ValueError):
    """A test that does not hold for rows drawn with replacement and weights."""


class AcceptanceTest(Protocol):
    """The interface of a test; a class that inherits from this one is by default one of Metropolis and Hastings."""

    reads: ClassVar[Reads] = Reads.BATCHES  # which rows it reads
    #: Whether the noise of the batch is part of the test, so that a decision may differ from that on all rows.
    corrects_noise: ClassVar[bool] = False
    #: Why it cannot decide on rows that were drawn before sampling; empty where it can.
    needs_all_rows: ClassVar[str] = "it reads all rows where fewer do not decide"
    #: What it means that a row exceeds its bound, and what to do; empty for a test without bounds.
    broken_bound: ClassVar[str] = ""
    #: Why it does not hold for rows that are drawn with replacement and weights, where it does not.
    needs_distinct_rows: ClassVar[str] = "it is written for rows drawn without replacement and with equal weight"
    rows: ClassVar[RowSource] = Uniform()  # how rows of equal weight are drawn
    draw_noise: ClassVar[DrawNoise] = staticmethod(draw_log_uniform)
    #: The log acceptance ratio of all rows is ``scale × (mean of l_i over all rows) + offset``.
    decide: ClassVar[Decide] = staticmethod(decide_against_threshold)
    threshold: ClassVar[Threshold] = staticmethod(log_uniform_threshold)
    #: Acceptance probability at the log ratio of all rows.
    probability: ClassVar[Callable[..., float]] = staticmethod(metropolis_probability)

    @property
    def error(self) -> str:
        """How the chain errs, in a few words; empty where it leaves the posterior as it is."""
        return "a decision may differ from that on all rows"

    @property
    def reads_shape(self) -> bool:
        """Whether `decide` uses ``moments.shape``, which costs a pass over each batch."""
        return False

    def for_rows(self, reader: RowReader) -> Conclude:
        """Return the compiled reading of rows until they decide: by batches that grow from look to look."""
        return read_by_looks(reader, self.decide, self.threshold, self.reads_shape)

    def looks(self, n_rows: int) -> Any:
        """Return the looks at `n_rows` rows: a named tuple whose ``sizes`` end at `n_rows` or at a decision."""

    def with_replacement(self) -> AcceptanceTest:
        """Return the test for rows that are drawn with replacement and weights, or raise a NeedsDistinctRowsError."""
        raise NeedsDistinctRowsError(self.needs_distinct_rows)

    def as_recorded(self, settings: Mapping[str, float]) -> AcceptanceTest:
        """Return the test with the settings that a chain recorded in its statistics."""
        return self

    def remedy(self) -> str:
        """Return how to make the test decide better, in terms of its arguments."""
        return "Let the test read more rows."


def check_batch_size(batch_size: int, advice: str) -> None:
    """Refuse a number of rows that has no standard deviation, with advice on what to use."""
    if not is_whole(batch_size, 2):
        raise ValueError(
            f"batch_size={batch_size} must be a whole number of at least 2 rows: fewer have no standard deviation. "
            f"{advice}"
        )


def check_growth(name: str, ratio: float, usual: float) -> None:
    """Refuse a batch that does not grow from look to look."""
    if not ratio > 1:
        raise ValueError(f"{name}={ratio} must be above 1, or the batch never grows. Use {usual:g}.")


def growing_sizes(first: int, ratio: float, n_rows: int) -> np.ndarray:
    """Return the sizes t ← ⌈ratio·t⌉ from `first` on, the last being `n_rows`."""
    sizes = [min(first, n_rows)]
    while sizes[-1] < n_rows:
        sizes.append(min(n_rows, math.ceil(ratio * sizes[-1])))
    return np.array(sizes)
