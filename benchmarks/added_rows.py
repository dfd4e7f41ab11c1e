"""A table that doubles five times: what a step pays for the new rows, and whether its draws are those of all rows.

Run ``python benchmarks/added_rows.py`` for logistic regressions with ten coefficients, from 100,000 to 3,200,000 rows.
Printed for each size are the processor seconds in which the step learns from what was added, those in which a step
that knows nothing of the first rows learns from all (compiled before, as the first is), rows a draw, and in the end the
largest difference of a mean between both, in standard deviations of the posterior.
"""

from __future__ import annotations

import argparse
import logging
import time

import numpy as np
import pymc as pm
from scipy.special import expit

import pymc_austerity as pma
from pymc_austerity.kernel import decider


def learnt(step: pma.PenaltyMH | pma.MHSS, *, anew: bool) -> float:
    """Let a step follow the data, and return the processor seconds that it took."""
    added = decider._with_rows_added
    if anew:
        decider._with_rows_added = lambda *parts: None
    start = time.process_time()
    step.follow_data()
    decider._with_rows_added = added
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e5, help="of the first table")
    n0, parameters = int(parser.parse_args().rows), 10
    logging.getLogger("pymc").setLevel(logging.ERROR)
    rng = np.random.default_rng(43)
    x = rng.normal(size=(32 * n0, parameters))
    y = rng.random(len(x)) < expit(x @ np.linspace(-1, 1, parameters))
    for make in (pma.MHSS, pma.PenaltyMH):
        with pm.Model() as model:
            x_, y_ = pm.Data("x", x[:n0]), pm.Data("y", y[:n0].astype(int))
            pm.Bernoulli("o", logit_p=x_ @ pm.Normal("b", 0, 1, shape=parameters), observed=y_)
            steps = {anew: make(progressbar=False) for anew in (False, True)}
        for k in range(1, 6):
            n = n0 * 2**k
            pm.set_data({"x": x[:n], "y": y[:n].astype(int)}, model=model)
            before = steps[False].decider.parts.prepared.kept.psi
            seconds = {anew: learnt(step, anew=anew) for anew, step in steps.items()}
            kept = np.array_equal(before, steps[False].decider.parts.prepared.kept.psi)
            draws = {}
            for anew, step in steps.items():
                with model:
                    draws[anew] = pm.sample(
                        2_000, tune=300, chains=2, cores=1, step=step, random_seed=k, progressbar=False,
                        compute_convergence_checks=False,
                    )  # fmt: skip
            rows = {anew: float(run["sample_stats"]["n_rows"].mean()) for anew, run in draws.items()}
            print(
                f"{make.__name__} {n:>9,} rows, {'kept' if kept else 'anew'}: {seconds[False]:.2f} s, all anew "
                f"{seconds[True]:.2f} s; rows a draw {rows[False]:.3g}, {rows[True]:.3g}",
                flush=True,
            )
        b = {anew: run["posterior"]["b"].to_numpy().reshape(-1, parameters) for anew, run in draws.items()}
        off = np.abs(b[False].mean(axis=0) - b[True].mean(axis=0)) / b[True].std(axis=0)
        ratio = b[False].std(axis=0) / b[True].std(axis=0)
        print(f"means differ by {off.max():.3f} sd at most, sds by factors from {ratio.min():.3f} to {ratio.max():.3f}")


if __name__ == "__main__":
    main()
