"""The bound on a row, or on what an expansion leaves of it, that a user chose: known, given, or scanned for."""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numba import NumbaError
from numba.extending import is_jitted
from pytensor.graph.basic import Variable

from pymc_austerity.bounds.remainder_bounds import RemainderBounds
from pymc_austerity.bounds.row_bound import Bound, EvaluateBound, Scan, ZeroBound, find_lipschitz
from pymc_austerity.bounds.row_graph import NoRemainderBoundError
from pymc_austerity.bounds.sums_of_squares import is_quadratic_in_data, rows_for_moments
from pymc_austerity.bounds.whitened_bound import REMAINDER_CHOICES, WhitenedBound, sizes_from_graph
from pymc_austerity.compile.graph_compiler import compile_part
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.likelihood import ModelData, RowLikelihood
from pymc_austerity.rows import Rows, largest_count
from pymc_austerity.tried_setup import check_time
from pymc_austerity.unsupported_model import UnsupportedModelError


@dataclass(frozen=True)
class Given(Bound):
    """A bound from the user, of remainders where there is a proxy: a PyTensor graph, or a function for numba."""

    theta: Variable | None = None
    theta_new: Variable | None = None
    graph: Variable | None = None
    function: Callable[..., Any] | None = None

    def constants(self, rows: Rows, fixed: tuple[np.ndarray, ...]) -> tuple[Any, ...]:
        """Return the largest count: what was given is a bound for a row of the table."""
        return (largest_count(rows),)

    def build(self, constants: tuple[Any, ...]) -> EvaluateBound:
        """Compile what was given."""
        if self.function is not None:
            function = self.function

            @njit
            def evaluate(constants, at):  # type: ignore[no-untyped-def]
                return constants[0] * float(function(at.theta, at.theta_new)), 0

            return evaluate
        graph = compile_part([self.theta, self.theta_new], [self.graph], mode="NUMBA")

        @njit
        def evaluate_graph(constants, at):  # type: ignore[no-untyped-def]
            return constants[0] * graph(at.theta, at.theta_new)[0].item(), 0

        return evaluate_graph


_CHOICES = (
    "Pass a function of (theta, theta_new), the flat vectors of the step's variables in the unconstrained space, that "
    "returns a number no |log p(row | theta_new) − log p(row | theta)| exceeds: either one that builds a PyTensor "
    "expression or one that numba can compile. For a normal likelihood with unknown mean and unit variance it is "
    "bound=lambda theta, new: abs(new[0] - theta[0]) * (largest + abs(new[0] + theta[0]) / 2) with largest = "
    "abs(y).max(). Or pass bound='scan': the largest over all rows at every draw, which evaluates (and counts) all "
    "N rows each time."
)


def find_bound(bound: str | Callable[..., Any], data: ModelData) -> Bound:
    """Return the bound that a user asked for, or raise a ValueError or TypeError that says what can be asked for."""
    if bound == "scan":
        return Scan()
    if bound == "lipschitz":
        few = data.rows.take(np.arange(min(len(data.rows), _TRIED)))
        try:
            return find_lipschitz(data.likelihood, few, data.fixed)
        except NoRemainderBoundError as reason:
            raise UnsupportedModelError(f"{reason} {_CHOICES}") from None
    if callable(bound) and not isinstance(bound, type):
        return _given(bound, data.likelihood.theta_size)
    raise (ValueError if isinstance(bound, str) else TypeError)(
        f"bound={bound!r} is not 'lipschitz', 'scan' or a function. {_CHOICES}"
    )


def _given(bound: Callable[..., Any], size: int) -> Given:
    theta, theta_new = pt.dvector("theta", shape=(size,)), pt.dvector("theta_new", shape=(size,))
    if not is_jitted(bound):
        try:
            graph = bound(theta, theta_new)
        except Exception:  # NumPy functions fail on graphs in many ways; such a function is for numba
            graph = None
        if isinstance(graph, Variable) and graph.type.ndim == 0:
            return Given(theta, theta_new, graph.astype("float64"))
        bound = njit(bound)
    try:
        value = bound(np.zeros(size), np.ones(size))
    except (NumbaError, TypeError) as problem:
        raise TypeError(
            f"bound={bound!r} neither builds a PyTensor expression with no dimensions from two vectors nor compiles "
            f"with numba: {problem}"
        ) from problem
    if np.ndim(value) or not value >= 0:
        raise ValueError(f"bound= returned {value!r} for two points and must return one number ≥ 0. {_CHOICES}")
    return Given(function=bound)


#: Rows on which the graph is tried.
_TRIED = 64
#: Seconds above which it is said that bounds take long to find.
_LONG = 60.0

_log = logging.getLogger("pymc_austerity")


def _not_expanded(*region: Any) -> np.ndarray:
    raise RuntimeError("Rows that read discrete variables have no expansion whose remainder could be bounded.")


def find_remainder_bound(bound: str | Callable[..., Any], data: ModelData) -> Bound:
    """Return the bound a row that a user asked for; that of zero where sums over the data determine the likelihood."""
    likelihood, size, n_rows = data.likelihood, data.likelihood.theta_size, len(data.rows)
    if single := [b.name for b in likelihood.blocks if np.dtype(b.dtype) == np.float32]:
        raise UnsupportedModelError(
            f"MHSS: {single} are of single precision (pytensor.config.floatX='float32'): every draw would be rounded "
            "to seven digits, and what an exact decision is about is smaller than that. Build the model with "
            "floatX='float64'; data may stay in single precision. Or use PenaltyMH."
        )
    if callable(bound):
        if names := sorted({b.name for b in likelihood.other_blocks} & likelihood.read):
            raise UnsupportedModelError(
                f"MHSS: the rows read {names}, which another step moves, and bounds on its rows hold while only its "
                "own variables move. Give it all that the rows read, or use PenaltyMH."
            )
        return WhitenedBound(_checked(bound, n_rows), size)
    if bound != "auto":
        raise (ValueError if isinstance(bound, str) else TypeError)(
            f"bound={bound!r} is not 'auto' or a function. {REMAINDER_CHOICES}"
        )
    if is_quadratic_in_data(likelihood) and n_rows > rows_for_moments(data.rows):
        return ZeroBound()

    def find(likelihood: RowLikelihood, centre: np.ndarray | None = None) -> WhitenedBound:
        return _from_graph(likelihood, data, np.zeros(likelihood.theta_size) if centre is None else centre)

    if any(np.dtype(b.dtype).kind != "f" for b in likelihood.blocks):  # only a model without them can be expanded
        return WhitenedBound(_not_expanded, size, find)
    return replace(find(likelihood, data.theta0), find=find)


def _from_graph(likelihood: RowLikelihood, data: ModelData, centre: np.ndarray) -> WhitenedBound:
    """Return the bounds that are read from the graph of the rows, tried on a few of them."""
    sizes = sizes_from_graph(likelihood)
    factor = 1e-3 * np.eye(likelihood.theta_size)
    numbers, n = 1, min(len(data.rows), _TRIED)
    with suppress(NoRemainderBoundError):  # of an operation without a rule, which `sizes` tells of before a pass
        bounds = RemainderBounds(likelihood)
        numbers = bounds.numbers_read(centre, factor, data.fixed, data.rows)
        n = min(len(data.rows), bounds.rows_at_once(centre, factor, data.fixed, data.rows) // 8)
    few = data.rows.take(np.arange(n))
    sizes(2, centre, factor, 1.0, data.fixed, few)  # what is built once is built
    start = time.process_time()
    sizes(2, centre, factor, 1.0, data.fixed, few)
    # Of fewer rows at once each takes two to three times as long.
    seconds = len(data.rows) / n / 2.5 * (time.process_time() - start)
    check_time(seconds)
    if seconds > _LONG:
        _log.warning(
            f"Each row reads the parameters through {numbers} numbers, and the bounds of {len(data.rows):,} rows take "
            f"about {seconds / 60:.0f} minutes to find. PenaltyMH, which is approximate, needs none."
        )
    return WhitenedBound(sizes, likelihood.theta_size, likelihood=likelihood, numbers_read=numbers)


def _checked(bound: Callable[..., Any], n_rows: int) -> Callable[..., np.ndarray]:
    def sizes(order: int, centre: np.ndarray, factor: np.ndarray, radius: float, *data: Any) -> np.ndarray:
        found = np.asarray(bound(centre, factor, radius), dtype=float)
        if found.shape != (n_rows,) or not (np.isfinite(found).all() and (found >= 0).all()):
            raise ValueError(
                f"bound= returned an array of shape {found.shape} and must return {n_rows} finite numbers ≥ 0, one a "
                f"row. {REMAINDER_CHOICES}"
            )
        return found

    return sizes
