"""The inverse of effects that are computed from a variable op by op, as ``start + cumsum(z) * sd`` is."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.scalar import Add, Cast, Identity, Mul, Neg, Sub, TrueDiv
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.shape import Reshape, SpecifyShape

from pymc_austerity.likelihood.model_graph import array_of, is_array_leaf, is_product


def nodes_between(source: Variable, effects: Variable) -> list[Apply]:
    """Return the nodes through which effects depend on their source, in order; not through what another is drawn by."""
    depends, found = {source}, []
    draws = [var for var in ancestors([effects]) if hasattr(getattr(var.owner, "op", None), "ndim_supp")]
    for node in io_toposort([source, *draws], [effects]):
        if not depends.isdisjoint(node.inputs):
            depends.update(node.outputs)
            found.append(node)
    return found


def takes_beside(source: Variable, effects: Variable, *ops: type) -> bool:
    """Whether an operation of some kinds between a source and its effects takes other tensors, too."""
    computed = {source}
    for node in nodes_between(source, effects):
        computed.update(node.outputs)
        # PyTensor 2 passes the axis of a Join as its first input.
        tensors = [var for var in node.inputs if getattr(var.type, "ndim", None) == node.outputs[0].type.ndim]
        if isinstance(getattr(node.op, "scalar_op", node.op), ops) and not computed.issuperset(tensors):
            return True
    return False


def by_invertible(node: Apply) -> bool:
    """Whether a product of matrices is by one that may have an inverse: square, and of full rank if it is data."""
    matrix = node.inputs[0]
    if is_array_leaf(matrix):
        array = np.asarray(array_of(matrix))
        return array.ndim == 2 and array.shape[0] == array.shape[1] == np.linalg.matrix_rank(array)
    shape = matrix.type.shape
    return len(shape) == 2 and (None in shape or shape[0] == shape[1])


def inverse_by_ops(effects: Variable, source: Variable, new: Variable) -> tuple[Variable, Variable] | None:
    """Return the source by `new`, which stands for its effects, and log |∂z/∂u|; None where no inverse is known."""
    path = nodes_between(source, effects)
    depends = {source, *(out for node in path for out in node.outputs)}
    value, log_jacobian = new, pt.constant(0.0, dtype="float64")
    at, size = effects, new.size if None in new.type.shape else int(np.prod(new.type.shape))
    for node in reversed(path):
        own = [k for k, var in enumerate(node.inputs) if var in depends]
        if node.outputs[0] is not at or len(own) != 1:
            return None
        back = _taken_back(node, own[0], value, size)
        if back is None:
            return None
        value, change = back
        log_jacobian, at = log_jacobian + change, node.inputs[own[0]]
    return (value, log_jacobian) if at is source else None


def _taken_back(node: Apply, own: int, value: Variable, size: int | Variable) -> tuple[Variable, Variable] | None:
    """Return an input of a node as a function of its output, of so many entries, and log of the Jacobian of that."""
    op, given = node.op, [var for k, var in enumerate(node.inputs) if k != own]
    nothing = pt.constant(0.0, dtype="float64")
    if isinstance(op, Elemwise):
        scalar = op.scalar_op
        if node.inputs[own].type.broadcastable != node.outputs[0].type.broadcastable:
            return None
        if isinstance(scalar, Identity | Cast) and node.outputs[0].type.dtype.startswith("float"):
            return value, nothing
        if isinstance(scalar, Neg):
            return -value, nothing
        if isinstance(scalar, Add):
            return value - sum(given), nothing
        if isinstance(scalar, Sub):
            return (value + given[0] if own == 0 else given[0] - value), nothing
        if isinstance(scalar, Mul) or (isinstance(scalar, TrueDiv) and own == 0):
            factor = given[0] if len(given) == 1 else pt.mul(*given)
            factor = factor if isinstance(scalar, Mul) else 1 / factor
            return value / factor, -pt.log(pt.abs(factor)).mean() * size
        return None
    if isinstance(op, SpecifyShape) and own == 0:
        return value, nothing
    if isinstance(op, DimShuffle):
        order = ["x" if axis in op.drop else op.new_order.index(axis) for axis in range(node.inputs[0].type.ndim)]
        return value.dimshuffle(order), nothing
    if isinstance(op, CumOp) and op.mode == "add" and op.axis is not None:
        before = pt.zeros_like(value.take([0], axis=op.axis))
        return pt.diff(pt.concatenate([before, value], axis=op.axis), axis=op.axis), nothing
    if isinstance(op, Reshape) and own == 0:
        return value.reshape(node.inputs[0].shape, ndim=node.inputs[0].type.ndim), nothing
    if is_product(node) and own == 1 and by_invertible(node):
        inverse, log_det = inverse_of(given[0])
        return pt.dot(inverse, value), (value.shape[1] if value.type.ndim == 2 else 1) * log_det
    return None


def inverse_of(matrix: Variable) -> tuple[Variable, Variable]:
    """Return an inverse and the logarithm of its determinant; −∞ where there is none, for which NumPy ends a chain.

    So far out the factor of a covariance may round to zero, or not be finite.
    """
    if is_array_leaf(matrix):
        inverse = pt.linalg.inv(matrix)
        return inverse, pt.linalg.slogdet(inverse)[1]
    unit = pt.eye(matrix.shape[0])
    finite = pt.lt(pt.abs(matrix), np.inf).all()  # PyTensor of PyMC 5 has no ``isfinite``
    matrix = pt.switch(finite, matrix, unit)
    regular = finite & pt.lt(pt.abs(pt.linalg.slogdet(matrix)[1]), np.inf)
    matrix = pt.switch(regular, matrix, unit)  # before its determinant, of which an inverse is the derivative
    return pt.linalg.inv(matrix), pt.switch(regular, -pt.linalg.slogdet(matrix)[1], -np.inf)
