"""Rebuild a model's log-likelihood so that it takes a batch of rows in place of the whole data.

A PyMC graph has the number of rows baked in: in static shapes, in the ``size`` of random variables,
in ``Alloc`` nodes.  The rebuild therefore starts one level above the log-probability, at the random
variables: every data array whose first axis is the row axis becomes a symbolic batch, every node below
it is made again, and only then is the log-probability derived.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.distributions.shape_utils import change_dist_size
from pymc.variational.minibatch_rv import MinibatchRandomVariable
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors, walk
from pytensor.scan.op import Scan
from pytensor.tensor.basic import Alloc
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import Reshape, Shape, SpecifyShape
from pytensor.tensor.type import DenseTensorType, TensorType

from pymc_austerity.compat import DEFERRED_SYMBOLIC_OPS, inner_graph
from pymc_austerity.likelihood.assigned_rows import assign_by_mask, find_assigned_rows
from pymc_austerity.likelihood.indices import ASSIGNS
from pymc_austerity.likelihood.mapped_rows import apply_map
from pymc_austerity.rows import require_whole

#: Which inputs of an op hold a shape, and so may hold the number of rows as a constant.
_SHAPE_INPUTS = {Alloc: slice(1, None), SpecifyShape: slice(1, None), Reshape: slice(1, None)}


class NotRowWiseError(ValueError):
    """The log-likelihood of a model cannot be split into one term per row of the data."""


class OneEntryARowError(NotRowWiseError):
    """A variable of the model has an entry for each row, so that its entries grow with the data."""


def array_of(leaf: Variable) -> np.ndarray:
    """Return the array behind a constant or a shared variable, without a copy.

    Raises
    ------
    ValueError
        For a memory map whose file became shorter.
    """
    array = leaf.get_value(borrow=True) if isinstance(leaf, SharedVariable) else leaf.data
    require_whole((array,))
    return array


def is_array_leaf(var: Variable) -> bool:
    """Whether `var` is a constant or shared array (a random generator is neither, nor is a sparse matrix)."""
    return isinstance(var, Constant | SharedVariable) and isinstance(var.type, DenseTensorType)


def leaf_identity(leaf: Variable) -> Hashable:
    """Return what is equal for leaves that hold the same data: a shared variable itself, of a constant its memory."""
    if isinstance(leaf, SharedVariable):
        return leaf
    array = np.asarray(array_of(leaf))
    memory = array.__array_interface__
    # The type too: a view of floats as integers lies in the same memory.
    return memory["data"], memory["strides"], array.shape, array.dtype.str


@dataclass(frozen=True)
class RowLeaf:
    """A data array of the model and the symbolic batch that takes its place."""

    source: Variable
    batch: Variable
    label: str

    @property
    def array(self) -> np.ndarray:
        """The array as it is now: ``pm.set_data`` may have replaced it since the last call."""
        return array_of(self.source)


def find_row_leaves(
    terms: Mapping[str, Sequence[Variable]], n_rows: int, stop: Iterable[Variable], known: Iterable[RowLeaf] = ()
) -> dict[Variable, RowLeaf]:
    """Find the arrays with `n_rows` rows that the row-wise terms read.

    Parameters
    ----------
    terms : mapping of str to sequence of Variable
        Graphs to search, under the name of the model variable they belong to.
    n_rows : int
        Length of the row axis.
    stop : iterable of Variable
        Free random variables: what lies above them belongs to the prior.
    known : iterable of RowLeaf
        Leaves found before: the same data get no other batch.

    Returns
    -------
    dict
        From each constant or shared variable to its `RowLeaf`.  Constants that hold the same memory share one.  A
        variable of which constant rows are set or raised has one too: the mask of these rows.
    """
    blocked = set(stop)

    def parents(var: Variable) -> list[Variable]:
        return [] if var in blocked or var.owner is None else list(var.owner.inputs)

    leaves: dict[Variable, RowLeaf] = {}
    by_identity: dict[Hashable, RowLeaf] = {leaf_identity(leaf.source): leaf for leaf in known}

    def add(var: Variable, source: Variable, label: str) -> None:
        key = leaf_identity(source)
        if key not in by_identity:
            batch_type = TensorType(source.type.dtype, shape=(None, *array_of(source).shape[1:]))
            by_identity[key] = RowLeaf(source, batch_type(var.name), label)
        leaves[var] = by_identity[key]

    for name, graphs in terms.items():
        for var in walk(graphs, parents, bfs=False):
            if var in leaves or not is_array_leaf(var) or var.type.ndim == 0:
                continue
            array = array_of(var)
            if array.shape[0] == n_rows:
                label = var.name or f"array of shape {array.shape} ({array.dtype})"
                add(var, var, f"{label!r} of {name!r}")
        for var, mask in find_assigned_rows(graphs, n_rows, blocked).items():
            if var not in leaves:
                add(var, pt.constant(mask), f"the rows that are set or raised in {name!r}")
    return leaves


class BatchRebuild:
    """Make graphs again with batches of rows in place of whole data arrays.

    Parameters
    ----------
    replace : mapping of Variable to Variable
        Known replacements: row leaves to batches, row-count variables to the length of the batch,
        free random variables to themselves.
    n_rows : int
        Number of rows of the full data, as it may be baked into the graph.
    n_batch : Variable
        Length of the batch, an int64 scalar.
    masks : mapping of Variable to Variable, optional
        Of variables of which constant rows are set or raised, the mask of these rows in the batch.
    """

    def __init__(
        self,
        replace: Mapping[Variable, Variable],
        n_rows: int,
        n_batch: Variable,
        masks: Mapping[Variable, Variable] | None = None,
    ):
        self._memo = dict(replace)
        self._masks = masks or {}
        self._n_rows = n_rows
        self._n_batch = n_batch

    def __call__(self, var: Variable) -> Variable:
        """Return `var` as a function of the batch."""
        pending = [var]
        while pending:
            current = pending[-1]
            if current in self._memo:
                pending.pop()
                continue
            if current.owner is None:
                self._memo[current] = current
                continue
            missing = [i for i in current.owner.inputs if i not in self._memo]
            if missing:
                pending.extend(missing)
                continue
            self._rebuild_node(current.owner)
        return self._memo[var]

    def define(self, var: Variable, replacement: Variable) -> None:
        """Record what takes the place of `var` in graphs rebuilt later."""
        self._memo[var] = replacement

    def resize(self, rv: Variable, shape: Sequence[Any]) -> Variable:
        """Rebuild a random variable with the batch dimensions `shape`."""
        rv = plain_draw(rv)
        node = rv.owner
        inputs = [self(i) for i in node.inputs]
        # Not make_node: an op built for N rows refuses a batch, and change_dist_size makes a new op anyway.
        stub = Apply(node.op, inputs, [out.type() for out in node.outputs]).outputs[node.outputs.index(rv)]
        resized = change_dist_size(stub, shape)
        # PyMC resizes a CustomDist with the parameters it was first given, whatever the inputs of its node.
        final = [self(i) for i in resized.owner.inputs]
        if any(new is not old for new, old in zip(final, resized.owner.inputs, strict=True)):
            outputs = [out.type() for out in resized.owner.outputs]
            resized = Apply(resized.owner.op, final, outputs).outputs[resized.owner.outputs.index(resized)]
        return resized

    def _rebuild_node(self, node: Apply) -> None:
        inputs = [self._memo[i] for i in node.inputs]
        shape_inputs = next((s for op, s in _SHAPE_INPUTS.items() if isinstance(node.op, op)), None)
        if shape_inputs is not None:
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
            inputs[1] = self._patch_size(inputs[1])
            self._memo.update(zip(node.outputs, node.op.make_node(*inputs).outputs, strict=True))
        elif isinstance(node.op, SymbolicRandomVariable):
            rv = node.default_output()
            batch_ndim = rv.ndim - node.op.ndim_supp
            shape = [self._n_batch, *(rv.shape[i] for i in range(1, batch_ndim))] if batch_ndim else []
            self._memo[rv] = self.resize(rv, shape)
        elif isinstance(node.op, OpFromGraph):
            self._memo.update(zip(node.outputs, _call_again(node.op, inputs), strict=True))
        else:
            self._memo.update(zip(node.outputs, self._outputs_again(node, inputs), strict=True))

    def _outputs_again(self, node: Apply, inputs: list[Variable]) -> list[Variable]:
        if isinstance(node.op, Scan):
            mapped = apply_map(node.op, inputs)
            if mapped is None:
                raise NotRowWiseError("a scan carries a state from one step to the next, as from row to row")
            return mapped
        if isinstance(node.op, ASSIGNS) and (assigned := assign_by_mask(node, inputs, self._masks)) is not None:
            return [assigned]
        return node.clone_with_new_inputs(inputs, strict=False).outputs

    def _patch_shape(self, shape: Variable) -> Variable:
        """Replace the constant number of rows by the length of the batch in a shape input."""
        if isinstance(shape.type, TensorType) and shape.type.ndim == 0:
            return self._patch_length(shape)
        if not isinstance(shape, Constant) or not isinstance(shape.type, TensorType):
            return shape
        return self._patch_size(shape)

    def _patch_length(self, length: Variable) -> Variable:
        leaves = [v for v in ancestors([length]) if v.owner is None]
        if not all(isinstance(v, Constant) for v in leaves):
            return length
        known = length.eval(mode=Mode(linker="py", optimizer=None))
        return self._n_batch if known == self._n_rows else length

    def _patch_size(self, size: Variable) -> Variable:
        if isinstance(size, Constant) and isinstance(size.type, TensorType):
            value = np.asarray(size.data)
            if value.size and value[0] == self._n_rows:
                return pt.stack([self._n_batch, *(pt.constant(int(v), dtype="int64") for v in value[1:])])
        return size


def _call_again(op: OpFromGraph, inputs: Sequence[Variable]) -> list[Variable]:
    """Apply an op with an inner graph to inputs of another shape."""
    if isinstance(op, DEFERRED_SYMBOLIC_OPS):
        call = cast(Callable[..., list[Variable]], op)
        return call(*inputs, return_list=True)
    # The inner graph was typed for N rows, so it is written out.
    inner_inputs, inner_outputs = inner_graph(op)
    return graph_replace(inner_outputs, dict(zip(inner_inputs, inputs, strict=True)), strict=False)


def batch_term(
    rebuild: BatchRebuild, rv: Variable, value: Variable, value_shape: Sequence[int], n_batch: Variable
) -> Variable:
    """Log-probability of an observed variable on a batch.

    Returns
    -------
    Variable
        Of shape ``(batch, ...)``, one entry per row and per component that is independent within the row.
    """
    ndim_supp = plain_draw(rv).owner.op.ndim_supp
    batch_ndim = rv.type.ndim - ndim_supp
    resized = rebuild.resize(rv, [n_batch, *value_shape[1:batch_ndim]])
    return pm.logp(resized, rebuild(value), warn_rvs=False)


def shapes_without_draws(term: Variable) -> Variable:
    """Replace the shape of a random variable by the expression for it.

    The density of a mixture asks for the shape of its components.  Left to the compiler, PyMC 5 would draw a component
    at every evaluation to see how long it is.
    """
    while True:
        shape = next((v for v in ancestors([term]) if _is_shape_of_draw(v)), None)
        if shape is None:
            return term
        rv = shape.owner.inputs[0]
        _, size, *parameters = rv.owner.inputs
        lengths = pt.stack(rv.owner.op._infer_shape(size, parameters)).astype("int64")
        (term,) = graph_replace([term], {shape: lengths}, strict=False)


def _is_shape_of_draw(var: Variable) -> bool:
    if var.owner is None or not isinstance(var.owner.op, Shape):
        return False
    of = var.owner.inputs[0].owner
    return of is not None and isinstance(of.op, RandomVariable)


def plain_draw(rv: Variable) -> Variable:
    """Return a random variable without what was said about its shape, or about the number of rows it stands for."""
    while isinstance(rv.owner.op, SpecifyShape | MinibatchRandomVariable):
        rv = rv.owner.inputs[0]
    return rv
