"""A model in which the rows read its effects u themselves, whatever parametrisation the user wrote.

The z of ``u = mu + tau * z`` is replaced by u, with the prior p(z(u)) |∂z/∂u|: given everything else the map is affine
and a bijection (Papaspiliopoulos, Roberts and Sköld, Statistical Science 22, 2007).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.model import Model
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Variable, equal_computations
from pytensor.scalar import Add, Sub
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.subtensor import Subtensor

from pymc_austerity.compat import replace_parts
from pymc_austerity.compile.graph_compiler import interpret_log_density
from pymc_austerity.groups.checked_at import farthest
from pymc_austerity.groups.dummies_as_numbers import with_numbers_of_groups
from pymc_austerity.groups.effects_read import axis_entering, distinct, effects_read, is_read_by_rows
from pymc_austerity.groups.factor import GroupsNotFoundError
from pymc_austerity.groups.inverse_by_ops import inverse_by_ops, nodes_between
from pymc_austerity.groups.map_jacobian import Point, log_jacobian_of
from pymc_austerity.groups.scales_on_effects import with_scales_on_effects
from pymc_austerity.groups.taken_by_group import EffectsRead, number_of_cell
from pymc_austerity.groups.zero_sum_effects import by_zero_sum, sum_over
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
    to_effects: Callable[[Point], dict[str, np.ndarray]]
    from_effects: Callable[[Point], dict[str, np.ndarray]]
    #: For those of `replaced` whose entries sum to zero, so many one after the other: the lengths of these sums.
    zero_sums: Mapping[str, int] = field(default_factory=dict)


def centred_model(model: Model, *, zero_sums: bool = True, by_numbers: bool = True) -> CentredModel | None:
    """Return the model in terms of the effects that its rows read, or None where these are its variables already.

    `zero_sums` says whether effects that sum to zero are in the place of the numbers that PyMC makes them of, which are
    one fewer; `by_numbers` whether rows that read effects by dummies of groups read them by numbers instead.

    Raises GroupsNotFoundError where the log density in the new coordinates is not that of the model.
    """
    users = model
    model = numbered = with_numbers_of_groups(model) if by_numbers else model
    model = with_scales_on_effects(model, partial(is_read_by_rows, model))
    by_source: dict[Variable, list[EffectsRead]] = {}
    for effects in effects_read(model, zero_sums):
        by_source.setdefault(effects.source, []).append(effects)
    changes: dict[Variable, _Change] = {}
    themselves = {rv: rv for rv in model.basic_RVs}
    for source, read in by_source.items():
        # In terms of the effects that are found already: z of `rho * w + sqrt(1 - rho**2) * z`, and b of `t * (a - b)`
        # beside `s * (a + b)`.
        graphs = [of.effects for of in read]
        for known, change in changes.items():
            graphs = [replace_parts(graph, {**themselves, known: change.inverse}) for graph in graphs]
        in_new_terms = [replace(of, effects=graph) for of, graph in zip(read, graphs, strict=True)]
        if (found_change := _change_of(source, in_new_terms)) is not None:
            changes[source] = found_change
    if not changes and numbered is users:
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
    found = CentredModel(
        new,
        {name: by_source[source][0].source_axis for source, name in names.items()},
        _map_of(model, {names[source]: users_effects[change.new] for source, change in changes.items()}),
        _map_of(new, {names[source]: inverse for source, inverse in inverses.items()}),
        {name: sum_over(by_source[source]) for source, name in names.items() if by_source[source][0].zero_sum},
    )
    _check(users, found)
    return found


@dataclass(frozen=True, eq=False)
class _Change:
    """The change of variables from z to the effects u that rows read."""

    effects: Variable  # u as a function of z and the rest
    new: Variable  # the variable that takes the place of z, of the shape of `effects`
    inverse: Variable  # z as a function of `new` and the rest
    log_prior: Variable  # log p(z_g) + log |∂z_g/∂u_g| of each group, shape (G,), or of all together
    by_row: dict[Variable, Variable]  # from what rows read in the graph of the model to the same in terms of `new`


def _change_of(source: Variable, read: Sequence[EffectsRead]) -> _Change | None:
    """Return the change of variables for one variable; None where there is none to make, or it is no bijection."""
    axis = read[0].source_axis
    if read[0].zero_sum:
        return _Change(*by_zero_sum(source, read))
    if any(isinstance(of.index, tuple) for of in read):
        by_cell = _change_of_cells(source, read)
        if by_cell is not None:
            return by_cell
    if any(of.source_axis != axis for of in read) or (axis == 0 and all(map(_is_part, read))):
        return None
    if axis is None:
        return _change_by_ops(source, read)
    apart = distinct(read)
    n_groups, *rest = np.moveaxis(np.empty(read[0].source_shape), axis, 0).shape
    widths, size = [int(np.prod(of.shape[1:], dtype=int)) for of in apart], int(np.prod(rest, dtype=int))
    # Of ``s * z`` and ``t * z`` the first takes the place of z, and the other is ``t / s`` times it.
    ends = np.cumsum(widths).tolist()
    if size not in ends or (ends[-1] > size and any(map(_is_part, read))):
        return None
    apart = apart[: ends.index(size) + 1]
    read = [of for of in read if any(equal_computations([of.effects], [known.effects]) for known in apart)]
    several = len(apart) > 1
    effects = pt.concatenate([_by_group(of.effects) for of in apart], axis=1) if several else apart[0].effects
    new = pt.TensorType("float64", (n_groups, size) if several else apart[0].shape)(source.name)
    inverted = _inverse(source, axis, rest, effects, _by_group(new), entry_by_entry=not several)
    if inverted is None:
        return None
    z, log_jacobian = inverted
    inverse = pt.moveaxis(_of_shape(z, n_groups, rest), 0, axis)
    log_prior = pm.logp(source, inverse)
    if log_prior.type.ndim <= axis:  # groups depend on each other
        log_prior = log_prior.sum() + pt.broadcast_to(log_jacobian, (n_groups,)).sum()
    else:
        others = tuple(a for a in range(log_prior.type.ndim) if a != axis)
        log_prior = (log_prior.sum(axis=others) if others else log_prior) + log_jacobian
    by_row = {}
    for of in read:
        k = next(k for k, known in enumerate(apart) if equal_computations([of.effects], [known.effects]))
        own = _of_shape(new[:, ends[k] - widths[k] : ends[k]], n_groups, of.shape[1:]) if several else new
        by_row[of.read] = pt.moveaxis(own if of.index is None else own[of.index], 0, of.axis)
    return _Change(effects, new, inverse, log_prior, by_row)


def _change_of_cells(source: Variable, read: Sequence[EffectsRead]) -> _Change | None:
    """Return the change of variables to a vector of the cells that rows read by several indices, ``u[age, state]``.

    Each cell is then a group of its own.  None where cells differ in more than their entry of z: groups are then what
    lies along the first axis.
    """
    effects, shape, op = read[0].effects, read[0].shape, source.owner.op
    alike = all(equal_computations([of.effects], [effects]) and isinstance(of.index, tuple) for of in read)
    if not alike or shape != read[0].source_shape or not isinstance(op, RandomVariable) or op.ndim_supp:
        return None
    one = (1,) * len(shape)
    zero_and_one = [pt.constant(np.full(one, value), dtype=source.type.dtype) for value in (0.0, 1.0)]
    origin = _with_value(effects, source, zero_and_one[0], "affine")
    slope = _with_value(effects, source, zero_and_one[1], "linear")
    same = [origin, slope, *op.dist_params(source.owner)]
    if not all(all(number.type.broadcastable) for number in same):
        return None
    origin, slope, *parameters = (number.squeeze() for number in same)
    n_cells = int(np.prod(shape))
    new = pt.TensorType("float64", (n_cells,))(source.name)
    inverse = (new - origin) / slope
    prior = op.make_node(op.rng_param(source.owner), pt.constant([n_cells]), *parameters).outputs[1]
    log_prior = pm.logp(prior, inverse) - pt.log(pt.abs(slope))
    by_row = {of.read: new[number_of_cell(of.index, shape)] for of in read if isinstance(of.index, tuple)}
    return _Change(effects.reshape((-1,)), new, inverse.reshape(shape), log_prior, by_row)


def _change_by_ops(source: Variable, read: Sequence[EffectsRead]) -> _Change | None:
    """Return the change of variables where the effects of a group read all of a variable."""
    effects = read[0].effects
    if not all(equal_computations([of.effects], [effects]) for of in read):
        return None
    new = pt.TensorType("float64", read[0].shape)(source.name)
    inverted = inverse_by_ops(effects, source, new)
    if inverted is None:  # effects that are found already read it too
        return None
    inverse, log_jacobian = inverted
    by_row = {of.read: pt.moveaxis(new if of.index is None else new[of.index], 0, of.axis) for of in read}
    return _Change(effects, new, inverse, pm.logp(source, inverse).sum() + log_jacobian, by_row)


def _is_part(of: EffectsRead) -> bool:
    """Whether the effects are entries of their source as they are."""
    between = nodes_between(of.source, of.effects)
    return of.axis == 0 and all(isinstance(node.op, Subtensor | ViewOp) for node in between)


def _inverse(
    source: Variable, axis: int, rest: Sequence[int], effects: Variable, u: Variable, *, entry_by_entry: bool
) -> tuple[Variable, Variable] | None:
    """Return z, shape (G, K), as a function of u, and log |∂z_g/∂u_g|; None where each group has its own matrix."""

    def effects_of(z: np.ndarray, part: Literal["affine", "linear"]) -> Variable:
        """Return what z, the same for every group, makes of the effects: a row for each group, or one for all."""
        value = pt.constant(np.expand_dims(z.reshape(rest), axis), dtype=source.type.dtype)
        return _by_group(_with_value(effects, source, value, part))

    size = int(np.prod(rest, dtype=int))
    origin, along = effects_of(np.zeros(size), "affine"), range(1, effects.type.ndim)
    if size == 1 or (entry_by_entry and all(axis_entering(effects, k, source) is not None for k in along)):
        slope = effects_of(np.ones(size), "linear")
        return (u - origin) / slope, -pt.log(pt.abs(slope)).sum(axis=1)
    columns = [effects_of(one, "linear") for one in np.eye(size)]
    if not all(column.type.broadcastable[0] for column in columns):
        return None
    rows = pt.stack([column[0] for column in columns])
    return pt.dot(u - origin, pt.linalg.inv(rows)), -pt.linalg.slogdet(rows)[1]


def _with_value(effects: Variable, source: Variable, value: Variable, part: Literal["affine", "linear"]) -> Variable:
    """Return the effects where their source has a value, or of them only what is linear in it."""
    made = {source: value}
    for node in nodes_between(source, effects):
        inputs = [made.get(var, var) for var in node.inputs]
        if part == "linear" and isinstance(getattr(node.op, "scalar_op", None), Add | Sub):
            zero = pt.zeros((1,) * node.outputs[0].type.ndim)
            inputs = [new if var in made else zero for var, new in zip(node.inputs, inputs, strict=True)]
        made |= dict(zip(node.outputs, node.op(*inputs, return_list=True), strict=True))
    return made[effects]


def _by_group(effects: Variable) -> Variable:
    """Return effects as a matrix, a row for each group."""
    if effects.type.ndim == 2:
        return effects
    return effects[:, None] if effects.type.ndim == 1 else effects.reshape((effects.shape[0], -1))


def _of_shape(matrix: Variable, n_groups: int, rest: Sequence[int]) -> Variable:
    """Return a row for each group in another shape."""
    if len(rest) == 1:
        return matrix
    return matrix.reshape((n_groups, *rest)) if rest else matrix[:, 0]


def _model_of(
    model: Model, changes: Mapping[Variable, _Change], replaced: Mapping[Variable, Variable]
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
    rng = np.random.default_rng(2007)
    start = {name: np.asarray(value) for name, value in model.initial_point().items()}
    away = {name: rng.standard_normal(value.shape) for name, value in start.items() if value.dtype.kind == "f"}

    def at(spread: float) -> Point:
        return start | {name: start[name] + spread * by for name, by in away.items()}

    value = _density_of(model)
    point = at(farthest(lambda spread: bool(np.isfinite(value(at(spread))))))
    moved = found.to_effects(point)
    density, new_density = value(point), _density_of(found.model)(moved)
    log_jacobian = log_jacobian_of(found.to_effects, found.replaced, found.zero_sums, point)
    back = found.from_effects(moved)
    off = max((np.abs(back[name] - point[name]).max(initial=0.0) for name in found.replaced), default=0.0)
    if not abs(density - new_density - log_jacobian) + off <= _RELATIVE_ERROR * (1 + abs(density)):
        raise GroupsNotFoundError(
            f"The change of variables of {list(found.replaced)} to what the rows read fails its check: the log density "
            f"differs by {density - new_density:.6g}, the logarithm of the Jacobian is {log_jacobian:.6g}, and the map "
            f"back is off by {off:.2g}."
        )


def _density_of(model: Model) -> Callable[[Point], float]:
    values = model.value_vars
    density = interpret_log_density(values, [model.logp()])

    def at(point: Point) -> float:
        with np.errstate(all="ignore"):
            return float(uninterrupted(density, *(point[v.name] for v in values))[0])

    return at
