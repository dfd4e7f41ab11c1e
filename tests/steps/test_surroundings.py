"""The same draws wherever Python runs: optimised, without a home, in empty folders that two share, in a notebook."""

import contextlib
import io
import os
import subprocess
import sys

import pytest

SCRIPT = """
import numpy as np, pymc as pm, pymc_austerity as pma

rows = np.random.default_rng(0).normal(1.0, 1.0, size=1_000)
with pm.Model():
    pm.Normal("y", pm.Normal("mu", 0, 10), 1.0, observed=rows)
    step = pma.ExactMH(proxy=None)
    idata = pm.sample(
        30, tune=30, chains=2, cores=2, mp_ctx="fork", step=step, random_seed=1, progressbar=PROGRESS,
        compute_convergence_checks=False,
    )
print("draws:", *[x.hex() for x in idata.posterior["mu"].values.ravel()])
"""
QUIET = SCRIPT.replace("PROGRESS", "False")


def start(*options, **environment):
    """Start a process that samples; a variable that is None is left out."""
    env = {name: value for name, value in {**os.environ, **environment}.items() if value is not None}
    command = [sys.executable, *options, "-c", QUIET]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def draws_of(said):
    (line,) = [line for line in said.splitlines() if line.startswith("draws:")]
    draws = line.split()[1:]
    assert len(draws) == 60
    assert len(set(draws)) > 10
    return draws


def finished(process):
    said, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    return draws_of(said)


@pytest.fixture(scope="module")
def expected():
    """What this process draws."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(QUIET, {})
    return draws_of(said.getvalue())


@pytest.mark.slow
def test_optimised_python_draws_the_same(expected):
    assert finished(start("-O")) == expected


@pytest.mark.slow
def test_two_programs_start_without_a_writable_home(expected, tmp_path):
    """PyTensor asks for a folder to compile in before it can be imported; nothing else is written."""
    home = tmp_path / "home"
    home.mkdir(mode=0o555)
    # The superuser may write everywhere, but not below what is no folder.
    home = home if not os.access(home, os.W_OK) else "/dev/null"
    flags = f"base_compiledir={tmp_path / 'compiled'}"
    # The other has not even the name of a home.
    both = [start(HOME=name, PYTENSOR_FLAGS=flags) for name in (str(home), None)]
    assert [finished(process) for process in both] == [expected] * 2
    assert list((tmp_path / "compiled" / "numba").glob("*.nbc"))


@pytest.mark.slow
def test_a_notebook_draws_the_same(expected, tmp_path):
    nbclient = pytest.importorskip("nbclient", reason="notebooks are run by nbclient")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(SCRIPT.replace("PROGRESS", "True"))])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=str(tmp_path))
    outputs = notebook.cells[0].outputs
    assert not [output for output in outputs if output.output_type == "error"]
    assert draws_of("".join(output.text for output in outputs if output.get("name") == "stdout")) == expected
