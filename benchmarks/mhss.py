"""Exact at less than a row a draw: what `MHSS` predicts and reads, beside `PenaltyMH` and others in the same run.

Run ``python benchmarks/mhss.py`` (``--problems`` chooses, ``--draws``), with ``--peers`` for nutpie and NumPyro's NUTS
and HMCECS too, as ``benchmarks/peers.py`` runs them (``--seconds`` bounds a peer's run); one that is not installed is
left out and named.  One chain each.  Times of our steps are of the processor, since draws of a few microseconds do not
bear a busy machine, those of the others of the wall: set-up with compilation, and sampling with tuning.  ESS is ArviZ's
bulk ESS, the smallest over all parameters; for a run of nutpie that was stopped the most that it could have been.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import arviz as az
import pandas as pd
import pymc as pm
from kernel import logistic_data, logistic_model
from peers import RUNNERS, Budget, smallest_ess
from problems import PROBLEMS

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import as_dataset, group

OUTPUT = Path(__file__).parent / "output"
TUNE = 300


def smaller() -> pm.Model:
    """Logistic regression on a hundred thousand synthetic rows, ten coefficients."""
    return logistic_model(*logistic_data(100_000, 10, float))


CHOSEN: dict[str, Callable[[], pm.Model]] = {
    "synthetic 1e5 x 10": smaller,
    **{name: PROBLEMS[name] for name in ("synthetic 1e6 x 10", "covtype x 11", "mnist 7v9", "flights, Student")},
    **{name: PROBLEMS[name] for name in ("covtype x 54", "a9a", "claims", "softmax")},
}
#: Of `peers`, beside our own steps.
PEERS = ("nutpie", "NumPyro NUTS", "NumPyro HMCECS")
#: Where third order reads less.
MANY = ("mnist 7v9", "covtype x 54")


def second_order() -> pma.MHSS:
    """Return the step with an expansion of second order."""
    return pma.MHSS(order=2)


def measure(model: pm.Model, step_class: Callable[..., Any], draws: int) -> dict[str, float]:
    """Run one step and return what it cost."""
    with model:
        start = time.process_time()
        step = step_class()
        set_up = time.process_time() - start
        start = time.process_time()
        idata = pm.sample(
            draws, tune=TUNE, step=step, chains=1, cores=1, random_seed=1, progressbar=False, quiet=True,
            compute_convergence_checks=False,
        )  # fmt: skip
        seconds = time.process_time() - start
    stats = group(idata, "sample_stats")
    effective = float(min(values.min() for values in as_dataset(az.ess(idata)).data_vars.values()))
    return {
        "predicted rows": getattr(step, "predicted_rows", float("nan")),
        "always read": getattr(step, "rows_always_read", float("nan")),
        "rows a draw": float(stats["n_rows"].mean()),
        "all rows": float(stats["full_data"].mean()),
        "accepted": float(stats["accepted"].mean()),
        "us a draw": 1e6 * seconds / (draws + TUNE),
        "ESS": effective,
        "ESS/s": effective / seconds,
        "set-up": set_up,
    }


def beside(model: pm.Model, peers: Sequence[str], seconds: float) -> dict[str, dict[str, float]]:
    """Run the peers that are installed and can take the model, and return what they cost."""
    found = {}
    for name in peers:
        if name.startswith("NumPyro") and [v.name for v in model.free_RVs] != ["beta"]:
            continue
        try:
            run = RUNNERS[name](model, Budget(seconds, None))
        except ModuleNotFoundError as missing:
            print(f"{name} is left out: {missing.name} is not installed.", flush=True)
            continue
        ess = smallest_ess(run.idata) if run.at_most is None else run.at_most
        found[name] = {
            "rows a draw": run.rows,
            "us a draw": 1e6 * run.sampling / (run.draws + run.tune),
            "ESS": ess,
            "ESS/s": ess / run.sampling,
            "set-up": run.set_up,
        }
    return found


def show(found: dict[tuple[str, str], dict[str, float]]) -> None:
    """Print and keep the lines so far."""
    table = pd.DataFrame(found).T
    table.to_csv(OUTPUT / "mhss.csv")
    print(table.to_string(float_format=lambda x: f"{x:,.4g}", na_rep=""), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="+", default=list(CHOSEN), choices=list(CHOSEN))
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--peers", nargs="*", choices=PEERS, help="run these too, or all of them")
    parser.add_argument("--seconds", type=float, default=120.0, help="for a peer's run")
    options = parser.parse_args()
    found: dict[tuple[str, str], dict[str, float]] = {}
    OUTPUT.mkdir(exist_ok=True)
    for name in options.problems:
        model = CHOSEN[name]()
        steps = {"MHSS": pma.MHSS, "PenaltyMH": pma.PenaltyMH}
        for label, step in ({**steps, "MHSS(order=2)": second_order} if name in MANY else steps).items():
            found[name, label] = measure(model, step, options.draws)
            show(found)
        for peer in [] if options.peers is None else options.peers or PEERS:
            found |= {(name, peer): cost for peer, cost in beside(model, [peer], options.seconds).items()}
            show(found)


if __name__ == "__main__":
    main()
