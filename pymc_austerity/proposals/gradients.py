"""The gradient of the log posterior by θ, estimated from a batch of rows."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pytensor.tensor as pt
from numba import njit
from pytensor.gradient import NullTypeGradError, grad
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace

from pymc_austerity.compat import pushforward
from pymc_austerity.graph_compiler import compile_log_density
from pymc_austerity.likelihood import RowLikelihood, Surroundings
from pymc_austerity.proposals.protocol import Target
from pymc_austerity.proxy import along_line, shift_from
from pymc_austerity.rows import CHUNK, build_gather


def summed_gradient(likelihood: RowLikelihood) -> Variable:
    """Return the graph of Σ∇ℓ_i over a batch, by θ.

    Raises
    ------
    ValueError
        For a likelihood without a derivative.
    """
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


class Slope(Protocol):
    """An estimate of ∇log π(θ), compiled."""

    def __call__(self, theta: np.ndarray, numbers: np.ndarray, surroundings: Surroundings) -> np.ndarray:
        """Return it from the rows with the given numbers."""
        ...


def build_slope(target: Target) -> Slope:
    """Compile the estimate of ∇log π(θ) from some rows.

    Without a proxy ∇log prior + (1/T)(N/n) Σ∇ℓ_i; with one the sum is over remainders, and the gradient of the summed
    expansion is added.
    """
    likelihood, prepared, options = target.likelihood, target.prepared, target.compile_kwargs
    inputs = [likelihood.theta, likelihood.others, *likelihood.fixed]
    prior_gradient = grad(likelihood.log_prior, likelihood.theta, disconnected_inputs="ignore")
    prior = compile_log_density(inputs, [prior_gradient], **options).vm.jit_fn
    gather = build_gather(tuple(b.type.ndim for b in likelihood.batches))
    if prepared is None:
        total, row_inputs = summed_gradient(likelihood), inputs
    else:
        total, centre = remainder_gradient(likelihood, prepared.order)
        row_inputs = [likelihood.theta, likelihood.others, centre, *likelihood.fixed]
    rows = compile_log_density([*row_inputs, *likelihood.batches], [total], **options).vm.jit_fn
    expanded = prepared is not None

    @njit
    def slope(theta, numbers, surroundings: Surroundings):  # type: ignore[no-untyped-def]
        others, fixed, expansion = surroundings.others, surroundings.fixed, surroundings.expansion
        row_inputs = (expansion[0],) + fixed if expanded else fixed
        total = np.zeros(theta.size)
        for start in range(0, numbers.size, CHUNK):
            batch = gather(surroundings.arrays, numbers[start : start + CHUNK])
            total += rows(theta, others, *(row_inputs + batch))[0]
        total *= len(surroundings.arrays[0]) / numbers.size
        if expanded:
            add_expanded_gradient(total, theta, others, expansion)
        return prior(theta, others, *fixed)[0] + total / surroundings.temperature

    return slope


@njit
def add_expanded_gradient(total, theta, others, expansion):  # type: ignore[no-untyped-def]
    """Add ∇Σq_i by θ to `total`, in place."""
    shift = shift_from(expansion.centre, expansion.coordinates, theta, others)
    slope = expansion.gradient + np.dot(expansion.hessian, shift)
    for k in range(shift.size):
        c = expansion.coordinates[k]
        if c < theta.size:
            total[c] += slope[k]
