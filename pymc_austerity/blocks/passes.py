"""Passes over a source, part by part, in threads of this process or on a Dask cluster: checked, and kept when done."""

from __future__ import annotations

import os
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, NamedTuple, cast

import cloudpickle
import numpy as np

from pymc_austerity.blocks.checkpoint import Checkpoint
from pymc_austerity.blocks.columns import Reader
from pymc_austerity.blocks.parquet import ParquetFiles
from pymc_austerity.blocks.source import Loaded, Part, Source, length_of
from pymc_austerity.rows import Rows, no_op

#: Rows of a part, and the bytes that they take at most: enough to make a task of, few enough to hold some a core.
PIECE, _PIECE_BYTES = 524_288, 64_000_000


class Assigned(NamedTuple):
    """A part of the rows, and what is to be known of it."""

    #: On a cluster also the future of one.
    part: Any
    #: Of its rows in the first pass.
    checksum: int | None
    #: Arguments of the work beside the rows.
    more: tuple[Any, ...]


class Result(NamedTuple):
    """What came of a part: the value is None where its rows have changed, and `where` says where they begin."""

    checksum: int
    n_rows: int
    value: Any
    where: str


@dataclass
class Worked:
    """What is done with every part: read it, look at every row, and work on them."""

    reader: Reader
    work: Callable[..., Any]

    def __call__(self, part: Part, checksum: int | None, more: tuple[Any, ...]) -> Result:
        """Work on a part."""
        rows, where = self.reader.rows(part, known=checksum is not None)
        found = checksum_of(rows)
        value = self.work(rows, *more) if checksum in (None, found) else None
        return Result(found, len(rows), value, where)


class Threads:
    """All cores of this machine, in this process: what is assigned is not copied."""

    shares_memory: ClassVar[bool] = True

    def each(self, worked: Worked, parts: Iterable[Assigned]) -> Iterator[Result]:
        """Yield the results in the order of the parts, with only a few of them under way, so that memory is bounded."""
        n = os.cpu_count() or 1
        with ThreadPoolExecutor(n) as pool:
            futures = (pool.submit(worked, *assigned) for assigned in parts)
            yield from _in_order(futures, n + 1, lambda pending: [future.cancel() for future in pending])


@dataclass
class Cluster:
    """The workers of a Dask cluster.

    Parts are tasks. Dask itself gives those of a worker that dies to another, and gives up by its own rules
    (``distributed.scheduler.allowed-failures``).
    """

    client: Any
    shares_memory: ClassVar[bool] = False

    def each(self, worked: Worked, parts: Iterable[Assigned]) -> Iterator[Result]:
        """Yield the results in order; refuse to go on where the cluster gives up, or is closed."""
        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError

        try:
            yield from self._results(worked, parts)
        except Exception as error:
            if not isinstance(error, KilledWorker | CancelledError | CommClosedError) and self._is_open:
                raise
            raise RuntimeError(
                f"A pass over the rows was not finished on the Dask cluster ({type(error).__name__}: {error}). Workers "
                "that die again and again mostly lack memory. Start a cluster that lasts, and build the step again; "
                "with Blocks(..., checkpoint=) passes that are done are not done again."
            ) from error

    def _results(self, worked: Worked, parts: Iterable[Assigned]) -> Iterator[Result]:
        import dask

        # A task too, which is done again where it is lost: each worker unpacks and compiles once.
        shared = self.client.submit(cloudpickle.loads, cloudpickle.dumps(worked), pure=False)
        futures = (self.client.submit(_call, shared, p.on(self.client), *about, pure=False) for p, *about in parts)
        ahead = 2 * max(1, sum(self.client.nthreads().values()))
        # Rows that only this process can read go with their task.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            yield from _in_order(futures, ahead, lambda pending: self._is_open and self.client.cancel(pending))

    @property
    def _is_open(self) -> bool:
        return bool(self.client.status == "running")


Executor = Threads | Cluster


def _call(worked: Worked, *assigned: Any) -> Result:
    return worked(*assigned)


def _in_order(futures: Iterable[Any], ahead: int, cancel: Callable[[list[Any]], object]) -> Iterator[Result]:
    """Yield the results of futures in their order, fewer than `ahead` of which are waited for at a time."""
    pending: deque[Any] = deque()
    try:
        for future in futures:
            pending.append(future)
            if len(pending) >= ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        cancel(list(pending))


def checksum_of(rows: Rows) -> int:
    """Return a number that changes with the rows."""
    checksum = 0
    for array in rows.arrays:
        checksum = zlib.crc32(array.data.cast("B") if array.size else b"", checksum)
    return checksum


class Passes:
    """Passes over the rows of a source, whose every row is checked in the first and compared in later ones.

    `seen` holds the checksums of the parts, once they were read. What was added to a source that had been read is
    behind it: rows `before` it are numbered, and not read.
    """

    def __init__(
        self,
        source: Source,
        reader: Reader,
        executor: Threads | Cluster,
        checkpoint: Checkpoint,
        before: Passes | None = None,
    ):
        self.reader, self.executor, self.seen = reader, executor, cast("list[int] | None", None)
        self._sources: tuple[Source, ...] = (source,) if before is None else (*before._sources, source)
        self._checkpoint = checkpoint
        self._before, self.n_before = ([], 0) if before is None else (before.seen or [], len(before))
        self._n_rows = self.n_before + source.count()
        if self._n_rows < 1:
            raise ValueError("Blocks: the source has no rows. Check its paths, its filter= or the WHERE of its query.")

    def __len__(self) -> int:
        return self._n_rows

    @property
    def n_read(self) -> int:
        """Rows that a pass reads."""
        return self._n_rows - self.n_before

    def _parts(self) -> Iterator[tuple[int, int, Part]]:
        """Yield the number of every part, that of its first row, and the part."""
        size, start = max(1, min(PIECE, _PIECE_BYTES // self.reader.row_bytes)), 0
        parts = chain.from_iterable(source.parts(self.reader.names, size) for source in self._sources)
        for number, part in enumerate(parts):
            yield number, start, part
            start += part.n_rows

    def each(
        self,
        work: Callable[..., Any],
        advance: Callable[[int], None] = no_op,
        more: Callable[[int, int, int], tuple[Any, ...]] = lambda number, start, stop: (),
    ) -> Iterator[Any]:
        """Yield what ``work(rows, *more(number, start, stop))`` returns for each part, in their order."""
        known, checksums, n = self.seen, list(self._before), self.n_before

        def assigned() -> Iterator[Assigned]:
            for number, start, part in self._parts():
                if number >= len(self._before):
                    # A part beyond those of the first pass is none of them, whatever its rows.
                    checksum = None if known is None else known[number] if number < len(known) else -1
                    yield Assigned(part, checksum, more(number, start, start + part.n_rows))

        for result in self.executor.each(Worked(self.reader, work), assigned()):
            checksums.append(result.checksum)
            if known is not None and (len(checksums) > len(known) or result.checksum != known[len(checksums) - 1]):
                raise ValueError(
                    f"{result.where}: rows {n:,} to {n + result.n_rows:,} of all are not what they were in the first "
                    "pass. What was learnt from them would not belong together. Leave files alone until sampling "
                    "begins; a function has to yield the same rows in the same order each time."
                )
            n += result.n_rows
            if n > self._n_rows:
                break
            advance(result.n_rows)
            yield result.value
        if n != self._n_rows:
            found = "more" if n > self._n_rows else f"{n:,}"
            raise ValueError(
                f"Blocks: a pass read {found} rows where {self._n_rows:,} were expected. Correct n_rows= if it is "
                "wrong; otherwise leave files alone until sampling begins, and have a function or a query return the "
                "same rows each time."
            )
        self.seen = checksums

    @property
    def files(self) -> ParquetFiles:
        """The source; refused where it has no files to which others may be added."""
        source = self._sources[-1]
        if not isinstance(source, ParquetFiles) or not source.has_paths:
            raise ValueError(
                "Blocks: files are added to a folder, and this source is none that was given by its path. Build the "
                "step again, and it reads all rows."
            )
        return source

    def over(self, source: ParquetFiles, before: Passes | None = None) -> Passes:
        """Return passes over other files for the same model, of which nothing is kept on disk."""
        return Passes(source, self.reader, self.executor, Checkpoint(None, {}), before)

    def place(self, row: int) -> str:
        """Say in which file, or block, the row of a number is, and which there."""
        for _, start, part in self._parts():
            for block in part.blocks() if row < start + part.n_rows else ():
                n = length_of(next(iter(block.columns.values())))
                if row < start + n:
                    return f"{block.where}, row {block.first + row - start}"
                start += n
        raise IndexError(row)

    def read_again(self) -> None:
        """Compare some parts with their checksums: the first, and the middle and last where they can be read alone."""
        known = cast("list[int]", self.seen)
        for number, start, part in self._parts():
            if number and type(part) is Loaded:  # all parts between would have to be made
                break
            if number in (0, len(known) // 2) or number >= len(known) - 1:
                checksum = known[number] if number < len(known) else -1
                (result,) = self.executor.each(Worked(self.reader, lambda rows: None), [Assigned(part, checksum, ())])
                if result.checksum != checksum:
                    self._checkpoint.refuse_rows(result.where, start, result.n_rows, checksum, result.checksum)

    def remembered(self, name: str, about: Sequence[np.ndarray], learn: Callable[[], Sequence[Any]]) -> tuple[Any, ...]:
        """Return what a pass learns from these rows, from the checkpoint where it is there."""
        about = [*about, *([] if self.seen is None else [np.array(self.seen, np.int64)])]
        found = self._checkpoint.find(name, about)
        if found is None:
            found = list(learn())
            self._checkpoint.keep(name, about, found)
        return tuple(found)
