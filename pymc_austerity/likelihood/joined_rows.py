"""Outcomes that are alike as one, with their rows behind one another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.distribution import SymbolicRandomVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_austerity.likelihood.model_graph import is_array_leaf, is_product
from pymc_austerity.likelihood.rebuild import BatchRebuild
from pymc_austerity.likelihood.stacked_graphs import Stacks, UnlikeError, is_shape_or_rng


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
        elif any(not self._stacks.same(column) for _, column in others):
            self._row_by_row(first, columns, with_rows)
        return True

    def _broadcast(self, of: tuple[Variable, ...], core: int, batch_ndim: int) -> None:
        """Give each row the entry of its outcome, of what all rows of an outcome share."""
        first = of[0]
        ndim = first.type.ndim
        lacking = batch_ndim - (ndim - core)
        if not lacking and first.type.shape[0] != 1:
            raise UnlikeError  # an entry for each row, which is no constant
        if self._stacks.same(of):
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
