"""Which parts of a graph are affine in some of its inputs, shown op by op."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pytensor import scalar
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor
from pytensor.tensor.type import discrete_dtypes

from pymc_austerity.likelihood.axis import NotRowWiseError, RowAxis
from pymc_austerity.likelihood.row_axis import prove_row_axis

#: Elementwise functions that are linear in all their arguments together.
_LINEAR = (scalar.Add, scalar.Sub, scalar.Neg, scalar.Identity, scalar.Cast)
#: Ops that only move, pick or add up entries of their first argument.
_REARRANGES = (
    DimShuffle, Reshape, SpecifyShape, Subtensor, AdvancedSubtensor, Alloc, TensorFromScalar, ViewOp, ScalarFromTensor,
)  # fmt: skip


def require_affine(output: Variable, variables: Sequence[Variable]) -> None:
    """Show op by op that `output` is affine in `variables` jointly, or raise a NotImplementedError that names an op."""
    depends = set(variables)
    for node in io_toposort(list(variables), [output]):
        which = [i for i, var in enumerate(node.inputs) if var in depends]
        if not which:
            continue
        if not keeps_affine(node.op, which):
            raise NotImplementedError(
                f"its predictor is not shown to be linear in the variables (in the unconstrained space) at op {node.op}"
            )
        depends.update(node.outputs)


def keeps_affine(op: Any, which: list[int]) -> bool:
    """Return whether an op is known to be affine in its inputs `which` together."""
    if isinstance(op, Blockwise):
        op = op.core_op
    if isinstance(op, Elemwise):
        if isinstance(op.scalar_op, scalar.Cast) and op.scalar_op.o_type.dtype in discrete_dtypes:
            return False  # a rounding
        if isinstance(op.scalar_op, _LINEAR):
            return True
        if isinstance(op.scalar_op, scalar.TrueDiv):
            return which == [0]
        return isinstance(op.scalar_op, scalar.Mul) and len(which) == 1
    if isinstance(op, CAReduce):
        return isinstance(op.scalar_op, scalar.Add)
    if isinstance(op, Dot):
        return len(which) == 1
    return isinstance(op, Join | MakeVector) or (isinstance(op, _REARRANGES) and which == [0])


def row_predictor(rows: Variable, psi: Variable, batches: Sequence[Variable]) -> Variable | None:
    """Find η, one number a row and affine in ψ, through which alone the row terms read ψ, as in a GLM.

    Returns the last such vector in the graph of the row terms, or None.
    """
    affine, candidates = {psi}, []
    for node in io_toposort([psi], [rows]):
        which = [i for i, var in enumerate(node.inputs) if var in affine]
        reads = any(psi in ancestors([node.inputs[i]]) for i in range(len(node.inputs)) if i not in which)
        if which and not reads and keeps_affine(node.op, which):
            affine.update(node.outputs)
            candidates += [out for out in node.outputs if getattr(out.type, "ndim", 0) == 1]
    data = set(batches)
    for eta in reversed(candidates):
        (rest,) = graph_replace([rows], {eta: eta.type()}, strict=False)
        if data & set(ancestors([eta])) and psi not in ancestors([rest]):
            with suppress(NotRowWiseError):  # of a long table of rows and alternatives, which has several of each row
                if prove_row_axis(eta, dict.fromkeys(batches, RowAxis(0))) == RowAxis(0):
                    return eta
    return None
