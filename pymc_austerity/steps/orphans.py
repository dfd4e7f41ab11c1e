"""A process in which PyMC runs a chain ends when the program that started it has ended."""

from __future__ import annotations

import os
import threading
from multiprocessing import connection, current_process, parent_process

#: How PyMC names the processes in which it runs chains.
WORKER = "worker_chain_"


def in_worker() -> bool:
    """Whether this is a process in which PyMC runs a chain."""
    return current_process().name.startswith(WORKER)


def chain_of_worker() -> int | None:
    """Return the number of the chain that runs in this process, if it is one of PyMC's own."""
    return int(current_process().name.removeprefix(WORKER)) if in_worker() else None


def end_with_parent() -> None:
    """In a process of PyMC's own, watch the program that started it, and end when it is gone.

    A program that SIGTERM or SIGKILL has ended leaves forked processes behind, which wait for its next word and hold
    their copy of the data.  There is nothing to save in them: draws are kept by the program.
    """
    parent = parent_process()
    if parent is None or not in_worker() or any(t.name == _watch.__name__ for t in threading.enumerate()):
        return
    threading.Thread(target=_watch, args=(parent.sentinel,), name=_watch.__name__, daemon=True).start()


def _watch(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
