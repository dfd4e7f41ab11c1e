"""Bounds c_i, one a row, on what an expansion leaves of it: |ℓ_i − q_i| ≤ c_i‖z‖^(k+1) in the whitened space.

With θ̂ the centre of an expansion of order k, V = LLᵀ the covariance of the surrogate and z = L⁻¹(θ − θ̂), a change of
the remainder of row i is at most c_i M with M(θ, θ′) = ‖z‖^(k+1) + ‖z′‖^(k+1), the same seen from either side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, special

from pymc_austerity.bounds.bound_cones import (
    Whitened,
    WhitenedCones,
    distances_of_cones,
    rows_in_cones,
    whitened_at,
)
from pymc_austerity.bounds.remainder_bounds import RemainderBounds
from pymc_austerity.bounds.row_bound import Bound, EvaluateBound, Region
from pymc_austerity.bounds.row_graph import NoRemainderBoundError
from pymc_austerity.cholesky import cholesky_of
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import RowLikelihood
from pymc_austerity.rows import OUTWARDS, Rows, RowSource, Table, no_op, number_in_table
from pymc_austerity.rows.by_bounds import bound_table
from pymc_austerity.unsupported_model import UnsupportedModelError

_one_at_a_time = Lock()

#: Shares of the rows that take as long to draw by their bounds, and evaluate at both ends of a move, as all take in
#: order and at one end: of rows that read one number, and of others, whose remainders take longer.
_SHARES_OF_ALL = 1 / 6, 1 / 20
#: Rows of which bounds are found first, where each takes long.
_FIRST = 2_000

#: Share of the draws of a normal posterior that lie further out than the radius, where all rows are read.
_OUTSIDE = 1e-9


REMAINDER_CHOICES = (
    "Pass a function of (centre, factor, radius) that returns an array of N numbers ≥ 0, one a row: centre is the flat "
    "vector θ̂ of the step's variables in the unconstrained space, factor has a column for each entry that the rows "
    "read, and with θ = centre + factor @ z no |log p(row | θ) − its expansion about the centre| may exceed the number "
    "of the row times ‖z‖³, or ‖z‖⁴ with order=3, while ‖z‖ ≤ radius. Or sample with PenaltyMH, which needs no bound."
)


class UnknownBoundError(UnsupportedModelError):
    """No bound on what an expansion leaves of a row is known; `reason` says why, in a sentence."""

    def __init__(self, reason: str):
        super().__init__(f"MHSS: {reason} {REMAINDER_CHOICES}")
        self.reason = reason

    def __reduce__(self) -> Any:
        return type(self), (self.reason,)


class _Move(NamedTuple):
    """What a bound reads of a `Place`."""

    theta_new: np.ndarray
    theta: np.ndarray
    centre: np.ndarray


@njit
def _whitened_distance(constants, at):  # type: ignore[no-untyped-def]
    """Return M(θ, θ′) and that no row was read for it."""
    whitened = constants[0]
    new, old = whitened_at(whitened, at.theta_new, at.centre)[1], whitened_at(whitened, at.theta, at.centre)[1]
    return new**whitened.power + old**whitened.power, 0


def typical_span(size: int, order: int) -> float:
    """Return E M = 2E‖z‖^(k+1) between two draws of a normal posterior of `size` parameters."""
    power = order + 1
    return float(2 ** (1 + power / 2) * np.exp(special.gammaln((size + power) / 2) - special.gammaln(size / 2)))


@dataclass(frozen=True, eq=False)
class WhitenedBound(Bound):
    """A bound for each row: |l_i| ≤ c_i M(θ, θ′) within the radius."""

    #: ``sizes(order, centre, factor, radius, fixed, rows)`` returns the c_i of an expansion of that order, for θ̂ of
    #: shape (D,) and `factor` of shape (D, E), with θ − θ̂ = factor·z in the E entries that the rows read.
    sizes: Callable[..., np.ndarray]
    theta_size: int  # D
    #: ``find(likelihood)`` returns the bound for another model of the same rows, where it is read from the model.
    find: Callable[[RowLikelihood], WhitenedBound] | None = None
    likelihood: RowLikelihood | None = None  # that it was read from
    numbers_read: int = 1

    @property
    def share_of_all(self) -> float:
        """The share of the rows, drawn by their bounds, that takes as long as all of them do in order."""
        return _SHARES_OF_ALL[0 if self.numbers_read == 1 else 1]

    def learn(self, region: Region | None, rows: Any) -> tuple[tuple[Any, ...], Any]:
        """Return the constants, and the rows that are drawn from: those of a pool, where there are blocks."""
        assert region is not None
        read = region.coordinates
        radius = float(np.sqrt(special.chdtri(max(1, read.size), _OUTSIDE)))
        spread = region.spread[read]
        factor = cholesky_of(spread @ spread.T, "MHSS: the covariance of what the rows read")
        whiten = np.ascontiguousarray(linalg.solve_triangular(factor, np.eye(read.size), lower=True))
        unclear = np.abs(whiten @ factor - np.eye(read.size)).sum()
        outwards = (1 + OUTWARDS) / (1 - unclear) if unclear < 1 else np.inf
        of_theta = np.zeros((self.theta_size, read.size))
        of_theta[read] = factor
        at = (region.order, region.centre[: self.theta_size], of_theta, radius, region.fixed)
        bounds_of = BoundsOfRows(self.likelihood, at, self.sizes)
        span = typical_span(read.size, region.order)
        whitened = Whitened(read, whiten, radius, region.order + 1, outwards)
        if self._read_most(bounds_of, span, rows):
            return (whitened, bound_table(np.zeros(len(rows)), np.arange(len(rows)))), rows
        table, stored = rows.bounded(bounds_of, span)
        all_found = table.source().complete and len(bounds_of.found) == len(rows)
        if self.likelihood is not None and all_found:
            of_rows = partial(RemainderBounds(self.likelihood).directions, at[1], of_theta, region.fixed)
            in_cones = rows_in_cones(bounds_of.found, of_rows, rows, whitened, span)
            if in_cones is not None:
                return in_cones, stored
        return (whitened, table), stored

    def _read_most(self, bounds_of: BoundsOfRows, span: float, rows: Table) -> bool:
        """Whether a sample shows that most rows will be read, of rows whose bounds take long and are in no cones."""
        if self.numbers_read == 1 or not isinstance(rows, Rows) or len(rows) < 2 * _FIRST:
            return False
        some = np.sort(np.random.default_rng(1985).choice(len(rows), _FIRST, replace=False))
        return float(np.minimum(1.0, bounds_of(rows.take(some)) * span).mean()) > self.share_of_all

    def build(self, constants: tuple[Any, ...]) -> EvaluateBound:
        """Return M, or those of all cones, compiled."""
        return distances_of_cones if isinstance(constants[0], WhitenedCones) else _whitened_distance

    def rows_of_moves(
        self, constants: tuple[Any, ...], draws: np.ndarray, centre: np.ndarray, temperature: float, n_rows: int
    ) -> float:
        """Return the mean number of rows, of `n_rows`, that moves from a draw to the next read with these constants.

        `draws` are of θ, shape (k, D), and `centre` is where the rows are expanded.
        """
        table, span = constants[1], partial(uninterrupted, self.build(constants), constants)
        rates = [table.source().rate(table, span(_Move(*pair, centre))[0]) for pair in pairwise(draws)]
        # Of no rows that are drawn the rate is not a number outside the radius.
        drawn = np.nan_to_num(rates, nan=0.0, posinf=np.inf)
        return float(np.minimum(n_rows, table.always.size + drawn / temperature).mean())

    def of_selected(self, likelihood: RowLikelihood) -> Bound | None:
        """Return the bound on what an expansion of the full model leaves, which sub-models are points of."""
        return None if self.find is None else self.find(likelihood)

    def __reduce__(self) -> Any:
        # What is compiled from the model stays in its process; the constants travel without it.
        return WhitenedBound, (_left_behind, self.theta_size)

    def row_source(self, constants: tuple[Any, ...]) -> RowSource | None:
        """Return the rows in proportion to their bounds."""
        return constants[1].source()


@dataclass(eq=False)
class BoundsOfRows:
    """What a pass does with rows: find the c_i."""

    likelihood: RowLikelihood | None  # from which they are found in another process
    at: tuple[Any, ...]  # order, centre, factor, radius, and the data that are not indexed by row
    sizes: Callable[..., np.ndarray] | None  # see `WhitenedBound`; None in another process before it is made
    found: np.ndarray = field(default_factory=lambda: np.empty(0))  # the c_i that were returned last

    @property
    def about(self) -> tuple[np.ndarray, ...]:
        """The region."""
        order, centre, factor, radius, fixed = self.at
        return np.array(order), centre, factor, np.array(radius), *fixed

    def released(self) -> BoundsOfRows:
        """Return itself: what it calls serves one thread at a time."""
        return self

    def __call__(self, rows: Rows, n_threads: int | None = None, advance: Callable[[int], None] = no_op) -> np.ndarray:
        """Return the c_i, or raise an UnsupportedModelError where one is not known."""
        with _one_at_a_time:
            if self.sizes is None:
                assert self.likelihood is not None
                self.sizes = sizes_from_graph(self.likelihood)
            sizes = self.sizes(*self.at, rows)
        advance(len(rows))
        if not np.isfinite(sizes).all():
            bad = np.flatnonzero(~np.isfinite(sizes))
            raise UnknownBoundError(
                f"No bound is known on what the proxy leaves of {bad.size:,} of {sizes.size:,} rows, the first of them "
                f"row {number_in_table(rows, bad[0])}, within {self.at[3]:.1f} standard deviations of the centre."
            )
        self.found = sizes
        return sizes

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "sizes": None}


def _left_behind(*region: Any) -> np.ndarray:
    raise RuntimeError("The bounds of a model's rows are not evaluated in another process.")


def sizes_from_graph(likelihood: RowLikelihood) -> Callable[..., np.ndarray]:
    """Return the function that finds the c_i by interval arithmetic through the graph of the rows."""
    of_order = cache(lambda order: RemainderBounds(likelihood, order))

    def sizes(order: int, *region: Any) -> np.ndarray:
        try:
            return of_order(order)(*region)
        except NoRemainderBoundError as reason:
            raise UnknownBoundError(str(reason)) from None

    return sizes
