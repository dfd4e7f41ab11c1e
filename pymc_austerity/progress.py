"""The set-up of a step: settings that hold meanwhile, a line for each phase, and a bar for passes over all rows."""

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.util import find_spec
from tempfile import TemporaryDirectory

from pytensor import config
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from pymc_austerity.tried_setup import check_time


@contextmanager
def setup_settings() -> Iterator[None]:
    """Compile without traces of operations, and leave no files behind."""
    with ExitStack() as stack:
        # PyTensor writes down for every operation where a program made it; these are made here.
        stack.enter_context(config.change_flags(traceback__limit=0))
        # PyTensor 2 has no such setting: it leaves the source of each function in the folder of temporary files.
        if getattr(config, "generated_src_dir", None) == "":
            stack.enter_context(config.change_flags(generated_src_dir=_folder_of_sources().name))
        yield


@cache
def _folder_of_sources() -> TemporaryDirectory[str]:
    """Return a folder that is removed when this process ends."""
    return TemporaryDirectory(prefix="pymc_austerity-", ignore_cleanup_errors=True)


def setup_progress(shown: bool) -> Progress:
    """Return a bar for passes over the data, each task with a field ``what`` that says what is read."""
    says = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[what]}")
    columns = (*says, TimeElapsedColumn(), TimeRemainingColumn(compact=True))
    return Progress(*columns, console=_console(), disable=not shown)


def passing_bar(shown: bool) -> Progress:
    """Return a bar that is gone when it ends; none where nobody would see it move."""
    console = _console()
    is_seen = shown and (console.is_terminal or console.is_jupyter)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, disable=not is_seen, transient=True)


class Phases:
    """The phases of a set-up, one after the other; each shows a line, with its seconds, for as long as it lasts."""

    def __init__(self, shown: bool):
        self.shown = shown
        self.seconds: dict[str, float] = {}  # wall seconds of each phase

    @contextmanager
    def __call__(self, what: str, *, has_bars: bool = False) -> Iterator[None]:
        """Wait for a phase; one that shows bars of its own gets no line."""
        check_time()
        start = time.perf_counter()
        columns = (SpinnerColumn(), TextColumn("{task.description} ..."), TimeElapsedColumn())
        console = _console()
        is_seen = self.shown and not has_bars and (console.is_terminal or console.is_jupyter)
        line = Progress(*columns, console=console, disable=not is_seen, transient=True)
        try:
            with line, setup_settings():
                line.add_task(what, total=None)
                yield
        finally:
            self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - start

    def __str__(self) -> str:
        """Write the seconds of all phases, and their sum."""
        phases = ", ".join(f"{what.lower()} {seconds:.1f} s" for what, seconds in self.seconds.items())
        return f"{sum(self.seconds.values()):.1f} s ({phases})"


def _console() -> Console:
    # The error stream, where it does not mix with what a program prints; as a widget only where there are widgets.  A
    # notebook without them asks for colours, as if it were a terminal, and would keep every frame.
    is_terminal = getattr(sys.stderr, "isatty", bool)()
    return Console(
        stderr=True, force_jupyter=None if _has_widgets() else False, force_terminal=None if is_terminal else False
    )


@cache
def _has_widgets() -> bool:
    # Once: what is not installed is looked for in every folder that Python imports from, for each line and bar.
    return find_spec("ipywidgets") is not None
