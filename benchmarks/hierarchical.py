"""Hierarchical models as people write them: effective draws a CPU second, set-up and tuning included, beside nutpie.

Run ``python benchmarks/hierarchical.py`` (``--models`` chooses, ``--draws`` and ``--tune`` are of each of two chains,
``--reference 0`` leaves nutpie out, ``--reference 500`` gives it 500 draws after as many of tuning).  Models by bambi
with its defaults, not centred; correlated slopes, slopes on the second axis, a mixed logit, few groups with a scale
near zero, walks and regions, ratings, a poll, and the real tables VerbAgg and Chem97.  `PenaltyMH` as it is, without
options.  ESS is ArviZ's bulk ESS of the slowest parameter of any kind.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from typing import Any

import pymc as pm
from hard import by_nutpie, draws_of, slowest
from hierarchical_models import MODELS
from problems import FOLDER
from timing import show

import pymc_austerity as pma

TABLES = {"VerbAgg": "verbagg.npz", "Chem97": "chem97.npz"}


def row(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return a line of the table."""
    model = MODELS[name]()
    start = time.process_time()
    with model:
        step = pma.PenaltyMH(progressbar=False)
        set_up = time.process_time() - start
        quiet = {"progressbar": False, "compute_convergence_checks": False, "quiet": True, "random_seed": 1}
        idata = pm.sample(options.draws, tune=options.tune, step=step, chains=2, cores=1, **quiet)
    seconds = time.process_time() - start
    variable, effective = slowest(draws_of(idata, model))
    rows = float(idata.sample_stats["n_rows"].mean())
    found = {"set-up": set_up, "CPU s": seconds, "rows": rows, "slowest": variable, "ESS/s": effective / seconds}
    if options.reference:
        for kind, low_rank in (("nutpie", False), ("low rank", True)):
            found[kind] = by_nutpie(model, options.reference, low_rank)[1]
        found["times"] = found["ESS/s"] / max(found["nutpie"], found["low rank"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--draws", type=int, default=2_000)
    parser.add_argument("--tune", type=int, default=1_000)
    parser.add_argument("--reference", type=int, default=500)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = []
    for name in options.models:
        if name in TABLES and not (FOLDER / TABLES[name]).exists():
            print(f"{name} is left out: there is no {FOLDER / TABLES[name]}.", file=sys.stderr)
            continue
        found.append({"model": name, **row(name, options)})
        show(found[-1:], sys.stderr)
    show(found)


if __name__ == "__main__":
    main()
