"""Compiled functions that only compiled code calls, and those that are built once a process."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import ParamSpec, TypeVar, cast

from numba import njit

P = ParamSpec("P")
Built = TypeVar("Built")

#: As ``numba.njit``, without what Python and C would call the function by.  Numba makes both for every function it
#: compiles, and to unpack nested tuples of arrays takes it longer than the function itself.
inner_njit = partial(njit, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def built_once(build: Callable[P, Built]) -> Callable[P, Built]:
    """Let a function that composes compiled code return the same code for the same parts: numba compiles it once."""
    return cast("Callable[P, Built]", cache(build))
