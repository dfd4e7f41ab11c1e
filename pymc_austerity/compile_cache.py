"""Compiled code of this package, kept on disk between processes, beside PyTensor's own.

numba keeps the code of a function by the file that it was written in.  What this package compiles are closures over a
model's functions and over the parts of a step, so they are kept by what they are made of: see `code_key`.
"""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import count
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

from numba.core.bytecode import FunctionIdentity
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher
from numba.core.registry import CPUDispatcher
from numba.core.sigutils import normalize_signature
from pytensor import config

from pymc_austerity.code_key import NotDescribedError, cache_key
from pymc_austerity.lean_njit import LeanDispatcher

try:
    from pytensor.link.numba.cache import CACHED_SRC_FUNCTIONS, NumbaPyTensorCacheLocator
except ImportError:  # an older PyTensor: functions are compiled in every process
    CACHED_SRC_FUNCTIONS = NumbaPyTensorCacheLocator = None

_log = logging.getLogger("pymc_austerity")

P = ParamSpec("P")
Built = TypeVar("Built")


def built_once(build: Callable[P, Built]) -> Callable[P, Built]:
    """Let a function that composes compiled code return the same code for the same parts: numba compiles it once."""
    return cast("Callable[P, Built]", cache(build))


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
        ``pytensor.config.numba__cache`` off or ``NUMBA_DISABLE_JIT`` set, or where it captures something that cannot
        be described.
    """
    if (key := _key(function)) is None:
        return function
    dispatcher = _twin(function)
    return dispatcher if _looks_on_disk(dispatcher, function, key) else function


@cache
def kept(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what `cached` does, once a process: for functions of a module, which Python calls now and then."""
    return cached(function)


def keep(function: LeanDispatcher) -> LeanDispatcher:
    """Let Python's calls of a function that compiled code calls look for machine code on disk, and leave it there.

    Parameters
    ----------
    function : LeanDispatcher
        That has not been compiled yet.

    Returns
    -------
    LeanDispatcher
        The same, also where nothing can be kept.
    """
    if (key := _key(function)) is not None:
        _looks_on_disk(function, function, key)
    return function


def _key(function: Any) -> str | None:
    """Return the key of a function that may be kept, or None."""
    if CACHED_SRC_FUNCTIONS is None or not config.numba__cache or not isinstance(function, Dispatcher):
        return None
    if isinstance(FunctionIdentity._unique_ids, count):  # see `_check_numbers`
        return None
    parameters = inspect.signature(function.py_func).parameters.values()
    if any(p.kind not in (p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in parameters):
        return None
    try:
        return cache_key(function)
    except NotDescribedError as error:
        _log.debug(f"Compiled anew in every process: {error}.")
        return None


def _looks_on_disk(dispatcher: Any, function: Any, key: str) -> bool:
    try:
        dispatcher._cache = _CarefulCache(dispatcher.py_func, function, key)
    except RuntimeError as error:  # NUMBA_CACHE_LOCATOR_CLASSES leaves out PyTensor's
        _log.info(f"Compiled anew in every process: {error}.")
        return False
    return True


def _twin(function: Any) -> Any:
    """Return a dispatcher for the same code, which has compiled nothing yet."""
    code = function.py_func
    # Another function: numba refuses one that calls itself under the name of the first.
    twin = FunctionType(code.__code__, code.__globals__, code.__name__, code.__defaults__, code.__closure__)
    return CPUDispatcher(twin, function.locals, function.targetoptions, function._compiler.pipeline_class)


class _CarefulCache(FunctionCache):
    """A cache without which the code still runs: a folder that is full, foreign or damaged costs time and no more."""

    def __init__(self, code: FunctionType, function: Any, key: str) -> None:
        # PyTensor's locator asks for the key, and only now; left there it would hide a change from `_has_changed`.
        CACHED_SRC_FUNCTIONS[code] = key
        try:
            super().__init__(code)
        finally:
            del CACHED_SRC_FUNCTIONS[code]
        if not isinstance(self._impl.locator, NumbaPyTensorCacheLocator):
            raise RuntimeError(f"numba would keep it in {self.cache_path}")
        self._function, self._key = function, key

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        # Not numba's own, which holds pickled cells, about which no two processes agree.
        return sig, codegen.magic_tuple(), self._key

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        if self._has_changed():
            return None
        try:
            found = super().load_overload(sig, target_context)
            # Two processes that keep code for other arguments at the same moment may mix up its files.
            if found is None or found.signature.args == normalize_signature(sig)[0]:
                return found
            reason = f"it is for arguments {found.signature.args}"
        except Exception as error:
            reason = _name(error)
        _log.info(f"Compiled code in {self.cache_path} cannot be used and is made anew ({reason}).")
        with suppress(OSError):
            self.flush()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if self._has_changed():
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # numba's word on code that it cannot keep
                super().save_overload(sig, data)
        except Exception as error:
            _log.info(f"Compiled code cannot be kept in {self.cache_path} ({_name(error)}).")

    def _has_changed(self) -> bool:
        """Say whether the function no longer is what its key says: numba reads globals when it compiles."""
        try:
            return cache_key(self._function) != self._key
        except NotDescribedError:
            return True


def _name(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
