"""Work on the parts of a source, in threads of this process or on a Dask cluster, with results in their order."""

from __future__ import annotations

import logging
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from operator import call
from typing import Any, ClassVar, NamedTuple

import cloudpickle

from pymc_austerity.blocks.columns import Reader
from pymc_austerity.blocks.source import Part
from pymc_austerity.rows import Rows

#: Seconds without a result after which a cluster is asked whether it has workers.
_UNTIL_ASKED = 30.0
_NO_WORKER = (
    "The Dask cluster has no worker, and a pass over the rows waits for one. Start workers, or interrupt; "
    'dask.config.set({"distributed.scheduler.no-workers-timeout": "10 minutes"}) before the cluster is started sets '
    "how long it waits."
)
_log = logging.getLogger("pymc_austerity")


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
            yield from in_order(futures, n + 1)


@dataclass
class Cluster:
    """The workers of a Dask cluster.

    Parts are tasks. Dask itself gives those of a worker that dies to another, and gives up by its own rules
    (``distributed.scheduler.allowed-failures`` and ``no-workers-timeout``).
    """

    client: Any
    shares_memory: ClassVar[bool] = False

    def each(self, worked: Worked, parts: Iterable[Assigned]) -> Iterator[Result]:
        """Yield the results in order; refuse to go on where the cluster gives up, or is closed."""
        try:
            yield from self._results(worked, parts)
        except Exception as error:
            of_dask = isinstance(error, CancelledError) or type(error).__module__.partition(".")[0] == "distributed"
            if self._is_open and not of_dask:
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
        futures = (self.client.submit(call, shared, p.on(self.client), *about, pure=False) for p, *about in parts)
        ahead = 2 * max(1, sum(self.client.nthreads().values()))
        # Rows that only this process can read go with their task.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            yield from in_order(futures, ahead, self._cancel, self._result)

    def _cancel(self, pending: list[Any]) -> None:
        if self._is_open:
            self.client.cancel(pending)

    def _result(self, future: Any) -> Any:
        """Wait for a result, and say so where no worker is there to compute it."""
        while not future.done():
            try:
                return future.result(timeout=_UNTIL_ASKED)
            except TimeoutError:
                if not future.done() and not self.client.nthreads():
                    _log.warning(_NO_WORKER)
        return future.result()

    @property
    def _is_open(self) -> bool:
        return bool(self.client.status == "running")


Executor = Threads | Cluster


def _cancel(pending: list[Future[Any]]) -> None:
    for future in pending:
        future.cancel()


def in_order(
    futures: Iterable[Any],
    ahead: int,
    cancel: Callable[[list[Any]], object] = _cancel,
    wait: Callable[[Any], Any] = Future.result,
) -> Iterator[Any]:
    """Yield the results of futures in their order, fewer than `ahead` of which are waited for at a time."""
    pending: deque[Any] = deque()
    try:
        for future in futures:
            pending.append(future)
            if len(pending) >= ahead:
                yield wait(pending.popleft())
        while pending:
            yield wait(pending.popleft())
    finally:
        cancel(list(pending))


def checksum_of(rows: Rows) -> int:
    """Return a number that changes with the rows."""
    checksum = 0
    for array in rows.arrays:
        checksum = zlib.crc32(array.data.cast("B") if array.size else b"", checksum)
    return checksum
