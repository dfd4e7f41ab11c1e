"""Warns of the local scales of a horseshoe, between whose tails one decision over all parameters hardly moves."""

from __future__ import annotations

import warnings

import numpy as np
import pymc as pm
from pymc.model import Model

#: Scales from which on they are those of single coefficients.
_LEAST = 10
_HEAVY_TAILS = (pm.HalfCauchy, pm.HalfStudentT)


def warn_of_local_scales(model: Model, name: str) -> None:
    """Warn where each of many coefficients has a scale of its own with heavy tails.

    Parameters
    ----------
    model : pymc.Model
    name : str
        Of the step.
    """
    point = model.initial_point()
    sizes = {rv: int(np.size(point[model.rvs_to_values[rv].name])) for rv in model.free_RVs}
    for rv, size in sizes.items():
        heavy = any(isinstance(rv.owner.op, law.rv_type) for law in _HEAVY_TAILS)
        if heavy and size >= _LEAST and any(other is not rv and n == size for other, n in sizes.items()):
            warnings.warn(
                f"{rv.name!r} has a scale with heavy tails for each of {size} coefficients, as in a horseshoe. Scales "
                f"and coefficients have no normal law in common, and {name}, which makes one decision over all of "
                "them, will hardly move: do not trust its draws without pma.reliability. Sample with pm.NUTS.",
                UserWarning,
                stacklevel=2,
            )
