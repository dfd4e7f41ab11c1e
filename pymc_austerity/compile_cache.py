"""Compiled code of this package, kept on disk between processes, beside PyTensor's own.

numba keeps the code of a function by the file that it was written in.  What this package compiles are closures over a
model's functions and over the parts of a step, so the key here is what the code is made of: the bytecode of every
function that it calls, the constants that these capture, PyTensor's key of every graph, and the versions of all that
takes part in compiling.  Where a function came from is not in it: a file that moves keeps its code.  numba adds the
types of the arguments and the processor.
"""

from __future__ import annotations

import inspect
import logging
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba import njit, types
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher
from pytensor import config

try:
    from pytensor.link.numba.cache import CACHED_SRC_FUNCTIONS, compile_numba_function_src
except ImportError:  # PyTensor 2: functions are compiled in every process
    CACHED_SRC_FUNCTIONS = compile_numba_function_src = None

_log = logging.getLogger("pymc_austerity")

#: Changes of these change compiled code without a trace in its bytecode.
_PACKAGES = ("numba", "llvmlite", "numpy", "scipy", "pytensor", "pymc", "pymc_austerity")
#: Their functions are as good as their names: the versions are in the key.
_KNOWN_BY_NAME = ("builtins", "math", "numba", "numpy", "pytensor")


class NotDescribedError(TypeError):
    """A value that compiled code captures and that has no description which another process would give as well."""


def cached(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a compiled function that looks for its machine code on disk before it compiles, and leaves it there.

    Parameters
    ----------
    function : callable
        Compiled by numba, called from Python with positional arguments.

    Returns
    -------
    callable
        The same function; `function` itself where nothing can be kept: without PyTensor's cache, with
        ``pytensor.config.numba__cache`` off, or where it captures something that cannot be described.
    """
    if CACHED_SRC_FUNCTIONS is None or not config.numba__cache:
        return function
    try:
        key = cache_key(function)
    except NotDescribedError as error:
        _log.debug(f"Compiled anew in every process: {error}.")
        return function
    name = function.py_func.__name__  # type: ignore[attr-defined]
    names = ", ".join(inspect.signature(function.py_func).parameters)  # type: ignore[attr-defined]
    # Not a closure: numba would put its cells into a key of its own, where no two processes agree.
    source = f"def {name}({names}):\n    return compiled({names})\n"
    outermost = compile_numba_function_src(source, name, {"compiled": function, "__name__": __name__}, cache_key=key)
    dispatcher = njit(nogil=function.targetoptions.get("nogil", False))(outermost)  # type: ignore[attr-defined]
    dispatcher._cache = _CarefulCache(outermost)
    return dispatcher


class _CarefulCache(FunctionCache):
    """A cache without which the code still runs: a folder that is full, foreign or damaged costs time and no more."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:
            _log.info(f"Compiled code in {self.cache_path} cannot be read and is made anew ({_name(error)}).")
        with suppress(OSError):
            self.flush()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # numba's word on code that it cannot keep
                super().save_overload(sig, data)
        except Exception as error:
            _log.info(f"Compiled code cannot be kept in {self.cache_path} ({_name(error)}).")


def _name(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def cache_key(function: Callable[..., Any]) -> str:
    """Return a key for a compiled function that is equal in another process exactly if its code is.

    Raises
    ------
    NotDescribedError
        For a function that captures something without a description.
    """
    return _digest(f"{_versions()} {_Describer().of(function)}")


@cache
def _versions() -> str:
    found = [sys.version]
    for package in _PACKAGES:
        try:
            found.append(f"{package}=={version(package)}")
        except PackageNotFoundError:  # run from its sources
            found.append(package)
    return " ".join(found)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


class _Describer:
    """Describes what a function is made of, each part once."""

    def __init__(self) -> None:
        self._seen: dict[int, str] = {}

    def of(self, value: Any) -> str:
        """Return a description of anything that compiled code may capture."""
        if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic | np.dtype):
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, np.ndarray):
            content = np.ascontiguousarray(value).tobytes() if value.dtype.kind != "O" else _refuse(value)
            layout = (value.flags.c_contiguous, value.flags.f_contiguous, value.flags.writeable)
            return f"array {value.dtype.str} {value.shape} {layout} {sha256(content).hexdigest()}"
        if isinstance(value, tuple | list):
            return f"{_qualified(type(value))}({', '.join(map(self.of, value))})"
        if isinstance(value, frozenset | set):
            return f"{type(value).__name__}({', '.join(sorted(map(self.of, value)))})"
        if isinstance(value, dict):
            return f"dict({', '.join(f'{self.of(k)}: {self.of(v)}' for k, v in value.items())})"
        if isinstance(value, Dispatcher):
            return self._once(value, self._compiled)
        if isinstance(value, FunctionType):
            return self._once(value, self._plain)
        if isinstance(value, CodeType):
            return self._code(value)
        if isinstance(value, ModuleType):
            return f"module {value.__name__}"
        if isinstance(value, type | np.ufunc | BuiltinFunctionType):
            return _qualified(value)
        if isinstance(value, types.Type):
            return f"type {value}"
        return _refuse(value)

    def _once(self, value: Any, describe: Callable[[Any], str]) -> str:
        # A function may call itself, directly or through others.
        if id(value) not in self._seen:
            self._seen[id(value)] = f"function number {len(self._seen)}"
            self._seen[id(value)] = _digest(describe(value))
        return self._seen[id(value)]

    def _compiled(self, dispatcher: Any) -> str:
        options = self.of(dict(sorted(dispatcher.targetoptions.items())))
        graph = CACHED_SRC_FUNCTIONS.get(dispatcher.py_func)
        return f"{options} {graph or self._function(dispatcher.py_func)}"

    def _plain(self, function: Any) -> str:
        """Describe a function that stands for compiled code (``numba.extending.overload``): by the file it is in."""
        if (function.__module__ or "").partition(".")[0] in _KNOWN_BY_NAME:
            return _qualified(function)
        try:
            return f"{_qualified(function)} {inspect.getsource(sys.modules[function.__module__])}"
        except (KeyError, OSError, TypeError):
            return _refuse(function)

    def _function(self, function: Any) -> str:
        code = function.__code__
        captured = dict(zip(code.co_freevars, (cell.cell_contents for cell in function.__closure__ or ())))
        captured |= {n: function.__globals__[n] for n in _names(code) if n in function.__globals__}
        return f"{self._code(code)} {self.of(function.__defaults__)} {self.of(captured)}"

    def _code(self, code: Any) -> str:
        parts = (code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_argcount, code.co_flags)
        return f"code {parts!r} {self.of(code.co_consts)}"


def _names(code: CodeType) -> list[str]:
    """Return the global names that a function and those within it may read."""
    inner = [name for const in code.co_consts if isinstance(const, CodeType) for name in _names(const)]
    return sorted({*code.co_names, *inner})


def _qualified(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value)}"


def _refuse(value: Any) -> Any:
    raise NotDescribedError(f"no description of {type(value).__qualname__} {value!r:.80} holds in another process")
