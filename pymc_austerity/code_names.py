"""Names of what compiled code is made of, that lead back to the same thing in every process."""

from __future__ import annotations

import sys
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

#: What these modules hold is as good as its name: the versions are in the key.
_KNOWN_BY_NAME = ("builtins", "math", "cmath", "operator", "_operator", "numba", "numpy", "pytensor", "scipy")


def is_known(value: Any) -> bool:
    """Say whether the name of a value leads back to it in a package whose version is in the key."""
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0] in _KNOWN_BY_NAME
    if isinstance(value, np.ufunc):
        return any(getattr(place, value.__name__, None) is value for place in (np, sys.modules.get("scipy.special")))
    if not is_within_known(value) or not isinstance(getattr(value, "__qualname__", None), str):
        return False
    found: Any = sys.modules.get(value.__module__ or "")
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value


def is_within_known(value: Any) -> bool:
    """Say whether a value was written in a package whose version is in the key."""
    return module_of(value).partition(".")[0] in _KNOWN_BY_NAME


def module_of(value: Any) -> str:
    """Return the name of the module that a value was written in; nothing where it has none."""
    # A function's globals cannot be borrowed, as `functools.wraps` does with the name of its module.
    is_plain = isinstance(value, FunctionType)
    module = value.__globals__.get("__name__") if is_plain else getattr(value, "__module__", None)
    return module if isinstance(module, str) else ""


def qualified(value: Any) -> str:
    """Return the name of a value with that of its module."""
    return f"{everywhere(getattr(value, '__module__', None))}.{getattr(value, '__qualname__', None) or value.__name__}"


def everywhere(module: str | None) -> str | None:
    """Return the name of a module; a spawned worker has its own for the script that started it."""
    return "__main__" if module == "__mp_main__" else module
