"""What an expansion leaves of a row, to a precision relative to itself however small it is.

Near the centre ℓ_i − q_i is a difference of numbers that agree to all digits.  Its integral form has nothing to cancel:
along ψ(s) = ψ̂ + s(ψ − ψ̂) it is ∫₀¹ (1 − s)^k/k! · d^(k+1)ℓ_i(ψ(s))/ds^(k+1) ds, by a few nodes of the Gauss–Jacobi
rule of that weight.  Far from the centre a few nodes are not enough, and there the difference is precise.
"""

from __future__ import annotations

from functools import reduce
from math import factorial
from operator import add
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace
from scipy import special

from pymc_austerity.compat import pushforward
from pymc_austerity.compile.graph_compiler import compile_part
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.likelihood import Density, RowLikelihood
from pymc_austerity.proxy.expansion import along_line, known_sum

#: With h the change of a predictor and r the distance to the next singularity of a row's density, n nodes leave a
#: relative error of about (h/4r)^2n: 1e-9 and less where the difference is rounding.
_NODES = 3
#: The two forms agree when they are closer than the rounding of the difference, in units of the last digit of its
#: terms; generous, since a log-likelihood is less precise than its last digit.
_ROUNDING = 1_000 * np.finfo(float).eps


def compile_resolved_density(density: Density, likelihood: RowLikelihood, order: int, **options: Any) -> Density:
    """Return `density` with remainders in place of the rows, to a precision relative to themselves.

    The integral where it agrees with the difference to within the rounding of that, and the difference elsewhere: there
    it is the more precise of the two.  The higher derivative is compiled once, for all nodes and both sides.
    """
    along, centre, s = along_line(likelihood, likelihood.row_log_likelihood)
    derivatives = [along]
    for _ in range(order + 1):
        derivatives.append(pushforward(derivatives[-1], s, pt.ones_like(s)))
    at_centre = graph_replace(derivatives[:-1], {s: pt.constant(0.0, dtype="float64")}, strict=False)
    terms = [term / factorial(k) for k, term in enumerate(at_centre)]
    value = likelihood.row_log_likelihood
    outputs = [value - reduce(add, terms), reduce(add, [abs(term) for term in terms], abs(value))]
    place = pt.dvector("place", shape=(1,))
    (highest,) = graph_replace(derivatives[-1:], {s: place[0]}, strict=False)
    data = [likelihood.theta, likelihood.others, centre, *likelihood.fixed, *likelihood.batches]
    difference_of = compile_part(data, outputs, **options)
    highest_at = compile_part([place, *data], highest, **options)
    nodes, weights = _rule(order)

    @njit
    def both_sides(theta_new, theta, others, *data):  # type: ignore[no-untyped-def]
        new = np.zeros(0)
        for side in range(2):  # the model's code is compiled once for each call
            here = theta_new if side == 0 else theta
            difference, size = difference_of(here, others, *data)
            integral = np.zeros(difference.size)
            for k in range(nodes.size):
                integral += weights[k] * highest_at(nodes[k : k + 1], here, others, *data)[0]
            for i in range(integral.size):
                if not abs(integral[i] - difference[i]) <= _ROUNDING * size[i]:
                    integral[i] = difference[i]
            if side == 0:
                new = integral
        return new, integral

    return Density(density.log_prior, both_sides, known_sum(order))


def _rule(order: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights for ∫₀¹ (1 − s)^k/k! · f(s) ds."""
    x, w = special.roots_jacobi(_NODES, order, 0)
    return (1 + x) / 2, w / 2 ** (order + 1) / factorial(order)
