"""A model in which observed variables that are alike but for their data and parameters are one.

The loop ``for k in range(150): pm.Normal(f"y{k}", pm.Normal(f"u{k}", mu, s), 1, observed=y[k])`` is read as

    u = pm.Normal("u0 to u149", mu, s, shape=150)
    pm.Normal("y0 to y149", u[outcome], 1, observed=np.concatenate(y))

with the number of its outcome for each row, which costs as much as one of them does.  So is ``pt.stack`` of many
variables that are alike.  The log density of the joined model is compared with that of the user's.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.model import Model
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import Join, MakeVector
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

from pymc_austerity.compat import inner_graph, replace_parts
from pymc_austerity.compile.graph_compiler import interpret_log_density
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood.derived_model import Joined, derived_model
from pymc_austerity.likelihood.layout import Block
from pymc_austerity.likelihood.model_graph import constant_of, is_array_leaf, plain_indices
from pymc_austerity.likelihood.rebuild import BatchRebuild

_log = logging.getLogger("pymc_austerity")

#: Variables that are alike from which on they are joined; fewer outcomes are read as they are, row by row together.
_FEWEST = 8
#: Spread of the point at which the two log densities are compared, unconstrained, and how far they may differ.
_SPREAD, _RELATIVE_ERROR = 0.3, 1e-9


class JoinedModel(NamedTuple):
    """A model with variables in each of which several of the user's are joined."""

    model: Model
    parts: dict[str, tuple[str, ...]]  # from the name of a value variable to those of the user's along its first axis

    def point(self, point: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return a point of the user's model with the values of joined variables too."""
        values = {name: np.stack([point[part] for part in parts]) for name, parts in self.parts.items()}
        joined = {part for parts in self.parts.values() for part in parts}
        return {name: value for name, value in point.items() if name not in joined} | values

    def with_parts(self, blocks: Sequence[Block]) -> tuple[Block, ...]:
        """Return blocks of the model that tell the user's variables in them."""
        return tuple(b._replace(parts=self.parts.get(b.name, ())) for b in blocks)


class _UnlikeError(Exception):
    """Variables are not alike."""


def joined_model(model: Model) -> JoinedModel | None:
    """Return the model with its many observed variables that are alike joined; None where there are none."""
    if len(model.basic_RVs) <= _FEWEST:
        return None
    try:
        joining = _Joining(model)
        if not joining.found:
            return None
        found = joining.result()
        _check(model, found)
    except Exception as error:  # whatever an op makes of a first axis, the model is read as it is
        _log.debug(f"Observed variables are read one by one ({type(error).__name__}: {error}).")
        return None
    for of in joining.found:
        _log.info(f"{len(of)} variables that are alike but for their data are read as one: {_name_of(of)}.")
    return found


class _Joining:
    """Finds variables of a model that are alike, and joins them; graphs are those of the user's model."""

    def __init__(self, model: Model):
        self.model = model
        self._signatures: dict[Variable, Hashable] = {}
        self._place: dict[Variable, tuple[Variable, int]] = {}  # of a free variable: where it is joined, and as which
        self._stacks: dict[tuple[Variable, ...], Variable | None] = {}
        self._values: dict[Variable, Variable] = {}  # of a joined outcome: what is observed
        self._instead: dict[Variable, Variable] = {}  # of graphs: what takes their place
        self._of: dict[Variable, Sequence[Variable]] = {}  # from a joined variable to its parts
        by_signature: dict[Hashable, list[Variable]] = {}
        for rv in model.observed_RVs:
            if isinstance(value := model.rvs_to_values[rv], Constant):  # containers may get other rows
                kind = value.type.dtype, rv.type.ndim, rv.type.shape[1:]
                by_signature.setdefault((kind, self._signature(rv)), []).append(rv)
        self.found: list[Sequence[Variable]] = [of for of in by_signature.values() if len(of) >= _FEWEST]
        for of in self.found:
            self._of[self._of_outcomes(of)] = of
        for node in {v.owner for v in ancestors([*model.basic_RVs, *model.potentials]) if v.owner is not None}:
            if (parts := _stacked_by(node)) is not None and set(model.free_RVs) & set(ancestors(parts)):
                with suppress(_UnlikeError):
                    if (stack := self._stack(parts)) is not None:
                        self._instead[node.outputs[0]] = stack
                        self.found.append(parts)

    def _signature(self, var: Variable) -> Hashable:
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
            inputs = [i for k, i in enumerate(var.owner.inputs) if not _is_shape_or_rng(var.owner, k)]
            found = self._of_op(var.owner.op), var.owner.outputs.index(var), tuple(map(self._signature, inputs))
        self._signatures[var] = found
        return found

    def _of_op(self, op: Op) -> Hashable:
        if not isinstance(op, OpFromGraph):
            return op
        inputs, outputs = inner_graph(op)  # two ops with the same graph differ in PyTensor 2
        self._signatures |= {i: ("input", k) for k, i in enumerate(inputs)}
        return type(op), tuple(map(self._signature, outputs))

    def _of_variables(self, of: Sequence[Variable]) -> Variable:
        """Return free variables along a first axis, and join them unless they are part of what is."""
        if not any(v in self._place for v in of):
            if len(set(of)) < len(of) or not all(v in self.model.free_RVs for v in of):
                raise _UnlikeError
            values = [self.model.rvs_to_values[rv] for rv in of]
            laws = {(type(self.model.rvs_to_transforms[rv]), rv.type, rv.owner.op) for rv in of}
            if len(laws) > 1 or len({value.type for value in values}) > 1:
                raise _UnlikeError
            self._of[joined := self._along_first(of)] = of
            self._place |= {rv: (joined, k) for k, rv in enumerate(of)}
            return joined
        places = [self._place.get(v, (None, 0)) for v in of]
        joined, numbers = places[0][0], [k for _, k in places]
        if joined is None or any(other is not joined for other, _ in places):
            raise _UnlikeError
        return joined if numbers == list(range(len(self._of[joined]))) else joined[np.array(numbers)]

    def _along_first(self, of: Sequence[Variable]) -> Variable:
        """Return random variables, of numbers or arrays, along a first axis of one."""
        first = of[0]
        node = first.owner
        if not isinstance(node.op, RandomVariable):
            raise _UnlikeError
        batch_ndim = first.type.ndim - node.op.ndim_supp
        parameters = []
        columns = zip(*(rv.owner.op.dist_params(rv.owner) for rv in of), strict=True)
        for core, column in zip(node.op.ndims_params, columns, strict=True):
            stack = self._stack(column)
            axes = range(1, column[0].type.ndim + 1)
            lacking = ("x",) * (batch_ndim - (column[0].type.ndim - core))
            parameters.append(column[0] if stack is None else stack.dimshuffle(0, *lacking, *axes))
        size = (len(of), *first.type.shape[:batch_ndim])
        return node.op.make_node(node.inputs[0], pt.constant(size, dtype="int64"), *parameters).outputs[1]

    def _stack(self, of: Sequence[Variable]) -> Variable | None:
        """Return graphs that are alike along a first axis, or None where they are all the same."""
        key = tuple(of)
        if key not in self._stacks:
            self._stacks[key] = self._stacked(key)
        return self._stacks[key]

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
        if first.owner is None or len({self._signature(v) for v in of}) > 1:
            raise _UnlikeError
        if isinstance(first.owner.op, Subtensor) and (taken := _entries_taken([v.owner for v in of])) is not None:
            return taken
        columns = list(zip(*(v.owner.inputs for v in of), strict=True))
        stacks = {column: self._stack(column) for column in columns}
        differing = {column[0]: stack for column, stack in stacks.items() if stack is not None}
        if len({column[0] for column in columns}) < len(stacks):  # two of the first graph's inputs are one
            raise _UnlikeError
        return vectorize_graph(first, differing) if differing else None

    def _of_outcomes(self, of: Sequence[Variable]) -> Variable:
        """Return outcomes as one, with their rows behind one another."""
        values = [self.model.rvs_to_values[rv] for rv in of]
        if of[0].type.ndim == 0:
            joined = self._along_first(of)
            self._values[joined] = pt.constant(np.stack([v.data for v in values]))
        else:
            joined = _Rows(self, [len(v.data) for v in values]).outcome(of)
            self._values[joined] = pt.constant(np.concatenate([v.data for v in values]))
        return joined

    def same(self, of: Sequence[Variable]) -> bool:
        """Return whether graphs are the same in all outcomes."""
        return self._stack(of) is None

    def at(self, of: Sequence[Variable], outcome: np.ndarray) -> Variable:
        """Return what belongs to the outcome of each row, along a first axis."""
        stack = self._stack(of)
        assert stack is not None
        taken = stack.owner
        if taken is not None and isinstance(taken.op, AdvancedSubtensor):
            base, *index = taken.inputs
            if len(index) == 1 and isinstance(index[0], Constant):
                return base[np.asarray(index[0].data)[outcome]]
        return stack[outcome]

    def result(self) -> JoinedModel:
        """Return the model with the joined variables."""
        entries = {rv: joined[k] for rv, (joined, k) in self._place.items()}
        first_of = {of[0]: joined for joined, of in self._of.items()}
        dropped = {rv for of in self._of.values() for rv in of} - set(first_of)

        def in_new_terms(term: Variable) -> Variable:
            return replace_parts(first_of.get(term, term), {**entries, **self._instead})

        named = {
            rv: Joined(joined, _name_of(self._of[joined]), self._values.get(joined)) for rv, joined in first_of.items()
        }
        new, _ = derived_model(self.model, in_new_terms, {}, {}, joined=named, dropped=dropped)
        values = {rv.name: value.name for rv, value in new.rvs_to_values.items()}
        free = (of for of in self._of.values() if of[0] in self.model.free_RVs)
        parts = {values[_name_of(of)]: tuple(self.model.rvs_to_values[rv].name for rv in of) for of in free}
        return JoinedModel(new, parts)


class _Rows:
    """Joins the rows of outcomes that are alike."""

    def __init__(self, joining: _Joining, lengths: Sequence[int]):
        self._joining, self._lengths = joining, lengths
        self._outcome = np.repeat(np.arange(len(lengths)), lengths)  # number of the outcome of each row
        self._rebuild = BatchRebuild({}, lengths[0], pt.constant(len(self._outcome), dtype="int64"))
        self._kinds: dict[tuple[Variable, ...], bool] = {}

    def outcome(self, of: Sequence[Variable]) -> Variable:
        first, model = of[0], self._joining.model
        if (dims := model.named_vars_to_dims.get(first.name)) and dims[0] is not None:
            self._rebuild.define(model.dim_lengths[dims[0]], pt.constant(len(self._outcome), dtype="int64"))
        self._node(first, [rv.owner for rv in of])
        shape = first.type.shape[1 : first.type.ndim - first.owner.op.ndim_supp]
        return self._rebuild.resize(first, [len(self._outcome), *shape])

    def _has_rows(self, of: tuple[Variable, ...]) -> bool:
        """Return whether graphs have the rows of the outcomes on their first axis, and join them if so."""
        if of not in self._kinds:
            if self._kinds and any(k[0] is of[0] and k != of for k in self._kinds):
                raise _UnlikeError
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
        if first.owner is None or isinstance(first.type, RandomType) or first in self._joining.model.free_RVs:
            return False
        return self._node(first, [v.owner for v in of])

    def _node(self, out: Variable, nodes: list[Apply]) -> bool:
        first, is_random = nodes[0], hasattr(nodes[0].op, "ndim_supp")
        cores = dict(zip(first.op.dist_params(first), first.op.ndims_params, strict=True)) if is_random else {}
        columns = [
            (k, c) for k, c in enumerate(zip(*(n.inputs for n in nodes), strict=True)) if not _is_shape_or_rng(first, k)
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
        elif any(not self._joining.same(column) for _, column in others):
            self._row_by_row(first, columns, with_rows)
        return True

    def _broadcast(self, of: tuple[Variable, ...], core: int, batch_ndim: int) -> None:
        """Give each row the entry of its outcome, of what all rows of an outcome share."""
        first = of[0]
        ndim = first.type.ndim
        lacking = batch_ndim - (ndim - core)
        if not lacking and first.type.shape[0] != 1:
            raise _UnlikeError  # an entry for each row, which is no constant
        if self._joining.same(of):
            return
        if lacking:
            rows = self._joining.at(of, self._outcome)
            rows = rows.dimshuffle(0, *("x",) * (lacking - 1), *range(1, ndim + 1))
        elif isinstance(first.owner.op if first.owner else None, DimShuffle) and first.owner.op.new_order[0] == "x":
            within = self._joining.at(tuple(v.owner.inputs[0] for v in of), self._outcome)
            rows = within.dimshuffle(0, *("x" if o == "x" else o + 1 for o in first.owner.op.new_order[1:]))
        else:
            rows = self._joining.at(of, self._outcome)[:, 0]
        self._rebuild.define(first, rows)

    def _row_by_row(self, node: Apply, columns: list[tuple[int, tuple[Variable, ...]]], with_rows: list[bool]) -> None:
        """Write a product with coefficients of the outcome, or an entry of effects of the outcome, for each row."""
        (_, one), (_, two) = columns if len(columns) == 2 else ((0, ()), (0, ()))
        is_product = isinstance(node.op, Dot) or isinstance(getattr(node.op, "core_op", None), Dot)
        if is_product and with_rows == [True, False] and one[0].type.ndim == 2:
            table, own = self._rebuild(one[0]), self._joining.at(two, self._outcome)
            product = table * own if own.type.ndim == 2 else table[:, :, None] * own
            self._rebuild.define(node.outputs[0], product.sum(axis=1))
        elif isinstance(node.op, AdvancedSubtensor) and with_rows == [False, True]:
            effects = self._joining.at(one, np.arange(len(self._lengths)))
            self._rebuild.define(node.outputs[0], effects[self._outcome, self._rebuild(two[0])])
        else:
            raise _UnlikeError


def _is_shape_or_rng(node: Apply, k: int) -> bool:
    """Return whether an input of a node is a generator, or the shape of a random variable."""
    if isinstance(node.inputs[k].type, RandomType):
        return True
    return (isinstance(node.op, RandomVariable) and k == 1) or (
        isinstance(node.op, SymbolicRandomVariable) and node.op.size_param(node) is node.inputs[k]
    )


def _stacked_by(node: Apply) -> list[Variable] | None:
    """Return what a node stacks along a first axis, where it is much."""
    if isinstance(node.op, MakeVector) and len(node.inputs) >= _FEWEST:
        return node.inputs
    if isinstance(node.op, Join) and len(node.inputs) > _FEWEST:
        parts = [i for i in node.inputs if i.type.ndim]
        expanded = [p.owner for p in parts if p.owner is not None and isinstance(p.owner.op, DimShuffle)]
        whole = all(n.op.new_order == ("x", *range(n.inputs[0].type.ndim)) for n in expanded)
        first_axis = getattr(node.op, "axis", None) == 0 or constant_of(node.inputs[0]) == 0
        if len(expanded) == len(parts) and whole and first_axis:
            return [n.inputs[0] for n in expanded]
    return None


def _entries_taken(nodes: Sequence[Apply]) -> Variable | None:
    """Return the entries that nodes take from one array along its first axis, or along the last."""
    base = nodes[0].inputs[0]
    index = [plain_indices(node) for node in nodes]
    numbers = np.array([[-1 if isinstance(i, slice) else constant_of(i) for i in one] for one in index], dtype=object)
    if any(n.inputs[0] is not base for n in nodes) or None in numbers or len(index[0]) > 1:
        return None
    return None if isinstance(index[0][0], slice) else base[numbers[:, 0].astype(np.int64)]


def _name_of(of: Sequence[Variable]) -> str:
    return f"{of[0].name} to {of[-1].name}"


def _check(model: Model, found: JoinedModel) -> None:
    """Refuse a joined model whose log density is another than the user's."""
    rng = np.random.default_rng(1906)
    start = {name: np.asarray(value) for name, value in model.initial_point().items()}
    functions = [interpret_log_density(of.value_vars, [of.logp()]) for of in (model, found.model)]
    for spread in (_SPREAD, 0.0):
        point = {n: v + spread * rng.standard_normal(v.shape) if v.dtype.kind == "f" else v for n, v in start.items()}
        values = [v.value_vars for v in (model, found.model)], (point, found.point(point))
        density, joined = (
            float(uninterrupted(function, *(np.asarray(at[v.name], v.type.dtype) for v in of))[0])
            for function, of, at in zip(functions, *values, strict=True)
        )
        if np.isfinite(density) and not abs(density - joined) <= _RELATIVE_ERROR * (1 + abs(density)):
            raise _UnlikeError(f"log density {joined:.17g} where the model has {density:.17g}")
