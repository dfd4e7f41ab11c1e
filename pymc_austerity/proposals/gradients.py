"""The gradient of the log posterior by θ, estimated from a batch of rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytensor.tensor as pt
from numba import types
from pytensor.gradient import NullTypeGradError, grad
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace

from pymc_austerity.compat import pushforward
from pymc_austerity.compile.addresses import arrays_at, n_rows_at, tuple_of
from pymc_austerity.compile.by_address import Reached, build_call, reach
from pymc_austerity.compile.graph_compiler import compile_part
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.likelihood import VECTOR, RowLikelihood, Surroundings
from pymc_austerity.likelihood.linked_functions import (
    ONE_VECTOR,
    WITHOUT_ROWS,
    build_reading,
    reach_graph,
    reach_reading,
)
from pymc_austerity.proposals.proposal import Target
from pymc_austerity.proxy import along_line, product, shift_from
from pymc_austerity.rows import CHUNK

#: ``slope(theta, numbers, surroundings)``: ∇log π(θ), estimated from the rows with these numbers.
Slope = Callable[..., np.ndarray]


def summed_gradient(likelihood: RowLikelihood) -> Variable:
    """Return the graph of Σ∇ℓ_i over a batch, by θ."""
    try:
        return grad(likelihood.row_log_likelihood.sum(), likelihood.theta, disconnected_inputs="ignore")
    except (NotImplementedError, NullTypeGradError) as error:
        raise ValueError(
            f"The log-likelihood has no gradient that PyTensor could derive ({type(error).__name__}: {error}). Use a "
            "proposal without one, such as pymc_austerity.AdaptiveMetropolis()."
        ) from error


def remainder_gradient(likelihood: RowLikelihood, order: int) -> tuple[Variable, Variable]:
    """Return the graph of Σ(∇ℓ_i − ∇q_i) over a batch, by θ, and the vector ψ̂ that it takes.

    ∇q_i(ψ) = ∇ℓ_i(ψ̂) + ∇²ℓ_i(ψ̂)(ψ − ψ̂): the value at s = 0 of the gradient along ψ̂ + s(ψ − ψ̂), and its derivative.
    """
    gradient = summed_gradient(likelihood)
    along, centre, s = along_line(likelihood, gradient)
    terms = [along, pushforward(along, s, pt.ones_like(s))][:order]
    at_centre = graph_replace(terms, {s: pt.constant(0.0, dtype="float64")}, strict=False)
    return gradient - sum(at_centre[1:], start=at_centre[0]), centre


def link_gradient(target: Target) -> tuple[Slope, dict[str, Reached]]:
    """Compile the estimate of ∇log π(θ) from some rows, and what it finds by its address, by the names in `Links`.

    Without a proxy ∇log prior + (1/T)(N/n) Σ∇ℓ_i; with one the sum is over remainders, and the gradient of the summed
    expansion is added.
    """
    likelihood, prepared, options = target.likelihood, target.prepared, target.compile_kwargs
    inputs = [likelihood.theta, likelihood.others, *likelihood.fixed]
    prior_gradient = grad(likelihood.log_prior, likelihood.theta, disconnected_inputs="ignore")
    prior = compile_part(inputs, [prior_gradient], **options)
    if prepared is None:
        total, centre = summed_gradient(likelihood), []
    else:
        total, at = remainder_gradient(likelihood, prepared.order)
        centre = [at]
    row_inputs = [likelihood.theta, likelihood.others, *centre, *likelihood.fixed, *likelihood.batches]
    rows = compile_part(row_inputs, [total], **options)
    fixed, batch = tuple_of(likelihood.fixed), tuple_of(likelihood.batches)
    taken = types.Tuple((*[VECTOR for _ in centre], *fixed.types))

    @njit
    def of_prior(theta, others, fixed_at):  # type: ignore[no-untyped-def]
        return np.ascontiguousarray(prior(theta, others, *arrays_at(fixed_at, fixed))[0])

    @njit
    def of_rows(theta, others, inputs, batch):  # type: ignore[no-untyped-def]
        return (np.ascontiguousarray(rows(theta, others, *(inputs + batch))[0]),)

    reached = {
        "prior_gradient": reach(of_prior, *WITHOUT_ROWS),
        "row_gradient": reach_graph(rows, ONE_VECTOR, of_rows, VECTOR, VECTOR, taken, batch),
        "gradient_reading": reach_reading(ONE_VECTOR, 2, fixed, batch, prepared is not None),
    }
    return _build_slope(prepared is not None), reached


@cache
def _build_slope(expanded: bool) -> Slope:
    """Compile the estimate for any model, with a proxy or without."""
    prior, rows = build_call(VECTOR, *WITHOUT_ROWS), build_reading(ONE_VECTOR, 2)

    @njit
    def slope(theta, numbers, surroundings: Surroundings):  # type: ignore[no-untyped-def]
        others, fixed, expansion = surroundings.others, surroundings.fixed, surroundings.expansion
        links, arrays = surroundings.links, surroundings.arrays
        centre = expansion[0] if expanded else others
        total = np.zeros(theta.size)
        for start in range(0, numbers.size, CHUNK):
            some = numbers[start : start + CHUNK]
            total += rows(links.gradient_reading, links.row_gradient, (theta, others), centre, fixed, arrays, some)[0]
        total *= n_rows_at(arrays) / numbers.size
        if expanded:
            add_expanded_gradient(total, theta, others, expansion)
        return prior(links.prior_gradient, theta, others, fixed) + total / surroundings.temperature

    return slope


@njit
def add_expanded_gradient(total, theta, others, expansion):  # type: ignore[no-untyped-def]
    """Add ∇Σq_i by θ to `total`, in place."""
    shift = shift_from(expansion.centre, expansion.coordinates, theta, others)
    slope = expansion.gradient + product(expansion.hessian, shift)
    for k in range(shift.size):
        c = expansion.coordinates[k]
        if c < theta.size:
            total[c] += slope[k]
