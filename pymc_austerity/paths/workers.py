"""Run independent jobs on any `concurrent.futures.Executor` without losing what is finished.

A function (φ) that may be large travels once per worker, not once per job.  Results come back as they are
ready; a killed worker, an error in φ or Ctrl-C ends the run after everything finished has been handed over.
Workers of a pool of processes end with the program that started them.
"""

from __future__ import annotations

import hashlib
import tempfile
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import cloudpickle

from pymc_austerity.parent_process import end_with_parent

#: Up to this size φ rides along with every job; above, it goes through a file that each worker opens once.
_INLINE_BYTES = 256 * 1024
#: Jobs in flight for executors that do not say how many workers they have.
_DEFAULT_WORKERS = 32
#: Seconds that keep a worker busy for others to begin.
_BUSY = 0.1


class JobError(RuntimeError):
    """φ raised an error in a job; the message holds the error and where it happened."""


class WorkersLostError(RuntimeError):
    """The executor can no longer run jobs, as after the death of a worker process."""


@dataclass(frozen=True)
class _Parcel:
    """φ as it is sent: its content, or the file that holds it."""

    digest: str
    path: str
    content: bytes | None
    ends_with_parent: bool

    def open(self) -> Any:
        """Return φ, or None where a worker does not find it in its file, as on another machine."""
        with _lock:
            if self.ends_with_parent:
                _files.add(self.path)
                end_with_parent(_remove_files)
            if self.digest not in _opened:
                content = self.content
                if content is None:
                    try:
                        content = Path(self.path).read_bytes()
                    except OSError:
                        return None
                    if hashlib.sha256(content).hexdigest() != self.digest:
                        return None
                _opened[self.digest] = cloudpickle.loads(content)
                while len(_opened) > 2:
                    _opened.popitem(last=False)
            return _opened[self.digest]


#: What this worker process has opened, the newest last; φ may have been compiled since.
_opened: OrderedDict[str, Any] = OrderedDict()
#: Files of φ, which this worker process removes where the program that wrote them cannot.
_files: set[str] = set()
_lock = threading.Lock()


def _remove_files() -> None:
    for file in filter(None, _files):
        Path(file).unlink(missing_ok=True)


def _stay(parcel: _Parcel) -> None:
    """Have a worker that is not needed end with its program, as the others do."""
    parcel.open()
    time.sleep(_BUSY)


def _run_job(parcel: Any, job: Callable[[Any, int], Any], index: int) -> tuple[int, Any] | None:
    """Return the index and its result, or a `JobError` for an error in φ; None where φ is not found."""
    phi = parcel.open() if isinstance(parcel, _Parcel) else parcel
    if phi is None:
        return None
    try:
        return index, job(phi, index)
    except Exception as error:
        return index, JobError(f"{complaint(index, error)}\n\n{traceback.format_exc()}")


class Workers:
    """Workers of an executor that share one function φ; without an executor jobs run here, one after the other."""

    def __init__(self, phi: Callable[..., Any], executor: Executor | None):
        if executor is not None and not isinstance(executor, Executor):
            raise TypeError(
                f"executor must be a concurrent.futures.Executor or None, found {type(executor).__name__}. "
                "With Dask pass client.get_executor()."
            )
        self._executor = executor
        self._phi = phi
        self._file: Path | None = None
        self._content = b""
        self._parcel: Any = phi
        # Subclasses of ThreadPoolExecutor may isolate their threads, so only the class itself shares objects.
        if executor is not None and type(executor) is not ThreadPoolExecutor:
            self._parcel = self._pack()

    def _pack(self) -> _Parcel:
        try:
            self._content = cloudpickle.dumps(self._phi)
        except Exception as error:
            raise TypeError(
                f"phi cannot be sent to the workers of {type(self._executor).__name__}: {error}. "
                "Let it hold only data that pickle (open files inside phi), or use a ThreadPoolExecutor."
            ) from error
        digest = hashlib.sha256(self._content).hexdigest()
        ends_with_parent = isinstance(self._executor, ProcessPoolExecutor)
        if len(self._content) <= _INLINE_BYTES:
            return _Parcel(digest, "", self._content, ends_with_parent)
        with tempfile.NamedTemporaryFile(prefix="phi-", suffix=".pickle", delete=False) as file:
            file.write(self._content)
        self._file = Path(file.name)
        return _Parcel(digest, file.name, None, ends_with_parent)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.unlink(missing_ok=True)

    def run(
        self, job: Callable[[Any, int], Any], indices: Iterable[int], deadline: float = float("inf")
    ) -> Generator[tuple[int, Any], None, None]:
        """Yield ``(index, job(phi, index))`` as the results become ready.

        Indices may be endless: closing the generator stops the run, and nothing new is begun after the `deadline` on
        `time.monotonic`, save for the very first job. An error in φ, a broken executor and Ctrl-C are raised after the
        finished results have been yielded.
        """
        if self._executor is None:
            yield from self._run_here(job, indices, deadline)
        else:
            yield from self._run_there(self._executor, job, iter(indices), deadline)

    def _run_here(
        self, job: Callable[[Any, int], Any], indices: Iterable[int], deadline: float
    ) -> Generator[tuple[int, Any], None, None]:
        for position, index in enumerate(indices):
            if position and time.monotonic() > deadline:
                return
            try:
                result = job(self._phi, index)
            except Exception as error:
                raise JobError(complaint(index, error)) from error
            yield index, result

    def _run_there(
        self, executor: Executor, job: Callable[[Any, int], Any], indices: Iterator[int], deadline: float
    ) -> Generator[tuple[int, Any], None, None]:
        # Twice the workers: one job at work and one waiting for each.
        window = 2 * (getattr(executor, "_max_workers", None) or _DEFAULT_WORKERS)
        jobs: dict[Future[Any], int] = {}
        any_finished = False

        def begin(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
            try:
                return executor.submit(function, *arguments)
            except RuntimeError as error:
                raise WorkersLostError(f"{type(executor).__name__} takes no more jobs: {error}") from error

        def submit(index: int) -> None:
            jobs[begin(_run_job, self._parcel, job, index)] = index

        def fill() -> None:
            while len(jobs) < window and (time.monotonic() < deadline or not (any_finished or jobs)):
                index = next(indices, None)
                if index is None:
                    return
                submit(index)

        try:
            fill()
            if isinstance(self._parcel, _Parcel) and self._parcel.ends_with_parent:
                for _ in range(len(active_children()) - len(jobs)):  # a pool that forks does so for all workers
                    begin(_stay, self._parcel)
            while jobs:
                done, _ = wait(jobs, return_when=FIRST_COMPLETED)
                # In order of submission, so that an error is the same one every time where possible.
                for future in [f for f in jobs if f in done]:
                    found = _outcome(future)
                    index = jobs.pop(future)
                    if found is None:
                        self._parcel = replace(self._parcel, content=self._content)
                        submit(index)
                        continue
                    if isinstance(found[1], JobError):
                        raise found[1]
                    any_finished = True
                    yield found
                fill()
        except (KeyboardInterrupt, WorkersLostError, JobError):
            yield from _salvage(jobs)
            raise
        finally:
            for future in jobs:
                future.cancel()


def _outcome(future: Future[Any]) -> Any:
    try:
        return future.result()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # φ's own errors come back as values: this is the executor's, or a result that does not travel.
        raise WorkersLostError(f"the executor failed with {type(error).__name__}: {error}") from error


def _salvage(jobs: dict[Future[Any], int]) -> Generator[tuple[int, Any], None, None]:
    for future in list(jobs):
        if future.done() and not future.cancelled() and future.exception() is None:
            found = future.result()
            del jobs[future]
            if found is not None and not isinstance(found[1], JobError):
                yield found


def complaint(index: int, error: Exception) -> str:
    """Say in which replication φ failed, and how."""
    return f"phi failed in replication {index}: {type(error).__name__}: {error}"
