"""Potentials that are sums over rows, ``pm.Potential("p", -0.5 * pt.sum(((y - mu) / s) ** 2) - n * pt.log(s))``.

A number that is made of sums over rows by adding and by multiplying with other numbers,

    Σ_k c_k Σ_i v_ki + r = Σ_i (Σ_k c_k v_ki + r / N),

has an entry for each row, on the right.  Whether v_ki reads row i alone is proved as for any other term.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import chain
from operator import add, mul
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.model import Model
from pytensor import scalar
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import ExtractDiag, Join, MakeVector
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, Shape, Shape_i

from pymc_austerity.compat import inner_graph, replace_parts
from pymc_austerity.compile.graph_compiler import BY_NUMPY
from pymc_austerity.likelihood.model_graph import is_product, longest_first, row_axis_in, sum_within_rows


class SumOfRows(NamedTuple):
    """A potential that is a sum, as a vector of what is summed."""

    rows: Variable  # vector
    n_rows: int
    shares: bool  # whether a number that depends on how many rows there are was shared out among them


class _Parts(NamedTuple):
    """A number as Σ_k c_k Σ v_k + r."""

    sums: tuple[tuple[Variable, Variable], ...]  # the numbers c_k and the arrays v_k
    rest: tuple[Variable, ...]  # numbers whose sum is r

    def times(self, number: Variable) -> _Parts:
        return _Parts(tuple((number * c, v) for c, v in self.sums), tuple(number * r for r in self.rest))

    def only_if(self, yes: Variable) -> _Parts:
        sums = tuple((pt.switch(yes, c, 0.0), pt.switch(yes, v, 0.0)) for c, v in self.sums)
        return _Parts(sums, tuple(pt.switch(yes, r, 0.0) for r in self.rest))


def sums_of_rows(
    model: Model, potentials: Sequence[Variable], point: Mapping[str, np.ndarray]
) -> dict[Variable, SumOfRows]:
    """Return those potentials of a model whose total is a sum of arrays; `point` has values of the free variables."""
    parts = {p: _total(p) for p in potentials}
    parts = {p: of for p, of in parts.items() if any(v is not p for _, v in of.sums)}
    if not parts:
        return {}
    graphs = [v for of in parts.values() for _, v in of.sums]
    numbers = [c for of in parts.values() for c in (*of.rest, *(c for c, _ in of.sums))]
    read = ancestors(numbers, blockers=model.free_RVs)
    lengths = [v for v in read if v.owner is not None and isinstance(v.owner.op, Shape | Shape_i)]
    asked = model.replace_rvs_by_values([*(v.shape for v in graphs), *lengths])
    evaluate = model.compile_fn(asked, inputs=model.value_vars, mode=BY_NUMPY, on_unused_input="ignore")
    values = evaluate(point)
    shapes = dict(zip(graphs, (tuple(map(int, s)) for s in values), strict=False))
    known = {v: pt.constant(n) for v, n in zip(lengths, values[len(graphs) :], strict=True)}
    return {p: _as_rows(of, shapes, known) for p, of in parts.items()}


def _as_rows(
    parts: _Parts, shapes: Mapping[Variable, tuple[int, ...]], known: Mapping[Variable, Variable]
) -> SumOfRows:
    n_rows = max(longest_first(shapes[v]) for _, v in parts.sums)
    rows, rest = [], list(parts.rest)
    for c, v in parts.sums:
        axis = row_axis_in(shapes[v], n_rows)
        if axis is None:
            rest.append(c * v.sum())
        else:
            rows.append(replace_parts(c, known) * sum_within_rows(v, axis))
    total = reduce(add, rows)
    if rest:
        total = total + replace_parts(reduce(add, rest), known) / n_rows
    return SumOfRows(total, n_rows, bool(rest or known))


def _parts(var: Variable) -> _Parts:
    """Split a number, an array of one entry, into sums and what is added to them."""
    node = var.owner
    alone = _Parts((), (_number(var),))
    if node is None or not all(var.type.broadcastable):
        return alone
    if isinstance(node.op, DimShuffle):
        return _parts(node.inputs[0]) if all(node.inputs[0].type.broadcastable) else alone
    if _is_sum(var):
        return _total(node.inputs[0])
    if isinstance(node.op, OpFromGraph) and len(node.outputs) == 1:  # as of einsum
        inner_inputs, inner_outputs = inner_graph(node.op)
        return _parts(replace_parts(inner_outputs[0], dict(zip(inner_inputs, node.inputs, strict=True))))
    if is_product(var.owner):
        vectors = [_as_vector(i) for i in node.inputs]
        return _Parts(((pt.constant(1.0), mul(*vectors)),), ()) if {v.ndim for v in vectors} == {1} else alone
    return _parts_of_elemwise(node.op.scalar_op, node.inputs, alone) if isinstance(node.op, Elemwise) else alone


def _parts_of_elemwise(op: scalar.ScalarOp, inputs: Sequence[Variable], alone: _Parts) -> _Parts:
    root = inputs[0].owner
    squares = isinstance(op, scalar.Sqr) or (isinstance(op, scalar.Pow) and getattr(inputs[1], "data", None) == 2)
    if squares and isinstance(root and root.op, Elemwise) and isinstance(root.op.scalar_op, scalar.Sqrt):
        return _parts(root.inputs[0])  # as of a norm
    parts = [_parts(i) for i in inputs]
    with_sums = [i for i, of in enumerate(parts) if of.sums]
    if not with_sums:
        return alone
    if isinstance(op, scalar.Cast | scalar.Identity):
        return parts[0]
    if isinstance(op, scalar.Neg | scalar.Sub):
        parts[-1] = parts[-1].times(pt.constant(-1.0))
    if isinstance(op, scalar.Add | scalar.Sub | scalar.Neg):
        return _together(parts)
    if isinstance(op, scalar.Mul) and len(with_sums) == 1:
        others = [_number(v) for i, v in enumerate(inputs) if i not in with_sums]
        return parts[with_sums[0]].times(reduce(mul, others))
    if isinstance(op, scalar.TrueDiv) and with_sums == [0]:
        return parts[0].times(1.0 / _number(inputs[1]))
    if isinstance(op, scalar.Switch) and not any(map(_is_sum, ancestors(inputs[:1]))):
        yes = _number(inputs[0])
        return _together([parts[1].only_if(yes), parts[2].only_if(~yes)])
    return alone


def _total(array: Variable) -> _Parts:
    """Split the sum of all entries of an array."""
    if all(array.type.broadcastable):
        return _parts(array)
    whole, node = _Parts(((pt.constant(1.0), array),), ()), array.owner
    if node is None:
        return whole
    if isinstance(node.op, DimShuffle) or _is_sum(array):
        return _total(node.inputs[0])
    if isinstance(node.op, ExtractDiag) and node.op.offset == 0 and is_product(node.inputs[0].owner):  # as of a trace
        a, b = node.inputs[0].owner.inputs
        return _total(a * b.mT)
    if isinstance(node.op, MakeVector | Join):
        axis_first = isinstance(node.op, Join) and not hasattr(node.op, "axis")  # PyTensor 2
        return _together([_total(i) for i in node.inputs[axis_first:]])
    if not isinstance(node.op, Elemwise):
        return whole
    op = node.op.scalar_op
    numbers = [_number(i) for i in node.inputs if all(i.type.broadcastable)]
    arrays = [i for i in node.inputs if not all(i.type.broadcastable)]
    if isinstance(op, scalar.Neg):
        return _total(arrays[0]).times(pt.constant(-1.0))
    if isinstance(op, scalar.Mul) and len(arrays) == 1:
        return _total(arrays[0]).times(reduce(mul, numbers))
    return whole


def _together(parts: Sequence[_Parts]) -> _Parts:
    return _Parts(*(tuple(chain.from_iterable(of)) for of in zip(*parts, strict=True)))


def _as_vector(var: Variable) -> Variable:
    """Return an array without its axes of one entry, and what was a vector before it was reshaped to one."""
    var = var.dimshuffle([a for a, one in enumerate(var.type.broadcastable) if not one])
    while isinstance(var.owner and var.owner.op, Reshape | DimShuffle) and var.owner.inputs[0].ndim == 1 == var.ndim:
        var = var.owner.inputs[0]
    return var


def _number(var: Variable) -> Variable:
    return var.dimshuffle([]) if var.type.ndim else var


def _is_sum(var: Variable) -> bool:
    op = None if var.owner is None else var.owner.op
    return isinstance(op, CAReduce) and isinstance(op.scalar_op, scalar.Add)
