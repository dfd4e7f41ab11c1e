"""A chain that starts where the log density is so low that rounding decides is refused."""

from __future__ import annotations

import numpy as np
from pymc.exceptions import SamplingError

from pymc_austerity.compile.graph_compiler import interpret_log_density
from pymc_austerity.groups import GroupDecider
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.kernel import Decider
from pymc_austerity.likelihood import Coordinates

#: Rows that are looked at, and variables that are named.
_ROWS, _NAMED = 1_000, 3
#: How far a look beside the start goes: less than any data leave a parameter uncertain.
_STEP = 1e-15


def require_near(
    decider: Decider | GroupDecider, theta: np.ndarray, others: np.ndarray, theta0: np.ndarray, coordinates: Coordinates
) -> None:
    """Raise a SamplingError that names what is furthest from `theta0` where the log density is rounded by more than 1.

    A test there would compare rounding errors.  Moves of everything on a surrogate find back from there.
    """
    if isinstance(decider, GroupDecider):
        likelihood, rows, fixed = decider.model.likelihood, decider.prepared.rows, decider.fixed
    elif decider.parts.prepared is None:
        likelihood, rows, fixed = decider.parts.likelihood, decider.parts.stored, decider.parts.fixed
    else:
        return
    numbers = np.unique(np.linspace(0, len(rows) - 1, min(_ROWS, len(rows))).astype(int))
    given = [likelihood.theta, likelihood.others, *likelihood.fixed, *likelihood.batches]
    function = interpret_log_density(given, [likelihood.log_prior, likelihood.row_log_likelihood])
    arrays = rows.take(numbers).arrays

    def size_at(theta: np.ndarray) -> float:
        with np.errstate(all="ignore"):
            log_prior, terms = uninterrupted(function, theta, others, *fixed, *arrays)
            return abs(float(log_prior)) + float(np.abs(terms).mean()) * len(rows)

    here, beside = (
        size_at(theta + step) for step in (0.0, _STEP * np.random.default_rng(39).standard_normal(theta.size))
    )
    size = max(here, beside)
    if not np.isfinite(here) or not np.finfo(float).eps * size > 1:
        return
    away = {b.name: np.abs(theta - theta0)[b.start : b.stop].max() for b in likelihood.blocks if b.stop > b.start}
    furthest = sorted(away, key=away.__getitem__, reverse=True)[:_NAMED]
    point = coordinates.point({}, theta)
    shown = ", ".join(
        f"{name} = {np.array2string(point[name], precision=4, threshold=6)}" for name in furthest if name in point
    )
    raise SamplingError(
        f"The chain starts at {shown} (values in the unconstrained space), where or beside which the log density is "
        f"about {-size:.1g}: its rounding error exceeds what a decision compares, and the chain would not find back. "
        "Start closer, by initvals= of pm.sample, or leave initvals= out."
    )
