"""Read a model for the moves of groups: in the coordinates that its rows read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from pymc.model import Model

from pymc_austerity.groups.bounded_variables import changes_of_bounded_variables
from pymc_austerity.groups.centred_model import CentredModel, after, centred_model, in_other_coordinates
from pymc_austerity.groups.dummies_as_numbers import numbers_to_write
from pymc_austerity.groups.factor import GroupsNotFoundError
from pymc_austerity.groups.grouping import Groups, NoGroupsError, find_groups
from pymc_austerity.groups.nested_groups import numbers_of_coarser
from pymc_austerity.likelihood import Coordinates, ModelData, read_model, united_rows
from pymc_austerity.tried_setup import once

Point = Mapping[str, np.ndarray]


class ModelWithGroups(NamedTuple):
    """A model as the moves of groups read it."""

    model: Model  # the user's, or the same in terms of the effects that rows read
    data: ModelData
    groups: Groups


def read_groups(
    model: Model,
    observed: str | Sequence[str] | None = None,
    initial_point: Point | None = None,
    data: ModelData | None = None,
) -> ModelWithGroups:
    """Read a model and find its groups, centred or not.

    Sets of rows are taken together; where they cannot be, the longest is read.
    """
    given = model, model.value_vars, observed, initial_point
    data = data or read_model(*given, number_rows=True, join=True)
    united = as_one_set(model, data, observed)
    if united is not None and united is not data:
        data, observed = united, united.terms.sets[0].names
    elif united is None:
        data = read_model(*given, several=False, number_rows=True, join=True)
    read = data.derived or model
    centred = centred_model(read)
    try:
        found = _with_groups(model, data, centred, observed)
    except GroupsNotFoundError as reason:
        if centred is not None and centred.coarser:
            return _with_groups(model, data, centred_model(read, deviations=False), observed)
        if centred is not None and centred.zero_sums:
            with suppress(GroupsNotFoundError):  # other groups may be found beside effects that sum to zero
                return _with_groups(model, data, centred_model(read, zero_sums=False), observed)
        if isinstance(reason, NoGroupsError) and (remedy := numbers_to_write(model)):
            raise GroupsNotFoundError(remedy) from reason
        raise
    if len(found.groups.own) == 1 and (remedy := numbers_to_write(model)):  # these columns are dummies of groups
        raise GroupsNotFoundError(remedy)
    if centred is not None and any(names.isdisjoint(found.groups.names) for names in centred.coarser):
        # The coarser effects are no factor: rows would read them among what is shared.
        return _with_groups(model, data, centred_model(read, deviations=False), observed)
    return found


def as_one_set(model: Model, data: ModelData, observed: str | Sequence[str] | None) -> ModelData | None:
    """Return data of which all rows are of one set, itself where they are; None where they cannot be taken together."""
    given = model, data, observed is not None
    return once("united", given, lambda: united_rows(*given))


def as_rows_read(model: Model, data: ModelData, observed: str | Sequence[str] | None) -> tuple[Model, ModelData] | None:
    """Return a model, and its data, in terms of what its rows read; None where these are its variables already."""
    with suppress(GroupsNotFoundError):
        centred = centred_model(data.derived or model, zero_sums=False, by_numbers=False)
        if centred is not None:
            return centred.model, _in_effects(model, data, centred, observed, several=True)
    return None


def _in_effects(
    model: Model, data: ModelData, centred: CentredModel, observed: str | Sequence[str] | None, *, several: bool
) -> ModelData:
    """Return the data of a model in terms of the effects that its rows read."""
    start, joined = centred.to_effects(data.point), tuple(b for b in data.likelihood.blocks if b.parts)
    read = read_model(centred.model, centred.model.value_vars, observed, start, several=several)
    maps = tuple(centred.replaced), centred.to_effects, centred.from_effects
    numbers = numbers_of_coarser(data.derived or model)
    return read.as_data_of(model, Coordinates(read.likelihood.blocks, *maps, joined), numbers)


def _with_groups(
    model: Model, data: ModelData, centred: CentredModel | None, observed: str | Sequence[str] | None
) -> ModelWithGroups:
    """Find the groups of a model in terms of the effects that its rows read, or of its own variables."""
    own, read = data, data.derived or model
    if centred is not None:
        own, read = _in_effects(model, data, centred, observed, several=False), centred.model
    found = find_groups(read, own, centred.zero_sums if centred is not None else {})
    bounded = in_other_coordinates(read, changes_of_bounded_variables(read, own))
    if bounded is None:
        return ModelWithGroups(read, own, found)
    centred = bounded if centred is None else after(centred, bounded)
    own, read = _in_effects(model, data, centred, observed, several=False), centred.model
    return ModelWithGroups(read, own, find_groups(read, own, centred.zero_sums))
