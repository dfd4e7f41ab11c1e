"""``njit`` for code that compiled code calls, and only now and then Python.

To make a function callable from Python and C, numba compiles the unpacking of its tuples of tuples, which took a tenth
of all compiling before the first draw.  What Python calls is kept on disk.
"""

from collections.abc import Callable
from typing import Any

import numba

from pymc_austerity.compile.cache import AS_NUMPY, argument_types, cached

try:  # the class of numba's compiled functions, which has no public name; without it all of them stay numba's own
    from numba.core.registry import CPUDispatcher
except ImportError:
    CPUDispatcher = None

_NOT_FROM_C = {"no_cfunc_wrapper": True}
_NOT_FROM_PYTHON = {"no_cpython_wrapper": True, **_NOT_FROM_C}


def njit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Decorate a function as `numba.njit` does, with NumPy's division by zero."""
    if function is None:
        return lambda decorated: njit(decorated, **options)
    if CPUDispatcher is None or numba.config.DISABLE_JIT:
        return numba.njit(**{**AS_NUMPY, **options})(function)
    return LeanDispatcher(function, {"nopython": True, **AS_NUMPY, **options})


def for_compiled_code(function: Any) -> Any:
    """Return the compiled function that compiled code calls."""
    return getattr(function, "within", function)


class LeanDispatcher(CPUDispatcher or object):  # type: ignore[misc]
    """A compiled function that is made callable from Python when Python calls it."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        super().__init__(function, {}, {**options, **_NOT_FROM_C})
        self.options = options
        self.within = CPUDispatcher(function, {}, {**options, **_NOT_FROM_PYTHON})

    def compile(self, sig: Any) -> Any:
        """Compile for Python, which calls with arguments of these types, or load what was compiled before."""
        cached(self)
        return super().compile(sig)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile for compiled code that calls with arguments of these types."""
        return self._for(args).get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """Return what compiled code calls."""
        return self._for(argument_types(sig)).get_overload(sig)

    def _for(self, args: Any) -> Any:
        return super() if tuple(args) in self.signatures else self.within
