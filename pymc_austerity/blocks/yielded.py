"""Rows in dicts of arrays that a function or an object of the user yields, and in partitions of Dask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_austerity.blocks.source import Block, Loaded, Part, cut, require_columns


class Yielded:
    """Dicts of arrays, yielded anew for every pass by a function, or by an object that can be iterated again and again.

    The rows of a pass are the attribute ``n_rows`` of the source by default; `first` is what a function returned
    already.
    """

    def __init__(
        self,
        source: Callable[[], Iterable[Any]] | Iterable[Any],
        n_rows: int | None,
        first: Iterable[Any] | None = None,
    ):
        if isinstance(source, Iterator):
            raise TypeError(
                f"Blocks({source!r}): an iterator can be read once, and there are several passes. Give the function "
                "that makes it, without calling it."
            )
        n_rows = getattr(source, "n_rows", None) if n_rows is None else n_rows
        if n_rows is None:
            raise ValueError(
                "n_rows: a source that yields blocks must say how many rows there are. Pass n_rows=, or give it an "
                "attribute of that name."
            )
        self._source, self._n_rows, self._first = source, int(n_rows), first

    def count(self) -> int:
        """Return the number of rows that was given."""
        return self._n_rows

    def identity(self, columns: Sequence[str]) -> str:
        """Return the name of what yields the blocks, and the number of rows: more is not known of it."""
        return f"{getattr(self._source, '__qualname__', type(self._source).__qualname__)}, {self._n_rows} rows"

    def parts(self, columns: Sequence[str], size: int) -> Iterator[Part]:
        """Yield the rows of all blocks, cut to parts of equal length whatever that of the blocks."""
        return cut(self._blocks(columns), size)

    def _blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        made, self._first = self._first, None
        if made is None:
            made = self._source() if callable(self._source) else self._source
        for number, block in enumerate(made):
            where = f"block {number}"
            yield Block(where, 0, checked(block, where, columns))


def checked(block: Any, where: str, columns: Sequence[str]) -> dict[str, Any]:
    """Return the columns of a block.

    A block that is an array stands for the one column that is read, as the sources of minibatches of pymc-extras yield.
    """
    if isinstance(block, np.ndarray):
        if len(columns) > 1:
            raise TypeError(
                f"Blocks: {where} is one array, and the model reads {list(columns)}. Yield a dict from names to "
                "arrays, or hold the rows in one pm.Data and take its columns."
            )
        return {columns[0]: block}
    if not isinstance(block, Mapping):
        raise TypeError(f"Blocks: {where} is {type(block).__name__}, and a dict from names to arrays was expected.")
    if missing := [name for name in columns if name not in block]:
        raise ValueError(
            f"{where.capitalize()} has no {missing[0]!r}, only {list(block)}. Yield it under that name, or say in "
            "columns= which name each container of the model has."
        )
    return {name: block[name] for name in columns}


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
