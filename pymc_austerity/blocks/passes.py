"""Where the parts of a pass are worked on: threads of this process, or the workers of a Dask cluster."""

from __future__ import annotations

import os
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import cloudpickle

from pymc_austerity.blocks.columns import Reader
from pymc_austerity.blocks.source import Part
from pymc_austerity.rows import Rows


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


class Executor(Protocol):
    """Where parts are worked on; with shared memory, what is assigned is not copied."""

    shares_memory: ClassVar[bool]

    def each(self, worked: Worked, parts: Iterable[Assigned]) -> Iterator[Result]:
        """Yield the results in the order of the parts, with only a few of them under way, so that memory is bounded."""
        ...


class Threads:
    """All cores of this machine, in this process."""

    shares_memory: ClassVar[bool] = True

    def each(self, worked: Worked, parts: Iterable[Assigned]) -> Iterator[Result]:
        """Yield the results in order."""
        n = os.cpu_count() or 1
        with ThreadPoolExecutor(n) as pool:
            pending: deque[Any] = deque()
            try:
                for assigned in parts:
                    pending.append(pool.submit(worked, *assigned))
                    if len(pending) > n:
                        yield pending.popleft().result()
                while pending:
                    yield pending.popleft().result()
            finally:
                for future in pending:
                    future.cancel()


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
        pending: deque[Any] = deque()
        ahead = 2 * max(1, sum(self.client.nthreads().values()))
        # Rows that only this process can read go with their task.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            try:
                for part, checksum, more in parts:
                    pending.append(self.client.submit(_call, shared, part.on(self.client), checksum, more, pure=False))
                    if len(pending) >= ahead:
                        yield pending.popleft().result()
                while pending:
                    yield pending.popleft().result()
            finally:
                if self._is_open:
                    self.client.cancel(list(pending))

    @property
    def _is_open(self) -> bool:
        return bool(self.client.status == "running")


def _call(worked: Worked, *assigned: Any) -> Result:
    return worked(*assigned)


def checksum_of(rows: Rows) -> int:
    """Return a number that changes with the rows."""
    checksum = 0
    for array in rows.arrays:
        checksum = zlib.crc32(array.data.cast("B") if array.size else b"", checksum)
    return checksum
