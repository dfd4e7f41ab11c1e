"""``njit`` for code that compiled code calls, and only now and then Python.

numba makes a function callable from three sides: by compiled code, from Python and from C.  To unpack the tuples of
tuples that the parts of a step hand to each other takes about as long to compile as what is done with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core.registry import CPUDispatcher
from numba.core.sigutils import normalize_signature

_NOT_FROM_C = {"no_cfunc_wrapper": True}
_NOT_FROM_PYTHON = {"no_cpython_wrapper": True, **_NOT_FROM_C}


def njit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Decorate a function as `numba.njit` does."""
    if function is None:
        return lambda decorated: njit(decorated, **options)
    compiled = numba.njit(**options)(function)
    return compiled if options.get("cache") else lean(compiled)  # what numba keeps on disk costs nothing


def lean(function: Any) -> Any:
    """Return what was decorated with `numba.njit` as if it had been by `njit`."""
    if not isinstance(function, CPUDispatcher):  # NUMBA_DISABLE_JIT
        return function
    options = {name: value for name, value in function.targetoptions.items() if name not in _NOT_FROM_PYTHON}
    options |= _NOT_FROM_C
    return LeanDispatcher(function.py_func, function.locals, options, function._compiler.pipeline_class)


class LeanDispatcher(CPUDispatcher):
    """A compiled function that is made callable from Python when Python calls it.

    Attributes
    ----------
    within : CPUDispatcher
        What compiled code calls, with arguments with which Python has not called before.
    """

    def __init__(self, py_func: Any, locals: Any, targetoptions: Any, *pipeline: Any) -> None:
        super().__init__(py_func, locals, targetoptions, *pipeline)
        self.within = CPUDispatcher(py_func, locals, {**targetoptions, **_NOT_FROM_PYTHON}, *pipeline)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile for compiled code that calls with arguments of these types."""
        _, folded = self._compiler.fold_argument_types(args, kws)
        return self._for(folded).get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """Return what compiled code calls."""
        return self._for(normalize_signature(sig)[0]).get_overload(sig)

    def _for(self, args: Any) -> Any:
        return super() if tuple(args) in self.overloads else self.within
