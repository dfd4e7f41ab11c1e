"""Posteriors that are not normal: effective draws a CPU second, errors and verdicts, beside nutpie.

Run ``python benchmarks/hard.py`` (``--posteriors`` and ``--steps`` choose; ``--reference`` are the draws of each of
nutpie's four chains, after as many of tuning).  Steps as they are, 2 chains of ``--draws`` draws, set-up and tuning
included; what takes longer than ``--seconds`` is ended.  ESS is ArviZ's bulk ESS of the slowest parameter; errors are
the largest shift of a mean or of a 5 or 95 % quantile, in posterior standard deviations, against the diagonal nutpie.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import warnings
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
from hard_posteriors import POSTERIORS
from timing import show
from verdicts import Heard

import pymc_austerity as pma

Draws = dict[str, np.ndarray]


def draws_of(idata: Any, model: pm.Model) -> Draws:
    """Return the draws of all entries of the free variables, chains by draws."""
    found = {}
    for rv in model.free_RVs:
        values = idata.posterior[rv.name].to_numpy()
        for i, entry in enumerate(np.moveaxis(values.reshape(*values.shape[:2], -1), 2, 0)):
            found[f"{rv.name}[{i}]"] = entry
    return found


def slowest(found: Draws) -> tuple[str, float]:
    """Return the entry with the fewest effective draws, and these; none where it did not move."""
    ess = {name: float(az.ess(x)) if np.ptp(x) else 0.0 for name, x in found.items()}
    return min(ess.items(), key=lambda item: item[1])


def largest_error(found: Draws, reference: Draws) -> float:
    """Return the largest shift of a mean or an outer quantile, in standard deviations of the reference."""

    def of(x: np.ndarray) -> np.ndarray:
        return np.array([x.mean(), *np.quantile(x, (0.05, 0.95))])

    return max(float(np.abs(of(found[name]) - of(x)).max() / x.std()) for name, x in reference.items())


def by_nutpie(model: pm.Model, draws: int, low_rank: bool, chains: int = 4) -> tuple[Draws, float]:
    """Return draws, and effective ones a CPU second."""
    import nutpie

    start = time.process_time()
    drawn = nutpie.sample(
        nutpie.compile_pymc_model(model), draws=draws, tune=draws, chains=chains, cores=1, seed=1, progress_bar=False,
        low_rank_modified_mass_matrix=low_rank,
    )  # fmt: skip
    found = draws_of(drawn, model)
    return found, slowest(found)[1] / (time.process_time() - start)


def by_step(make: Any, model: pm.Model, options: argparse.Namespace, reference: Draws) -> dict[str, Any]:
    """Return what a step says and does."""
    warned = Heard()
    logging.getLogger("pymc_austerity").addHandler(warned)
    start = time.process_time()
    try:
        with model:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", UserWarning)
                step = make(progressbar=False)
            set_up = time.process_time() - start
            announced = "; ".join([*warned.said, *(str(w.message) for w in caught if "No proxy" in str(w.message))])
            idata = pm.sample(
                options.draws, tune=1_000, step=step, chains=2, cores=1, random_seed=1, progressbar=False,
                compute_convergence_checks=False, quiet=True,
                callback=pma.stop_at(seconds=options.seconds, chains=2),
            )  # fmt: skip
            seconds = time.process_time() - start
            verdict = pma.reliability(idata, model, step=step, progressbar=False).verdict
    except Exception as error:
        return {"announced": f"{type(error).__name__}: {error}"[:80]}
    finally:
        logging.getLogger("pymc_austerity").removeHandler(warned)
    found = draws_of(idata, model)
    rows = float(idata.sample_stats["n_rows"].mean())
    return {
        "set-up": set_up, "CPU s": seconds, "draws": idata.posterior.sizes["draw"], "rows": rows,
        "ESS/s": slowest(found)[1] / seconds,
        **({"error": largest_error(found, reference)} if reference else {}),
        "verdict": verdict, "announced": announced[:80],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--posteriors", nargs="+", default=list(POSTERIORS), choices=list(POSTERIORS))
    parser.add_argument("--steps", nargs="+", default=["PenaltyMH", "MHSS"], choices=["PenaltyMH", "MHSS"])
    parser.add_argument("--draws", type=int, default=4_000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--reference", type=int, default=500)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = []
    for name in options.posteriors:
        reference, speeds = {}, {}
        if options.reference:
            model = POSTERIORS[name]()
            reference, speeds["nutpie"] = by_nutpie(model, options.reference, low_rank=False)
            found, speeds["low rank"] = by_nutpie(model, options.reference, low_rank=True)
            speeds["they differ"] = largest_error(found, reference)
        for make in (getattr(pma, step) for step in options.steps):
            line = {
                "posterior": name,
                "step": make.__name__,
                **by_step(make, POSTERIORS[name](), options, reference),
                **speeds,
            }
            lines.append(line)
            show(lines[-1:], sys.stderr)
    show(lines)


if __name__ == "__main__":
    main()
