"""Rebuild a model's log-likelihood so that it takes a batch of rows in place of the whole data.

A PyMC graph has the number of rows baked in: in static shapes, in the ``size`` of random variables, in ``Alloc`` nodes.
The rebuild therefore starts at the random variables: every data array with an axis as long as there are rows becomes a
symbolic batch, every node below it is made again, and only then is the log-probability derived.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, cast

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.custom import CustomDistRV, CustomSymbolicDistRV
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.distributions.shape_utils import change_dist_size
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import toposort
from pytensor.scan.op import Scan
from pytensor.tensor.basic import Alloc, AllocEmpty, Choose
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor
from pytensor.tensor.type import TensorType
from pytensor.typed_list.basic import MakeList

from pymc_austerity.compat import DEFERRED_SYMBOLIC_OPS, IfElse, inner_graph
from pymc_austerity.likelihood.model_graph import ASSIGNS, is_array_leaf, plain_draw, row_axis_in, value_of_constants
from pymc_austerity.likelihood.row_leaves import assign_by_mask
from pymc_austerity.likelihood.row_numbers import RowNumbering
from pymc_austerity.likelihood.scans import scan_of_batch

#: Which inputs of an op hold a shape, and so may hold the number of rows as a constant.
_SHAPE_INPUTS = {
    Alloc: slice(1, None), AllocEmpty: slice(None), SpecifyShape: slice(1, None), Reshape: slice(1, None),
}  # fmt: skip


class BatchRebuild:
    """Make graphs again with batches of rows in place of whole data arrays.

    `replace` are known replacements: row leaves to batches, row-count variables to the length of the batch, free random
    variables to themselves.  `n_rows`, the number of rows of the full data, may be baked into the graph; `n_batch`, an
    int64 scalar, is that of the batch.  `masks` has, of variables of which constant rows are set or raised, the mask of
    these rows in the batch, and `numbering` finds the numbers of rows, by which an entry of each row may be chosen.
    """

    def __init__(
        self,
        replace: Mapping[Variable, Variable],
        n_rows: int,
        n_batch: Variable,
        masks: Mapping[Variable, Variable] | None = None,
        numbering: RowNumbering | None = None,
    ):
        self._memo = dict(replace)
        self._masks = masks or {}
        self._numbering = numbering
        self._n_rows = n_rows
        self._n_batch = n_batch

    def __call__(self, var: Variable) -> Variable:
        """Return `var` as a function of the batch."""
        for node in toposort([var], blockers=self._memo):
            for root in (i for i in node.inputs if i.owner is None):
                self._memo.setdefault(root, root)
            self._rebuild_node(node)
        return self._memo.get(var, var)

    def define(self, var: Variable, replacement: Variable) -> None:
        """Record what takes the place of `var` in graphs rebuilt later."""
        self._memo[var] = replacement

    def written_out(self, node: Apply) -> list[Variable]:
        """Return the outputs of a scan for the batch, as `scan_of_batch` writes them."""
        return scan_of_batch(node, [self(i) for i in node.inputs], self, self._within)

    def resize(self, rv: Variable, shape: Sequence[Any], given: Mapping[int, Variable] | None = None) -> Variable:
        """Rebuild a random variable with the batch dimensions `shape`; of its node some inputs may be `given`."""
        rv = plain_draw(rv)
        node = rv.owner
        inputs = [self(i) if given is None or k not in given else given[k] for k, i in enumerate(node.inputs)]
        # Not make_node: an op built for N rows refuses a batch, and change_dist_size makes a new op anyway.
        stub = Apply(node.op, inputs, [out.type() for out in node.outputs]).outputs[node.outputs.index(rv)]
        resized = change_dist_size(stub, shape)
        final, made = [self(i) for i in resized.owner.inputs], resized.owner
        if isinstance(made.op, CustomDistRV | CustomSymbolicDistRV):
            # PyMC resizes a CustomDist with the parameters it was first given, as of a model that this one is derived
            # from, whatever the inputs of its node.
            own = dict(zip(made.op.dist_params(made), made.op.dist_params(stub.owner), strict=True))
            final = [own.get(i, i) for i in made.inputs]
        if any(new is not old for new, old in zip(final, resized.owner.inputs, strict=True)):
            outputs = [out.type() for out in resized.owner.outputs]
            resized = Apply(resized.owner.op, final, outputs).outputs[resized.owner.outputs.index(resized)]
        return resized

    def _rebuild_node(self, node: Apply) -> None:
        inputs = [self._memo[i] for i in node.inputs]
        if isinstance(node.op, MakeList):  # of arrays to choose from, which are taken one by one
            self._memo[node.outputs[0]] = node.outputs[0]
            return
        shape_inputs = next((s for op, s in _SHAPE_INPUTS.items() if isinstance(node.op, op)), None)
        if isinstance(node.op, Reshape) and inputs[0] is not node.inputs[0]:
            inputs[1] = self._patch_new_shape(inputs[1], node.op.make_node(*inputs).outputs[0].type.shape)
        elif shape_inputs is not None:
            inputs[shape_inputs] = [self._patch_shape(i) for i in inputs[shape_inputs]]
        if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
            self._memo.update(zip(node.outputs, node.outputs, strict=True))
            return
        if isinstance(node.op, SpecifyShape):
            # The row axis of a batch has no fixed length; the other axes keep theirs.
            self._memo[node.outputs[0]] = pt.specify_shape(
                inputs[0], [None if s is self._n_batch else s for s in inputs[1:]]
            )
        elif isinstance(node.op, RandomVariable):
            inputs[1] = self._patch_shape(inputs[1])
            self._memo.update(zip(node.outputs, node.op.make_node(*inputs).outputs, strict=True))
        elif isinstance(node.op, SymbolicRandomVariable):
            rv = node.default_output()
            batch_ndim = rv.ndim - node.op.ndim_supp
            rows = row_axis_in(rv.type.shape[:batch_ndim], self._n_rows) or 0
            self._memo[rv] = self.resize(rv, [self._n_batch if i == rows else rv.shape[i] for i in range(batch_ndim)])
        elif isinstance(node.op, OpFromGraph):
            self._memo.update(zip(node.outputs, self._call_again(node.op, inputs), strict=True))
        else:
            self._memo.update(zip(node.outputs, self._outputs_again(node, inputs), strict=True))

    def _outputs_again(self, node: Apply, inputs: list[Variable]) -> list[Variable]:
        if isinstance(node.op, Scan):
            return self.written_out(node)
        if isinstance(node.op, IfElse):
            condition, *either = inputs
            return [pt.switch(condition, a, b) for a, b in zip(either[: node.op.n_outs], either[node.op.n_outs :])]
        if isinstance(node.op, Choose) and (chosen := chosen_by_switches(node, inputs[0], self)) is not None:
            return [chosen]
        if isinstance(node.op, AdvancedSubtensor) and inputs[0] is not node.inputs[0]:
            return self._indexed(node, inputs)
        if isinstance(node.op, ASSIGNS) and (assigned := assign_by_mask(node, inputs, self._masks)) is not None:
            return [assigned]
        return node.clone_with_new_inputs(inputs, strict=False).outputs

    def _call_again(self, op: OpFromGraph, inputs: Sequence[Variable]) -> list[Variable]:
        """Apply an op with an inner graph to inputs of another shape."""
        if isinstance(op, DEFERRED_SYMBOLIC_OPS):
            call = cast(Callable[..., list[Variable]], op)
            return call(*inputs, return_list=True)
        # The inner graph was typed for N rows, so it is written out, and rebuilt like the graph around it.
        inner_inputs, inner_outputs = inner_graph(op)
        inside = self._within(dict(zip(inner_inputs, inputs, strict=True)))
        return [inside(output) for output in inner_outputs]

    def _within(self, given: Mapping[Variable, Variable]) -> BatchRebuild:
        """Return what makes the graph within an op again, with its inputs `given`."""
        return BatchRebuild(given, self._n_rows, self._n_batch, self._masks, self._numbering)

    def _indexed(self, node: Apply, inputs: list[Variable]) -> list[Variable]:
        """Return the entries of rows of a batch that an index takes.

        One that numbers all rows numbers those of the batch.  By other data a row picks any entry of an array of data.
        """
        again = node.clone_with_new_inputs(inputs, strict=False)
        if self._numbering is None or self._numbering.picks_parameters(again):
            return again.outputs
        if (unfolded := self._numbering.unfolded(again)) is not None:
            table, *indices = unfolded
            own = [self._numbering.of_batch(i) for i in indices]
            if own != indices:
                return [table[tuple(own)]]
        own = [self._numbering.of_batch(i) for i in inputs[1:]]
        if not (is_array_leaf(node.inputs[0]) and own == inputs[1:] != node.inputs[1:]):
            return node.clone_with_new_inputs([inputs[0], *own], strict=False).outputs
        picked = node.clone_with_new_inputs([node.inputs[0], *own], strict=False).outputs
        self._memo.update(zip(picked, picked, strict=True))  # the array stays whole where this is made again
        return picked

    def _patch_shape(self, shape: Variable) -> Variable:
        """Replace the constant number of rows by the length of the batch in a length or a shape."""
        if not isinstance(shape.type, TensorType):
            return shape
        if shape.type.ndim == 0:
            return self._n_batch if value_of_constants(shape) == self._n_rows else shape
        lengths = shape.data.tolist() if isinstance(shape, Constant) else []
        rows = row_axis_in(lengths, self._n_rows)
        if rows is None:
            return shape
        return pt.stack([self._n_batch if i == rows else pt.constant(n, dtype="int64") for i, n in enumerate(lengths)])

    def _patch_new_shape(self, shape: Variable, known: Sequence[int | None]) -> Variable:
        """Leave the length that depends on the number of rows to be worked out from the others."""
        lengths = shape.data.tolist() if isinstance(shape, Constant) else list(known)
        if -1 in lengths or None in lengths:  # a batch has a length that is not known
            return shape
        place = row_axis_in(lengths, self._n_rows)
        if place is None:
            place = next((i for i, n in enumerate(lengths) if n % self._n_rows == 0), None)
        return shape if place is None else pt.constant([-1 if i == place else n for i, n in enumerate(lengths)])


#: So many arrays are written as one switch within another at most.
_MOST = 100


def chosen_by_switches(node: Apply, which: Variable, rebuild: Callable[[Variable], Variable]) -> Variable | None:
    """Return what `pt.choose` chooses as one switch within another, or None for a number of arrays that is not known.

    `which` are the numbers of the arrays for a batch, and `rebuild` makes a graph again for it.  A number of no array,
    where that is an error, gives NaN, so that its row is named as one without a finite log-likelihood.
    """
    given = node.inputs[1]
    if given.owner is not None and isinstance(given.owner.op, MakeList):
        arrays = [rebuild(i) for i in given.owner.inputs]
    elif (n := given.type.shape[0]) is not None and n <= _MOST:
        arrays = [rebuild(given)[i] for i in range(n)]
    else:
        return None
    n, mode, dtype = len(arrays), node.op.mode, node.outputs[0].type.dtype
    if mode == "raise" and not dtype.startswith("float"):
        return None  # whole numbers have no NaN
    which = which % n if mode == "wrap" else pt.clip(which, 0, n - 1) if mode == "clip" else which
    return reduce(
        lambda others, own: pt.switch(pt.eq(which, own[0]), own[1], others),
        enumerate(arrays),
        pt.constant(np.nan, dtype=dtype) if mode == "raise" else arrays[-1],
    )
