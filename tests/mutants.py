"""Plant small mistakes in one module of the package, one at a time, and see whether its tests notice.

``make mutants MODULE=acceptance/penalty``, or ``python tests/mutants.py acceptance/penalty --lines 40 60``.  Which test
files judge which module is said under ``[tool.mutants]`` in pyproject.toml.  cosmic-ray knows the mistakes; each is
tried in a process forked from one that has imported what takes seconds, on a copy of the repository, and the tests
that were quickest without a mistake come first.  ``--fast`` leaves out the slow ones: what survives the others is to be
looked at, and tried by all tests with ``--lines``, before it counts as a hole.

Most of the time goes into compiling.  Where no test needs a model, ``NUMBA_DISABLE_JIT=1`` in the environment runs all
of it as Python, and a mutant takes a second; ``--tests`` and ``-k`` choose those that can do without one.

What is printed last are the mutants that survived: a hole in the tests, or the same program in other words.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import gc
import importlib.util
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[1]
PRELOADED = (
    "pymc", "scipy.stats", "arviz", "rich.progress", "matplotlib.pyplot", "pytensor.link.numba.linker",
    "hypothesis.extra.numpy", "zarr",
)  # fmt: skip
#: How pytest ends where its file has no test of the kind that was asked for.
_NONE_CHOSEN = 5
#: Of the mistakes that cosmic-ray knows those that a person makes; most of the others end in an error at once.
MISTAKES = (
    *(f"ReplaceBinaryOperator_{by}" for by in ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Pow_Mul")),
    *(f"ReplaceComparisonOperator_{by}" for by in (
        "Lt_LtE", "Lt_Gt", "LtE_Lt", "LtE_GtE", "Gt_GtE", "Gt_Lt", "GtE_Gt", "GtE_LtE", "Eq_NotEq", "NotEq_Eq",
        "Is_IsNot", "IsNot_Is",
    )),
    *(f"ReplaceUnaryOperator_Delete_{of}" for of in ("USub", "Not", "Invert")),
    "AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue", "NumberReplacer", "ZeroIterationForLoop",
)  # fmt: skip


class Mutant(NamedTuple):
    """A module with one mistake: where, which, and all of its text."""

    line: int
    change: str
    text: str


def mutants(text: str) -> Iterator[Mutant]:
    """Yield the mutants of a module."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    seen = {text}
    for name in MISTAKES:
        occurrence = 0
        while (mutated := mutate_code(text, get_operator(f"core/{name}")(), occurrence)) is not None:
            occurrence += 1
            if mutated not in seen:
                seen.add(mutated)
                yield Mutant(*_difference(text, mutated), mutated)


def _difference(text: str, mutated: str) -> tuple[int, str]:
    before, after = text.splitlines(), mutated.splitlines()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    _, i1, i2, j1, j2 = next(op for op in matcher.get_opcodes() if op[0] != "equal")
    return i1 + 1, f"{' '.join(before[i1:i2]).strip()}  ->  {' '.join(after[j1:j2]).strip()}"


class Quickest:
    """What pytest is told: write down how long tests take, and take the quickest first."""

    def __init__(self, seconds: Path) -> None:
        self.file, self.found = seconds, {}
        self.known = json.loads(seconds.read_text()) if seconds.exists() else {}

    def pytest_collection_modifyitems(self, items: list) -> None:
        """Sort by the seconds of the run without a mistake."""
        items.sort(key=lambda item: self.known.get(item.nodeid, 0.0))

    def pytest_runtest_logreport(self, report) -> None:
        """Add up what a test and its fixtures take."""
        self.found[report.nodeid] = self.found.get(report.nodeid, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        """Keep the seconds of the first run."""
        if not self.known:
            self.file.write_text(json.dumps(self.found))


def run_tests(folder: Path, tests: list[str], limit: float) -> str:
    """Run the tests; return passed, failed or timed out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of libraries, idle when this forks
        child = os.fork()
    if child == 0:
        _become_pytest(folder, tests, Quickest(folder / "seconds"))
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "passed" if os.waitstatus_to_exitcode(status) in (0, _NONE_CHOSEN) else "failed"
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timed out"


def _become_pytest(folder: Path, tests: list[str], quickest: Quickest) -> None:
    """Run the tests here, and end the process."""
    code = 3
    try:
        import numba
        import pytest

        os.setpgid(0, 0)
        os.chdir(folder)
        log = os.open(folder / "log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.path[:0] = [str(folder)]
        # numba keeps a function by its own file alone; one that calls the mutant would be found as it was before.
        numba.config.CACHE_DIR = tempfile.mkdtemp(dir=folder)
        # Said of plugins that were imported before the fork.
        options = ["-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        code = int(pytest.main([*options, *tests], plugins=[quickest]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def preload() -> None:
    """Do here what every fork would do anew: import, and let numba read its tables, as for its first function."""
    import numba
    import numpy as np

    for module in PRELOADED:
        importlib.import_module(module)
    numba.njit(lambda rng, x: rng.standard_normal() + np.sqrt(x.sum()))(np.random.default_rng(1), np.zeros(3))


def preload_package(module: str) -> None:
    """Import the package, and forget the module and all that reaches it: forks import those alone."""
    importlib.import_module("pymc_austerity")
    ours = {name for name in sys.modules if name.split(".")[0] == "pymc_austerity"}
    reads = {name: _imports(Path(sys.modules[name].__file__)) & ours for name in ours}
    anew, found = set(), {module, "pymc_austerity"}
    while anew != found:
        anew, found = found, found | {name for name in ours if reads[name] & found}
    for name in anew:
        del sys.modules[name]
    gc.collect()
    gc.freeze()  # what is here is not looked through again


def _imports(file: Path) -> set[str]:
    """Return the modules that a file imports anywhere, and names that may be such."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def copied(folder: Path) -> Path:
    """Copy what the tests need."""
    for name in ("pymc_austerity", "tests"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "pyproject.toml", folder)
    return folder


def main() -> None:
    """Try the mutants of one module."""
    judged_by = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["mutants"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module", choices=sorted(judged_by), help="in pymc_austerity, without .py")
    parser.add_argument("--lines", type=int, nargs=2, metavar=("FIRST", "LAST"), help="only mistakes between them")
    parser.add_argument("--fast", action="store_true", help="only the tests that are not slow")
    parser.add_argument("--tests", nargs="+", metavar="FILE", help="in place of those that pyproject.toml names")
    parser.add_argument("-k", metavar="EXPRESSION", help="only tests whose names match, as pytest takes it")
    parser.add_argument("--count", action="store_true", help="only say how many there are")
    arguments = parser.parse_args()
    first, last = arguments.lines or (1, 10**9)
    name = Path("pymc_austerity", f"{arguments.module}.py")
    text = (REPOSITORY / name).read_text()
    chosen = sorted(m for m in mutants(text) if first <= m.line <= last)
    print(f"{len(chosen)} mutants of {name}", flush=True)
    if arguments.count:
        return
    tests = [f"tests/{file}" for file in arguments.tests or judged_by[arguments.module]]
    if arguments.fast:
        tests += ["-m", "not slow"]
    if arguments.k:
        tests += ["-k", arguments.k]
    with tempfile.TemporaryDirectory() as there:
        folder = copied(Path(there))
        os.environ.setdefault("PMA_DATA", str((REPOSITORY / ".." / "shared" / "data").resolve()))
        os.environ["PYTENSOR_FLAGS"] = f"base_compiledir={folder / 'compiled'}," + os.environ.get("PYTENSOR_FLAGS", "")
        os.environ.pop("PYTHONPATH", None)
        sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != REPOSITORY]
        preload()
        sys.path.insert(0, str(folder))
        preload_package(f"pymc_austerity.{arguments.module.replace('/', '.')}")
        sys.dont_write_bytecode = False
        started = time.monotonic()
        if run_tests(folder, tests, limit=3600) != "passed":
            raise SystemExit(f"The tests fail without a mistake:\n{(folder / 'log').read_text()}")
        took = time.monotonic() - started
        print(f"{' '.join(tests)}: {took:.0f} s", flush=True)
        sys.dont_write_bytecode = True  # two mutants of one second and of the same length would share their bytecode
        Path(importlib.util.cache_from_source(str(folder / name))).unlink(missing_ok=True)
        survivors = []
        for mutant in chosen:
            (folder / name).write_text(mutant.text)
            began = time.monotonic()
            verdict = run_tests(folder, tests, 60 + 3 * took)
            seconds = time.monotonic() - began
            said = {"passed": "survived", "failed": "killed"}.get(verdict, verdict)
            print(f"{said:9} {seconds:4.0f} s {mutant.line:4} {mutant.change}", flush=True)
            survivors += [mutant] if verdict == "passed" else []
    print(f"\n{len(survivors)} of {len(chosen)} mutants of {name} survived")
    for mutant in survivors:
        print(f"{mutant.line:4} {mutant.change}")


if __name__ == "__main__":
    main()
