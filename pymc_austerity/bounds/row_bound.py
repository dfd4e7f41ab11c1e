"""Numbers C(θ, θ′) with |ℓ_i(θ′) − ℓ_i(θ)| ≤ C for all rows i: known in advance, given by the user, or scanned for.

A bound has constants, which depend on the data and are computed once for a chain, and a compiled function
``evaluate(constants, at)``, which returns C and the rows it evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError
from pymc.model import Model
from pytensor.graph.basic import Variable

from pymc_austerity.bounds.lipschitz import LinearPredictor, find_linear_predictors
from pymc_austerity.compile.addresses import n_rows_at
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.likelihood import ModelData, Place, RowLikelihood, both_sides_at
from pymc_austerity.rows import CHUNK, Rows, RowSource, largest_count
from pymc_austerity.unsupported_model import UnsupportedModelError


class Region(NamedTuple):
    """Where a proxy expands the rows, and how wide the posterior is there.

    Attributes
    ----------
    centre : numpy.ndarray, shape (D + O,)
        Of ψ = (θ, others).
    coordinates : numpy.ndarray of int64, shape (E,)
        Entries of ψ that the rows read.
    spread : numpy.ndarray, shape (D, D)
        A factor of the covariance of the surrogate.
    order : int
        Of the expansion, k.
    fixed : tuple of numpy.ndarray
        Data that are not indexed by row.
    rows : Rows
    """

    centre: np.ndarray
    coordinates: np.ndarray
    spread: np.ndarray
    order: int
    fixed: tuple[np.ndarray, ...]
    rows: Rows


class EvaluateBound(Protocol):
    """A bound, compiled."""

    def __call__(self, constants: Any, at: Place) -> tuple[float, int]:
        """Return a number C with |l_i| ≤ C for all rows, and how many rows were evaluated to find it.

        With a proxy l_i is a remainder.
        """
        ...


class Bound(Protocol):
    """What a step needs of a bound.

    Attributes
    ----------
    is_asked_for : bool
        Whether the test needs one.
    reads_theta : bool
        Whether it is written in the variables of the step, and so does not hold for a function of them.
    known_by_sums : bool
        Whether sums over the data determine the log-likelihood of all rows, so that there is nothing to bound.
    """

    is_asked_for: ClassVar[bool] = True
    reads_theta: ClassVar[bool] = True
    known_by_sums: ClassVar[bool] = False

    def constants(self, region: Region | None = None, largest_count: float = 1.0) -> tuple[Any, ...]:
        """Return what the compiled function needs of the data as they are now.

        Parameters
        ----------
        region : Region, optional
            Of the proxy, where there is one.
        largest_count : float
            How many rows of the table a row of the step stands for at most.
        """
        ...

    def learn(self, region: Region | None, rows: Any) -> tuple[tuple[Any, ...], Any]:
        """Return the constants, and the rows that are drawn from."""
        return self.constants(region, largest_count(rows)), rows

    def of_selected(self, likelihood: RowLikelihood) -> Bound | None:
        """Return the bound where rows read a function of θ alone and `likelihood` is the model of that, or None."""
        return None if self.reads_theta else self

    def row_source(self, constants: tuple[Any, ...]) -> RowSource | None:
        """Return how rows are drawn where each has a bound of its own; None where all share one."""
        return None

    def build(self) -> EvaluateBound:
        """Return the compiled function."""
        ...

    def build_for(self, constants: tuple[Any, ...]) -> EvaluateBound:
        """Return the compiled function for these constants, where it depends on them."""
        return self.build()

    def of_remainder(self, order: int) -> Bound | None:
        """Return the bound on what an expansion of that order leaves of a row, or None where none is known."""
        ...


@njit
def no_bound(constants, at):  # type: ignore[no-untyped-def]
    """Know no bound on |l_i|, at no cost."""
    return np.inf, 0


@dataclass(frozen=True)
class Unbounded(Bound):
    """No bound, for tests that need none."""

    is_asked_for: ClassVar[bool] = False
    reads_theta: ClassVar[bool] = False

    def constants(self, region: Region | None = None, largest_count: float = 1.0) -> tuple[Any, ...]:
        """Return nothing."""
        return ()

    def build(self) -> EvaluateBound:
        """Return the function that knows no bound."""
        return no_bound

    def of_remainder(self, order: int) -> Bound:
        """Return no bound either."""
        return self


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

    def constants(self, region: Region | None = None, largest_count: float = 1.0) -> tuple[Any, ...]:
        """Return nothing."""
        return ()

    def build(self) -> EvaluateBound:
        """Return a pass over all rows."""
        return _scan

    def of_remainder(self, order: int) -> Bound:
        """Return the scan, which is then over remainders."""
        return self


@njit
def _through_predictor(constants, at):  # type: ignore[no-untyped-def]
    radius, reach = constants
    theta_new, theta = at.theta_new, at.theta
    squares, weighted = 0.0, 0.0
    for d in range(theta.size):
        step = abs(theta_new[d] - theta[d])
        squares += step * step
        weighted += reach[d] * step
    return min(radius[0] * np.sqrt(squares), weighted), 0


@dataclass(frozen=True)
class Lipschitz(Bound):
    """The bound of a log-likelihood that reads θ through linear predictors with a known Lipschitz constant.

    With L_i the constant of row i and x_i the gradient of its predictor, |l_i| ≤ L_i |x_iᵀ(θ′ − θ)|, which is at most
    max_i L_i‖x_i‖ · ‖θ′ − θ‖ (Bardenet et al. 2014, section 4.2) and at most Σ_d max_i L_i|x_id| · |θ′_d − θ_d|.  The
    smaller of the two is taken; neither needs a row at a transition.
    """

    predictors: tuple[LinearPredictor, ...]

    def constants(self, region: Region | None = None, largest_count: float = 1.0) -> tuple[Any, ...]:
        """Return max_i L_i‖x_i‖ and max_i L_i|x_id|, summed over the observed variables."""
        found = [p.extremes() for p in self.predictors]
        radius, reach = sum(radius for radius, _ in found), np.sum([reach for _, reach in found], axis=0)
        return np.array([largest_count * radius]), largest_count * reach

    def build(self) -> EvaluateBound:
        """Return the smaller of the two bounds."""
        return _through_predictor

    def of_remainder(self, order: int) -> Bound | None:
        """Return the bound from the third derivative, where every predictor has one."""
        known = all(p.third is not None and not p.reads_others for p in self.predictors)
        return Cubic(self.predictors) if known and order == 2 else None


@njit
def _cubed(radius, reach, theta, centre):  # type: ignore[no-untyped-def]
    squares, weighted = 0.0, 0.0
    for d in range(theta.size):
        step = abs(theta[d] - centre[d])
        squares += step * step
        weighted += reach[d] * step
    return min(radius * np.sqrt(squares), weighted) ** 3


@njit
def _through_third_derivative(constants, at):  # type: ignore[no-untyped-def]
    radius, reach = constants
    total = 0.0
    for k in range(radius.size):
        total += _cubed(radius[k], reach[k], at.theta_new, at.centre)
        total += _cubed(radius[k], reach[k], at.theta, at.centre)
    return total, 0


@dataclass(frozen=True)
class Cubic(Bound):
    """The bound on what a second-order expansion leaves, by Taylor's theorem along a linear predictor.

    With T_i a sixth of the largest |∂³ℓ_i/∂η³|, the remainder at θ is at most T_i |x_iᵀ(θ − θ̂)|³.  For a logistic
    regression T_i = √3/108 (Bardenet, Doucet and Holmes 2017).
    """

    predictors: tuple[LinearPredictor, ...]

    def constants(self, region: Region | None = None, largest_count: float = 1.0) -> tuple[Any, ...]:
        """Return max_i T_i^⅓‖x_i‖ and max_i T_i^⅓|x_id|, for each observed variable."""
        found = [p.cubic_extremes() for p in self.predictors]
        root = np.cbrt(largest_count)
        return root * np.array([radius for radius, _ in found]), root * np.array([reach for _, reach in found])

    def build(self) -> EvaluateBound:
        """Return the sum of the limits at both points."""
        return _through_third_derivative

    def of_remainder(self, order: int) -> Bound:
        """Return itself."""
        return self


@dataclass(frozen=True)
class Given(Bound):
    """A bound from the user, as a PyTensor graph or a function that numba compiles."""

    theta: Variable | None = None
    theta_new: Variable | None = None
    graph: Variable | None = None
    function: Callable[..., Any] | None = None

    def constants(self, region: Region | None = None, largest_count: float = 1.0) -> tuple[Any, ...]:
        """Return the largest count: what was given is a bound for a row of the table."""
        return (largest_count,)

    def build(self) -> EvaluateBound:
        """Compile what was given."""
        if self.function is not None:
            function = self.function

            @njit
            def evaluate(constants, at):  # type: ignore[no-untyped-def]
                return constants[0] * float(function(at.theta, at.theta_new)), 0

            return evaluate
        graph = pm.compile([self.theta, self.theta_new], [self.graph], mode="NUMBA", on_unused_input="ignore").vm.jit_fn

        @njit
        def evaluate_graph(constants, at):  # type: ignore[no-untyped-def]
            return constants[0] * graph(at.theta, at.theta_new)[0].item(), 0

        return evaluate_graph

    def of_remainder(self, order: int) -> Bound:
        """Return what was given: whoever asks for a proxy and gives a bound gives one on the remainder."""
        return self


_CHOICES = (
    "Pass a function of (theta, theta_new), the flat vectors of the step's variables in the unconstrained space, that "
    "returns a number no |log p(row | theta_new) − log p(row | theta)| exceeds: either one that builds a PyTensor "
    "expression or one that numba can compile. For a normal likelihood with unknown mean and unit variance it is "
    "bound=lambda theta, new: abs(new[0] - theta[0]) * (largest + abs(new[0] + theta[0]) / 2) with largest = "
    "abs(y).max(). Or pass bound='scan': the largest over all rows at every draw, which evaluates (and counts) all "
    "N rows each time."
)


def find_bound(bound: str | Callable[..., Any], model: Model, data: ModelData) -> Bound:
    """Return the bound that a user asked for.

    Raises
    ------
    ValueError
        ``"lipschitz"`` where no such bound is known for the model, a function that does not return one number, or an
        unknown name.
    TypeError
        Something that is neither a name nor a function.
    """
    if bound == "scan":
        return Scan()
    if bound == "lipschitz":
        try:
            return Lipschitz(find_linear_predictors(model, data.terms, data.likelihood))
        except NotImplementedError as reason:
            raise UnsupportedModelError(
                f"No bound on the log ratio of a row is known for this model: {reason}. {_CHOICES}"
            ) from None
    if callable(bound):
        return _given(bound, data.likelihood.theta_size)
    raise (ValueError if isinstance(bound, str) else TypeError)(
        f"bound={bound!r} is not 'lipschitz', 'scan' or a function. {_CHOICES}"
    )


def _given(bound: Callable[..., Any], size: int) -> Given:
    theta, theta_new = pt.dvector("theta", shape=(size,)), pt.dvector("theta_new", shape=(size,))
    if not isinstance(bound, Dispatcher):
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
