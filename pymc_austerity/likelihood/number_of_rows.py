"""Whether a length that depends on the number of rows is that number itself."""

from __future__ import annotations

from pytensor import scalar
from pytensor.graph.basic import Variable
from pytensor.tensor.basic import MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.subtensor import Subtensor

from pymc_austerity.likelihood.indices import constant_of, plain_indices


def is_number_of_rows(length: Variable) -> bool:
    """Return whether a number of kind "length" is shown to be the number of rows, and not twice it or one less."""
    node = length.owner
    if node is None or isinstance(node.op, Shape_i):
        return True
    if isinstance(node.op, TensorFromScalar | ScalarFromTensor):
        return is_number_of_rows(node.inputs[0])
    if isinstance(node.op, Subtensor):
        source = node.inputs[0].owner
        return source is not None and isinstance(source.op, Shape) and constant_of(plain_indices(node)[0]) is not None
    if not isinstance(node.op, Elemwise):
        return False
    if isinstance(node.op.scalar_op, scalar.Mul):
        rest = [v for v in node.inputs if constant_of(v) != 1]
        return len(rest) == 1 and is_number_of_rows(rest[0])
    same = isinstance(node.op.scalar_op, scalar.Cast | scalar.Identity | scalar.ScalarMinimum)
    return same and all(map(is_number_of_rows, node.inputs))


def entry_is_number_of_rows(shape: Variable, position: int) -> bool:
    """Return whether the entry of a shape that depends on the number of rows may be that number."""
    made = shape.owner is not None and isinstance(shape.owner.op, MakeVector)
    return not made or is_number_of_rows(shape.owner.inputs[position])
