"""llvmlite's pass managers are freed with the object that holds them: numba makes several for every function.

Up to llvmlite 0.50 they are never freed, which took most of the memory that compiling a model left behind: both classes
inherit first from `ObjectRef`, whose way to free does nothing, and then from `NewPassManager`, which knows how.
"""

from contextlib import suppress

from llvmlite import binding

with suppress(AttributeError):  # another llvmlite
    for _manager in (binding.ModulePassManager, binding.FunctionPassManager):
        if _manager._dispose is binding.ffi.ObjectRef._dispose:
            _manager._dispose = binding.NewPassManager._dispose
