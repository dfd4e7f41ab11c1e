"""Bounds C(θ, θ′) ≥ |ℓ_i(θ′) − ℓ_i(θ)| for all rows i: constants of the data, and a compiled function of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytensor.tensor as pt

from pymc_austerity.bounds.remainder_bounds import RemainderBounds
from pymc_austerity.bounds.row_graph import NoRemainderBoundError
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

    def constants(self, rows: Rows, fixed: tuple[np.ndarray, ...]) -> tuple[Any, ...]:
        """Return what the compiled function needs of the data as they are now."""
        return ()

    def learn(self, region: Region | None, rows: Any) -> tuple[tuple[Any, ...], Any]:
        """Return the constants, and the rows that are drawn from."""
        return self.constants(rows, () if region is None else region.fixed), rows

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

    def constants(self, rows: Rows, fixed: tuple[np.ndarray, ...]) -> tuple[tuple[()], BoundTable]:
        """Return a table of one row with the bound zero."""
        return (), bound_table(np.zeros(1))

    def row_source(self, constants: tuple[Any, ...]) -> RowSource | None:
        """Return the rows in proportion to their bounds."""
        return RowsByBounds(constants[1])


@njit
def _distance(radius, reach, a, b):  # type: ignore[no-untyped-def]
    """Return the smaller of the two bounds on c_i^(1/k)‖a − b‖."""
    squares, weighted = 0.0, 0.0
    for d in range(a.size):
        step = abs(a[d] - b[d])
        squares += step * step
        weighted += reach[d] * step
    return min(radius * np.sqrt(squares), weighted)


@njit
def _by_slope(constants, at):  # type: ignore[no-untyped-def]
    radius, reach = constants
    return _distance(radius[0], reach, at.theta_new, at.theta), 0


@njit
def _by_third_derivative(constants, at):  # type: ignore[no-untyped-def]
    radius, reach = constants
    new = _distance(radius[0], reach, at.theta_new, at.centre)
    return new**3 + _distance(radius[0], reach, at.theta, at.centre) ** 3, 0


@dataclass(frozen=True, eq=False)
class Lipschitz(Bound):
    """The bound of a log-likelihood whose slope is limited, wherever θ and the variables of other steps are.

    With c_i the most that row i changes with a unit of ‖θ′ − θ‖, and c_id with one of entry d alone, |l_i| is at most
    max_i c_i · ‖θ′ − θ‖ (Bardenet et al. 2014, section 4.2) and Σ_d max_i c_id · |θ′_d − θ_d|, the smaller of the two.
    """

    bounds: RemainderBounds | None  # of the order below, by θ and the others; None in another process
    theta_size: int
    cubic: Cubic | None = None  # the bound on what an expansion of second order leaves, where it is known
    evaluate: ClassVar[EvaluateBound] = staticmethod(_by_slope)
    order: ClassVar[int] = 0  # of the expansion whose remainder is bounded; of order 0, that is the change itself

    def constants(self, rows: Rows, fixed: tuple[np.ndarray, ...]) -> tuple[Any, ...]:
        """Return the largest c_i and c_id, or their cubic roots."""
        assert self.bounds is not None
        bounds, power = self.bounds, self.order + 1
        centre, columns = np.zeros(bounds.theta_size), np.eye(bounds.theta_size)[:, : self.theta_size]
        sizes = bounds(centre, columns, np.inf, fixed, rows)
        along = bounds.directions(centre, columns, fixed, rows)
        if along is not None:
            reach = (sizes[:, None] * np.abs(along) ** power).max(axis=0)
        elif self.order == 0 or bounds.numbers_read(centre, columns, fixed, rows) == 1:
            each = (bounds(centre, columns[:, [d]], np.inf, fixed, rows) for d in range(self.theta_size))
            reach = np.array([of_entry.max() for of_entry in each])
        else:  # of several predictors of one row the bounds along single entries do not add up
            reach = np.full(self.theta_size, np.inf)
        return np.power([sizes.max()], 1 / power), reach ** (1 / power)

    def of_remainder(self, order: int) -> Bound | None:
        """Return the bound from the third derivative, where there is one."""
        return self.cubic if order == 2 else None

    def __reduce__(self) -> Any:
        return type(self), (None, self.theta_size, self.cubic)


class Cubic(Lipschitz):
    """The bound on what a second-order expansion leaves, by Taylor's theorem: c_i‖θ − θ̂‖³ at either end of a move.

    For a logistic regression c_i = √3/108 · ‖x_i‖³ (Bardenet, Doucet and Holmes 2017).
    """

    evaluate: ClassVar[EvaluateBound] = staticmethod(_by_third_derivative)
    order: ClassVar[int] = 2


def find_lipschitz(likelihood: RowLikelihood, few: Rows, fixed: tuple[np.ndarray, ...]) -> Lipschitz:
    """Return the bound by slopes, or raise NoRemainderBoundError where they have no limit; tried on a few rows."""
    slopes = Lipschitz(RemainderBounds(_of_all_variables(likelihood), order=0), likelihood.theta_size)
    if not np.isfinite(slopes.constants(few, fixed)[0]).all():
        raise NoRemainderBoundError(
            "No bound on the log ratio of a row is known for this model: there is no limit as "
            f"{sorted(likelihood.read)} move, as of normal errors, of a probit, or of errors whose scale is a free "
            "variable."
        )
    try:
        cubic = Cubic(RemainderBounds(likelihood), likelihood.theta_size)
        known = np.isfinite(cubic.constants(few, fixed)[0]).all()
    except NoRemainderBoundError:
        known = False
    return replace(slopes, cubic=cubic) if known else slopes


def _of_all_variables(likelihood: RowLikelihood) -> RowLikelihood:
    """Return the likelihood with the variables of other steps behind θ."""
    if not likelihood.other_blocks:
        return likelihood
    rows, psi = likelihood.of_psi(likelihood.row_log_likelihood)
    none = pt.dvector("others", shape=(0,))
    return replace(
        likelihood, theta=psi, others=none, blocks=likelihood.psi_blocks, other_blocks=(), row_log_likelihood=rows
    )
