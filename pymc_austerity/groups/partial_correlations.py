"""A covariance with an LKJ prior in standard deviations and partial correlations.

PyMC moves the packed Cholesky factor with the logarithms of its diagonal.  As a standard deviation goes to zero its row
of the factor does, and the density in these coordinates rises without a limit for three and more coefficients.  In
the logarithms of the standard deviations and the canonical partial correlations, which are independent, it falls
(Lewandowski, Kurowicka and Joe, Journal of Multivariate Analysis 100, 2009).
"""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.transforms import CholeskyCovPacked
from pymc.model import Model
from pytensor.graph.basic import Variable

from pymc_austerity.groups.change_of_variables import ChangeOfVariables, log_density


def by_partial_correlations(model: Model) -> dict[Variable, ChangeOfVariables]:
    """Return the changes of all packed Cholesky factors of a model to numbers y of the same length.

    On the diagonal y is the logarithm of a standard deviation, elsewhere artanh of a partial correlation.
    """
    transforms = model.rvs_to_transforms
    return {rv: _change(model, rv) for rv in model.free_RVs if isinstance(transforms[rv], CholeskyCovPacked)}


def _change(model: Model, packed: Variable) -> ChangeOfVariables:
    size, eta, sds = packed.owner.op.dist_params(packed.owner)
    n_packed = packed.type.shape[0]
    new = pt.TensorType("float64", (n_packed,))(packed.name)
    rows, columns = np.tril_indices(round((2 * n_packed) ** 0.5 - 0.5))
    diagonal, same_row = rows == columns, rows[:, None] == rows
    (on,), (off,) = np.nonzero(diagonal), np.nonzero(~diagonal)
    # Entry (i, j) is σ_i w_ij Π_{k<j} √(1 − w_ik²), with w = tanh y, and 1 on the diagonal.
    before = (same_row & (columns < columns[:, None]) & ~diagonal).astype(float)
    log_cosh = pt.softplus(2 * new) - new - np.log(2)
    entries = pt.exp(new[on[rows]] - pt.dot(before, log_cosh)) * pt.where(diagonal, 1.0, pt.tanh(new))
    squares = packed**2
    behind = pt.dot((same_row & (columns > columns[:, None])).astype(float), squares)
    sd = pt.sqrt(pt.dot((same_row & (columns[:, None] == rows[:, None])).astype(float), squares))
    y = pt.where(diagonal, pt.log(sd), pt.arcsinh(packed / pt.sqrt(behind + diagonal)))
    # (1 + w_ij)/2 ~ Beta(b_j, b_j), b_j = η + (K − 2 − j)/2 with columns from zero.
    b = eta + (size - 2 - columns[off]) / 2
    of_correlations = -2 * b * log_cosh[off] - (2 * b - 1) * np.log(2) - (2 * pt.gammaln(b) - pt.gammaln(2 * b))
    of_sds = log_density(sds, pt.exp(new[on]), model.basic_RVs).sum() + new[on].sum()
    return ChangeOfVariables(y, new, entries, of_sds + of_correlations.sum(), {})
