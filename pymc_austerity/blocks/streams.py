"""Rows that come as a stream in every pass: of Arrow (DuckDB, Polars), or dicts of arrays that a user yields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pymc_austerity.blocks.arrow_columns import as_bytes, import_pyarrow
from pymc_austerity.blocks.source import Block, Part, cut, length_of, refuse_duplicates, require_columns
from pymc_austerity.digests import digest_of_all
from pymc_austerity.user_input import shown

#: Batches of Arrow are put together to so many rows: each is a block by itself otherwise.
_SHORT = 32_768


def exports_stream(source: Any) -> bool:
    """Return whether an object follows Arrow's protocol of streams."""
    return hasattr(source, "__arrow_c_stream__")


class Streams:
    """What exports a stream of Arrow, or can be iterated, again and again, or a function that returns such an object.

    The rows of a pass are the length of a table, or the attribute ``n_rows`` of the source, where `n_rows` is None;
    those of a stream of Arrow that has neither are counted in a pass of their own.
    """

    def __init__(self, source: Any, n_rows: int | None):
        self._source, self._is_table = source, exports_stream(source)
        self._is_function = callable(source) and not self._is_table
        self._name = getattr(source, "__qualname__", type(source).__qualname__)
        if isinstance(source, Iterator) or hasattr(source, "read_next_batch"):
            raise self._read_once()
        made = self._first = source() if self._is_function else source
        n_rows = getattr(source, "n_rows", None) if n_rows is None else n_rows
        if n_rows is None and exports_stream(made):
            n_rows = len(made) if hasattr(made, "__len__") else sum(map(_length, self._blocks(None)))
        if not exports_stream(made) and not isinstance(made, Iterable):
            raise TypeError(
                f"Blocks({self._name}): the function returned {shown(made)}, which is no stream of Arrow and yields "
                "nothing. Return a relation, a collected frame or a reader, or yield dicts of arrays."
            )
        if n_rows is None:
            raise ValueError(
                "n_rows: a source that yields blocks must say how many rows there are. Pass n_rows=, or give it an "
                "attribute of that name."
            )
        self._n_rows = int(n_rows)

    def count(self) -> int:
        """Return the number of rows of a pass."""
        return self._n_rows

    def identity(self, columns: Sequence[str]) -> str:
        """Return a digest of a table, or the name of what makes the rows, and how many there are."""
        if not self._is_table:
            return f"{self._name}, {self._n_rows} rows"
        reader = import_pyarrow().RecordBatchReader.from_stream(self._source)
        digest = digest_of_all(as_bytes(batch.select(list(columns))) for batch in reader)
        return f"{self._n_rows} rows with the digest {digest}"

    def parts(self, columns: Sequence[str], size: int) -> Iterator[Part]:
        """Yield the rows in parts of `size`, however long the batches or blocks of a pass are."""
        part = None
        for part in cut(self._blocks(columns), size):
            yield part
        if part is None and self._n_rows:
            raise self._read_once()

    def _blocks(self, columns: Sequence[str] | None) -> Iterator[Block]:
        made, self._first = self._first, None
        if made is None:
            made = self._source() if self._is_function else self._source
        if exports_stream(made):
            yield from _of_batches(made, columns)
            return
        assert columns is not None
        for number, block in enumerate(made):
            yield Block(f"block {number}", 0, checked(block, f"block {number}", columns))

    def _read_once(self) -> TypeError:
        return TypeError(
            f"Blocks({self._name}): it can be read once, and there are several passes. Give a function without "
            "arguments that makes it anew for each pass: Blocks(lambda: ...)."
        )


def _of_batches(stream: Any, columns: Sequence[str] | None) -> Iterator[Block]:
    """Yield the batches of a stream, of all columns for None; short ones, which are copied, together."""
    pa, first, waiting = import_pyarrow(), 0, list[Any]()
    reader = pa.RecordBatchReader.from_stream(stream)
    there = reader.schema.names
    refuse_duplicates(there, "Blocks")
    require_columns(columns or (), there, "the stream has")

    def block() -> Block:
        table = pa.Table.from_batches(waiting).combine_chunks() if len(waiting) > 1 else waiting[0]
        taken = ((name, table.column(name)) for name in (there if columns is None else columns))
        return Block("the stream", first, {name: c.chunk(0) if hasattr(c, "chunk") else c for name, c in taken})

    for batch in reader:
        waiting.append(batch)
        if (n := sum(b.num_rows for b in waiting)) >= _SHORT:
            yield block()
            waiting, first = [], first + n
    if any(b.num_rows for b in waiting):
        yield block()


def _length(block: Block) -> int:
    return length_of(next(iter(block.columns.values())))


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
