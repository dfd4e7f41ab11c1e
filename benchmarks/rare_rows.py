"""What a batch thinks its own variance is, when rare rows carry what the proxy leaves: uniform against weighted rows.

Run ``python benchmarks/rare_rows.py``.  Logistic regression on all 54 columns of forest cover, 581,012 rows: some soil
types have a handful of them.  For proposals from the posterior the remainders of all rows are evaluated; batches are
then drawn from them thousands of times, and the variance of the log ratio that a batch estimates for itself is compared
with its true one.  The posterior that either way of drawing rows leads to is compared with exact moments, where
``python benchmarks/accuracy.py --problems "covtype x 54"`` has left them.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pymc as pm
from peers import OUTPUT, error, smallest_ess
from problems import PROBLEMS

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import group
from pymc_austerity.diagnostics.spot_check import evaluate_pair

PROBLEM = "covtype x 54"
BATCH, BATCHES, PAIRS, DRAWS, TUNE = 200, 4_000, 10, 20_000, 300


def estimated_over_true(step: object, rng: np.random.Generator) -> np.ndarray:
    """Return s²/σ² of the mean of a batch, for many batches on each of some proposals."""
    ratios = []
    decider, state = step.decider, step.chain.state
    draws = decider.prepared.draws
    weighted = decider.row_source.weighted
    weight = decider.prepared.table.weight if weighted else None
    for k in range(PAIRS):
        pair = evaluate_pair(decider, decider.propose(draws[-1 - k], np.empty(0), state, rng))
        n = pair.terms.size
        probability = 1 / (n * weight.astype(float)) if weighted else np.full(n, 1 / n)
        values = pair.terms * (weight if weighted else 1.0)
        true = probability @ (values - probability @ values / probability.sum()) ** 2
        numbers = rng.choice(n, (BATCHES, BATCH), p=probability / probability.sum())
        ratios.append(values[numbers].var(axis=1, ddof=1) / true)
    return np.concatenate(ratios)


def main() -> None:
    """Print the table."""
    lines = []
    with PROBLEMS[PROBLEM]() as model:
        for rows in (pma.Uniform(), pma.Weighted()):
            step = pma.PenaltyMH(rows=rows, batch_size=BATCH)
            ratio = estimated_over_true(step, np.random.default_rng(54))
            idata = pm.sample(
                DRAWS, tune=TUNE, step=step, chains=2, cores=2, random_seed=1, progressbar=False, quiet=True,
                compute_convergence_checks=False,
            )  # fmt: skip
            stats = group(idata, "sample_stats")
            draws = group(idata, "posterior")["beta"]
            line = {
                "rows": str(rows), "median s²/σ²": np.median(ratio), "its 5 % quantile": np.quantile(ratio, 0.05),
                "below a half": (ratio < 0.5).mean(), "rows a draw": float(stats["n_rows"].mean()),
                "accepted": float(stats["accepted"].mean()), "min ESS": smallest_ess(idata),
                "shift rms": error(PROBLEM, model, idata),
            }  # fmt: skip
            file = OUTPUT / f"{PROBLEM}.csv"
            if file.exists():
                sd_ratio = draws.std(("chain", "draw")).to_numpy() / pd.read_csv(file)["sd"].to_numpy()
                line |= {"smallest sd ratio": sd_ratio.min(), "largest sd ratio": sd_ratio.max()}
            lines.append(line)
            print(pd.Series(line).to_string(), flush=True)
    print(pd.DataFrame(lines).to_string(index=False, float_format="{:,.3f}".format))


if __name__ == "__main__":
    main()
