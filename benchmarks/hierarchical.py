"""Hierarchical models as people write them: effective draws a CPU second, set-up and tuning included, beside nutpie.

Run ``python benchmarks/hierarchical.py`` (``--models`` chooses, ``--draws`` and ``--tune`` are of each of two chains,
``--reference 0`` leaves nutpie out, ``--reference 500`` gives it 500 draws after 400 of tuning).  Models by bambi with
its defaults, not centred; correlated slopes, slopes on the second axis, a mixed logit, few groups with a scale near
zero, walks and regions, ratings, a poll, and real tables, these centred and not.  `PenaltyMH` as it is, without
options.  ESS is ArviZ's bulk ESS of the slowest parameter of any kind, or of those that ``--of`` names, which alone are
kept then.  A chain of nutpie is ended after ``--nutpie`` seconds of processor time; "< 5" is one that was ended as it
tuned, with five draws a second.

The two crossed models of many levels run where ``--models`` names them: ``--models "crossed, 5,000,000 rows" --draws
900 --tune 100 --cores 2 --reference 0 --of mean user_sd film_sd`` takes twenty minutes and 3 GB.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from typing import Any

import pymc as pm
from hard import by_nutpie, draws_of, slowest, speed
from hierarchical_models import LARGE, MODELS
from hierarchical_tables import TABLES
from problems import FOLDER
from timing import show

import pymc_austerity as pma

ALL = MODELS | TABLES | LARGE


def processor_seconds() -> float:
    """Return the seconds that this process and its ended children have used of a processor."""
    return sum(os.times()[:4])


def row(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return a line of the table."""
    model = ALL[name]()
    start, began = processor_seconds(), time.perf_counter()
    with model:
        step = pma.PenaltyMH(progressbar=False)
        set_up = processor_seconds() - start
        quiet = {"progressbar": False, "compute_convergence_checks": False, "quiet": True, "random_seed": 1}
        how = {"tune": options.tune, "chains": 2, "cores": options.cores, "var_names": options.of}
        idata = pm.sample(options.draws, step=step, **how, **quiet)
    seconds, wall = processor_seconds() - start, time.perf_counter() - began
    variable, effective = slowest(draws_of(idata, model))
    rows = float(idata.sample_stats["n_rows"].mean())
    found = {"set-up": set_up, "CPU s": seconds, "wall s": wall, "rows": rows, "slowest": variable}
    found |= {"ESS": effective, "ESS/s": effective / seconds}
    if options.reference:
        reached = {
            kind: by_nutpie(model, options.reference, low_rank, options.nutpie)[1]
            for kind, low_rank in (("nutpie", False), ("low rank", True))
        }
        found |= {kind: speed(value) for kind, value in reached.items()}
        found["times"] = found["ESS/s"] / max(map(abs, reached.values()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS | TABLES), choices=list(ALL))
    parser.add_argument("--draws", type=int, default=2_000)
    parser.add_argument("--tune", type=int, default=1_000)
    parser.add_argument("--reference", type=int, default=500)
    parser.add_argument("--nutpie", type=float, default=300)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--of", nargs="+", metavar="VARIABLE")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = []
    for name in options.models:
        if name in TABLES and not FOLDER.exists():
            print(f"{name} is left out: there is no {FOLDER}.", file=sys.stderr)
            continue
        found.append({"model": name, **row(name, options)})
        show(found[-1:], sys.stderr)
    show(found)


if __name__ == "__main__":
    main()
