"""Taylor control variates of the row log-likelihood, whose sum over all rows is known.

With ψ = (θ, others) and a centre ψ̂, row i is expanded as
q_i(ψ) = ℓ_i(ψ̂) + ∇ℓ_i(ψ̂)·(ψ − ψ̂) + ½ (ψ − ψ̂)ᵀ∇²ℓ_i(ψ̂)(ψ − ψ̂).
The tests then see only the remainders ℓ_i − q_i (Bardenet, Doucet and Holmes 2017); Σ q_i follows from Σ∇ℓ_i(ψ̂)
and Σ∇²ℓ_i(ψ̂), read once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import factorial
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace

from pymc_austerity.compat import pushforward
from pymc_austerity.compile.graph_compiler import compile_part
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import BothSides, Density, KnownSum, RowLikelihood
from pymc_austerity.proxy.linear_maps import LinearMap, product
from pymc_austerity.user_input import takes_fields

#: Where the remainder shrinks by less than this share of 2^(order + 1) when the step halves, the derivative is wrong.
_ORDER_SLACK = 0.75
#: Steps from the centre at which the order is looked for, in steps of posterior size.
_STEPS = (1.0, 0.25, 0.0625)
#: Remainders below this share of the log-likelihood are rounding error, as for a Gaussian with known scale.
_ROUNDING = 1e-9


@takes_fields
@dataclass(frozen=True)
class Taylor:
    """Taylor expansion of every row's log-likelihood around a centre near the posterior mode.

    Parameters
    ----------
    order : {1, 2, 3}
        Second order leaves a remainder that shrinks with the cube of the posterior width, third order with its fourth
        power.  Third order stores a number for every triple of coordinates that the rows read.
    centre : mapping of str to array_like, optional
        Values of the free variables in the unconstrained space (as in ``model.initial_point()``), at which to
        expand in place of the mode that is searched for.

    Raises
    ------
    ValueError
        For another order.

    Examples
    --------
    >>> import pymc_austerity as pma
    >>> pma.Taylor(order=2)
    Taylor(order=2, centre=None)
    """

    order: int = 2
    centre: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.order not in (1, 2, 3):
            raise ValueError(
                f"Taylor(order={self.order}) must be 1, 2 or 3: sums of higher derivatives do not fit in memory. Use 2."
            )


class Expansion(NamedTuple):
    """The expansion of all rows around one centre, as arrays for compiled code."""

    #: ψ̂, all of θ and others, shape (D + O,); where a coordinate is bent, followed by the powers λ of all.
    centre: np.ndarray
    coordinates: np.ndarray  # entries of ψ that the rows read, shape (E,)
    gradient: np.ndarray  # Σ∇ℓ_i(ψ̂), shape (E,)
    hessian: LinearMap  # Σ∇²ℓ_i(ψ̂), E by E; zero at order 1
    #: At order 3, for each triple a ≤ b ≤ c of coordinates, c the fastest, Σ∂³ℓ_i(ψ̂)/∂ψ_a∂ψ_b∂ψ_c, divided by 6 and
    #: times the number of different orders of the three: what h_a h_b h_c is multiplied by, shape (E(E + 1)(E + 2)/6,).
    cubic: np.ndarray = np.empty(0)


@njit
def shift_from(centre: np.ndarray, coordinates: np.ndarray, theta: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return ψ − ψ̂ along the given coordinates of ψ = (θ, others), or (exp(λ(ψ − ψ̂)) − 1)/λ where one is bent."""
    d, size = theta.size, theta.size + others.size
    shift = np.empty(coordinates.size)
    for k in range(coordinates.size):
        c = coordinates[k]
        shift[k] = (theta[c] if c < d else others[c - d]) - centre[c]
        if centre.size > size and centre[size + c] != 0.0:
            shift[k] = np.expm1(centre[size + c] * shift[k]) / centre[size + c]
    return shift


@njit
def expanded_sum(theta: np.ndarray, others: np.ndarray, expansion: Expansion) -> float:
    """Return Σ q_i(ψ) − Σ ℓ_i(ψ̂)."""
    shift = shift_from(expansion.centre, expansion.coordinates, theta, others)
    return np.dot(expansion.gradient + 0.5 * product(expansion.hessian, shift), shift)


@njit
def expanded_cubic_sum(theta: np.ndarray, others: np.ndarray, expansion: Expansion) -> float:
    """Return Σ q_i(ψ) − Σ ℓ_i(ψ̂) for an expansion of third order."""
    h = shift_from(expansion.centre, expansion.coordinates, theta, others)
    contracted, at = np.zeros(h.size), 0
    for a in range(h.size):
        for b in range(a, h.size):
            product = h[a] * h[b]
            for c in range(b, h.size):
                contracted[c] += product * expansion.cubic[at]
                at += 1
    quadratic = np.dot(expansion.gradient + 0.5 * np.dot(expansion.hessian, h), h)
    return quadratic + np.dot(contracted, h)


def known_sum(order: int) -> KnownSum:
    """Return what is known of the sum over all rows by an expansion of that order, compiled."""
    return expanded_cubic_sum if order == 3 else expanded_sum


def along_line(likelihood: RowLikelihood, graph: Variable, bent: bool = False) -> tuple[Variable, Variable, Variable]:
    """Return a graph on the line ψ(s) = ψ̂ + s(ψ − ψ̂), or one that is straight in bent coordinates.

    Beside it the vector that it takes, ψ̂ or (ψ̂, λ), and the scalar s.
    """
    d, size, s = likelihood.theta_size, likelihood.psi_blocks[-1].stop, pt.dscalar("s")
    centre = pt.dvector("centre", shape=(2 * size,)) if bent else likelihood.psi_vector("centre")
    start = centre[:size] if bent else centre
    line = {
        likelihood.theta: start[:d] + s * (likelihood.theta - start[:d]),
        likelihood.others: start[d:] + s * (likelihood.others - start[d:]),
    }
    if bent:
        power = centre[size : size + d]
        divisor = pt.switch(pt.eq(power, 0.0), 1.0, power)
        curve = pt.log1p(s * pt.expm1(power * (likelihood.theta - start[:d]))) / divisor
        line[likelihood.theta] = pt.switch(pt.eq(power, 0.0), line[likelihood.theta], start[:d] + curve)
    (along,) = graph_replace([graph], line, strict=False)
    return along, centre, s


def row_remainder(likelihood: RowLikelihood, order: int, bent: bool = False) -> tuple[Variable, Variable]:
    """Return the graph of ℓ_i(ψ) − q_i(ψ) + ℓ_i(ψ̂) for a batch, and the vector ψ̂, or (ψ̂, λ), that it takes.

    Along ψ(s) = ψ̂ + s(ψ − ψ̂) the derivatives by the scalar s at s = 0 are the terms of the expansion times k!, so one
    forward-mode derivative a term serves any graph and any number of parameters.
    """
    along, centre, s = along_line(likelihood, likelihood.expanded, bent)
    terms, derivative = [], along
    for k in range(1, order + 1):
        derivative = pushforward(derivative, s, pt.ones_like(s))
        terms.append(derivative / factorial(k) if k > 1 else derivative)
    at_centre = graph_replace(terms, {s: pt.constant(0.0, dtype="float64")}, strict=False)
    return likelihood.row_log_likelihood - sum(at_centre[1:], start=at_centre[0]), centre


def compile_remainder(
    likelihood: RowLikelihood, order: int, compile_kwargs: dict[str, Any], bent: bool = False
) -> BothSides:
    """Compile ``both_sides(theta_new, theta, others, centre, *fixed, *batch)`` for the remainders.

    Returned values keep the constant ℓ_i(ψ̂), which cancels in the difference of the two sides.
    """
    remainder, centre = row_remainder(likelihood, order, bent)
    theta_new = likelihood.theta.type("theta_new")
    (remainder_new,) = graph_replace([remainder], {likelihood.theta: theta_new}, strict=False)
    inputs = [theta_new, likelihood.theta, likelihood.others, centre, *likelihood.fixed, *likelihood.batches]
    return compile_part(inputs, [remainder_new, remainder], **compile_kwargs)


def compile_remainder_density(
    density: Density, likelihood: RowLikelihood, order: int, bent: bool = False, **options: Any
) -> Density:
    """Return `density` with remainders in place of the rows: what the proxy of that order leaves."""
    return Density(density.log_prior, compile_remainder(likelihood, order, options, bent), known_sum(order))


def check_order(
    both_sides: BothSides,
    expansion: Expansion,
    order: int,
    spread: np.ndarray,
    fixed: Sequence[np.ndarray],
    batch: Sequence[np.ndarray],
    theta_size: int,
) -> str | None:
    """Check by numbers that the remainder shrinks by 2^(order+1) when the step from the centre halves.

    `both_sides` is that of `compile_remainder`, and `spread` a step of posterior size, of shape (D + O,).  Returns what
    is wrong, or None.
    """
    centre, d = expansion.centre, theta_size

    def change(step: float) -> float:
        psi = centre[: spread.size] + step * spread
        return float(np.abs(remainders(psi) - base).mean())

    def remainders(psi: np.ndarray) -> np.ndarray:
        return uninterrupted(both_sides, centre[:d], psi[:d], psi[d:], centre, *fixed, *batch)[1]

    base = remainders(centre[: spread.size])
    rounding = _ROUNDING * (1 + np.abs(base).mean())
    # A wide posterior is outside the reach of the leading term; a mistake shows the more, the shorter the step, until
    # nothing but rounding error is left.
    for step in _STEPS:
        half, full = change(step / 2), change(step)
        if not np.isfinite([half, full]).all():
            return "the derivatives of the log-likelihood are not finite"
        if full <= rounding:
            return None
        ratio = full / max(half, np.finfo(float).tiny)
        if ratio >= _ORDER_SLACK * 2 ** (order + 1):
            return None
    return (
        f"the remainder of an expansion of order {order} shrank by {ratio:.2f} when the step halved, "
        f"where 2^{order + 1} was due"
    )
