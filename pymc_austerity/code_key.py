"""What compiled code is made of, as a key.

The key is the bytecode of every function that takes part, the module that each is from, what they capture, the
implementations registered for them, PyTensor's key of every graph, and the versions, settings and processor that take
part in compiling.  numba adds the types of the arguments.

A key that two different codes share would run the wrong one without a word.  So whatever has no full description is
refused, and code that is refused is compiled anew in every process.
"""

from __future__ import annotations

import dis
import logging
import sys
from collections.abc import Callable
from enum import Enum
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from types import CodeType, EllipsisType, FunctionType, ModuleType
from typing import Any, cast
from weakref import WeakKeyDictionary, ref

import numba
import numpy as np
from numba import types
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.core.typing.templates import builtin_registry
from numba.extending import _Intrinsic

from pymc_austerity.code_names import everywhere, is_known, qualified
from pymc_austerity.foreign_code import foreign_templates, implementations, is_filled, release_of
from pymc_austerity.lean_njit import LeanDispatcher

try:
    from pytensor.link.numba.cache import CACHED_SRC_FUNCTIONS
except ImportError:  # an older PyTensor: functions are compiled in every process
    CACHED_SRC_FUNCTIONS = None

_log = logging.getLogger("pymc_austerity")


#: Changes of these change compiled code without a trace in its bytecode.
_PACKAGES = ("numba", "llvmlite", "numpy", "scipy", "pytensor", "pymc", "pymc_austerity")
#: numba's settings that leave compiled code as it is and may well differ between two processes of one user.  Any
#: other, one that numba has yet to invent as well, is in the key.
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
#: Their ``repr`` is their value; subclasses may write what they like.
_WRITTEN_OUT = (bool, int, float, complex, str, bytes, slice, range, type(None), EllipsisType)

#: Keys of graphs, by the functions that PyTensor has written for them.
_graphs: WeakKeyDictionary[FunctionType, str] = WeakKeyDictionary()


#: What the functions that numba has compiled had captured when they were first described.
_frozen: WeakKeyDictionary[Dispatcher, dict[str, Any]] = WeakKeyDictionary()


class NotDescribedError(TypeError):
    """A value that compiled code captures and that has no description which another process would give as well."""


def cache_key(function: Callable[..., Any]) -> str:
    """Return a key for a compiled function that is equal in another process exactly if its code is.

    Raises
    ------
    NotDescribedError
        For a function that captures something without a description.
    """
    describe = _Describer()
    everywhere = [describe.template(template) for template in foreign_templates()]
    return _digest(f"{_versions()} {_settings()} {everywhere} {describe.of(function)}")


def name_graph(graph: Dispatcher, keeper: Dispatcher) -> bool:
    """Describe the code of a graph by PyTensor's key, which is that of the function around it; False without one."""
    key = None if CACHED_SRC_FUNCTIONS is None else CACHED_SRC_FUNCTIONS.get(keeper.py_func)
    if key is not None:
        _graphs[cast("FunctionType", graph.py_func)] = f"graph {key}"
    return key is not None


@cache
def _versions() -> str:
    found = [sys.version, repr(cpu_target.target_context.codegen().magic_tuple())]
    for package in _PACKAGES:
        try:
            found.append(f"{package}=={version(package)}")
        except PackageNotFoundError:  # run from its sources
            found.append(package)
    return " ".join(found)


def _settings() -> str:
    values = {n: v for n, v in vars(numba.config).items() if n.isupper() and n not in _HARMLESS_SETTINGS}
    return repr(sorted((n, str(v)) for n, v in values.items() if v is None or isinstance(v, int | float | str)))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


class _Describer:
    """Describes what a function is made of, each part once."""

    def __init__(self) -> None:
        self._seen: dict[Any, str] = {}
        # What is being described now, from the outside in, and the outermost of it that was met again.
        self._within: list[Any] = []
        self._outermost = 0

    def of(self, value: Any) -> str:
        """Return a description of anything that compiled code may capture."""
        kind = type(value)
        if kind in _WRITTEN_OUT:
            return f"{kind.__name__} {value!r}"
        if isinstance(value, np.generic):
            return f"{kind.__name__} {_array(np.asarray(value))}"
        if kind is np.ndarray:
            return _array(value)
        if isinstance(value, np.dtype):
            return repr(value)
        if isinstance(value, Enum):
            return f"{self._class(kind)} {value.name}"
        if isinstance(value, tuple) or kind is list:
            return f"{self._class(kind)}({', '.join(map(self.of, value))})"
        if kind in (frozenset, set):
            return f"{kind.__name__}({', '.join(sorted(map(self.of, value)))})"
        if kind is dict:
            return f"dict({', '.join(f'{self.of(k)}: {self.of(v)}' for k, v in value.items())})"
        if isinstance(value, Dispatcher):
            return self._once(id(value), lambda: self._compiled(value))
        if isinstance(value, _Intrinsic):
            return f"intrinsic {self._written(value._defn)}"
        if isinstance(value, ModuleType):
            return self._module(value, ())
        if is_known(value):
            return qualified(value)
        if isinstance(value, FunctionType):
            return self._once(id(value), lambda: self._plain(value))
        if isinstance(value, CodeType):
            return self._code(value)
        if isinstance(value, type):
            return self._class(value)
        # Types that exist in one process only carry an address.
        if isinstance(value, types.Type) and "#" not in str(value) and "0x" not in str(value):
            return f"type {value}"
        return _refuse(value)

    def _class(self, value: Any) -> str:
        if is_known(value) or issubclass(value, BaseException):
            return qualified(value)
        if issubclass(value, tuple) and hasattr(value, "_fields"):
            return f"{qualified(value)} {value._fields} {self.of(value._field_defaults)}"
        if issubclass(value, Enum):
            return f"{qualified(value)} {self.of({n: member.value for n, member in value.__members__.items()})}"
        return _refuse(value)

    def _once(self, key: Any, describe: Callable[[], str]) -> str:
        if key in self._seen:
            return self._seen[key]
        here = len(self._within)
        if key in self._within:  # a function may call itself, directly or through others
            place = self._within.index(key)
            self._outermost = min(self._outermost, place)
            return f"what is {here - place} levels up"
        before, self._outermost = self._outermost, here
        self._within.append(key)
        try:
            described = _digest(describe())
        finally:
            self._within.pop()
            found, self._outermost = self._outermost, min(before, self._outermost)
        if found >= here:  # otherwise it means this only here
            self._seen[key] = described
        return described

    def _compiled(self, dispatcher: Any) -> str:
        options = self.of(dict(sorted(dispatcher.targetoptions.items())))
        # Given types make of the arguments what the caller's types do not say.
        given = "" if dispatcher._can_compile else [str(s) for s in dispatcher.nopython_signatures]
        pipeline, places = dispatcher._compiler.pipeline_class, dispatcher.locals
        options = f"{options} {given} {self.of(pipeline)} {self.of(dict(sorted(places.items())))}"
        _check_numbers(dispatcher)
        graph = CACHED_SRC_FUNCTIONS.get(dispatcher.py_func) or _graphs.get(dispatcher.py_func)
        if graph is None:
            self._check_frozen(dispatcher)
        return f"{options} {graph or self._function(dispatcher.py_func)}"

    def _check_frozen(self, dispatcher: Any) -> None:
        """Refuse a function of which numba holds code with values that its globals have no longer."""
        function = dispatcher.py_func
        cells, names = _captured(function)
        values = {
            name: ref(value) if isinstance(value, Dispatcher | FunctionType) else self.of(value)
            for name, value in {**{f"cell {n}": v for n, v in cells.items()}, **names}.items()
            if not isinstance(value, ModuleType)
        }
        if not _overloads(dispatcher):
            _frozen[dispatcher] = values
        elif dispatcher not in _frozen and function.__module__ == "__main__" and not all(map(is_known, names.values())):
            _refuse(dispatcher, "was compiled before its first use here, and a session may have changed its globals")
        elif _frozen.setdefault(dispatcher, values) != values:
            _refuse(dispatcher, "was compiled with other values than its globals have now")

    def _plain(self, function: Any) -> str:
        """Describe a function that stands for compiled code (``numba.extending.overload``)."""
        standing_in = [self.template(t) for t in builtin_registry.functions if t.key is function]
        return f"{qualified(function)} {self._function(function)} {standing_in}"

    def template(self, template: Any) -> str:
        """Describe an implementation that was registered with numba."""
        try:
            return self._template(template)
        except NotDescribedError:
            if (release := release_of(template)) is None:
                raise
            return release

    def _template(self, template: Any) -> str:
        described = [self._written(f) for f in implementations(template)]
        extras = [getattr(template, name, None) for name in ("_attr", "_strict", "prefer_literal")]
        options = {**(getattr(template, "_jit_options", None) or {})}
        inline = getattr(getattr(template, "_inline", None), "value", None)
        key = qualified(template.key) if hasattr(template.key, "__name__") else self.of(template.key)
        return f"{key} {described} {extras} {self.of(dict(sorted(options.items())))} {self.of(inline)}"

    def _written(self, function: Any) -> str:
        if not isinstance(function, FunctionType):
            return _refuse(function)
        return self._once(("written", id(function)), lambda: self._function(function))

    def _function(self, function: Any) -> str:
        code = function.__code__
        cells, names = _captured(function)
        attributes = tuple(sorted({name for part in _codes(code) for name in part.co_names}))
        # Apart: a cell and a global may share a name.
        captured = [
            {n: self._module(v, attributes) if isinstance(v, ModuleType) else self.of(v) for n, v in found.items()}
            for found in (cells, names)
        ]
        defaults = (function.__defaults__, function.__kwdefaults__)
        # Loading imports it: in a process that cannot, the file would look damaged and be made anew, again and again.
        place = function.__globals__.get("__name__")
        if place not in sys.modules:
            _refuse(function, f"is from a module {place!r} that another process cannot import")
        return f"{everywhere(place)} {self._code(code)} {self.of(defaults)} {captured}"

    def _module(self, module: ModuleType, attributes: tuple[str, ...]) -> str:
        """Describe a module by what a function may read from it."""
        name = module.__name__
        if is_known(module):
            return f"module {name}"

        def describe() -> str:
            read = {a: getattr(module, a) for a in attributes if hasattr(module, a)}
            inner = {
                a: self._module(v, attributes) if isinstance(v, ModuleType) else self.of(v) for a, v in read.items()
            }
            return f"module {name} {inner}"

        return self._once((id(module), attributes), describe)

    def _code(self, code: Any) -> str:
        parts = [
            getattr(code, f"co_{part}")
            for part in ("code", "exceptiontable", "names", "varnames", "cellvars", "freevars", "flags")
            + ("argcount", "posonlyargcount", "kwonlyargcount")
        ]
        return f"code {parts!r} {self.of(code.co_consts)}"


def _array(value: np.ndarray) -> str:
    if value.dtype.hasobject:
        return _refuse(value)
    flags = value.flags
    layout = (flags.c_contiguous, flags.f_contiguous, flags.aligned, flags.writeable)
    return f"array {value.dtype!r} {value.shape} {layout} {sha256(value.tobytes()).hexdigest()}"


def _overloads(dispatcher: Any) -> list[Any]:
    """Return what numba has compiled of a function, for callers of any kind."""
    within = dispatcher.within.overloads if isinstance(dispatcher, LeanDispatcher) else {}
    return [*dispatcher.overloads.values(), *within.values()]


def _check_numbers(dispatcher: Any) -> None:
    """Refuse code whose symbols another process may give to another function.

    numba tells functions of one name apart by a number in their symbols, and what is loaded into one process must not
    meet its own symbol on other code: the first would serve for both.  numba counts; PyTensor draws long random
    numbers, from its import on.
    """
    if any(compiled.fndesc.uid < 2**64 for compiled in _overloads(dispatcher)):
        _refuse(dispatcher, "was compiled before PyTensor was imported, under a name that another process may reuse")


@cache
def _codes(code: CodeType) -> tuple[CodeType, ...]:
    """Return the code of a function and of those within it."""
    return code, *(part for const in code.co_consts if isinstance(const, CodeType) for part in _codes(const))


@cache
def _global_names(code: CodeType) -> tuple[str, ...]:
    reads = ("LOAD_GLOBAL", "LOAD_NAME")
    return tuple(sorted({i.argval for part in _codes(code) for i in dis.get_instructions(part) if i.opname in reads}))


def _captured(function: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a function reads from outside: from the functions around it, and from its module."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or ())
    names = {n: function.__globals__[n] for n in _global_names(function.__code__) if n in function.__globals__}
    return {name: cell.cell_contents for name, cell in cells if is_filled(cell)}, names


def _refuse(value: Any, reason: str = "has no description that holds in another process") -> Any:
    raise NotDescribedError(f"{type(value).__qualname__} {value!r:.80} {reason}")
