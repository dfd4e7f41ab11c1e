"""A model whose data can be exchanged for any subset of its rows, without compiling anything again.

Every array of the model that has the row axis, whether ``pm.Data`` or a plain constant, becomes a shared
variable of free length; nothing is asked about how the likelihood uses the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor
from numpy.typing import NDArray
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.model import Model
from pymc.model.fgraph import (
    ModelDeterministic,
    ModelObservedRV,
    ModelVar,
    fgraph_from_model,
    model_from_fgraph,
)
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import ARange, Eye
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.op import RandomVariable

from pymc_austerity.compat import DEFERRED_SYMBOLIC_OPS
from pymc_austerity.compile.graph_compiler import BY_NUMPY
from pymc_austerity.likelihood.model_graph import is_array_leaf
from pymc_austerity.likelihood.rebuild import BatchRebuild
from pymc_austerity.likelihood.repeats import numbers_for_repeats, shapes_of_free
from pymc_austerity.paths.row_arrays import PROBE_ROWS, RowArray, find_row_arrays

#: Rows with which a copy is evaluated; a prime, which no other length is likely to be.
_FEW_ROWS = 97


@dataclass(frozen=True)
class SubsetModel:
    """A copy of a model whose row arrays can be exchanged; the user's model is left alone."""

    model: Model
    n_rows: int
    #: What is subset together.
    arrays: tuple[RowArray, ...]
    #: Deterministics with one value per row, which the copy leaves out.
    dropped: tuple[str, ...]

    def take(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return the arrays of a subset, by the name of their shared variable."""
        return {str(a.shared.name): a.take(rows) for a in self.arrays}

    def put(self, subset: Mapping[str, NDArray[Any]]) -> None:
        """Put the arrays of a subset into the model."""
        for array in self.arrays:
            array.shared.set_value(subset[str(array.shared.name)], borrow=True)


def subset_model(
    model: Model, n_rows: int | None = None, row_axes: Mapping[str, int | Sequence[int]] | None = None
) -> SubsetModel:
    """Copy a model so that the rows of all its data arrays can be subset together.

    The length of the row axis is that of the observed variables by default. `row_axes` names the row axes of
    ``pm.Data`` where they are not just the first: ``{"distance": (0, 1)}`` for a row by row matrix, ``{"grid": ()}``
    for an array that only happens to have N entries. A row axis that is not clear and a free variable with one entry
    per row are refused.
    """
    n_rows = _number_of_rows(model, n_rows)
    _refuse_row_parameters(model, n_rows)
    graph, memo = fgraph_from_model(model)
    repeats = numbers_for_repeats(graph.outputs, {memo[rv]: shape for rv, shape in shapes_of_free(model).items()})
    for repeated, by_number in reversed(repeats.items()):
        graph.replace(repeated, by_number, import_missing=True)
    dim_lengths = {name: memo.get(dim, dim) for name, dim in model.dim_lengths.items()}
    leaves = find_row_arrays(graph, n_rows, row_axes or {})
    arrays = tuple(dict.fromkeys(leaves.values()))
    if not arrays:
        raise ValueError(
            f"No data array of the model has {n_rows} rows: there is nothing to subset. Give n_rows= if the rows "
            "are counted differently."
        )
    # One array decides the length of a subset; all get the same rows.
    first = arrays[0]
    length = first.shared.shape[first.axes[0]]
    row_dims = [name for name, dim in dim_lengths.items() if int(dim.eval(mode=BY_NUMPY)) == n_rows]
    replace: dict[Variable, Variable] = {leaf: array.shared for leaf, array in leaves.items()}
    replace |= {dim_lengths[name]: length for name in row_dims}
    rebuild = _Rebuild(replace, n_rows, length)
    outputs = [rebuild(out) for out in graph.outputs]
    for out in outputs:
        if isinstance(out.owner.op, ModelObservedRV) and n_rows in out.type.shape:
            raise ValueError(
                f"The observed variable {out.name!r} keeps its {n_rows} entries whatever the data hold: an op of the "
                "model fixes its shape. Give its arrays to the model as pm.Data."
            )
    dropped = _row_deterministics(outputs, arrays, n_rows)
    outputs = [out for out in outputs if out not in dropped]
    copy = FunctionGraph(outputs=outputs, clone=False)
    copy._coords = {name: None if name in row_dims else values for name, values in graph._coords.items()}
    built = model_from_fgraph(copy, mutate_fgraph=True)
    built.dim_lengths.update({name: length if name in row_dims else dim for name, dim in dim_lengths.items()})
    found = SubsetModel(built, n_rows, arrays, tuple(str(out.name) for out in dropped))
    _check_with_few_rows(found)
    return found


def _check_with_few_rows(subset: SubsetModel) -> None:
    """Evaluate the copy with fewer rows, where what keeps its N entries no longer fits the rest."""
    held = {str(a.shared.name): a.shared.get_value(borrow=True) for a in subset.arrays}
    n_few = max(1, min(_FEW_ROWS, subset.n_rows // 2))
    subset.put(subset.take(np.arange(n_few)))
    try:
        subset.model.compile_logp(mode=BY_NUMPY)(subset.model.initial_point())
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"With {n_few:,} of the {subset.n_rows:,} rows the model cannot be evaluated: {reason}. Most likely an "
            f"array that the model computes has {subset.n_rows:,} entries whatever rows are subset, as one that is "
            "repeated or flattened within the model. Repeat and flatten data outside the model."
        ) from error
    finally:
        subset.put(held)


def observed_lengths(model: Model) -> dict[str, int]:
    """Return the lengths of the observed variables that have one."""
    shapes = {rv.name: model.rvs_to_values[rv].shape.eval(mode=BY_NUMPY) for rv in model.observed_RVs}
    return {name: int(shape[0]) for name, shape in shapes.items() if len(shape)}


def _number_of_rows(model: Model, n_rows: int | None) -> int:
    if n_rows is not None:
        return n_rows
    if not (lengths := observed_lengths(model)):
        raise ValueError("The model has no observed array whose length says how many rows there are. Give n_rows=.")
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"The observed variables differ in length: {lengths}. Say with n_rows= which rows are subset; the "
            "other variables are then read in full by every partial posterior."
        )
    return next(iter(lengths.values()))


def _refuse_row_parameters(model: Model, n_rows: int) -> None:
    for name, shape in model.eval_rv_shapes().items():
        rv = model.named_vars.get(name)
        if rv in model.free_RVs and n_rows in tuple(shape):
            raise ValueError(
                f"The free variable {name!r} of shape {tuple(shape)} has one entry per row (N = {n_rows}), so a "
                "subset of the rows would have other parameters and could not reuse the compiled model. "
                "Integrate it out (pm.gp.Marginal, a mixture), or write a phi of your own for debias."
            )


class _Rebuild(BatchRebuild):
    """`BatchRebuild` for graphs that may mix rows: statistics over rows and row by row matrices too."""

    def _rebuild_node(self, node: Apply) -> None:
        if isinstance(node.op, Eye | ARange):
            self._remake(node, [self._patch_shape(self._memo[i]) for i in node.inputs])
        elif isinstance(node.op, RandomVariable):
            inputs = [self._memo[i] for i in node.inputs]
            inputs[1] = self._patch_shape(inputs[1])
            self._remake(node, inputs)
        elif isinstance(node.op, ModelVar):
            inputs = [self._memo[i] for i in node.inputs]
            if isinstance(node.op, ModelObservedRV):
                inputs[0] = self._observed(node.inputs[0])
            self._remake(node, inputs)
            # PyMC 5 keeps the name of a model variable on the variable, PyMC 6 in the op.
            self._memo[node.outputs[0]].name = node.outputs[0].name
        elif isinstance(node.op, OpFromGraph) and not isinstance(
            node.op, (SymbolicRandomVariable, *DEFERRED_SYMBOLIC_OPS)
        ):
            # The inner graph was typed for N rows: it is written out, and made again in its turn.
            inner = dict(zip(node.op.inner_inputs, (self._memo[i] for i in node.inputs), strict=True))
            within = _Rebuild(inner, self._n_rows, self._n_batch)
            self._memo.update(zip(node.outputs, map(within, node.op.inner_outputs), strict=True))
        elif isinstance(node.op, Elemwise) and any(self._is_count(i) for i in node.inputs):
            raise ValueError(
                f"The number of rows, {self._n_rows}, stands as a plain number in the model, in an op {node.op}. A "
                "subset has fewer rows, and whether the number should shrink with it cannot be known. Write it as "
                "data.shape[0] of a pm.Data, or as a number that differs from the number of rows."
            )
        else:
            if isinstance(node.op, Elemwise):
                self._refuse_kept_rows(node.inputs)
            super()._rebuild_node(node)

    def _refuse_kept_rows(self, inputs: Sequence[Variable], observed: bool = False) -> None:
        """Refuse an array that keeps its N entries where it meets others that follow the rows."""
        ndim = max((var.type.ndim for var in inputs), default=0)
        for axis in range(-ndim, 0):
            lengths = {
                var: self._memo[var].type.shape[axis]
                for var in inputs
                if var.type.ndim >= -axis and self._memo[var].type.shape[axis] != 1
            }
            kept = [var for var, length in lengths.items() if length == self._n_rows]
            follows = any(self._memo[var] is not var and length is None for var, length in lengths.items())
            if kept and (follows or observed):
                raise ValueError(
                    f"An array that the model computes with {kept[0].owner.op if kept[0].owner else kept[0]} keeps its "
                    f"{self._n_rows} entries, whatever rows are subset. Where it repeats or puts together data, do so "
                    f"outside the model; where parameters u, write u[g] with an array g of {self._n_rows} whole "
                    "numbers, the entry that each row reads."
                )

    def _remake(self, node: Apply, inputs: Sequence[Variable]) -> None:
        # A node that stays as it is must stay the same one: the rebuild may meet what it made itself.
        same = all(new is old for new, old in zip(inputs, node.inputs, strict=True))
        outputs = node.outputs if same else node.op.make_node(*inputs).outputs
        self._memo.update(zip(node.outputs, outputs, strict=True))

    def _observed(self, rv: Variable) -> Variable:
        """Rebuild an observed variable, which has a shape per row even where its parameters do not."""
        rebuilt = self._memo[rv]
        batch_ndim = rv.type.ndim - rv.owner.op.ndim_supp
        if isinstance(rv.owner.op, RandomVariable) and batch_ndim == 1 and not any(rv.owner.op.ndims_params):
            self._refuse_kept_rows(rv.owner.op.dist_params(rv.owner), observed=rv.type.shape[0] == self._n_rows)
        if not batch_ndim or rebuilt.type.shape[0] != self._n_rows:
            return rebuilt
        return self.resize(rv, [self._n_batch, *rv.type.shape[1:batch_ndim]])

    def _is_count(self, var: Variable) -> bool:
        """Whether `var` is N as a number, perhaps with axes of length 1."""
        while var.owner is not None and len(var.owner.inputs) == 1:
            var = var.owner.inputs[0]
        return (
            isinstance(var, Constant)
            and is_array_leaf(var)
            and np.size(var.data) == 1
            and float(np.reshape(var.data, ())) == self._n_rows
        )


def _row_deterministics(outputs: Sequence[Variable], arrays: Sequence[RowArray], n_rows: int) -> list[Variable]:
    """Deterministics whose shape follows the number of rows."""
    named = [out for out in outputs if isinstance(out.owner.op, ModelDeterministic)]
    if not named:
        return []
    marks = [v for v in ancestors(named) if v.owner is not None and isinstance(v.owner.op, ModelVar)]
    plain = {mark: mark.owner.inputs[0] for mark in marks}
    inner = graph_replace([plain[var] for var in named], plain, strict=False)
    # Random variables are only asked for their shape; nothing is drawn.
    shapes = pytensor.function([], [var.shape for var in inner], mode=BY_NUMPY, on_unused_input="ignore")
    found = []
    for count in (2, 3, min(n_rows, PROBE_ROWS)):  # the last is what the arrays held before
        for array in arrays:
            array.shared.set_value(array.take(np.arange(count)))
        found.append([tuple(int(n) for n in shape) for shape in shapes()])
    return [out for out, two, three, _ in zip(named, *found, strict=True) if two != three]
