"""What a user would choose instead: the same models by every method at hand, from a fresh process to the answer.

Run ``python benchmarks/choices.py`` (``--problems`` and ``--methods`` choose, ``--seconds`` ends a run that takes
longer).  Each run is a process of its own.  Its seconds are of the wall, from the start of the process to draws and
verdict, without the reading of the data: imports, compilation and tuning are in them; `to draws` leaves out what
`reliability` takes for its verdict.  What a library compiles once and keeps on disk was compiled before by a run of the
same method on another model, which is printed first; what belongs to the model is compiled in every run.  CPU seconds
are of all threads and processes.  Chains run on as many cores as the command may use:
``taskset -c 0 python benchmarks/choices.py`` gives it one.  Methods whose library is not installed are left out and
named; ``pip install pymc-extras numpyro nutpie`` has them all.

Errors are against a long run of NUTS, or of `MHSS` or group moves that decide on all rows where there is too much for
it: root mean square and largest shift of means, standard deviations as ratios, the largest shift of a 5 or 95 %
quantile, all in posterior standard deviations.  `says` is what the method itself tells of its error: R-hat, effective
draws and divergences, the verdict of `reliability`, a Pareto k, good below .7; nothing for the others.  Results are
kept in ``benchmarks/output/choices`` and not made again.  ``--overview`` prints what is kept in short: seconds to the
draws, in brackets those with the verdict, and the largest error of a mean or a 5 or 95 % quantile.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import group_models as models
import numpy as np
import problems
from choices_methods import METHODS, Answer, Choice, mirrored, nuts, ours
from problems import Problem
from timing import show

OUTPUT = Path(__file__).parent / "output" / "choices"
MADE_BEFORE = OUTPUT / "compiled"

_long = partial(nuts, sampler="nutpie", draws=5_000)
_exact = partial(ours, name="MHSS", draws=25_000, judged=False)
#: Decisions on all rows leave the posterior exactly as it is.
_exact_groups = partial(ours, name="GroupMH", draws=10_000, judged=False, all_rows=True)
_without_funnel = partial(
    nuts, sampler="nutpie", draws=10_000, model=partial(models.schools, centred=False), target_accept=0.99
)
#: NUTS on many rows takes many minutes, whoever runs it: one or two of the three tell that.
_ONE_NUTS = ("PyMC NUTS", "NumPyro NUTS")
_NOT_LOGISTIC = ("NumPyro HMCECS",)
_IS_PENALTY = ("PenaltyMH", *_NOT_LOGISTIC)


def _logistic(n: int, d: int, reference: Callable[..., Answer], without: tuple[str, ...] = ()) -> Choice:
    return Choice(problems.synthetic(n, d), "MHSS", reference, without)


def _groups(n: int, n_groups: int, reference: Callable[..., Answer], without: tuple[str, ...]) -> Choice:
    # `PenaltyMH` makes the moves of `GroupMH` there.
    return Choice(models.groups(n, n_groups), "GroupMH", reference, (*without, "PenaltyMH", *_NOT_LOGISTIC))


def _latent(n: int, n_groups: int, step: str, without: tuple[str, ...]) -> Choice:
    data = partial(models.latent_rows, n, n_groups)
    return Choice(Problem(data, partial(models.hierarchical, counts=True)), step, _long, without)


_FLIGHTS = Problem(problems.flights, problems.student)
_TWO_MODES = Problem(partial(problems.mixed_rows, 2_000), problems.mixture)
CHOICES: dict[str, Choice] = {
    "logistic 300 x 2": _logistic(300, 2, _long),
    "logistic 1e3 x 5": _logistic(1_000, 5, _long),
    "eight schools": Choice(Problem(models.schools_rows, models.schools), "PenaltyMH", _without_funnel, _IS_PENALTY),
    "two modes, 2e3 rows": Choice(_TWO_MODES, "PenaltyMH", mirrored, _IS_PENALTY),
    "a latent per row, 1e3 rows": _latent(1_000, 1_000, "PenaltyMH", _IS_PENALTY),
    "logistic 1e5 x 10": _logistic(100_000, 10, partial(nuts, sampler="nutpie", draws=1_500, tune=500), ("PyMC NUTS",)),
    "300 groups, 3e4 rows": _groups(30_000, 300, partial(_long, draws=3_000), ("PyMC NUTS",)),
    "flights, Student, 327,346 x 11": Choice(_FLIGHTS, "MHSS", _exact, (*_NOT_LOGISTIC, *_ONE_NUTS)),
    "logistic 1e6 x 10": _logistic(1_000_000, 10, _exact, _ONE_NUTS),
    "10,000 groups, 2e5 rows": _groups(200_000, 10_000, _exact_groups, (*_ONE_NUTS, "importance sampling")),
    "logistic 1e7 x 10": _logistic(
        10_000_000, 10, _exact, (*_ONE_NUTS, "nutpie", "NumPyro HMCECS", "Pathfinder", "importance sampling")
    ),
}
#: What methods are called in tables.
SHOWN = {
    "ours": "{ours}", "PenaltyMH": "`PenaltyMH`", "NumPyro HMCECS": "HMCECS",
    "importance sampling": "Importance sampling", "minibatch ADVI": "ADVI, minibatches", "SGLD": "`SGLD`",
}  # fmt: skip
#: Models that every method runs first, so that what is not of the model alone has been compiled.
FIRST: dict[str, Choice] = {
    "first run, Poisson 500 x 3": Choice(
        Problem(partial(problems.counted_rows, 500, 3), problems.poisson), "MHSS", _long, _NOT_LOGISTIC
    ),
    "first run, 120 groups": _latent(3_000, 120, "GroupMH", tuple(m for m in METHODS if m != "ours")),
}


def run_one(problem: str, method: str, data: Path, path: Path, begun: float) -> None:
    """Run one method on one problem, and write what came of it."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    chosen = {**CHOICES, **FIRST}[problem]
    start, cpu = time.time(), cpu_seconds()
    with np.load(data) as file:
        arrays = tuple(file[name] for name in file.files)
    begun, cpu = begun + time.time() - start, cpu_seconds() - cpu
    answer = (chosen.reference if method == "reference" else METHODS[method][0])(chosen, arrays)
    ended = time.time()
    spent = {"seconds": ended - begun, "draws": (answer.drawn or ended) - begun, "CPU": cpu_seconds() - cpu}
    path.write_text(json.dumps({**spent, "says": answer.says, **_moments(answer.draws)}))


def cpu_seconds() -> float:
    """Return the processor seconds of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def _moments(draws: dict[str, np.ndarray]) -> dict[str, list[float]]:
    flat = np.column_stack([draws[name].reshape(len(draws[name]), -1) for name in sorted(draws)])
    low, high = np.quantile(flat, [0.05, 0.95], axis=0)
    found = {"mean": flat.mean(axis=0), "sd": flat.std(axis=0), "low": low, "high": high}
    return {name: values.tolist() for name, values in found.items()}


def kept(problem: str, method: str) -> Path:
    """Return where the result of a run is kept."""
    return OUTPUT / f"{problem} {method}.json".replace(" ", "_").replace(",", "")


def in_a_process(problem: str, method: str, data: Path, seconds: float, compiled: Path) -> None:
    """Let a fresh process make a result and keep it; a failure in words."""
    path = kept(problem, method)
    command = [sys.executable, __file__, "--one", problem, method, str(data), str(path)]
    flags = f"{os.environ.get('PYTENSOR_FLAGS', '')},base_compiledir={compiled}".lstrip(",")
    places = {"PYTENSOR_FLAGS": flags, "NUMBA_CACHE_DIR": str(compiled / "numba_functions")}
    with path.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(
            [*command, str(time.time())], env={**os.environ, **places}, stdout=log, stderr=log, start_new_session=True
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            path.write_text(json.dumps({"failed": f"not finished after {seconds:,.0f} s"}))
    if not path.exists():
        said = path.with_suffix(".log").read_text().strip().splitlines() or [f"ended with {process.returncode}"]
        path.write_text(json.dumps({"failed": said[-1][:120]}))


def run_all(problem: str, chosen: Choice, methods: list[str], seconds: float) -> None:
    """Make the results of a problem that are not there yet."""
    missing = [m for m in methods if not kept(problem, m).exists()]
    if not missing:
        return
    with tempfile.TemporaryDirectory(dir=OUTPUT) as folder:
        data = Path(folder) / "data.npz"
        np.savez(data, *chosen.problem.data())
        for method in missing:
            # Every run finds the same on disk: none profits from another of this problem.
            compiled = Path(folder) / "compiled" if problem not in FIRST else MADE_BEFORE
            if problem not in FIRST:
                shutil.copytree(MADE_BEFORE, compiled, dirs_exist_ok=True)
            in_a_process(problem, method, data, 6 * seconds if method == "reference" else seconds, compiled)
            if problem not in FIRST:
                shutil.rmtree(compiled)


def compared(found: dict[str, Any], reference: dict[str, Any]) -> dict[str, Any]:
    """Return a line of the table."""
    columns = ("seconds", "to draws", "CPU", "means, rms", "largest", "sd, least", "most", "tails")
    if "failed" in found:
        return dict.fromkeys(columns, "") | {"says": re.sub(r"^(\w+\.)+", "", found["failed"])}
    drawn = found["draws"] if found["draws"] < found["seconds"] - 0.5 else np.nan
    times = [found["seconds"], drawn, found["CPU"]]
    errors = ["" if "failed" in reference or found is reference else decimals(e) for e in errors_of(found, reference)]
    cells = [*("" if np.isnan(x) else f"{x:,.0f}" for x in times), *errors]
    return dict(zip(columns, cells, strict=True)) | {"says": found["says"]}


def errors_of(found: dict[str, Any], reference: dict[str, Any]) -> list[float]:
    """Return the errors of means, standard deviations and tails, as the table has them."""
    if "failed" in reference:
        return [np.nan] * 5
    own, exact = ({k: np.array(r[k]) for k in ("mean", "sd", "low", "high")} for r in (found, reference))
    shift, ratio = (own["mean"] - exact["mean"]) / exact["sd"], own["sd"] / exact["sd"]
    tails = np.concatenate([own["low"] - exact["low"], own["high"] - exact["high"]]) / np.tile(exact["sd"], 2)
    return [np.sqrt((shift**2).mean()), np.abs(shift).max(), ratio.min(), ratio.max(), np.abs(tails).max()]


def decimals(x: float) -> str:
    """Write a number with two decimals, and no more digits than tell something."""
    return f"{x:,.0f}" if abs(x) >= 1_000 else f"{x:.2f}".removeprefix("0")


def results_of(problem: str) -> dict[str, dict[str, Any]]:
    """Return the results that are kept, by method, those of the reference first."""
    found = {method: kept(problem, method) for method in ("reference", *METHODS)}
    return {method: json.loads(path.read_text()) for method, path in found.items() if path.exists()}


def table_of(problem: str) -> list[dict[str, Any]]:
    """Return a line for every method that was run."""
    results, step = results_of(problem), f"`{({**CHOICES, **FIRST})[problem].ours}`"
    reference = results.get("reference", {"failed": "not run"})
    return [{"": SHOWN.get(m, m).format(ours=step), **compared(of, reference)} for m, of in results.items()]


def overview(problems: list[str]) -> list[dict[str, str]]:
    """Return seconds to the draws, with those of a verdict, and the largest error of a mean or a tail quantile."""
    lines = []
    for method in METHODS:
        line = {"": "**this package**" if method == "ours" else SHOWN.get(method, method)}
        for problem in problems:
            results = results_of(problem)
            found, reference = results.get(method), results.get("reference", {"failed": "not run"})
            line[problem] = "" if found is None else in_short(found, reference)
        lines.append(line)
    return lines


def in_short(found: dict[str, Any], reference: dict[str, Any]) -> str:
    """Return a cell of the overview."""
    if said := found.get("failed"):
        refused = "UnsupportedModel" in said or "OneEntry" in said
        return "– (time)" if "not finished" in said else "– (refused)" if refused else "– (failed)"
    _, mean, *_, tails = errors_of(found, reference)
    judged = f" ({found['seconds']:,.0f})" if found["draws"] < found["seconds"] - 0.5 else ""
    error = "" if np.isnan(mean) else f", {decimals(max(mean, tails))}"
    return f"{found['draws']:,.0f} s{judged}{error}"


def main() -> None:
    """Run what is asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=CHOICES, default=list(CHOICES))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument(
        "--one", nargs=5, metavar=("PROBLEM", "METHOD", "DATA", "PATH", "BEGUN"), help=argparse.SUPPRESS
    )
    parser.add_argument("--overview", action="store_true", help="print seconds and errors alone, of what is kept")
    options = parser.parse_args()
    if options.overview:
        show(overview(options.problems))
        return
    if options.one:
        problem, method, data, path, begun = options.one
        run_one(problem, method, Path(data), Path(path), float(begun))
        return
    MADE_BEFORE.mkdir(parents=True, exist_ok=True)
    installed = [m for m in options.methods if importlib.util.find_spec(METHODS[m][1]) is not None]
    for method in set(options.methods) - set(installed):
        print(f"{method} is left out: {METHODS[method][1]} is not installed.", flush=True)
    for problem in (*FIRST, *options.problems):
        chosen = {**CHOICES, **FIRST}[problem]
        methods = [m for m in installed if m not in chosen.without]
        run_all(problem, chosen, methods if problem in FIRST else ["reference", *methods], options.seconds)
        show(table_of(problem), sys.stderr if problem in FIRST else sys.stdout)


if __name__ == "__main__":
    main()
