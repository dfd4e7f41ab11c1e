"""Rows in partitions of a frame, or of a bag of dicts of arrays, of Dask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pymc_austerity.blocks.source import Block, Loaded, Part, require_columns
from pymc_austerity.blocks.streams import checked


@dataclass(frozen=True)
class Partition(Part):
    """Rows that Dask computes when they are read, or where they lie on the cluster."""

    n_rows: int
    delayed: Any  # of the blocks

    def blocks(self) -> Iterator[Block]:
        """Compute them."""
        yield from self.delayed.compute()

    def on(self, client: Any) -> Any:
        """Return the future of the part."""
        return client.submit(Loaded, self.n_rows, client.compute(self.delayed), pure=False)


def _blocks(number: int, columns: Sequence[str], computed: Any) -> tuple[Block, ...]:
    where, first, found = f"partition {number}", 0, list[Block]()
    for block in [{name: computed[name] for name in columns}] if hasattr(computed, "columns") else computed:
        found.append(Block(where, first, checked(block, where, columns)))
        first += len(next(iter(found[-1].columns.values())))
    return tuple(found)


def _lengths(blocks: Any) -> list[int]:
    """Return the rows of a partition of a bag, as a partition of another."""
    return [sum(len(next(iter(block.values()), ())) for block in blocks)]


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
        import dask

        chosen = self._collection
        if self._is_frame:
            require_columns(columns, list(chosen.columns), "the frame has")
            chosen = chosen[list(columns)]
        for number, (delayed, n) in enumerate(zip(chosen.to_delayed(), self._lengths, strict=True)):
            yield Partition(n, dask.delayed(_blocks)(number, tuple(columns), delayed))
