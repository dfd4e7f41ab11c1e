"""The two parts that an expansion makes of the log-likelihood of all rows, evaluated by NumPy."""

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import grad

from pymc_austerity.compile.graph_compiler import interpret_log_density
from pymc_austerity.proxy.expansion import known_sum, row_remainder
from pymc_austerity.proxy.full_pass import Sums


def sums_at(likelihood, centre, rows):
    """Return the sum over all rows of what is expanded, its gradient and its Hessian."""
    total = likelihood.expanded.sum()
    gradient = grad(total, likelihood.theta)
    hessian = pt.stack([grad(gradient[k], likelihood.theta) for k in range(centre.size)])
    return Sums(*interpret_log_density([likelihood.theta, *likelihood.batches], [total, gradient, hessian])(
        centre, *rows.arrays
    ))  # fmt: skip


def changes(likelihood, rows, expansion, ends, order=2, bent=False):
    """Return how remainders of all rows and known sum change between two points, and how the log-likelihood does."""
    remainder, at = row_remainder(likelihood, order, bent)
    inputs = [likelihood.theta, at, *likelihood.batches]
    evaluate = interpret_log_density(inputs, [remainder.sum(), likelihood.row_log_likelihood.sum()])
    of_rows = np.subtract(*(evaluate(end, expansion.centre, *rows.arrays) for end in ends))
    known = np.subtract(*(known_sum(order)(end, np.empty(0), expansion) for end in ends))
    return of_rows[0] + known, of_rows[1]
