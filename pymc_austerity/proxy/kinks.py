"""Rows with a kink, as those of an absolute value, have no second derivative there: what is expanded has it rounded.

A sum of many |y_i − x_iᵀβ|, each with its kink at another place, is as smooth as the posterior is wide.  √(r² + h²) is
expanded in place of |r|, with h the width of r under the posterior.  The rows that a test reads stay as they are, so
that h decides how much the expansion leaves of a row, and no more.  It differs from |r| far from the kink too, by about
h²/2|r|, so that rows which seldom cross it have a weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import grad
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.scalar import basic as scalars
from pytensor.tensor.elemwise import Elemwise
from scipy import optimize

from pymc_austerity.compat import pushforward
from pymc_austerity.compile.graph_compiler import interpret_log_density
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import RowLikelihood
from pymc_austerity.proxy.full_pass import read_coordinates
from pymc_austerity.rows import Table

#: Rows on which widths are found, the width that the search begins with, in typical sizes of the argument, and the
#: steps of the search; of more parameters than so many no matrix of curvatures is held.
_SAMPLE, _BEGIN, _STEPS, _MANY = 20_000, 0.3, 100, 500
#: The width that the search ends with, in standard deviations: rows that read large covariates have larger ones than
#: the typical row.
WIDTH = 1.5
#: Relative change of a curvature of the rows from which on rounding matters: a square of |r| has no kink.  Of very many
#: parameters so many are looked at.
_MATTERS, _LOOKED_AT = 0.05, 30


def with_kinks_rounded(
    likelihood: RowLikelihood, table: Table, fixed: Sequence[np.ndarray], start: np.ndarray, width: float = WIDTH
) -> RowLikelihood:
    """Return the likelihood with what is expanded in place of its rows, where these have kinks that matter.

    `start` is ψ = (θ, others), from which the mode of some of the rows is searched; `width` is h, in standard
    deviations of what has the kink.
    """
    if not (kinks := _kinks(likelihood)):
        return likelihood
    widths = pt.dvector("widths", shape=(len(kinks),))
    standing_in = {kink: _rounded(kink, r, widths[k]) for k, (kink, r) in enumerate(kinks.items())}
    (rounded,) = graph_replace([likelihood.row_log_likelihood], standing_in)
    found = _find_widths(replace(likelihood, rounded=rounded), kinks, widths, table, fixed, start)
    if found is None:
        return likelihood
    (rounded,) = graph_replace([rounded], {widths: pt.constant(width * found)})
    return replace(likelihood, rounded=rounded)


def _kinks(likelihood: RowLikelihood) -> dict[Variable, Variable]:
    """Return what has a kink where a number is zero that depends on θ and on the data of a row, with that number."""
    found = {}
    for node in dict.fromkeys(v.owner for v in ancestors([likelihood.row_log_likelihood]) if v.owner is not None):
        op = node.op.scalar_op if isinstance(node.op, Elemwise) else None
        if isinstance(op, scalars.Abs | scalars.Sign):
            number = node.inputs[0]
        elif isinstance(op, scalars.Maximum | scalars.Minimum) and len(node.inputs) == 2:
            number = node.inputs[0] - node.inputs[1]
        else:
            continue
        behind = set(ancestors([number]))
        if likelihood.theta in behind and behind & set(likelihood.batches):
            found[node.outputs[0]] = number
    return found


def _rounded(kink: Variable, number: Variable, width: Variable) -> Variable:
    """Return what stands in for a kink."""
    op, size = kink.owner.op.scalar_op, pt.sqrt(number**2 + width**2)
    if isinstance(op, scalars.Sign):
        return number / size
    if isinstance(op, scalars.Abs):
        return size
    return (sum(kink.owner.inputs) + (size if isinstance(op, scalars.Maximum) else -size)) / 2


def _find_widths(
    likelihood: RowLikelihood, kinks: Mapping[Variable, Variable], widths: Variable, table: Table,
    fixed: Sequence[np.ndarray], start: np.ndarray,
) -> np.ndarray | None:  # fmt: skip
    """Return the standard deviations of the numbers under the posterior, or None where rounding does not matter."""
    n, read, d = len(table), read_coordinates(likelihood), likelihood.theta_size
    numbers = np.sort(np.random.default_rng(2021).choice(n, min(_SAMPLE, n), replace=False))
    (sample,) = table.samples([numbers])
    psi, along = likelihood.psi_vector("psi"), likelihood.psi_vector("along")
    sizes = pt.stack([pt.abs(number).mean() for number in kinks.values()])
    graphs = [likelihood.log_prior, likelihood.row_log_likelihood.sum(), likelihood.expanded.sum(), sizes]
    prior, rows, rounded, sizes = graph_replace(
        graphs, {likelihood.theta: psi[:d], likelihood.others: psi[d:]}, strict=False
    )
    density = prior + n / len(sample) * rounded
    inputs, data = [psi, widths, *likelihood.fixed, *likelihood.batches], [*fixed, *sample.arrays]
    sizes_at = interpret_log_density(inputs, [sizes])
    density_at = interpret_log_density(inputs, [density, grad(density, psi)])
    second = [pushforward(pushforward(total, psi, along), psi, along) for total in (rows, rounded)]
    curvatures_at = interpret_log_density([along, *inputs], second)

    def at(x: np.ndarray) -> np.ndarray:
        found = start.copy()
        found[read] = x
        return found

    def falls(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = uninterrupted(density_at, at(x), wide, *data)
        return -float(value), -slope[read]

    with np.errstate(all="ignore"):
        wide = _BEGIN * uninterrupted(sizes_at, start, np.ones(len(kinks)), *data)[0]
        method: Literal["BFGS", "L-BFGS-B"] = "BFGS" if read.size <= _MANY else "L-BFGS-B"
        mode = at(optimize.minimize(falls, start[read], jac=True, method=method, options={"maxiter": _STEPS}).x)
        # Of D coefficients of N rows the argument of a row has about this as its standard deviation.
        found = uninterrupted(sizes_at, mode, wide, *data)[0] * np.sqrt(read.size / n)
        if not (np.isfinite(found).all() and (found > 0).all()):
            return None
        for k in read[:: -(-read.size // _LOOKED_AT)]:
            direction = 1.0 * (np.arange(start.size) == k)
            plain, smooth = uninterrupted(curvatures_at, direction, mode, WIDTH * found, *data)
            if not abs(smooth - plain) <= _MATTERS * abs(smooth):
                return np.asarray(found, dtype=float)
    return None
