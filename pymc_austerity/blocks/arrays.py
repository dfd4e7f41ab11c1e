"""Rows in arrays that are sliced (memory maps, Zarr, Dask arrays), and in partitions of Dask's frames and bags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pymc_austerity.blocks.source import Block, Loaded, Part, refuse_duplicates, require_columns, rows_between
from pymc_austerity.blocks.streams import checked
from pymc_austerity.digests import digest_of
from pymc_austerity.rows.mapped import MappedFile


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


def _block(start: int, arrays: Mapping[str, Any]) -> tuple[Block, ...]:
    return (Block("the arrays", start, arrays),)


class Arrays:
    """Arrays of equal length by name, or a pandas data frame: with a shape, and slices that NumPy can take."""

    def __init__(self, arrays: Mapping[str, Any] | pd.DataFrame):
        refuse_duplicates(list(arrays), "Blocks")
        arrays = {str(name): a if hasattr(a, "shape") else np.asarray(a) for name, a in arrays.items()}
        lengths = {name: int(a.shape[0]) if a.shape else 0 for name, a in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(
                f"Blocks: the arrays differ in length: {lengths}. Row i of each must belong to the same observation."
            )
        self._arrays, self._n_rows = arrays, next(iter(lengths.values()), 0)

    @staticmethod
    def takes(source: Any) -> bool:
        """Whether this is what it reads."""
        return isinstance(source, Mapping | pd.DataFrame)

    def count(self) -> int:
        """Return the length."""
        return self._n_rows

    def identity(self, columns: Sequence[str]) -> str:
        """Return the types of the arrays, and where they are or a digest of what they hold."""
        arrays = {name: self._arrays[name] for name in sorted(columns) if name in self._arrays}
        return ", ".join(f"{name}: {a.dtype}{list(a.shape)}{_identity(a)}" for name, a in arrays.items())

    def parts(self, columns: Sequence[str], size: int) -> Iterator[Part]:
        """Yield slices."""
        require_columns(columns, list(self._arrays), "there is", "array")
        for start in range(0, self._n_rows, size):
            stop = min(start + size, self._n_rows)
            some = {name: _slice(self._arrays[name], start, stop) for name in columns}
            if any(hasattr(of, "__dask_graph__") for of in some.values()):
                import dask

                yield Partition(stop - start, dask.delayed(_block)(start, some))
            else:
                yield Loaded(stop - start, _block(start, some), alone=True)


def _identity(array: Any) -> str:
    if hasattr(array, "__dask_graph__"):
        return f" {array.name}"  # follows from what it is computed from
    if isinstance(array, np.ndarray) and (file := MappedFile.of(array)) is not None and file.described:
        return f" {file.described}"
    if isinstance(array, np.ndarray) or hasattr(array, "to_numpy"):
        return f" {digest_of(array)}"
    return ""  # of a store, whose rows are read when they are asked for


def _slice(array: Any, start: int, stop: int) -> Any:
    """Return some rows, read when they are asked for where the array can wait."""
    at_hand = isinstance(array, np.ndarray) or hasattr(array, "__dask_graph__")
    return array[start:stop] if at_hand else _Later(array, start, stop)


@dataclass(frozen=True)
class _Later:
    """Some rows of an array in a store, such as one of Zarr."""

    array: Any
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(rows_between(self.array, self.start, self.stop), dtype)


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
