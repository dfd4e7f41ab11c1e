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
from pytensor.graph.replace import clone_replace, graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable

from pymc_austerity.compat import replace_parts
from pymc_austerity.likelihood.axis import NotRowWiseError
from pymc_austerity.likelihood.derived_model import Joined, derived_model, require_same_density
from pymc_austerity.likelihood.entries import Shapes, entries_in_shape
from pymc_austerity.likelihood.model_graph import array_of, is_array_leaf, plain_draw, value_of_constants
from pymc_austerity.likelihood.repeats import shapes_of_free

_log = logging.getLogger("pymc_austerity")

#: Rows or columns of a table from which on their effects are many.
_MANY = 12


class _Table(NamedTuple):
    """A table that is observed, and the data of its model by their values."""

    outcome: Variable
    values: np.ndarray
    data: dict[Variable, Variable]
    of_columns: list[str]  # names of what has an entry for each column, or for each of several further axes


def with_long_tables(model: Model) -> tuple[Model, frozenset[Variable]]:
    """Return the model with ``table.ravel()`` for tables with effects, and the containers that are written into it."""
    if all(outcome.type.ndim < 2 for outcome in model.observed_RVs):
        return model, frozenset()
    shapes = shapes_of_free(model)
    tables = [table for outcome in model.observed_RVs if (table := _table(model, outcome, shapes)) is not None]
    if not tables:
        return model, frozenset()
    try:
        long = {table.outcome: _written_long(table, shapes) for table in tables}
        made, _ = derived_model(model, lambda term: long[term].graph if term in long else term, joined=long)
        require_same_density(model, made)
    except Exception as error:  # whatever an op makes of one column, the model is read as it is
        _log.debug(f"Tables are read row by row ({type(error).__name__}: {error}).")
        for outcome, values, _, of_columns in tables:
            if of_columns:
                _log.warning(
                    f"{outcome.name!r} is a table of {' x '.join(map(str, values.shape))} "
                    f"of which each row reads all of {' and '.join(map(repr, of_columns))}: they move in one decision, "
                    "which may leave few effective draws. Write it long, observed=table.ravel() with u[i] and v[j] "
                    f"where i, j = np.indices({values.shape}).reshape(2, -1)."
                )
        return model, frozenset()
    return made, frozenset(leaf for table in tables for leaf in table.data)


def _table(model: Model, outcome: Variable, shapes: Shapes) -> _Table | None:
    """Return a table with an effect for each of its rows or columns; None of other outcomes."""
    value = model.rvs_to_values[outcome]
    read = {*ancestors([outcome], blockers=model.free_RVs), *ancestors([value])}
    data = {
        v: pt.constant(array_of(v), dtype=v.type.dtype)
        for v in read
        if isinstance(v, SharedVariable) and is_array_leaf(v)
    }
    values = value_of_constants(replace_parts(value, data))
    many = {n: axis for axis, n in reversed([*enumerate(np.shape(values))]) if n >= _MANY}
    effects = {rv.name: many.keys() & {*shapes[rv]} for rv in model.free_RVs if rv in read}
    if np.ndim(values) < 2 or not any(effects.values()):
        return None
    return _Table(outcome, values, data, [name for name, lengths in effects.items() if any(many[n] for n in lengths)])


def _written_long(table: _Table, free: Shapes) -> Joined:
    """Return the entries of a table as a vector that is drawn, and what was observed of them."""
    known: dict[Variable, Variable] = {rv: rv for rv in free} | table.data
    entries = _entries(replace_parts(plain_draw(table.outcome), known), free, table.values.shape)
    if entries is None:
        raise NotRowWiseError(f"{table.outcome.name!r} is not computed entry by entry")
    return Joined(entries, table.outcome.name, pt.constant(table.values.ravel()))


def _entries(drawn: Variable, free: Shapes, shape: tuple[int, ...]) -> Variable | None:
    """Return the entries of a table that is drawn, or of a parameter of one, as a vector; None where that fails."""
    op = None if drawn.owner is None else drawn.owner.op
    if drawn in free or not isinstance(op, RandomVariable | SymbolicRandomVariable):
        return entries_in_shape(drawn, free, shape)
    if op.ndim_supp:
        return None
    parameters = [
        (_in_one_column if n_own else _entries)(parameter, free, shape)
        for parameter, n_own in zip(op.dist_params(drawn.owner), op.ndims_params, strict=True)
    ]
    if any(parameter is None for parameter in parameters):
        return None
    if isinstance(op, SymbolicRandomVariable):
        return type(op).rv_op(*parameters)
    return op.make_node(op.rng_param(drawn.owner), None, *parameters).out


def _in_one_column(parameter: Variable, free: Shapes, shape: tuple[int, ...]) -> Variable | None:
    """Return a parameter with axes of its own, as probabilities of categories, for all entries of a table.

    What it is computed from is read entry by entry, as a table of one column, from where that can be written; the
    operations behind that are left to the check of the density, as one along the columns would be another.
    """
    if parameter.type.ndim < len(shape):  # one for all entries
        return parameter
    found, pending = dict[Variable, Variable](), [parameter]
    one_column = (slice(None), *[None] * (len(shape) - 1))
    while pending:
        var = pending.pop()
        if var in found or var in free or var.type.ndim < len(shape):
            continue
        entries = entries_in_shape(var, free, shape)
        if entries is not None and entries.type.ndim:
            found[var] = entries[one_column]
        elif entries is None and var.owner is not None:
            pending.extend(var.owner.inputs)
    # Variables of their own stand for what has other shapes, and for random variables, which would be copied.
    instead = {rv: rv for rv in free} | found
    stand_ins = {var: written.type() for var, written in instead.items()}
    rebuilt = clone_replace([parameter], stand_ins, rebuild_strict=False)[0]
    (rebuilt,) = graph_replace([rebuilt], {stand_ins[var]: instead[var] for var in instead}, strict=False)
    return rebuilt[(slice(None), *[0] * (len(shape) - 1))]
