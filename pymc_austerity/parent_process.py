"""Worker processes end with the program that started them, also where SIGTERM or SIGKILL has ended it.

They would wait for its next message for ever, and hold their copy of the data.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from multiprocessing import connection, parent_process
from multiprocessing.process import BaseProcess

#: Seconds between two looks at whether the program is still there.
_LOOK = 1.0


def end_with_parent(last: Callable[[], None] = lambda: None) -> None:
    """In a process that a program started, watch the program, and end after a call of `last` when it is gone."""
    parent = parent_process()
    if parent is None or any(t.name == _watch.__name__ for t in threading.enumerate()):
        return
    given = parent, os.getppid(), last
    threading.Thread(target=_watch, args=given, name=_watch.__name__, daemon=True).start()


def _watch(parent: BaseProcess, started_by: int, last: Callable[[], None]) -> None:
    # The sentinel of a forked process stays open as long as one of the others that were forked after it.
    while not connection.wait([parent.sentinel], _LOOK) and os.getppid() == started_by:
        pass
    last()
    os._exit(1)
