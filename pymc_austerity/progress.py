"""A bar for passes over all rows while a step is built."""

from __future__ import annotations

from importlib.util import find_spec

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


def setup_progress(shown: bool) -> Progress:
    """Return a bar for passes over the data, each task with a field ``what`` that says what is read."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[what]}"), TimeElapsedColumn())
    # On the error stream, where it does not mix with what a program prints; as a widget only where there are widgets.
    console = Console(stderr=True, force_jupyter=None if find_spec("ipywidgets") else False)
    return Progress(*columns, console=console, disable=not shown)
