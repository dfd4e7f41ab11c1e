"""How far the defaults are from a long exact chain, model by model, beside the Laplace approximation's own error.

Run ``python benchmarks/accuracy.py`` (add ``--problems`` with names of `problems.py` to choose).  The exact chain reads
all rows at every draw; its moments are kept in ``benchmarks/output`` for ``benchmarks/peers.py``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm
from problems import PROBLEMS

import pymc_austerity as pma
from pymc_austerity.results import group

OUTPUT = Path(__file__).parent / "output"
EXACT_TUNE, DRAWS, TUNE, CHAINS = 100, 10_000, 300, 2
#: Draws of the exact chain: as many as these evaluations of a number of the data allow, within limits.
EXACT_NUMBERS, EXACT_DRAWS = 1.5e9, (600, 5_000)


def run(step: object, draws: int, tune: int) -> object:
    """Sample without anything on the screen."""
    return pm.sample(
        draws, step=step, tune=tune, chains=CHAINS, cores=CHAINS, random_seed=1, progressbar=False, quiet=True,
        compute_convergence_checks=False,
    )  # fmt: skip


def laplace_error(step: object, table: pd.DataFrame, exact: object) -> tuple[float, float]:
    """Return the largest shift and the sd ratio furthest from 1 of the normal approximation.

    Over the variables that are sampled as they are; a transformed one is normal in another space.
    """
    normal, draws, shifts, ratios = step.prepared.normal, group(exact, "posterior"), [], []
    sd = np.sqrt((normal.factor**2).sum(axis=1))
    for block in step.likelihood.blocks:
        if block.name not in draws:
            continue
        values = draws[block.name].to_numpy().reshape(-1, max(1, int(np.prod(block.shape))))
        shifts.append((normal.centre[block.start : block.stop] - values.mean(axis=0)) / values.std(axis=0))
        ratios.append(sd[block.start : block.stop] / values.std(axis=0))
    ratio = np.concatenate(ratios)
    return float(np.abs(np.concatenate(shifts)).max()), float(ratio[np.abs(np.log(ratio)).argmax()])


def compare(name: str) -> list[dict[str, object]]:
    """Return one line for each test."""
    model = PROBLEMS[name]()
    lines = []
    with model:
        start = time.perf_counter()
        step = pma.ExactMH()
        numbers = sum(a.size for a in step.data[1])
        exact = run(step, int(np.clip(EXACT_NUMBERS / numbers, *EXACT_DRAWS)), EXACT_TUNE)
        print(f"{name}: exact chain in {time.perf_counter() - start:,.0f} s", flush=True)
        for test in (pma.PenaltyMH, pma.MinibatchBarker):
            ours = run(test(), DRAWS, TUNE)
            table = pma.compare({"ours": ours, "exact": exact}, reference="exact")
            reference, table = table.xs("exact", level="run"), table.xs("ours", level="run")
            shift, ratio = laplace_error(step, table, exact)
            lines.append(
                {
                    "problem": name, "test": test.__name__, "N": len(step.data[1][0]), "D": len(table),
                    "rows a draw": float(group(ours, "sample_stats")["n_rows"].mean()),
                    "shift rms": float(np.sqrt((table["shift"] ** 2).mean())),
                    "its MC error": float(np.sqrt((table["shift_mcse"] ** 2).mean())),
                    "shift max": float(table["shift"].abs().max()),
                    "sd ratio min": float(table["sd_ratio"].min()), "sd ratio max": float(table["sd_ratio"].max()),
                    "sd MC error": float(table["sd_ratio_mcse"].max()),
                    "differ": int((table["differs"] != "").sum()), "min ESS": float(table["ess"].min()),
                    "Laplace shift max": shift, "Laplace sd ratio": ratio,
                }
            )  # fmt: skip
            print(pd.Series(lines[-1]).to_string(), flush=True)
        OUTPUT.mkdir(exist_ok=True)
        reference[["mean", "sd"]].to_csv(OUTPUT / f"{name}.csv")
    return lines


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    lines = [line for name in parser.parse_args().problems for line in compare(name)]
    print(pd.DataFrame(lines).to_string(index=False, float_format="{:,.3f}".format))


if __name__ == "__main__":
    main()
