"""Private names of other packages: at most ten, each in one file, and a step draws the same without them."""

import ast
import os
import re
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_austerity

PACKAGE = Path(pymc_austerity.__file__).parent
#: Where each is used, and what for.
ALLOWED = {
    "numba.core.caching.CompileResultCacheImpl": ("compile/cache.py", "writes down what numba has compiled"),
    "_cache": ("compile/cache.py", "what a compiled function asks for its code on disk"),
    "numba.core.registry.CPUDispatcher": ("compile/lean_njit.py", "the class of compiled functions"),
    "numba.experimental.function_type._get_jit_address": ("compile/by_address.py", "where a function lies"),
    "call_conv": ("compile/by_address.py", "how compiled code calls compiled code, errors included"),
    "numba.np.random.random_methods.buffered_bounded_lemire_uint32": (
        "compile/bounded_integers.py",
        "one whole number without an array of one",
    ),
    "numba_funcify_and_cache_key": ("compile/graph_compiler.py", "a graph as PyTensor writes it, and its key"),
    "_coords": ("paths/subset_model.py", "coordinates of the graph of a model"),
    "_dispose": ("compile/pass_managers.py", "how LLVM's pass managers are freed"),
    "_max_workers": ("paths/workers.py", "how many jobs an executor does at once"),
}
#: Modules whose names are public only where their documentation says so, and what it says.
INTERNAL = ("numba.core", "numba.np", "numba.experimental", "numba.cpython", "pytensor.link.numba")
DOCUMENTED = {
    "numba.experimental.structref",
    "pytensor.link.numba.dispatch.basic",
    "numba_njit",
    "register_funcify_and_cache_key",
    "register_funcify_default_op_cache_key",
}
#: Without an underscore, and known to no documentation.
UNDOCUMENTED = {"call_conv", "fndesc", "get_compile_result", "jitable_func", "library", "overloads", "targetoptions"}
#: Of a library, and public in spite of the underscore.
PUBLIC = {"_replace", "_fields", "_asdict", "_make", "_exit", "_PyTensor"}


def names_in(source):
    """Return the private names of other packages that a source uses; names that it defines itself are its own."""
    tree = ast.parse(source)
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(INTERNAL):
            found |= {f"{node.module}.{a.name}" for a in node.names if f"{node.module}.{a.name}" not in DOCUMENTED}
        elif isinstance(node, ast.Import):
            found |= {a.name for a in node.names if a.name.startswith(INTERNAL)}
        elif isinstance(node, ast.Attribute):
            of_basic = isinstance(node.value, ast.Name) and node.value.id == "numba_basic"
            private = node.attr.startswith("_") and not node.attr.startswith("__")
            if private or node.attr in UNDOCUMENTED or (of_basic and node.attr not in DOCUMENTED):
                found.add(node.attr)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr", "attrgetter"):
            texts = {a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
            found |= {t for t in texts if (t.startswith("_") and not t.startswith("__")) or t in UNDOCUMENTED}
    return found


def names_of_our_own():
    """Return the names with an underscore that classes and modules of the package define."""
    own = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                own.add(node.name)
            elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store):
                is_self = isinstance(node, ast.Name) or getattr(node.value, "id", "") in ("self", "cls")
                own |= {getattr(node, "attr", getattr(node, "id", ""))} if is_self else set()
    return own - set(ALLOWED)


def test_no_more_private_names_than_are_listed():
    own, found = names_of_our_own() | PUBLIC, set()
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        used = names_in(path.read_text()) - own
        found |= used
        assert dict.fromkeys(used, file) == {name: ALLOWED[name][0] for name in used if name in ALLOWED}
    assert found == set(ALLOWED)
    assert len(ALLOWED) <= 10


def test_a_private_name_is_seen():
    planted = "from numba.core import types\nx.overloads\nnumba_basic.globals\ngetattr(x, '_y')\nx._z\n"
    assert names_in(planted) == {"numba.core.types", "overloads", "globals", "_y", "_z"}


WITHOUT = """
import sys

import numba.core.caching
import numba.core.registry
import numba.experimental.function_type
import numba.np.random.random_methods
import numpy as np
import pymc as pm
from pytensor.link.numba.dispatch import basic  # which takes some of the names itself

gone = {
    numba.core.caching: "CompileResultCacheImpl",
    numba.core.registry: "CPUDispatcher",
    numba.experimental.function_type: "_get_jit_address",
    numba.np.random.random_methods: "buffered_bounded_lemire_uint32",
}
own = {module: getattr(module, name) for module, name in gone.items()}
if "without" in sys.argv:
    for module, name in gone.items():
        delattr(module, name)

import pymc_austerity as pma
from pymc_austerity.compile import graph_compiler

if "without" in sys.argv:
    for module, name in gone.items():  # which numba itself needs
        setattr(module, name, own[module])

    class Basic:
        numba_njit = staticmethod(basic.numba_njit)

    graph_compiler.numba_basic = Basic

with pm.Model() as model:
    pm.Normal("y", pm.Normal("mu"), observed=np.random.default_rng(1).normal(size=400))
step, point = pma.PenaltyMH(model=model, rng=3, progressbar=False), model.initial_point()
for _ in range(20):
    point, _ = step.step(point)
    print(float(point["mu"]).hex())
"""


@pytest.mark.slow
def test_a_step_draws_the_same_without_any_of_them():
    """What is slower is compiling, and nothing is kept."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    runs = [
        subprocess.run([sys.executable, "-c", WITHOUT, *a], capture_output=True, text=True, check=True, env=environment)
        for a in ([], ["without"])
    ]
    with_them, without = (run.stdout.split() for run in runs)
    assert len(set(with_them)) > 5
    assert with_them == without


def missing(source):
    """Return the names of PyTensor's tensors and of PyMC in a module that these do not have."""
    chains = [ast.unparse(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)]
    found = {chain for chain in chains if re.fullmatch(r"p[tm](\.\w+)+", chain)}
    return {chain for chain in found if not is_there(*chain.split(".", 1))}


def is_there(module, names):
    try:
        attrgetter(names)({"pt": pt, "pm": pm}[module])
    except AttributeError:
        return False
    return True


@pytest.mark.versions
def test_public_names_are_in_every_version():
    """``pt.isfinite`` is not in the PyTensor of PyMC 5."""
    assert missing("pt.exp(pt.linalg.inv(x)) + pt.no_such_name(pm.math.no_such_name)") == {
        "pt.no_such_name", "pm.math.no_such_name"
    }  # fmt: skip
    assert set().union(*(missing(path.read_text()) for path in PACKAGE.rglob("*.py"))) == set()
