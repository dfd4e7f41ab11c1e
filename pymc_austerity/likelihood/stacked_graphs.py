"""Graphs of a model that are alike but for constants and free variables, and outcomes that are, as one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.model import Model
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.graph.replace import vectorize_graph
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

from pymc_austerity.compat import inner_graph
from pymc_austerity.likelihood.model_graph import constant_of, is_array_leaf, is_product, plain_indices
from pymc_austerity.likelihood.rebuild import BatchRebuild


class UnlikeError(Exception):
    """Graphs are not alike."""


class Stacks:
    """Stacks graphs, and joins the free variables that differ between them; all are those of the user's model."""

    def __init__(self, model: Model):
        self.model = model
        self.place: dict[Variable, tuple[Variable, int]] = {}  # of a free variable: where it is joined, and as which
        self.of: dict[Variable, Sequence[Variable]] = {}  # from a joined variable to its parts
        self._signatures: dict[Variable, Hashable] = {}
        self._known: dict[tuple[Variable, ...], Variable | None] = {}

    def signature(self, var: Variable) -> Hashable:
        """Return what is equal for graphs that are alike but for constants and the free variables that they read."""
        if var in self._signatures:
            return self._signatures[var]
        if isinstance(var, Constant):
            found: Hashable = str(var.type.dtype) if is_array_leaf(var) else str(var.type), getattr(var, "ndim", 0)
        elif var.owner is None:
            found = var
        elif var in self.model.free_RVs:
            found = "free", var.type.dtype, var.type.ndim
        else:
            inputs = [i for k, i in enumerate(var.owner.inputs) if not is_shape_or_rng(var.owner, k)]
            found = self._of_op(var.owner.op), var.owner.outputs.index(var), tuple(map(self.signature, inputs))
        self._signatures[var] = found
        return found

    def _of_op(self, op: Op) -> Hashable:
        if not isinstance(op, OpFromGraph):
            return op
        inputs, outputs = inner_graph(op)  # two ops with the same graph differ in PyTensor 2
        self._signatures |= {i: ("input", k) for k, i in enumerate(inputs)}
        return type(op), tuple(map(self.signature, outputs))

    def _of_variables(self, of: Sequence[Variable]) -> Variable:
        """Return free variables along a first axis, and join them unless they are part of what is."""
        if not any(v in self.place for v in of):
            if len(set(of)) < len(of) or not all(v in self.model.free_RVs for v in of):
                raise UnlikeError
            values = [self.model.rvs_to_values[rv] for rv in of]
            laws = {(type(self.model.rvs_to_transforms[rv]), rv.type, rv.owner.op) for rv in of}
            if len(laws) > 1 or len({value.type for value in values}) > 1:
                raise UnlikeError
            self.of[joined := self.along_first(of)] = of
            self.place |= {rv: (joined, k) for k, rv in enumerate(of)}
            return joined
        places = [self.place.get(v, (None, 0)) for v in of]
        joined, numbers = places[0][0], [k for _, k in places]
        if joined is None or any(other is not joined for other, _ in places):
            raise UnlikeError
        return joined if numbers == list(range(len(self.of[joined]))) else joined[np.array(numbers)]

    def along_first(self, of: Sequence[Variable]) -> Variable:
        """Return random variables, of numbers or arrays, along a first axis of one."""
        first = of[0]
        node = first.owner
        if not isinstance(node.op, RandomVariable):
            raise UnlikeError
        batch_ndim = first.type.ndim - node.op.ndim_supp
        parameters = []
        columns = zip(*(rv.owner.op.dist_params(rv.owner) for rv in of), strict=True)
        for core, column in zip(node.op.ndims_params, columns, strict=True):
            stack = self.stack(column)
            axes = range(1, column[0].type.ndim + 1)
            lacking = ("x",) * (batch_ndim - (column[0].type.ndim - core))
            parameters.append(column[0] if stack is None else stack.dimshuffle(0, *lacking, *axes))
        size = (len(of), *first.type.shape[:batch_ndim])
        return node.op.make_node(node.inputs[0], pt.constant(size, dtype="int64"), *parameters).outputs[1]

    def stack(self, of: Sequence[Variable]) -> Variable | None:
        """Return graphs that are alike along a first axis, or None where they are all the same."""
        key = tuple(of)
        if key not in self._known:
            self._known[key] = self._stacked(key)
        return self._known[key]

    def _stacked(self, of: tuple[Variable, ...]) -> Variable | None:
        first = of[0]
        if all(v is first for v in of):
            return None
        if isinstance(first, Constant):
            values = [np.asarray(v.data) for v in of]
            same = all(np.array_equal(v, values[0], equal_nan=v.dtype.kind == "f") for v in values)
            return None if same else pt.constant(np.stack(values))
        if first in self.model.free_RVs:
            return self._of_variables(of)
        if first.owner is None or len({self.signature(v) for v in of}) > 1:
            raise UnlikeError
        if isinstance(first.owner.op, Subtensor) and (taken := _entries_taken([v.owner for v in of])) is not None:
            return taken
        columns = list(zip(*(v.owner.inputs for v in of), strict=True))
        stacks = {column: self.stack(column) for column in columns}
        differing = {column[0]: stack for column, stack in stacks.items() if stack is not None}
        if len({column[0] for column in columns}) < len(stacks):  # two of the first graph's inputs are one
            raise UnlikeError
        return vectorize_graph(first, differing) if differing else None

    def at(self, of: Sequence[Variable], outcome: np.ndarray) -> Variable:
        """Return what belongs to the outcome of each row, along a first axis."""
        stack = self.stack(of)
        assert stack is not None
        taken = stack.owner
        if taken is not None and isinstance(taken.op, AdvancedSubtensor):
            base, *index = taken.inputs
            if len(index) == 1 and isinstance(index[0], Constant):
                return base[np.asarray(index[0].data)[outcome]]
        return stack[outcome]


def is_shape_or_rng(node: Apply, k: int) -> bool:
    """Return whether an input of a node is a generator, or the shape of a random variable."""
    if isinstance(node.inputs[k].type, RandomType):
        return True
    return (isinstance(node.op, RandomVariable) and k == 1) or (
        isinstance(node.op, SymbolicRandomVariable) and node.op.size_param(node) is node.inputs[k]
    )


def _entries_taken(nodes: Sequence[Apply]) -> Variable | None:
    """Return the entries that nodes take from one array along its first axis; None where they do something else."""
    base, numbers = nodes[0].inputs[0], []
    for node in nodes:
        index, *others = plain_indices(node)
        if node.inputs[0] is not base or others or isinstance(index, slice) or (k := constant_of(index)) is None:
            return None
        numbers.append(k)
    return base[np.array(numbers)]


class JoinedRows:
    """Joins the rows of outcomes that are alike."""

    def __init__(self, stacks: Stacks, lengths: Sequence[int]):
        self._stacks, self._lengths = stacks, lengths
        self._outcome = np.repeat(np.arange(len(lengths)), lengths)  # number of the outcome of each row
        self._rebuild = BatchRebuild({}, lengths[0], pt.constant(len(self._outcome), dtype="int64"))
        self._kinds: dict[tuple[Variable, ...], bool] = {}

    def outcome(self, of: Sequence[Variable]) -> Variable:
        """Return random variables that are alike as one."""
        first, model = of[0], self._stacks.model
        if (dims := model.named_vars_to_dims.get(first.name)) and dims[0] is not None:
            self._rebuild.define(model.dim_lengths[dims[0]], pt.constant(len(self._outcome), dtype="int64"))
        self._node(first, [rv.owner for rv in of])
        shape = first.type.shape[1 : first.type.ndim - first.owner.op.ndim_supp]
        return self._rebuild.resize(first, [len(self._outcome), *shape])

    def _has_rows(self, of: tuple[Variable, ...]) -> bool:
        """Return whether graphs have the rows of the outcomes on their first axis, and join them if so."""
        if of not in self._kinds:
            if self._kinds and any(k[0] is of[0] and k != of for k in self._kinds):
                raise UnlikeError
            self._kinds[of] = self._join(of)
        return self._kinds[of]

    def _join(self, of: tuple[Variable, ...]) -> bool:
        first = of[0]
        if isinstance(first, Constant) and is_array_leaf(first) and first.type.ndim:
            arrays = [np.asarray(v.data) for v in of]
            if any(len(a) != n for a, n in zip(arrays, self._lengths, strict=True)):
                return False
            self._rebuild.define(first, pt.constant(np.concatenate(arrays)))
            return True
        if first.owner is None or isinstance(first.type, RandomType) or first in self._stacks.model.free_RVs:
            return False
        return self._node(first, [v.owner for v in of])

    def _node(self, out: Variable, nodes: list[Apply]) -> bool:
        first, is_random = nodes[0], hasattr(nodes[0].op, "ndim_supp")
        cores = dict(zip(first.op.dist_params(first), first.op.ndims_params, strict=True)) if is_random else {}
        columns = [
            (k, c) for k, c in enumerate(zip(*(n.inputs for n in nodes), strict=True)) if not is_shape_or_rng(first, k)
        ]
        with_rows = [self._has_rows(column) for _, column in columns]
        if not (any(with_rows) or is_random):
            return False
        others = [(k, column) for (k, column), rows in zip(columns, with_rows, strict=True) if not rows]
        if isinstance(first.op, Elemwise | RandomVariable | SymbolicRandomVariable):
            for k, column in others:
                self._broadcast(
                    column, cores.get(first.inputs[k], 0), out.type.ndim - getattr(first.op, "ndim_supp", 0)
                )
        elif any(self._stacks.stack(column) is not None for _, column in others):
            self._row_by_row(first, columns, with_rows)
        return True

    def _broadcast(self, of: tuple[Variable, ...], core: int, batch_ndim: int) -> None:
        """Give each row the entry of its outcome, of what all rows of an outcome share."""
        first = of[0]
        ndim = first.type.ndim
        lacking = batch_ndim - (ndim - core)
        if not lacking and first.type.shape[0] != 1:
            raise UnlikeError  # an entry for each row, which is no constant
        if self._stacks.stack(of) is None:
            return
        if lacking:
            rows = self._stacks.at(of, self._outcome)
            rows = rows.dimshuffle(0, *("x",) * (lacking - 1), *range(1, ndim + 1))
        elif isinstance(first.owner.op if first.owner else None, DimShuffle) and first.owner.op.new_order[0] == "x":
            within = self._stacks.at(tuple(v.owner.inputs[0] for v in of), self._outcome)
            rows = within.dimshuffle(0, *("x" if o == "x" else o + 1 for o in first.owner.op.new_order[1:]))
        else:
            rows = self._stacks.at(of, self._outcome)[:, 0]
        self._rebuild.define(first, rows)

    def _row_by_row(self, node: Apply, columns: list[tuple[int, tuple[Variable, ...]]], with_rows: list[bool]) -> None:
        """Write a product with coefficients of the outcome, or an entry of effects of the outcome, for each row."""
        (_, one), (_, two) = columns if len(columns) == 2 else ((0, ()), (0, ()))
        if is_product(node) and with_rows == [True, False] and one[0].type.ndim == 2:
            table, own = self._rebuild(one[0]), self._stacks.at(two, self._outcome)
            product = table * own if own.type.ndim == 2 else table[:, :, None] * own
            self._rebuild.define(node.outputs[0], product.sum(axis=1))
        elif isinstance(node.op, AdvancedSubtensor) and with_rows == [False, True]:
            effects = self._stacks.at(one, np.arange(len(self._lengths)))
            self._rebuild.define(node.outputs[0], effects[self._outcome, self._rebuild(two[0])])
        else:
            raise UnlikeError
