"""What a step says of a model: that local scales make it hardly move, and which variables are slow to store."""

from __future__ import annotations

import logging
import math
import warnings

import numpy as np
import pymc as pm
from pymc.model import Model
from pytensor.graph.basic import Variable

_log = logging.getLogger("pymc_austerity")

#: Scales from which on they are those of single coefficients.
_MANY_SCALES = 10
_HEAVY_TAILS = (pm.HalfCauchy, pm.HalfStudentT)
#: Rows from which a variable with a value for each is worth a line.
_LONG = 5_000


def warn_of_local_scales(model: Model, name: str) -> None:
    """Warn where each of many coefficients has a scale of its own with heavy tails; `name` is that of the step.

    Between such tails one decision over all parameters hardly moves.
    """
    point = model.initial_point()
    sizes = {rv: int(np.size(point[model.rvs_to_values[rv].name])) for rv in model.free_RVs}
    for rv, size in sizes.items():
        heavy = any(isinstance(rv.owner.op, law.rv_type) for law in _HEAVY_TAILS)
        if heavy and size >= _MANY_SCALES and any(other is not rv and n == size for other, n in sizes.items()):
            warnings.warn(
                f"{rv.name!r} has a scale with heavy tails for each of {size} coefficients, as in a horseshoe. Scales "
                f"and coefficients have no normal law in common, and {name}, which makes one decision over all of "
                "them, will hardly move: do not trust its draws without pma.reliability. Sample with pm.NUTS.",
                UserWarning,
                stacklevel=2,
            )


def mention_row_deterministics(model: Model, n_rows: int) -> None:
    """Log the deterministic variables with a value for each of the `n_rows` rows of the data.

    PyMC evaluates them for all rows and stores them with every draw, which costs more than the decision on a few rows.
    """
    if n_rows < _LONG:
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
