"""A model whose tables are read entry by entry, where their rows or columns have effects.

``pm.Normal("y", u[:, None] + v, 1, observed=table)`` is read as
``pm.Normal("y", u[i] + v[j], 1, observed=table.ravel())`` with the row i and the column j of each entry:
u and v are groups then, where a row of the table reads all of v.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.model import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable

from pymc_austerity.compat import replace_parts
from pymc_austerity.likelihood.derived_model import Joined, derived_model
from pymc_austerity.likelihood.model_graph import array_of, is_array_leaf, plain_draw, value_of_constants
from pymc_austerity.likelihood.repeats import Shapes, entries_of, shapes_of_free

_log = logging.getLogger("pymc_austerity")

#: Rows or columns of a table from which on their effects are many.
_MANY = 12


class LongTables(NamedTuple):
    """A model in which each entry of a table is a row."""

    model: Model
    written: frozenset[Variable]  # the data containers whose values are written into it


def with_long_tables(model: Model) -> LongTables | None:
    """Return the model with ``table.ravel()`` in place of each table with effects; None where there are none."""
    shapes, long, written = shapes_of_free(model), dict[Variable, Joined](), set[Variable]()
    for outcome in model.observed_RVs:
        read = {*ancestors([outcome], blockers=model.free_RVs), *ancestors([model.rvs_to_values[outcome]])}
        data = {v for v in read if isinstance(v, SharedVariable) and is_array_leaf(v)}
        known = {v: pt.constant(array_of(v), dtype=v.type.dtype) for v in data}
        table = value_of_constants(replace_parts(model.rvs_to_values[outcome], known))
        shape = np.shape(table)
        effects = [rv for rv in model.free_RVs if rv in read and {n for n in shape if n >= _MANY} & {*shapes[rv]}]
        if len(shape) < 2 or not effects:
            continue
        drawn = replace_parts(plain_draw(outcome), {rv: rv for rv in model.free_RVs} | known)
        if (entries := _entries(drawn, shapes, shape)) is not None:
            long[outcome] = Joined(entries, outcome.name, pt.constant(table.ravel()))
            written |= data
        elif names := [rv.name for rv in effects if {*shapes[rv]} & {*shape[1:]}]:
            _log.warning(
                f"{outcome.name!r} is a table of {' x '.join(map(str, shape))} of which each row reads all of "
                f"{' and '.join(names)}: they move in one decision, which may leave few effective draws. Write it "
                f"long, observed=table.ravel() with u[i] and v[j] where i, j = np.indices({shape}).reshape(2, -1)."
            )
    if not long:
        return None
    made, _ = derived_model(model, lambda term: long[term].graph if term in long else term, {}, {}, joined=long)
    return LongTables(made, frozenset(written))


def _entries(drawn: Variable, free: Shapes, shape: tuple[int, ...]) -> Variable | None:
    """Return the entries of a table that is drawn, or of a parameter of one, as a vector; None where that fails."""
    op = None if drawn.owner is None else drawn.owner.op
    if drawn in free or not isinstance(op, RandomVariable | SymbolicRandomVariable):
        return entries_of(drawn, free, shape)
    if op.ndim_supp or any(op.ndims_params):
        return None
    parameters = [_entries(parameter, free, shape) for parameter in op.dist_params(drawn.owner)]
    if any(parameter is None for parameter in parameters):
        return None
    if isinstance(op, SymbolicRandomVariable):
        return type(op).rv_op(*parameters)
    return op.make_node(op.rng_param(drawn.owner), None, *parameters).out
