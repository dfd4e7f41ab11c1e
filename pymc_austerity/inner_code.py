"""Compiled functions that only compiled code calls."""

from __future__ import annotations

from functools import partial

from numba import njit

#: As ``numba.njit``, without what Python and C would call the function by.  Numba makes both for every function it
#: compiles, and to unpack nested tuples of arrays takes it longer than the function itself.
inner_njit = partial(njit, no_cpython_wrapper=True, no_cfunc_wrapper=True)
