"""Settings of Python and of PyTensor that hold while a step is set up."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from tempfile import TemporaryDirectory

from pytensor import config

#: So many objects are made between two passes of the garbage collector; Python's own number is 2,000 or less.
_OBJECTS = 50_000


@contextmanager
def setup_settings() -> Iterator[None]:
    """Compile with fewer passes of the garbage collector, without traces of operations, and leave no files behind.

    What numba and PyTensor make while they compile is alive until they are done, so a search for cycles after every
    2,000 objects takes an eighth of the time.  Thresholds that a program has set higher, or to never, stay as they are.
    """
    thresholds = gc.get_threshold()
    with ExitStack() as stack:
        # PyTensor writes down for every operation where a program made it; these are made here.
        stack.enter_context(config.change_flags(traceback__limit=0))
        # PyTensor 2 has no such setting: it leaves the source of each function in the folder of temporary files.
        if getattr(config, "generated_src_dir", None) == "":
            stack.enter_context(config.change_flags(generated_src_dir=_folder_of_sources().name))
        if 0 < thresholds[0] < _OBJECTS:
            gc.set_threshold(_OBJECTS, *thresholds[1:])
            stack.callback(gc.set_threshold, *thresholds)
        yield


@cache
def _folder_of_sources() -> TemporaryDirectory[str]:
    """Return a folder that is removed when this process ends."""
    return TemporaryDirectory(prefix="pymc_austerity-", ignore_cleanup_errors=True)
