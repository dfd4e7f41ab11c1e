"""Read a model for the moves of groups: in the coordinates that its rows read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from pymc.model import Model

from pymc_austerity.groups.centred_model import CentredModel, centred_model
from pymc_austerity.groups.factor import GroupsNotFoundError
from pymc_austerity.groups.grouping import Groups, find_groups
from pymc_austerity.likelihood import Block, ModelData, flatten, read_model, with_blocks

Point = Mapping[str, np.ndarray]


class Coordinates(NamedTuple):
    """How a point of the user's model lies in the vector that the moves of groups see."""

    blocks: tuple[Block, ...]
    replaced: tuple[str, ...] = ()  # variables in whose places the effects stand that rows read
    #: The maps of `CentredModel`; None where nothing is replaced.
    to_effects: Callable[[Point], dict[str, np.ndarray]] | None = None
    from_effects: Callable[[Point], dict[str, np.ndarray]] | None = None

    def theta(self, point: Point) -> np.ndarray:
        """Return θ at a point of the user's model, unconstrained."""
        return flatten(point if self.to_effects is None else self.to_effects(point), self.blocks)

    def point(self, point: Point, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Return a point of the user's model with the values that θ stands for."""
        found = with_blocks(point, theta, self.blocks)
        return found if self.from_effects is None else self.from_effects(found)


class ModelWithGroups(NamedTuple):
    """A model as the moves of groups read it."""

    model: Model  # the user's, or the same in terms of the effects that rows read
    data: ModelData
    groups: Groups
    coordinates: Coordinates


def read_groups(
    model: Model,
    observed: str | Sequence[str] | None = None,
    initial_point: Point | None = None,
    data: ModelData | None = None,
) -> ModelWithGroups:
    """Read a model and find its groups, centred or not.

    `data` is the user's model, where it has been read; raises as `find_groups` and `read_model` do.
    """
    if data is None:
        data = read_model(model, model.value_vars, observed, initial_point, several=False, number_rows=True)
    centred = centred_model(data.numbered or model)
    try:
        return _in_effects(model, data, centred, observed, initial_point)
    except GroupsNotFoundError as reason:
        if centred is None or not centred.zero_sums:
            raise
        try:  # other groups may be found beside effects that sum to zero
            return _in_effects(
                model, data, centred_model(data.numbered or model, zero_sums=False), observed, initial_point
            )
        except GroupsNotFoundError:
            raise reason from None


def _in_effects(
    model: Model,
    data: ModelData,
    centred: CentredModel | None,
    observed: str | Sequence[str] | None,
    initial_point: Point | None,
) -> ModelWithGroups:
    """Find the groups of a model in terms of the effects that its rows read, or of its own variables."""
    if centred is None:
        read = data.numbered or model
        return ModelWithGroups(read, data, find_groups(read, data), Coordinates(data.likelihood.blocks))
    start = centred.to_effects({**model.initial_point(), **(initial_point or {})})
    data = read_model(centred.model, centred.model.value_vars, observed, start, several=False).as_data_of(model)
    maps = tuple(centred.replaced), centred.to_effects, centred.from_effects
    coordinates = Coordinates(data.likelihood.blocks, *maps)
    groups = find_groups(centred.model, data, centred.zero_sums)
    return ModelWithGroups(centred.model, data, groups, coordinates)
