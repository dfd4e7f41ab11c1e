"""The change of one variable z of a model to the effects u that its rows read, with its prior p(z(u)) |∂z/∂u|.

Given everything else u is affine in z and a bijection, entry by entry, group by group or as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.transforms import CholeskyCovPacked
from pymc.model import Model
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Variable, equal_computations
from pytensor.scalar import Add, Sub
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.subtensor import Subtensor

from pymc_austerity.compat import replace_parts
from pymc_austerity.groups.effects_read import axis_entering, distinct
from pymc_austerity.groups.group_index import EffectsRead, number_of_cell
from pymc_austerity.groups.inverse_by_ops import inverse_by_ops, inverse_of, nodes_between
from pymc_austerity.groups.zero_sum_effects import by_zero_sum


@dataclass(frozen=True, eq=False)
class ChangeOfVariables:
    """The change of variables from z to the effects u that rows read."""

    effects: Variable  # u as a function of z and the rest
    new: Variable  # the variable that takes the place of z, of the shape of `effects`
    inverse: Variable  # z as a function of `new` and the rest
    log_prior: Variable  # log p(z_g) + log |∂z_g/∂u_g| of each group, shape (G,), or of all together
    by_row: dict[Variable, Variable]  # from what rows read in the graph of the model to the same in terms of `new`


def change_of_variables(
    source: Variable, read: Sequence[EffectsRead], variables: Sequence[Variable]
) -> ChangeOfVariables | None:
    """Return the change of one of the `variables` of a model; None where there is none or it is no bijection."""
    axis = read[0].source_axis
    if read[0].zero_sum:
        return ChangeOfVariables(*by_zero_sum(source, read))
    if any(isinstance(of.index, tuple) for of in read):
        by_cell = _of_cells(source, read)
        if by_cell is not None:
            return by_cell
    if any(of.source_axis != axis for of in read) or (axis == 0 and all(map(_is_part, read))):
        return None
    if axis is None:
        return _by_ops(source, read, variables)
    apart = distinct(read)
    n_groups, *rest = np.moveaxis(np.empty(read[0].source_shape), axis, 0).shape
    widths, size = [int(np.prod(of.shape[1:], dtype=int)) for of in apart], int(np.prod(rest, dtype=int))
    # Of ``s * z`` and ``t * z`` the first takes the place of z, and the other is ``t / s`` times it.
    ends = np.cumsum(widths).tolist()
    if size not in ends or (ends[-1] > size and any(map(_is_part, read))):
        return None
    apart = apart[: ends.index(size) + 1]
    read = [of for of in read if any(equal_computations([of.effects], [known.effects]) for known in apart)]
    several = len(apart) > 1
    effects = pt.concatenate([_by_group(of.effects) for of in apart], axis=1) if several else apart[0].effects
    new = pt.TensorType("float64", (n_groups, size) if several else apart[0].shape)(source.name)
    inverted = _inverse(source, axis, rest, effects, _by_group(new), entry_by_entry=not several)
    if inverted is None:
        return None
    z, log_jacobian = inverted
    inverse = pt.moveaxis(_of_shape(z, n_groups, rest), 0, axis)
    log_prior = log_density(source, inverse, variables)
    if log_prior.type.ndim <= axis:  # groups depend on each other
        log_prior = log_prior.sum() + pt.broadcast_to(log_jacobian, (n_groups,)).sum()
    else:
        others = tuple(a for a in range(log_prior.type.ndim) if a != axis)
        log_prior = (log_prior.sum(axis=others) if others else log_prior) + log_jacobian
    by_row = {}
    for of in read:
        k = next(k for k, known in enumerate(apart) if equal_computations([of.effects], [known.effects]))
        own = _of_shape(new[:, ends[k] - widths[k] : ends[k]], n_groups, of.shape[1:]) if several else new
        by_row[of.read] = of.by_row(own)
    return ChangeOfVariables(effects, new, inverse, log_prior, by_row)


def _of_cells(source: Variable, read: Sequence[EffectsRead]) -> ChangeOfVariables | None:
    """Return the change of variables to a vector of the cells that rows read by several indices, ``u[age, state]``.

    Each cell is then a group of its own.  None where cells differ in more than their entry of z: groups are then what
    lies along the first axis.
    """
    effects, shape, op = read[0].effects, read[0].shape, source.owner.op
    alike = all(equal_computations([of.effects], [effects]) and isinstance(of.index, tuple) for of in read)
    if not alike or shape != read[0].source_shape or not isinstance(op, RandomVariable) or op.ndim_supp:
        return None
    if any(axis_entering(effects, k, source) != k for k in range(len(shape))):  # as along a walk of each group
        return None
    one = (1,) * len(shape)
    zero_and_one = [pt.constant(np.full(one, value), dtype=source.type.dtype) for value in (0.0, 1.0)]
    origin = _with_value(effects, source, zero_and_one[0], "affine")
    slope = _with_value(effects, source, zero_and_one[1], "linear")
    same = [origin, slope, *op.dist_params(source.owner)]
    if not all(all(number.type.broadcastable) for number in same):
        return None
    origin, slope, *parameters = (number.squeeze() for number in same)
    n_cells = int(np.prod(shape))
    new = pt.TensorType("float64", (n_cells,))(source.name)
    inverse = (new - origin) / slope
    prior = op.make_node(op.rng_param(source.owner), pt.constant([n_cells]), *parameters).outputs[1]
    log_prior = pm.logp(prior, inverse) - pt.log(pt.abs(slope))
    by_row = {of.read: new[number_of_cell(of.index, shape)] for of in read if isinstance(of.index, tuple)}
    return ChangeOfVariables(effects.reshape((-1,)), new, inverse.reshape(shape), log_prior, by_row)


def _by_ops(source: Variable, read: Sequence[EffectsRead], variables: Sequence[Variable]) -> ChangeOfVariables | None:
    """Return the change of variables where the effects of a group read all of a variable."""
    effects = read[0].effects
    if not all(equal_computations([of.effects], [effects]) for of in read):
        return None
    new = pt.TensorType("float64", read[0].shape)(source.name)
    inverted = inverse_by_ops(effects, source, new)
    if inverted is None:  # effects that are found already read it too
        return None
    inverse, log_jacobian = inverted
    by_row = {of.read: of.by_row(new) for of in read}
    log_prior, axis = log_density(source, inverse, variables), axis_entering(effects, 0, source)
    if axis is None or axis >= log_prior.type.ndim:
        log_prior = log_prior.sum() + log_jacobian
    else:  # each group has a part of the Jacobian, which no effects enter
        log_prior = pt.moveaxis(log_prior, axis, 0)
        log_prior = log_prior.sum(axis=tuple(range(1, log_prior.type.ndim))) + log_jacobian / read[0].shape[0]
    return ChangeOfVariables(effects, new, inverse, log_prior, by_row)


def log_density(source: Variable, value: Variable, variables: Sequence[Variable]) -> Variable:
    """Return the log density of a random variable at a value, given the `variables` of a model but itself.

    The others are left out of the graph meanwhile: of the laws that a random walk is made of PyMC makes copies, and of
    the random variables in these too.
    """
    places = {rv: rv.type() for rv in variables if rv is not source}
    found = pm.logp(replace_parts(source, places), replace_parts(value, places))
    return replace_parts(found, {place: rv for rv, place in places.items()})


def by_partial_correlations(model: Model) -> dict[Variable, ChangeOfVariables]:
    """Return the changes of covariances with an LKJ prior from packed Cholesky factors to as many numbers y.

    On the diagonal y is the logarithm of a standard deviation, elsewhere artanh of a partial correlation.  In PyMC's
    coordinates the density rises without a limit as a standard deviation goes to zero, for three and more coefficients;
    in these, which are independent, it falls (Lewandowski, Kurowicka and Joe, Journal of Multivariate Analysis 100,
    2009).
    """
    transforms = model.rvs_to_transforms
    return {rv: _by_correlations(model, rv) for rv in model.free_RVs if isinstance(transforms[rv], CholeskyCovPacked)}


def _by_correlations(model: Model, packed: Variable) -> ChangeOfVariables:
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


def _is_part(of: EffectsRead) -> bool:
    """Whether the effects are entries of their source as they are."""
    between = nodes_between(of.source, of.effects)
    return of.axis == 0 and all(isinstance(node.op, Subtensor | ViewOp) for node in between)


def _inverse(
    source: Variable, axis: int, rest: Sequence[int], effects: Variable, u: Variable, *, entry_by_entry: bool
) -> tuple[Variable, Variable] | None:
    """Return z, shape (G, K), as a function of u, and log |∂z_g/∂u_g|; None where each group has its own matrix."""

    def effects_of(z: np.ndarray, part: Literal["affine", "linear"]) -> Variable:
        """Return what z, the same for every group, makes of the effects: a row for each group, or one for all."""
        value = pt.constant(np.expand_dims(z.reshape(rest), axis), dtype=source.type.dtype)
        return _by_group(_with_value(effects, source, value, part))

    size = int(np.prod(rest, dtype=int))
    origin, along = effects_of(np.zeros(size), "affine"), range(1, effects.type.ndim)
    if size == 1 or (entry_by_entry and all(axis_entering(effects, k, source) is not None for k in along)):
        slope = effects_of(np.ones(size), "linear")
        return (u - origin) / slope, -pt.log(pt.abs(slope)).sum(axis=1)
    columns = [effects_of(one, "linear") for one in np.eye(size)]
    if not all(column.type.broadcastable[0] for column in columns):
        return None
    rows = pt.stack([column[0] for column in columns])
    inverse, log_det = inverse_of(rows)
    return pt.dot(u - origin, inverse), log_det


def _with_value(effects: Variable, source: Variable, value: Variable, part: Literal["affine", "linear"]) -> Variable:
    """Return the effects where their source has a value, or of them only what is linear in it."""
    made = {source: value}
    for node in nodes_between(source, effects):
        inputs = [made.get(var, var) for var in node.inputs]
        if part == "linear" and isinstance(getattr(node.op, "scalar_op", None), Add | Sub):
            zero = pt.zeros((1,) * node.outputs[0].type.ndim)
            inputs = [new if var in made else zero for var, new in zip(node.inputs, inputs, strict=True)]
        made |= dict(zip(node.outputs, node.op(*inputs, return_list=True), strict=True))
    return made[effects]


def _by_group(effects: Variable) -> Variable:
    """Return effects as a matrix, a row for each group."""
    if effects.type.ndim == 2:
        return effects
    return effects[:, None] if effects.type.ndim == 1 else effects.reshape((effects.shape[0], -1))


def _of_shape(matrix: Variable, n_groups: int, rest: Sequence[int]) -> Variable:
    """Return a row for each group in another shape."""
    if len(rest) == 1:
        return matrix
    return matrix.reshape((n_groups, *rest)) if rest else matrix[:, 0]
