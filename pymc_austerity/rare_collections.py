"""Fewer passes of Python's garbage collector where much is made that stays."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: So many objects are made between two passes; Python's own number is 2,000 or less.
_OBJECTS = 50_000


@contextmanager
def collected_rarely() -> Iterator[None]:
    """Let the garbage collector look for cycles seldom while something is compiled.

    What numba and PyTensor make while they compile is alive until they are done: to look through it every 2,000
    objects is an eighth of the time.  Thresholds that a program has set higher, or to never, stay as they are.
    """
    thresholds = gc.get_threshold()
    if not 0 < thresholds[0] < _OBJECTS:
        yield
        return
    gc.set_threshold(_OBJECTS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
