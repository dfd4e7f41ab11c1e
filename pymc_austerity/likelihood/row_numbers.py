"""Indices that hold the numbers of the rows, by which an entry of each row is chosen.

In ``lp[np.arange(n), k]`` row i reads its own entry k_i.  A batch has entries for its own rows only, so that its rows
are numbered anew.  What numbers the rows is told by its values, however it is written.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.shape import Reshape
from pytensor.tensor.type import TensorType

from pymc_austerity.compile.graph_compiler import AS_WRITTEN
from pymc_austerity.likelihood.model_graph import is_array_leaf, plain_indices
from pymc_austerity.likelihood.row_leaves import RowLeaf
from pymc_austerity.unsupported_model import UnsupportedModelError


class NumberedRows(NamedTuple):
    """An index of a model that must hold the numbers of the rows, and does as long as its data do."""

    index: Variable  # a graph of batches, which gives 0 to N − 1 for all rows
    leaves: tuple[RowLeaf, ...]  # the data that it reads

    def shape(self, n_rows: int) -> tuple[int, ...] | None:
        """Return the shape of the index where it has the numbers of so many rows in their order, or else None."""
        if {len(leaf.array) for leaf in self.leaves} != {n_rows}:
            return None
        batches = [leaf.batch for leaf in self.leaves]
        evaluate = pytensor.function(batches, self.index, mode=AS_WRITTEN, on_unused_input="ignore")
        numbers = np.asarray(evaluate(*(leaf.array for leaf in self.leaves)))
        return numbers.shape if np.array_equal(numbers.ravel(), np.arange(n_rows)) else None

    def require(self, n_rows: int) -> None:
        """Refuse data that no longer number so many rows."""
        if self.shape(n_rows) is None:
            raise UnsupportedModelError(
                f"Data {[leaf.label for leaf in self.leaves]} numbered the rows when the model was read, and no longer "
                "do: row i reads the entry of another row, which a batch of rows does not have. Set them to the "
                "numbers 0 to n - 1 of the rows in their order."
            )


class RowNumbering:
    """Finds the indices of a model that number its rows.

    `n_rows` is the number of all rows, `length` that of a batch; `found` takes those that are made of data which may
    change.
    """

    def __init__(self, leaves: Collection[RowLeaf], n_rows: int, length: Variable, found: list[NumberedRows]):
        self._leaves: Mapping[Variable, RowLeaf] = {leaf.batch: leaf for leaf in leaves}
        self._n_rows = n_rows
        self._length = length
        self._found = found

    def picks_parameters(self, node: Apply) -> bool:
        """Whether entries of a parameter are picked by data in containers: groups, of one row each if need be."""
        table, *indices = node.inputs
        leaves = [leaf for batch, leaf in self._leaves.items() if batch in set(ancestors(indices))]
        of_rows = self._length in (read := set(ancestors([table]))) or not read.isdisjoint(self._leaves)
        in_containers = any(isinstance(leaf.source, SharedVariable) for leaf in leaves)
        return in_containers and not (of_rows or is_array_leaf(table))

    def of_batch(self, index: Variable) -> Variable:
        """Return the numbers of the rows in a batch for an index that numbers all rows, and another as it is."""
        if not isinstance(index.type, TensorType) or not index.type.dtype.startswith(("int", "uint")):
            return index
        numbered = self._read(index)
        if numbered is None or (shape := numbered.shape(self._n_rows)) is None:
            return index
        if any(isinstance(v, SharedVariable) for v in ancestors([index, *(leaf.source for leaf in numbered.leaves)])):
            self._found.append(numbered)
        order = [0 if n == self._n_rows else "x" for n in shape]
        return pt.arange(self._length, dtype=index.type.dtype).dimshuffle(*order)

    def _read(self, index: Variable) -> NumberedRows | None:
        roots = _roots(index)
        if not _are_data(roots - self._leaves.keys()):
            index = _simplified(index)  # lengths are free then of what they are the lengths of
            roots = _roots(index)
        read = tuple(leaf for batch, leaf in self._leaves.items() if batch in roots)
        return NumberedRows(index, read) if read and _are_data(roots - self._leaves.keys()) else None

    def unfolded(self, node: Apply) -> tuple[Variable, ...] | None:
        """Return a table and indices of its two axes, where it is laid out as a vector or indexed by a mask.

        That is ``lp.flatten()[i * K + k]`` as ``lp[i, k]``, and ``lp[mask]`` too where each row of the mask has one
        mark.  None for anything else.
        """
        source, indices = node.inputs[0], plain_indices(node)
        if len(indices) != 1 or not isinstance(indices[0], Variable):
            return None
        (index,) = indices
        if index.type.dtype == "bool":
            two = index.type.ndim == source.type.ndim == 2
            return (source, index.nonzero()[0], pt.argmax(index, axis=1)) if two else None
        if source.owner is None or not isinstance(source.owner.op, Reshape) or source.type.ndim != 1:
            return None
        table = source.owner.inputs[0]
        if table.type.ndim != 2 or table.type.shape.count(None) != 1:
            return None
        first, second = table.type.shape
        if first is None:
            return table, index // second, index % second
        # Places of the entries behind the first rows depend on how many rows there are.
        place = pt.switch(pt.eq(self._length, self._n_rows), index % self._n_rows, -1)
        return table, index // self._n_rows, place


def _roots(index: Variable) -> set[Variable]:
    return {v for v in ancestors([index]) if v.owner is None}


def _simplified(index: Variable) -> Variable:
    """Return an index as the compiler simplifies it."""
    roots = [v for v in _roots(index) if not isinstance(v, Constant)]
    own = [v.type() for v in roots]
    (copy,) = graph_replace([index], dict(zip(roots, own, strict=True)))
    simple = rewrite_graph(copy, include=("ShapeOpt", "canonicalize"), clone=False)
    return graph_replace([simple], dict(zip(own, roots, strict=True)), strict=False)[0]


def _are_data(roots: Collection[Variable]) -> bool:
    return all(isinstance(v, Constant) or is_array_leaf(v) for v in roots)
