"""Where the variables of a model sit in a flat vector."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from pymc.util import get_untransformed_name, is_transformed_name
from pytensor.graph.basic import Variable

Point = Mapping[str, np.ndarray]


def user_name(name: str) -> str:
    """Return the name that the user gave a variable, of its own or of its unconstrained value's name."""
    return get_untransformed_name(name) if is_transformed_name(name) else name


class Block(NamedTuple):
    """Where the value of one variable sits in a flat vector."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    start: int
    stop: int
    parts: tuple[str, ...] = ()  # variables of the user's model that it has along its first axis

    def apart(self, point: Container[str] = ()) -> list[Block]:
        """Return it, or the user's variables that are joined in it, unless a point has it by its own name."""
        if not self.parts or self.name in point:
            return [self]
        stops = np.linspace(self.start, self.stop, len(self.parts) + 1).astype(int).tolist()
        places = zip(self.parts, stops, stops[1:], strict=False)
        return [Block(part, self.shape[1:], self.dtype, start, stop) for part, start, stop in places]


def flatten(point: Mapping[str, np.ndarray], blocks: Sequence[Block]) -> np.ndarray:
    """Return the values of `blocks` in `point` as one float64 vector."""
    vector = np.empty(blocks[-1].stop if blocks else 0)
    for block in (b for of in blocks for b in of.apart(point)):
        vector[block.start : block.stop] = np.ravel(point[block.name])
    return vector


def flatten_onto(vector: np.ndarray, point: Mapping[str, np.ndarray], blocks: Sequence[Block]) -> np.ndarray:
    """Return a copy of `vector` with the values of `point` in place of those it names."""
    changed = vector.copy()
    for block in (b for of in blocks for b in of.apart(point)):
        if block.name in point:
            changed[block.start : block.stop] = np.ravel(point[block.name])
    return changed


def with_blocks(point: Mapping[str, np.ndarray], theta: np.ndarray, blocks: Sequence[Block]) -> dict[str, np.ndarray]:
    """Return `point` with the variables of `blocks` replaced by their values in `theta`."""
    return {
        **point,
        **{b.name: theta[b.start : b.stop].reshape(b.shape).astype(b.dtype) for of in blocks for b in of.apart()},
    }


class Coordinates(NamedTuple):
    """How a point of the user's model lies in the vector θ that a step moves."""

    blocks: tuple[Block, ...]
    replaced: tuple[str, ...] = ()  # variables in whose places the effects stand that rows read
    #: From values of all variables, unconstrained, to those with the effects in their places, and back; None where
    #: nothing is replaced.
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


def layout(variables: Sequence[Variable], point: Mapping[str, np.ndarray]) -> tuple[Block, ...]:
    """Return the blocks of variables behind one another, with their shapes in `point`."""
    blocks, start = [], 0
    for var in variables:
        value = np.asarray(point[var.name])
        blocks.append(Block(var.name, value.shape, var.type.dtype, start, start + value.size))
        start += value.size
    return tuple(blocks)


def split(vector: Variable, blocks: Sequence[Block]) -> list[Variable]:
    """Return the graphs of the blocks of a symbolic vector, in their shapes and types."""
    return [(vector[b.start : b.stop].reshape(b.shape) if b.shape else vector[b.start]).astype(b.dtype) for b in blocks]
