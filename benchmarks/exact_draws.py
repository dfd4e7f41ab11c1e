"""Draws a second of `ApproxMH` over those of `ExactMH`, which keeps the log-likelihood where it is: digits and ICA.

The models are those of the notebooks of Korattikara, Chen and Welling's experiments, made by their first cells.  All
steps take turns in one process, so that what else the machine does is the same for them: read the ratios.

    python benchmarks/exact_draws.py --seconds 4
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd

import pymc_austerity as pma

ROOT = Path(__file__).resolve().parents[1]
os.environ.setdefault("PMA_DATA", str(ROOT / ".." / "shared" / "data"))
#: Of each notebook its first cells up to the model, draws of `PenaltyMH` on the way to the posterior, and the walk that
#: its chains take.  The matrix of the second starts in its posterior.
NOTEBOOKS = {"korattikara_knob": (2, 300, pma.RandomWalk(scale=0.01)), "ica": (4, 0, pma.StiefelWalk(0.0015))}
EPSILONS = (0.0, 0.01, 0.05, 0.1, 0.2)
ROUNDS = 4


def model_of(notebook, n_cells):
    """Return the model that the first cells of a notebook make."""
    cells = json.loads((ROOT / "notebooks" / f"{notebook}.ipynb").read_text())["cells"]
    names = {}
    for cell in [c for c in cells if c["cell_type"] == "code"][:n_cells]:
        exec("".join(cell["source"]), names)
    return names["model"]


def draws_a_second(model, n_before, proposal, seconds):
    """Return a table of the steps: draws a CPU second, and the share of the rows that they read."""
    options = {"proposal": proposal, "proxy": None, "tune": False, "model": model, "progressbar": False}
    steps = {"ExactMH": pma.ExactMH(**options)}
    steps |= {f"ApproxMH, epsilon={e:g}": pma.ApproxMH(epsilon=e, **options) for e in EPSILONS}
    point = model.initial_point()
    if n_before:
        before = pma.PenaltyMH(model=model, rng=1, progressbar=False)
        for _ in range(n_before):
            point, _ = before.step(point)
    points = dict.fromkeys(steps, point)
    found = {name: np.zeros(3) for name in steps}
    for step in steps.values():
        step.start_chain(np.random.default_rng(3))
        step.stop_tuning()
    for _ in range(ROUNDS):
        for name, step in steps.items():
            begun = time.process_time()
            while (taken := time.process_time() - begun) < seconds / ROUNDS:
                points[name], (stats,) = step.step(points[name])
                found[name] += (1, stats["n_rows"], 0)
            found[name][2] += taken
    n_rows = steps["ExactMH"].decider.n_rows
    table = pd.DataFrame({name: (n / s, rows / n / n_rows) for name, (n, rows, s) in found.items()}).T
    table.columns = ["draws a second", "share of the rows"]
    table.insert(1, "over ExactMH", table["draws a second"] / table.loc["ExactMH", "draws a second"])
    return table.round(3)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=4.0, help="CPU seconds of each step")
    seconds = arguments.parse_args().seconds
    for notebook, (n_cells, n_before, walk) in NOTEBOOKS.items():
        try:
            model = model_of(notebook, n_cells)
        except SystemExit as missing:  # as the notebook says
            print(f"{notebook}: {missing}")
            continue
        print(f"{notebook}\n{draws_a_second(model, n_before, walk, seconds)}\n", flush=True)


if __name__ == "__main__":
    main()
