"""Bounds C(θ, θ′) ≥ |ℓ_i(θ′) − ℓ_i(θ)| for all rows i: constants of the data, and a compiled function of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pymc_austerity.compile.addresses import n_rows_at
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.likelihood import RowLikelihood
from pymc_austerity.likelihood.linked_functions import both_sides_at
from pymc_austerity.rows import CHUNK, BoundTable, Rows, RowSource
from pymc_austerity.rows.by_bounds import RowsByBounds, bound_table


class Region(NamedTuple):
    """Where a proxy expands the rows, and how wide the posterior is there."""

    centre: np.ndarray  # of ψ = (θ, others), shape (D + O,)
    coordinates: np.ndarray  # entries of ψ that the rows read, shape (E,)
    spread: np.ndarray  # a factor of the covariance of the surrogate, shape (D, D)
    order: int  # of the expansion, k
    fixed: tuple[np.ndarray, ...]  # data that are not indexed by row
    rows: Rows


#: ``evaluate(constants, at)``: a number C with |l_i| ≤ C for all rows at a `Place`, of remainders with a proxy, and how
#: many rows were evaluated to find it.
EvaluateBound = Callable[..., tuple[float, int]]


@njit
def no_bound(constants, at):  # type: ignore[no-untyped-def]
    """Know no bound on |l_i|, at no cost."""
    return np.inf, 0


class Bound:
    """What a step needs of a bound."""

    is_asked_for: ClassVar[bool] = True  # whether the test needs one
    reads_theta: ClassVar[bool] = True  # whether it is written in the variables of the step, and holds for these alone
    #: Whether sums over the data are sufficient statistics, so that all bounds are zero.
    known_by_sums: ClassVar[bool] = False
    numbers_read: int = 1  # through which a row reads θ: finding bounds takes time with the fourth power of that
    #: The compiled function, where it is the same for all constants.
    evaluate: ClassVar[EvaluateBound] = staticmethod(no_bound)

    def constants(
        self, region: Region | None = None, rows: Any = None, fixed: tuple[np.ndarray, ...] = ()
    ) -> tuple[Any, ...]:
        """Return what the compiled function needs of the data as they are now, and of the region of the proxy."""
        return ()

    def learn(self, region: Region | None, rows: Any) -> tuple[tuple[Any, ...], Any]:
        """Return the constants, and the rows that are drawn from."""
        return self.constants(region, rows, () if region is None else region.fixed), rows

    def of_selected(self, likelihood: RowLikelihood) -> Bound | None:
        """Return the bound where rows read a function of θ alone and `likelihood` is the model of that, or None."""
        return None if self.reads_theta else self

    def row_source(self, constants: tuple[Any, ...]) -> RowSource | None:
        """Return how rows are drawn where each has a bound of its own; None where all share one."""
        return None

    def build(self, constants: tuple[Any, ...]) -> EvaluateBound:
        """Return the compiled function for these constants."""
        return self.evaluate

    def of_remainder(self, order: int) -> Bound | None:
        """Return the bound on what an expansion of that order leaves of a row, or None where none is known."""
        return self


@dataclass(frozen=True)
class Unbounded(Bound):
    """No bound, for tests that need none."""

    is_asked_for: ClassVar[bool] = False
    reads_theta: ClassVar[bool] = False
    evaluate: ClassVar[EvaluateBound] = staticmethod(no_bound)


@njit
def _scan(constants, at):  # type: ignore[no-untyped-def]
    n_total, largest = n_rows_at(at.arrays), 0.0
    for start in range(0, n_total, CHUNK):
        numbers = np.arange(start, min(start + CHUNK, n_total))
        new, old = both_sides_at(at.links, at.theta_new, at.theta, at.others, at.centre, at.fixed, at.arrays, numbers)
        for i in range(new.size):
            difference = abs(new[i] - old[i])
            if not difference <= largest:
                # A row that is impossible bounds nothing; the test then reads until it meets it.
                largest = difference if np.isfinite(difference) else np.inf
    return largest, n_total


@dataclass(frozen=True)
class Scan(Bound):
    """The largest |l_i| itself, found by evaluating all N rows at every transition."""

    reads_theta: ClassVar[bool] = False
    evaluate: ClassVar[EvaluateBound] = staticmethod(_scan)


@njit
def no_span(constants, at):  # type: ignore[no-untyped-def]
    """Return 0 for all pairs of points."""
    return 0.0, 0


@dataclass(frozen=True)
class ZeroBound(Bound):
    """Zero for every row, where sums over the data are sufficient statistics."""

    reads_theta: ClassVar[bool] = False
    known_by_sums: ClassVar[bool] = True
    evaluate: ClassVar[EvaluateBound] = staticmethod(no_span)

    def constants(
        self, region: Region | None = None, rows: Any = None, fixed: tuple[np.ndarray, ...] = ()
    ) -> tuple[tuple[()], BoundTable]:
        """Return a table of one row with the bound zero."""
        return (), bound_table(np.zeros(1))

    def row_source(self, constants: tuple[Any, ...]) -> RowSource | None:
        """Return the rows in proportion to their bounds."""
        return RowsByBounds(constants[1])
