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
    joined: tuple[Block, ...] = ()  # those of the maps' variables in which several of the user's are joined

    @property
    def names(self) -> list[str]:
        """Names of all variables in a point of the user's model."""
        joined = {b.name: b for b in self.joined}
        return [part.name for b in self.blocks for part in joined.get(b.name, b).apart()]

    def theta(self, point: Point) -> np.ndarray:
        """Return θ at a point of the user's model, unconstrained."""
        if self.to_effects is not None:
            whole = {
                b.name: flatten(point, [b._replace(start=0, stop=b.stop - b.start)]).reshape(b.shape)
                for b in self.joined
            }
            point = self.to_effects({**point, **whole})
        return flatten(point, self.blocks)

    def point(self, point: Point, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Return a point of the user's model with the values that θ stands for."""
        found = with_blocks(point, theta, self.blocks)
        found = found if self.from_effects is None else self.from_effects(found)
        parts = {part: value for b in self.joined for part, value in zip(b.parts, found.pop(b.name), strict=True)}
        return {**found, **{name: np.asarray(value) for name, value in parts.items()}}


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
    """Read a model and find its groups, centred or not."""
    if data is None:
        data = read_model(model, model.value_vars, observed, initial_point, several=False, number_rows=True, join=True)
    centred = centred_model(data.derived or model)
    try:
        return _in_effects(model, data, centred, observed, initial_point)
    except GroupsNotFoundError as reason:
        if centred is None or not centred.zero_sums:
            raise
        try:  # other groups may be found beside effects that sum to zero
            return _in_effects(
                model, data, centred_model(data.derived or model, zero_sums=False), observed, initial_point
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
        read = data.derived or model
        return ModelWithGroups(read, data, find_groups(read, data), Coordinates(data.likelihood.blocks))
    joined = tuple(b for b in data.likelihood.blocks if b.parts)
    start = centred.to_effects(data.point)
    data = read_model(centred.model, centred.model.value_vars, observed, start, several=False).as_data_of(model)
    maps = tuple(centred.replaced), centred.to_effects, centred.from_effects
    coordinates = Coordinates(data.likelihood.blocks, *maps, joined)
    groups = find_groups(centred.model, data, centred.zero_sums)
    return ModelWithGroups(centred.model, data, groups, coordinates)
