import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pymc as pm
import pytest
import yaml

import pymc_austerity as pma

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "pymc_austerity"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

RUNS = f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'
# What a version manager leaves on the PATH for a version that is not selected.
SHIM = "#!/bin/sh\necho 'command not found' >&2\nexit 127\n"
# An interpreter that answers, but fails the check of version and modules.
TOO_OLD = '#!/bin/sh\ncase "$2" in *sys.exit*) exit 1 ;; *) echo 3.9 ;; esac\n'

make = shutil.which("make")
needs_make = pytest.mark.skipif(make is None, reason="make is not installed")


@pytest.fixture
def run_make(tmp_path):
    """Run make with nothing on the PATH but the interpreters given."""

    def run(*arguments, **interpreters):
        for name, script in interpreters.items():
            path = tmp_path / name.replace("_", ".")
            path.write_text(script)
            path.chmod(0o755)
        command = [make, "--no-print-directory", *arguments]
        return subprocess.run(command, cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True)

    return run


@needs_make
class TestChoiceOfPython:
    def test_the_first_that_runs_and_is_new_enough(self, run_make):
        for chosen, interpreters in (
            ("python3.13", {"python3_13": RUNS, "python3_12": RUNS, "python3": RUNS}),
            ("python3.12", {"python3_13": SHIM, "python3_12": RUNS, "python3_11": RUNS}),
            ("python3", {"python3_13": SHIM, "python3_12": SHIM, "python3_11": TOO_OLD, "python3": RUNS}),
        ):
            result = run_make("python", **interpreters)
            assert result.returncode == 0, result.stderr
            assert result.stdout.strip() == chosen

    def test_none_is_said_clearly(self, run_make):
        result = run_make("python", python3_12=SHIM, python3=TOO_OLD)
        assert result.returncode != 0
        assert "Python 3.11 or newer" in result.stderr
        assert "python3.12: does not run" in result.stderr
        assert "python3: 3.9" in result.stderr


@needs_make
@pytest.mark.parametrize("target", ["test", "demo"])
def test_a_second_call_installs_what_changed(tmp_path, target):
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").touch()
    stamp = venv / ".installed-test"
    stamp.touch()

    def plan():
        command = [make, "--dry-run", target, f"VENV={venv}"]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert "pip install" not in plan()
    os.utime(stamp, (0, 0))
    assert "pip install" in plan()
    stamp.unlink()
    assert "pip install" in plan()


def run_ci(folder, *parts):
    """Run the continuous integration with a `make` that only says what it was asked for, and fails at `types`."""
    stand_in = folder / "make"
    stand_in.write_text('#!/bin/sh\necho "asked: $*"\n[ "$1" != types ]\n')
    stand_in.chmod(0o755)
    env = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(["bash", ROOT / ".ci" / "run", *parts], env=env, capture_output=True, text=True)
    return ran, re.findall(r"^asked: (.*)$", ran.stdout, re.MULTILINE)


def test_ci_goes_on_after_a_failure(tmp_path):
    ran, asked = run_ci(tmp_path)
    assert asked[:5] == ["package", "lint", "types", "docs", "test"]
    assert {"doctest", "notebooks"} <= set(asked)
    assert (
        asked[-1]
        == "test VENV=.venv-3.11 PYTHON=python3.11 PINS=pymc==5.28.* MARKS=(contract or versions) and not slow"
    )
    assert ran.returncode == 1
    assert re.search(r"^passed  lint ", ran.stdout, re.MULTILINE)
    assert re.search(r"^FAILED  types ", ran.stdout, re.MULTILINE)


def test_ci_runs_the_parts_that_are_named_and_no_unknown_ones(tmp_path):
    ran, asked = run_ci(tmp_path, "docs", "lint")
    assert (ran.returncode, asked) == (0, ["lint", "docs"])
    for name in ("nothing", "lint types", "-n", ""):
        ran, asked = run_ci(tmp_path, "docs", name)
        assert (ran.returncode, asked) == (2, [])
        assert f'"{name}" is none of the parts' in ran.stderr
        assert "package lint types docs tests doctests notebooks tests-pymc-5.28" in ran.stderr


def test_the_version_has_one_source():
    assert pma.__version__ == version("pymc-austerity") == PROJECT["version"]
    assert f"version: {pma.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_conda_recipe_asks_for_what_the_project_does():
    """The same packages within the same bounds; conda-forge gives some of them other names."""
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())
    on_conda = {"pymc-base": "pymc", "pytensor-base": "pytensor", "matplotlib-base": "matplotlib"}
    on_conda["python-xxhash"] = "xxhash"
    found = dict(re.match(r"([\w-]+) ?(.*)", asked).groups() for asked in recipe["requirements"]["run"])
    assert found.pop("python") == ">=${{ python_min }}"
    wanted = dict(re.match(r"([\w-]+)(.*)", asked).groups() for asked in PROJECT["dependencies"])
    assert {on_conda.get(name, name): set(bounds.split(",")) for name, bounds in found.items()} == {
        name: set(bounds.split(",")) for name, bounds in wanted.items()
    }
    assert recipe["context"]["version"] == PROJECT["version"]


def packages(requirements):
    return {re.match(r"[\w-]+", requirement)[0] for requirement in requirements}


def imported(nodes):
    """Top-level packages outside the standard library that some syntax nodes import."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module)
    return {name.split(".")[0] for name in names} - set(sys.stdlib_module_names) - {"pymc_austerity"}


def test_every_import_is_a_declared_requirement():
    """What a module imports when it is imported is required; what a function imports may be an extra."""
    required = packages(PROJECT["dependencies"])
    optional = required.union(*map(packages, PROJECT["optional-dependencies"].values()))
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        assert imported(tree.body) <= required, path
        assert imported(ast.walk(tree)) <= optional, path
    tree = ast.parse("import os\nimport numpy.linalg\ndef f():\n    from scipy.stats import norm")
    assert imported(tree.body) == {"numpy"}
    assert imported(ast.walk(tree)) == {"numpy", "scipy"}


def test_the_reference_lists_every_public_name():
    pages = (ROOT / "docs" / "reference").glob("*.rst")
    listed = {name for page in pages for name in re.findall(r"^   (\w+)$", page.read_text(), re.MULTILINE)}
    public = {name for name in pma.__all__ if not name.startswith("_")}
    assert listed == public


@pytest.mark.slow
@pytest.mark.skipif(int(pm.__version__.split(".")[0]) < 6, reason="PyMC 5 imports ArviZ itself")
def test_processes_of_chains_load_no_diagnostics():
    loaded = "import sys, {}; print([m for m in ('arviz', 'matplotlib', 'scipy.stats') if m in sys.modules])"

    def of(module):
        ran = subprocess.run([sys.executable, "-c", loaded.format(module)], capture_output=True, text=True, check=True)
        return ran.stdout.strip()

    assert of("pymc_austerity") == "[]"
    assert of("pymc_austerity, arviz") != "[]"
