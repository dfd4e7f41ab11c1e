"""The key under which the machine code of a function is kept on disk.

A function of this package is known by its name, what it captures, the functions that it names and the source files of
all of these; a graph by PyTensor's key.  With these go versions, settings, the processor and the files that extend
numba.  What cannot be named has no key, and is compiled in every process: a function that a user wrote may change while
its name stays, and wrong code runs without a sign that it does.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import numba
import numpy as np
from llvmlite import binding
from numba import types
from numba.extending import is_jitted
from xxhash import xxh3_128

#: Functions of this package have keys.
_OWN = "pymc_austerity"
#: What these hold is known by its name: their versions are in every key.
_RELEASED = ("builtins", "math", "numba", "numpy", "pytensor")
_VERSIONS = ("numba", "llvmlite", "numpy", "scipy", "pytensor", "pymc", _OWN)
#: numba's settings that leave code as it is and may differ between two processes of one user.
_HARMLESS_SETTINGS = (
    "CACHE_DIR",
    "CAPTURED_ERRORS",
    "COLOR_SCHEME",
    "DEBUG_CACHE",
    "DISABLE_PERFORMANCE_WARNINGS",
    "FULL_TRACEBACKS",
    "NUMBA_DEFAULT_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "SHOW_HELP",
)

#: Keys of graphs, by the functions that PyTensor has written for them.
_graphs: WeakKeyDictionary[FunctionType, str] = WeakKeyDictionary()


class NoKeyError(TypeError):
    """Code that another process cannot know by the same key."""


def code_key(function: Any) -> str:
    """Return the key of a compiled function, which another process gives to the same code and to no other.

    Raises NoKeyError for a function that is not of this package, or captures something that cannot be named.
    """
    if not _STAMPS or _stamps() != _STAMPS:
        raise NoKeyError("files of the package have changed since it was imported, or are not there")
    names = _Names()
    parts = [*names.of(function), *(_TEXTS.get(module, "") for module in sorted(names.modules))]
    return _digest(" ".join([_surroundings(), _settings(), *parts]).encode())


def name_graph(function: FunctionType, key: str) -> None:
    """Know what PyTensor has written for a graph by PyTensor's key of the graph."""
    _graphs[function] = key


def _digest(text: bytes) -> str:
    return xxh3_128(text).hexdigest()


def _stamps() -> list[tuple[int, int]]:
    """Return what changes of the sources of the package when they do."""
    with suppress(FileNotFoundError):
        return [(seen.st_mtime_ns, seen.st_size) for seen in map(os.stat, _SOURCES)]
    return []


#: The sources of the package, what they were when it was imported, and digests by the names of the modules.
_SOURCES = sorted(map(str, Path(__file__).parents[1].rglob("*.py")))
_STAMPS = _stamps()
_TEXTS: dict[str, str] = {}
_EXTENDS_NUMBA = ""
for _path in map(Path, _SOURCES):
    _text = _path.read_bytes()
    _parts = _path.relative_to(Path(__file__).parents[1]).with_suffix("").parts
    _TEXTS[".".join([_OWN, *(part for part in _parts if part != "__init__")])] = _digest(_text)
    if b"from numba." in _text or b"pytensor.link.numba" in _text:
        _EXTENDS_NUMBA += _digest(_text)


@cache
def _surroundings() -> str:
    found = [
        sys.version,
        binding.get_default_triple(),
        binding.get_host_cpu_name(),
        binding.get_host_cpu_features().flatten(),
        _EXTENDS_NUMBA,
    ]
    for package in _VERSIONS:
        try:
            found.append(f"{package}=={version(package)}")
        except PackageNotFoundError:  # run from its sources
            found.append(package)
    return " ".join(found)


def _settings() -> str:
    values = {n: v for n, v in vars(numba.config).items() if n.isupper() and n not in _HARMLESS_SETTINGS}
    plain = sorted((n, str(v)) for n, v in values.items() if v is None or isinstance(v, int | float | str))
    return repr(plain)


def _package_of(function: FunctionType) -> str:
    """Return the package that a function was written in; its globals, unlike its ``__module__``, cannot be borrowed."""
    return str(function.__globals__.get("__name__", "")).partition(".")[0]


class _Names:
    """Names what a function is made of, each function once."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self.modules: set[str] = set()

    def of(self, value: Any) -> Iterator[str]:
        """Yield the parts of the name of a value that compiled code may capture."""
        kind = type(value)
        if kind in (bool, int, float, complex, str, bytes, slice, range, type(None), type(...)):
            yield f"{kind.__name__} {value!r}"
        elif is_jitted(value) or isinstance(value, FunctionType):
            yield from self._function(value)
        elif isinstance(value, np.generic | np.ndarray) and not value.dtype.hasobject:
            yield f"{kind.__name__} {value.dtype!r} {value.shape} {value.flags} {_digest(value.tobytes())}"
        elif isinstance(value, tuple | list):
            yield from (self._named(kind), "(")
            for part in value:
                yield from self.of(part)
            yield ")"
        elif kind in (frozenset, set):
            yield from (kind.__name__, *sorted(" ".join(self.of(part)) for part in value))
        elif isinstance(value, Enum):
            yield from (self._named(kind), value.name)
        elif isinstance(value, np.dtype):
            yield repr(value)
        # Types that exist in one process only carry an address.
        elif isinstance(value, types.Type) and "#" not in str(value) and "0x" not in str(value):
            yield str(value)
        elif isinstance(value, CodeType):
            yield from self._code(value)
        else:
            yield self._named(value)

    def _named(self, value: Any) -> str:
        """Return a name that leads back to the value, in this package or one whose version is in the key."""
        if isinstance(value, ModuleType) and value.__name__.partition(".")[0] in (_OWN, *_RELEASED):
            return value.__name__
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if isinstance(value, np.ufunc):
            module, name = "numpy", value.__name__
        if isinstance(module, str) and isinstance(name, str) and module.partition(".")[0] in (_OWN, *_RELEASED):
            found: Any = sys.modules.get(module)
            for part in name.split("."):
                found = getattr(found, part, None)
            if getattr(found, "py_func", found) is value or found is value:
                self.modules.add(module)
                return f"{module}.{name}"
        raise NoKeyError(f"{value!r:.80} cannot be named")

    def _function(self, value: Any) -> Iterator[str]:
        if (number := self._seen.get(id(value))) is not None:
            yield f"function {number}"
            return
        self._seen[id(value)] = len(self._seen)
        function, options = getattr(value, "py_func", value), getattr(value, "options", {})
        for name, option in sorted(options.items()):
            yield name
            yield from self.of(option)
        if (graph := _graphs.get(function)) is not None:
            yield f"graph {graph}"
        elif _package_of(function) != _OWN:
            yield self._named(function)
        else:
            self.modules.add(function.__globals__["__name__"])
            yield f"{function.__module__}.{function.__qualname__}"
            yield from self._code(function.__code__)
            yield from self.of(function.__defaults__ or ())
            for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
                yield name
                yield from self.of(cell.cell_contents)
            for name in _names(function.__code__):
                if name in function.__globals__:  # which a program may have replaced
                    yield name
                    yield from self.of(function.__globals__[name])

    def _code(self, code: CodeType) -> Iterator[str]:
        """Name bytecode: a module that was loaded again has other code than its file had."""
        parts = code.co_code, code.co_exceptiontable, code.co_names, code.co_varnames, code.co_freevars, code.co_flags
        yield f"code {parts!r}"
        for constant in code.co_consts:
            yield from self.of(constant)


@cache
def _names(code: CodeType) -> tuple[str, ...]:
    """Return the names that a function and those within it look up."""
    within = (name for part in code.co_consts if isinstance(part, CodeType) for name in _names(part))
    return tuple(sorted({*code.co_names, *within}))
