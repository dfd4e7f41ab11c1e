"""A model in which the rows read its effects u themselves, whatever parametrisation the user wrote.

The z of ``u = mu + tau * z`` is replaced by u, with the prior p(z(u)) |∂z/∂u|: given everything else the map is affine
and a bijection (Papaspiliopoulos, Roberts and Sköld, Statistical Science 22, 2007).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from pymc.model import Model
from pytensor.graph.basic import Variable

from pymc_austerity.compat import replace_parts
from pymc_austerity.compile.graph_compiler import interpret_log_density
from pymc_austerity.groups.change_of_variables import ChangeOfVariables, by_partial_correlations, change_of_variables
from pymc_austerity.groups.checked_by_numbers import Point, PointMap, checked_at, density_of, log_jacobian_of
from pymc_austerity.groups.dummies_as_numbers import with_numbers_of_groups
from pymc_austerity.groups.effects_read import effects_read, is_read_by_rows
from pymc_austerity.groups.factor import GroupsNotFoundError
from pymc_austerity.groups.group_index import EffectsRead
from pymc_austerity.groups.loadings import leave_zero
from pymc_austerity.groups.nested_groups import Deviations, with_deviations, with_known_numbers, with_nested_by_row
from pymc_austerity.groups.scales_on_effects import with_scales_on_effects
from pymc_austerity.groups.sums_within_groups import with_sums_within_groups
from pymc_austerity.groups.zero_sum_effects import sum_over
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood.derived_model import derived_model, replacing

#: How far the log densities of both models may differ in the check, relative to their size.
_RELATIVE_ERROR = 1e-6


@dataclass(frozen=True, eq=False)
class CentredModel:
    """A model in other coordinates, and the maps of points between it and the user's."""

    #: Its variables have the names of the user's; those in `replaced` stand for the effects that the rows read.
    model: Model
    #: From the name of a variable that is replaced to its axis along which the groups lie; to None where effects of a
    #: group read all of it.
    replaced: Mapping[str, int | None]
    #: From values of all variables, unconstrained, of the user's model to those of `model`, and back.
    to_effects: PointMap
    from_effects: PointMap
    #: For those of `replaced` whose entries sum to zero, so many one after the other: the lengths of these sums.
    zero_sums: Mapping[str, int] = field(default_factory=dict)
    #: Where effects are deviations from those of coarser groups, the variables that each of these is made of.
    coarser: tuple[frozenset[str], ...] = ()


def centred_model(
    model: Model, *, zero_sums: bool = True, by_numbers: bool = True, deviations: bool = True
) -> CentredModel | None:
    """Return the model in terms of the effects that its rows read, or None where these are its variables already.

    `zero_sums` says whether effects that sum to zero are in the place of the numbers that PyMC makes them of, which are
    one fewer; `by_numbers` whether rows that read effects by dummies of groups read them by numbers instead, and those
    of nested groups by one index for each; `deviations` whether effects of nested groups are written as such.

    Raises GroupsNotFoundError where the log density in the new coordinates is not that of the model.
    """
    written, model = model, with_known_numbers(with_sums_within_groups(model)) if by_numbers else model
    users = model
    by_correlations = _of_correlations(model) if by_numbers else None
    if by_correlations is not None:
        return after(by_correlations, centred_model(by_correlations.model, zero_sums=zero_sums, deviations=deviations))
    nested = with_deviations(model) if by_numbers and deviations else None
    if nested is not None:
        return after(_of_deviations(users, nested), centred_model(nested.model, zero_sums=zero_sums))
    model = numbered = with_nested_by_row(with_numbers_of_groups(model)) if by_numbers else model
    model = with_scales_on_effects(model, partial(is_read_by_rows, model))
    by_source: dict[Variable, list[EffectsRead]] = {}
    for effects in effects_read(model, zero_sums):
        by_source.setdefault(effects.source, []).append(effects)
    changes: dict[Variable, ChangeOfVariables] = {}
    themselves = {rv: rv for rv in model.basic_RVs}
    for source, read in by_source.items():
        # In terms of the effects that are found already: z of `rho * w + sqrt(1 - rho**2) * z`, and b of `t * (a - b)`
        # beside `s * (a + b)`.
        graphs = [of.effects for of in read]
        for known, change in changes.items():
            graphs = [replace_parts(graph, {**themselves, known: change.inverse}) for graph in graphs]
        in_new_terms = [replace(of, effects=graph) for of, graph in zip(read, graphs, strict=True)]
        if (found_change := change_of_variables(source, in_new_terms, model.basic_RVs)) is not None:
            changes[source] = found_change
    if not changes and numbered is written:
        return None
    replaced: dict[Variable, Variable] = {}
    for source, change in reversed(changes.items()):
        replaced |= {**change.by_row, source: replace_parts(change.inverse, themselves | replaced)}
    tables = [of.read for read in by_source.values() for of in read if of.table is not None and of.read in replaced]
    others = {part: graph for part, graph in replaced.items() if part not in tables}
    replaced |= {table: replace_parts(replaced[table], others) for table in tables}  # they may read other variables
    users_effects: dict[Variable, Variable] = {}
    for change in changes.values():
        users_effects[change.new] = replace_parts(change.effects, users_effects)
    new, inverses = _model_of(model, changes, replaced)
    names = {source: model.rvs_to_values[source].name for source in changes}
    to_effects: PointMap = _map_of(model, {names[source]: users_effects[of.new] for source, of in changes.items()})
    starts = {name: at for source in changes for of in by_source[source] for name, at in of.start.items()}
    found = CentredModel(
        new,
        {name: by_source[source][0].source_axis for source, name in names.items()},
        partial(_in_turn, partial(leave_zero, starts), to_effects) if starts else to_effects,
        _map_of(new, {names[source]: inverse for source, inverse in inverses.items()}),
        {name: sum_over(by_source[source]) for source, name in names.items() if by_source[source][0].zero_sum},
    )
    _check(users, found)
    return found


def _of_deviations(model: Model, nested: Deviations) -> CentredModel:
    """Return a model of deviations, with the maps between that and the user's."""
    maps = _map_of(model, nested.deviations), _map_of(nested.model, nested.effects)
    found = CentredModel(nested.model, dict.fromkeys(nested.deviations, 0), *maps, coarser=nested.coarser)
    _check(model, found)
    return found


def _of_correlations(model: Model) -> CentredModel | None:
    """Return the model with partial correlations in the place of packed Cholesky factors; None where it has none."""
    return in_other_coordinates(model, by_partial_correlations(model))


def in_other_coordinates(model: Model, changes: Mapping[Variable, ChangeOfVariables]) -> CentredModel | None:
    """Return the model with other variables in the place of some, which nothing else reads; None for no change."""
    if not changes:
        return None
    new, inverses = _model_of(model, changes, {rv: change.inverse for rv, change in changes.items()})
    names = {rv: model.rvs_to_values[rv].name for rv in changes}
    to_new = _map_of(model, {names[rv]: change.effects for rv, change in changes.items()})
    return CentredModel(new, {}, to_new, _map_of(new, {names[rv]: inverse for rv, inverse in inverses.items()}))


def after(first: CentredModel, second: CentredModel | None) -> CentredModel:
    """Return a model in the coordinates that two changes lead to, one after the other."""
    if second is None:
        return first
    return CentredModel(
        second.model,
        {**first.replaced, **second.replaced},
        partial(_in_turn, first.to_effects, second.to_effects),
        partial(_in_turn, second.from_effects, first.from_effects),
        {**first.zero_sums, **second.zero_sums},
        first.coarser + second.coarser,
    )


def _in_turn(first: PointMap, then: PointMap, point: Point) -> dict[str, np.ndarray]:
    return then(first(point))


def _model_of(
    model: Model, changes: Mapping[Variable, ChangeOfVariables], replaced: Mapping[Variable, Variable]
) -> tuple[Model, dict[Variable, Variable]]:
    """Return the model in which the new variables stand for the replaced ones, and the values of these by them."""
    new, in_new_model = derived_model(
        model,
        replacing(model, replaced),
        {source: change.new for source, change in changes.items()},
        {f"prior of {source.name}": change.log_prior for source, change in changes.items()},
    )
    transforms = {source: model.rvs_to_transforms[source] for source in changes}
    return new, {
        source: in_new_model(source if of is None else of.forward(source, *source.owner.inputs))
        for source, of in transforms.items()
    }


class _PointMap:
    """Puts the values of graphs, by the names of variables, into a point; another process compiles them for itself."""

    def __init__(self, values: Sequence[Variable], graphs: Mapping[str, Variable]):
        self._made_of = values, graphs
        self._function = interpret_log_density(values, list(graphs.values()))

    def __call__(self, point: Point) -> dict[str, np.ndarray]:
        values, graphs = self._made_of
        found = uninterrupted(self._function, *(point[value.name] for value in values))
        return {**point, **dict(zip(graphs, found, strict=True))}

    def __reduce__(self) -> Any:
        return _PointMap, self._made_of


def _map_of(model: Model, graphs: Mapping[str, Variable]) -> _PointMap:
    """Return a function that puts the values of graphs into a point of a model."""
    by_values = model.replace_rvs_by_values(list(graphs.values()))
    return _PointMap(model.value_vars, dict(zip(graphs, by_values, strict=True)))


def _check(model: Model, found: CentredModel) -> None:
    """Check by numbers that the two log densities differ by the Jacobian of the map, and that the maps are inverse."""
    value = density_of(model)
    point = checked_at(model, value, np.random.default_rng(2007))
    moved = found.to_effects(point)
    density, new_density = value(point), density_of(found.model)(moved)
    log_jacobian = log_jacobian_of(found.to_effects, found.replaced, found.zero_sums, point)
    back = found.from_effects(moved)
    off = max((np.abs(back[name] - point[name]).max(initial=0.0) for name in found.replaced), default=0.0)
    if not abs(density - new_density - log_jacobian) + off <= _RELATIVE_ERROR * (1 + abs(density)):
        raise GroupsNotFoundError(
            f"The change of variables of {list(found.replaced)} to what the rows read fails its check: the log density "
            f"differs by {density - new_density:.6g}, the logarithm of the Jacobian is {log_jacobian:.6g}, and the map "
            f"back is off by {off:.2g}."
        )
