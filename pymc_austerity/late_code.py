"""Machine code made late: of a function when it is asked for, and not of all that it calls.

numba optimises every function and makes machine code of it, and then does so again for each that calls it, since it
copies what is called into its caller.  A step is some hundred functions around a dozen that are ever entered: of the
others what a caller copies is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba import version_info
from numba.core.codegen import JITCodeLibrary, ll
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import lookup_environment
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.typing.templates import _OverloadFunctionTemplate

#: What Python finds of a compiled function beside its code.
_ENVIRONMENT, _RECURSION = "_ZN08NumbaEnv", ".numba.unresolved$"
#: numba's own parts that this file stands in for are private to it: with a version that has not been tried, or where
#: one of them has another name, code is made as numba makes it.
_HAS_PARTS = (
    (0, 65) <= tuple(version_info[:2]) <= (0, 68)
    and all(
        hasattr(JITCodeLibrary, name)
        for name in ("_optimize_final_module", "_finalize_final_module", "_unserialize", "serialize_using_object_code")
    )
    and hasattr(_OverloadFunctionTemplate, "_get_jit_decorator")
)


class LateDispatcher(CPUDispatcher):
    """A compiled function that leaves code of its own only to those of the functions that it calls that need it."""

    def compile(self, sig: Any) -> Any:
        """Compile for arguments of these types, or find what was compiled for them."""
        with made_late():
            return super().compile(sig)


@contextmanager
def made_late() -> Iterator[None]:
    """Make machine code late of what is compiled or loaded within."""
    codegen = cpu_target.target_context.codegen()
    if not _HAS_PARTS or "set_env" in vars(codegen):
        yield
        return
    decorator, set_env = _OverloadFunctionTemplate._get_jit_decorator, codegen.set_env

    def not_from_python(template: Any) -> Any:
        decorate = decorator(template)
        return lambda **options: decorate(**{"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **options})

    def set_known(name: str, environment: Any) -> None:
        if codegen._engine.is_symbol_defined(name):
            set_env(name, environment)

    with global_compiler_lock:
        try:
            codegen._library_class, codegen.set_env = _LateLibrary, set_known
            _OverloadFunctionTemplate._get_jit_decorator = not_from_python
            yield
        finally:
            _OverloadFunctionTemplate._get_jit_decorator = decorator
            for name in ("_library_class", "set_env"):
                vars(codegen).pop(name, None)


class _LateLibrary(JITCodeLibrary):
    """What numba keeps of a compiled function; optimised, and made machine code, when something asks for it."""

    _is_made, _is_loaded = False, False
    _shared_module: Any

    def _optimize_final_module(self) -> None:
        """Leave it to whoever copies the code."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True
        if any(value.name.startswith(_RECURSION) for value in self._final_module.global_variables):
            self._make()

    def _make(self) -> None:
        if self._is_made:
            return
        self._is_made = True
        if self._is_loaded:
            super()._finalize_final_module()
            self._codegen._engine._load_defined_symbols(self._shared_module)
        else:
            self._shared_module = None  # that of the optimised code is wanted from now on
            super()._optimize_final_module()
            super()._finalize_final_module()
        for value in (self._shared_module or self._final_module).global_variables:
            if value.name.startswith(_ENVIRONMENT) and (found := lookup_environment(value.name)) is not None:
                self._codegen.set_env(value.name, found)

    def _get_module_for_linking(self) -> Any:
        if type(self) is not self._codegen._library_class:  # numba's own way, which expects an environment there
            self._ensure_finalized()
            self._make()
        return super()._get_module_for_linking()

    def get_pointer_to_function(self, name: str) -> Any:
        """Return the address of a function, or 0 where there is none of that name."""
        self._ensure_finalized()
        if not self._is_made and not _defines(self._shared_module or self._final_module, name):
            return 0
        self._make()
        return super().get_pointer_to_function(name)

    def serialize_using_object_code(self) -> Any:
        """Return what is kept on disk."""
        self._ensure_finalized()
        self._make()
        return super().serialize_using_object_code()

    @classmethod
    def _unserialize(cls, codegen: Any, state: Any) -> Any:
        name, kind, data = state
        if kind != "object":
            return super()._unserialize(codegen, state)
        self, (object_code, shared) = codegen.create_library(name), data
        self.enable_object_caching()
        self._set_compiled_object(object_code)
        self._is_loaded, self._finalized = True, True
        self._shared_module = ll.parse_bitcode(shared)
        return self


def _defines(module: Any, name: str) -> bool:
    try:
        return not module.get_function(name).is_declaration
    except NameError:
        return False
