"""Loadings that start at zero: z of ``loading * z[g]`` is not known from the effects there.

Another start is as good, unless the sign of the loading is free: then all chains would show one of two modes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from itertools import combinations

import numpy as np
import pymc as pm
from pymc.model import Model
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.scalar import Mul, TrueDiv

from pymc_austerity.compile.graph_compiler import BY_NUMPY
from pymc_austerity.groups.checked_by_numbers import Point, checked_at, density_of
from pymc_austerity.groups.group_index import EffectsRead
from pymc_austerity.groups.inverse_by_ops import nodes_between
from pymc_austerity.likelihood.model_graph import is_product

#: Variables of which all combinations of signs are looked at.
_MOST_SIGNS = 8
_DRAWS = 101


def start_of_loading(model: Model, of: EffectsRead, moves_at: Callable[[Point], bool]) -> dict[str, np.ndarray]:
    """Return where a loading of effects may start that is 0 in the initial point, by its name; else warn of it.

    `moves_at` says of values of all variables whether the effects change with their source there.
    """
    point = model.initial_point()
    above = set(ancestors([of.effects], blockers=model.basic_RVs)) - {of.source}
    zero = [rv for rv in model.free_RVs if rv in above and not np.any(point[model.rvs_to_values[rv].name])]
    starts = {rv: {model.rvs_to_values[rv].name: _size_of(rv, point[model.rvs_to_values[rv].name])} for rv in zero}
    loadings = [rv for rv, start in starts.items() if moves_at(point | start)]
    if len(loadings) == 1 and not _has_free_sign(model, loadings[0], of.source):
        return starts[loadings[0]]
    warnings.warn(
        f"The effects of {of.source.name!r} are not moved by themselves, as what multiplies them is 0 where sampling "
        f"starts. Draws will hardly move. Let {[rv.name for rv in loadings or zero]} start elsewhere, as in "
        "pm.Normal(..., initval=1).",
        UserWarning,
        stacklevel=2,
    )
    return {}


def leave_zero(starts: Mapping[str, np.ndarray], point: Point) -> dict[str, np.ndarray]:
    """Return a point with loadings that are 0 where they may start."""
    return {**point, **{name: start for name, start in starts.items() if not np.any(point[name])}}


def _size_of(rv: Variable, value: np.ndarray) -> np.ndarray:
    """Return the usual size of a variable by its prior; 1 where that cannot be drawn from."""
    try:
        draws = pm.draw(rv, _DRAWS, random_seed=1965, mode=BY_NUMPY)
    except NotImplementedError:
        return np.ones_like(value)
    return np.full_like(value, np.median(np.abs(draws)))


def _has_free_sign(model: Model, loading: Variable, source: Variable) -> bool:
    """Whether the density stays the same where the loading, its source and perhaps other variables change sign."""
    others = [rv for rv in _that_may_turn(model, source) if rv is not loading and rv is not source]
    if len(others) > _MOST_SIGNS or model.rvs_to_transforms[loading] is not None:
        return True  # not known
    density = density_of(model)
    point = checked_at(model, density, np.random.default_rng(1965))
    known = density(point)

    def turned(*variables: Variable) -> float:
        return density(point | {name: -point[name] for name in (model.rvs_to_values[rv].name for rv in variables)})

    turns = (more for n in range(len(others) + 1) for more in combinations(others, n))
    return any(np.isclose(turned(loading, source, *more), known, rtol=1e-9) for more in turns)


def _that_may_turn(model: Model, source: Variable) -> list[Variable]:
    """Return unbounded variables that share a law or a product with a variable, and those that do so with these."""
    free = [rv for rv in model.free_RVs if model.rvs_to_transforms[rv] is None and rv.type.dtype.startswith("float")]
    # What laws and potentials are made of: a graph ends at what is drawn.
    terms = [term.owner for term in (*model.basic_RVs, *model.potentials) if term.owner is not None]
    parts = [of for node in terms for of in node.inputs]
    found, waiting = [source], [source]
    while waiting:
        rv = waiting.pop()
        beside = set(ancestors([rv])) | {other for other in free if rv in ancestors([other])}
        for part in parts:
            for node in nodes_between(rv, part):
                scalar = getattr(node.op, "scalar_op", None)
                if isinstance(scalar, Mul | TrueDiv) or is_product(node):
                    beside |= set(ancestors(node.inputs, blockers=free))
        more = [of for of in free if of in beside and of not in found]
        found += more
        waiting += more
    return found
