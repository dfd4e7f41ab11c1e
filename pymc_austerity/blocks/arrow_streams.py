"""Rows in whatever exports a stream of Arrow: DuckDB relations, Polars frames, functions that return one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pymc_austerity.blocks.parquet import as_bytes, column_of, import_pyarrow
from pymc_austerity.blocks.source import Block, Part, refuse_duplicates, require_columns
from pymc_austerity.digests import digest_of_all

#: Batches of fewer rows are put together: each is a block by itself otherwise.
_SHORT = 32_768
_REMEDY = "Give a function without arguments that makes it anew for each pass: Blocks(lambda: ...)."


def exports_stream(source: Any) -> bool:
    """Return whether an object follows Arrow's protocol of streams."""
    return hasattr(source, "__arrow_c_stream__")


def refuse_read_once(source: Any) -> None:
    """Refuse a reader, which is at its end after one pass."""
    if exports_stream(source) and hasattr(source, "read_next_batch"):
        raise TypeError(
            f"Blocks({type(source).__name__}): a stream can be read once, and there are several passes. {_REMEDY}"
        )


class ArrowStreams:
    """A table that exports a stream of Arrow as often as it is asked for one, or a function that returns one.

    The rows of a pass are counted in a pass of their own where `n_rows` is None; `first` is what a function returned
    already.
    """

    def __init__(self, source: Any, n_rows: int | None, first: Any = None):
        pa = import_pyarrow()
        self._make: Callable[[], Any] = (lambda: source) if exports_stream(source) else source
        self._first, self._n_rows = first, n_rows
        self._name = getattr(source, "__qualname__", type(source).__qualname__)
        self._may_be_digested = exports_stream(source)
        table = source if exports_stream(source) else first
        if self._n_rows is None and hasattr(table, "__len__"):  # frames and relations know it, or count without reading
            self._n_rows = len(table)
        if self._n_rows is None:
            self._n_rows = sum(batch.num_rows for batch in self._batches(pa))

    def count(self) -> int:
        """Return the number of rows of a pass."""
        assert self._n_rows is not None
        return self._n_rows

    def identity(self, columns: Sequence[str]) -> str:
        """Return a digest of a table, or the name of a function and the number of its rows."""
        if not self._may_be_digested:
            return f"{self._name}, {self._n_rows} rows"
        batches = self._batches(import_pyarrow())
        return (
            f"{self._n_rows} rows with the digest {digest_of_all(as_bytes(b.select(list(columns))) for b in batches)}"
        )

    def parts(self, columns: Sequence[str], size: int) -> Iterator[Part]:
        """Yield the rows in parts of `size`, however long the batches of a pass are."""
        waiting: list[Any] = []
        n, first = 0, 0
        for batch in self._batches(import_pyarrow()):
            require_columns(columns, batch.schema.names, "the stream has")
            batch, start = batch.select(list(columns)), 0
            while start < batch.num_rows:
                taken = batch.slice(start, size - n)
                waiting.append(taken)
                n, start = n + taken.num_rows, start + taken.num_rows
                if n == size:
                    yield StreamPart(n, first, tuple(waiting))
                    waiting, n, first = [], 0, first + n
        if n:
            yield StreamPart(n, first, tuple(waiting))
        if not n and not first and self._n_rows:
            raise TypeError(f"Blocks({self._name}): it can be read once, and there are several passes. {_REMEDY}")

    def _batches(self, pa: Any) -> Iterator[Any]:
        made, self._first = self._make() if self._first is None else self._first, None
        reader = pa.RecordBatchReader.from_stream(made)
        refuse_duplicates(reader.schema.names, "Blocks")
        yield from reader


@dataclass(frozen=True)
class StreamPart(Part):
    """Some rows of a stream, the first of number `first`; what is made of them is made where they are worked on."""

    n_rows: int
    first: int
    batches: tuple[Any, ...]

    def blocks(self) -> Iterator[Block]:
        """Yield them batch by batch; short batches as one, which is copied."""
        pa, where, first = import_pyarrow(), "the stream", self.first
        short = len(self.batches) > 1 and self.n_rows < _SHORT * len(self.batches)
        for batch in pa.Table.from_batches(self.batches).combine_chunks().to_batches() if short else self.batches:
            yield Block(where, first, {n: column_of(pa, batch.column(n), where, first, n) for n in batch.schema.names})
            first += batch.num_rows

    def __reduce__(self) -> Any:
        # A slice travels with all that it is a slice of.
        return _received, (self.n_rows, self.first, [as_bytes(batch) for batch in self.batches])


def _received(n_rows: int, first: int, sent: Sequence[Any]) -> StreamPart:
    pa = import_pyarrow()
    return StreamPart(n_rows, first, tuple(b for stream in sent for b in pa.ipc.open_stream(pa.py_buffer(stream))))
