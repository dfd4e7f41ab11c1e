"""What LLVM needs to optimise a function is freed after it."""

import subprocess
import sys

import pytest

FREED = """
import numba
from llvmlite import binding
import {imported}

freed = []
for manager in (binding.ModulePassManager, binding.FunctionPassManager):
    def dispose(self, way=manager._dispose):
        freed.append((type(self).__name__, way is not binding.ffi.ObjectRef._dispose))
        way(self)
    manager._dispose = dispose
f = numba.njit(lambda x: x + 1)
assert f(1) == 2
print(sorted(set(freed)))
"""


def freed_after_compiling(imported):
    script = [sys.executable, "-c", FREED.format(imported=imported)]
    return subprocess.run(script, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.slow
@pytest.mark.versions
def test_pass_managers_are_freed():
    expected = "[('FunctionPassManager', {0}), ('ModulePassManager', {0})]"
    assert freed_after_compiling("pymc_austerity.compile.pass_managers") == expected.format(True)
    found = freed_after_compiling("numba.core")  # those that llvmlite forgets would be seen
    if "False" not in found:
        pytest.skip("this llvmlite frees them itself: compile/pass_managers.py is no longer needed")
    assert found == expected.format(False)
