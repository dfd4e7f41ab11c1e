"""Implementations that other packages register with numba, and the releases that these are parts of.

Compiled code reaches them without naming them, so all of them are part of every key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path
from types import FunctionType
from typing import Any

from numba.core import entrypoints
from numba.core.typing.templates import builtin_registry

from pymc_austerity.code_names import is_within_known, module_of, qualified


@dataclass
class _Foreign:
    """Implementations that are not numba's or PyTensor's own, among those of a list that have been looked through."""

    registered: list[Any]
    templates: list[Any] = field(default_factory=list)
    seen: int = 0


#: By the name of numba's list.
_foreign: dict[str, _Foreign] = {}


def _templates() -> Iterator[Any]:
    """Yield the implementations that are not numba's or PyTensor's own (``numba.extending``)."""
    entrypoints.init_all()  # as numba does when it first compiles: a key is the same before and after
    for name in ("functions", "attributes"):
        registered, found = getattr(builtin_registry, name), _foreign.get(name)
        if found is None or found.registered is not registered:
            found = _foreign[name] = _Foreign(registered)
        # Every key asks for them, there are thousands, and numba adds to its list but takes nothing back.
        for template in registered[found.seen :]:
            if not all(is_within_known(written) for written in implementations(template)):
                found.templates.append(template)
        found.seen = len(registered)
        yield from found.templates


def foreign_templates() -> list[Any]:
    """Return those that compiled code reaches without naming a function of its own: operators, methods, NumPy's."""
    return [t for t in _templates() if not isinstance(t.key, FunctionType) or is_within_known(t.key)]


def implementations(template: Any) -> list[Any]:
    """Return the functions that an implementation was written as, those that it captures included."""
    written = getattr(template, "_overload_func", None) or getattr(template, "generic", None) or template
    inner = [cell.cell_contents for cell in getattr(written, "__closure__", None) or () if is_filled(cell)]
    return [written, *(value for value in inner if isinstance(value, FunctionType))]


def release_of(template: Any) -> str | None:
    """Name an implementation and the release that it is part of; None where it may change and keep its version.

    Packages that register with numba are loaded with it (``sparse`` is one), whether a program uses them or not.
    """
    foreign = [written for written in implementations(template) if not is_within_known(written)]
    found = [_releases_with(module_of(written).partition(".")[0]) for written in foreign]
    if not all(found):
        return None
    releases = sorted({release for releases in found for release in releases})
    return f"{sorted(map(qualified, foreign))} of {releases}"


@cache
def _releases_with(package: str) -> tuple[tuple[str, str], ...]:
    """Name what was installed that holds a package, with its version; nothing where it may change and keep that.

    As what is installed from a folder may.  Looked for once: every key asks for it, and a version is in a file.
    """
    found = [installed for installed in distributions() if _holds(installed, package)]
    if any(installed.read_text("direct_url.json") is not None for installed in found):
        return ()
    releases: dict[str, str] = {}
    for installed in found:  # of a name that is there twice Python imports what it finds first
        releases.setdefault(installed.metadata["Name"], installed.version)
    return tuple(releases.items())


def _holds(installed: Distribution, package: str) -> bool:
    """Say whether a package is part of what was installed."""
    if declared := (installed.read_text("top_level.txt") or "").split():
        return package in declared
    # Not `packages_distributions`, which looks for every file of everything: half a second in each process.
    listed = (line.partition(",")[0] for line in (installed.read_text("RECORD") or "").splitlines())
    own = (name for name in listed if name.startswith((f"{package}/", f"{package}.")))
    return any(Path(str(installed.locate_file(name))).exists() for name in own)


def is_filled(cell: Any) -> bool:
    """Say whether a function's cell holds anything yet."""
    try:
        return cell.cell_contents is cell.cell_contents
    except ValueError:
        return False
