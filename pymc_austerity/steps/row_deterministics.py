"""Says which `Deterministic` of a model has a value for each row, and what that costs a draw."""

from __future__ import annotations

import logging
import math

from pymc.model import Model
from pytensor.graph.basic import Variable

_log = logging.getLogger("pymc_austerity")

#: Rows from which it is worth a line.
_ROWS = 5_000


def mention_row_deterministics(model: Model, n_rows: int) -> None:
    """Log the deterministic variables with a value for each row.

    PyMC evaluates them for all rows and stores them with every draw, which costs more than the decision on a few rows.

    Parameters
    ----------
    model : pymc.Model
    n_rows : int
        Rows of the data.
    """
    if n_rows < _ROWS:
        return
    sizes = {variable.name: _size(model, variable) for variable in model.deterministics}
    long = {name: size for name, size in sizes.items() if size >= n_rows}
    if not long:
        return
    names, others = ", ".join(long), [v.name for v in model.unobserved_RVs if v.name not in long]
    kilobytes = 8 * sum(long.values()) / 1e3
    _log.info(
        f"Deterministic {names} has a value for each of {n_rows:,} rows: pm.sample computes and stores "
        f"{kilobytes:,.0f} kB with every draw, which can take longer than the draw. "
        f"pm.sample(var_names={_shortened(others)}) leaves it out; pm.compute_deterministics adds it afterwards."
    )


def _shortened(names: list[str]) -> str:
    return str(names) if len(names) <= 4 else f"[{', '.join(map(repr, names[:3]))}, ...]"


def _size(model: Model, variable: Variable) -> int:
    """Return the entries of a variable as far as its type or its dims tell, else 0."""
    shape = list(variable.type.shape)
    dims = model.named_vars_to_dims.get(variable.name, (None,) * len(shape))
    for axis, dim in enumerate(dims):
        if shape[axis] is None and dim in model.dim_lengths:
            shape[axis] = int(model.dim_lengths[dim].eval())
    return 0 if None in shape else math.prod(shape)
