"""Rows in partitions of a frame, or of a bag of dicts of arrays, of Dask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pymc_austerity.blocks.source import Block, Loaded, Part, require_columns
from pymc_austerity.blocks.streams import checked


@dataclass(frozen=True)
class Partition(Part):
    """A partition of a frame, or of a sequence of dicts of arrays, computed when its rows are read."""

    number: int
    n_rows: int
    columns: tuple[str, ...]
    delayed: Any

    def blocks(self) -> Iterator[Block]:
        """Compute the partition."""
        yield from _blocks(self.number, self.columns, self.delayed.compute())

    def on(self, client: Any) -> Any:
        """Return the future of the partition, which is computed, or lies, on the cluster."""
        return client.submit(_loaded, self.number, self.n_rows, self.columns, client.compute(self.delayed), pure=False)


def _loaded(number: int, n_rows: int, columns: tuple[str, ...], computed: Any) -> Part:
    return Loaded(n_rows, tuple(_blocks(number, columns, computed)))


def _blocks(number: int, columns: Sequence[str], computed: Any) -> Iterator[Block]:
    where = f"partition {number}"
    if hasattr(computed, "columns"):
        yield Block(where, 0, {name: computed[name] for name in columns})
        return
    first = 0
    for block in computed:
        taken = checked(block, where, columns)
        yield Block(where, first, taken)
        first += _length(taken)


def _length(block: Mapping[str, Any]) -> int:
    return len(next(iter(block.values()), ()))


def _lengths(blocks: Any) -> list[int]:
    """Return the rows of a partition of a bag, as a partition of another."""
    return [sum(map(_length, blocks))]


class DaskPartitions:
    """A ``dask.dataframe``, or a ``dask.bag`` of dicts of arrays."""

    def __init__(self, collection: Any):
        self._collection, self._is_frame = collection, hasattr(collection, "columns")
        counted = collection.map_partitions(len if self._is_frame else _lengths)
        self._lengths = [int(n) for n in counted.compute()]

    @staticmethod
    def takes(source: Any) -> bool:
        """Whether this is what it reads."""
        return all(hasattr(source, name) for name in ("npartitions", "to_delayed", "map_partitions"))

    def count(self) -> int:
        """Return the number of rows: a computation of its own."""
        return sum(self._lengths)

    def identity(self, columns: Sequence[str]) -> str:
        """Return the name that Dask gives the collection, by what it is computed from."""
        return f"{self._collection.__dask_tokenize__() if self._is_frame else self._collection.name}, {self._lengths}"

    def parts(self, columns: Sequence[str], size: int) -> Iterator[Part]:
        """Yield the partitions, of whatever size."""
        chosen = self._collection
        if self._is_frame:
            require_columns(columns, list(chosen.columns), "the frame has")
            chosen = chosen[list(columns)]
        for number, (delayed, n) in enumerate(zip(chosen.to_delayed(), self._lengths, strict=True)):
            yield Partition(number, n, tuple(columns), delayed)
