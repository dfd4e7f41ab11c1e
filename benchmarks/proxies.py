"""What a proxy costs and buys as the data grow: synthetic logistic regression, ten coefficients.

Run ``python benchmarks/proxies.py`` (add ``--rows 1e4 1e5 1e6`` to choose, ``--nutpie`` for the peer, which takes
minutes at a million rows).  All figures of a table are from one run, one core.
"""

from __future__ import annotations

import argparse
import time

import arviz as az
import pandas as pd
import pymc as pm
from kernel import logistic_data, logistic_model

import pymc_austerity as pma

DRAWS, TUNE = 4_000, 200


def with_proxy(model: pm.Model, n_rows: int) -> dict[str, float]:
    """Sample with `PenaltyMH`, a second-order proxy and weighted rows."""
    with model:
        start = time.perf_counter()
        step = pma.PenaltyMH(proxy=pma.Taylor(), rows=pma.Weighted())
        set_up = time.perf_counter() - start
        idata = pm.sample(
            step=step, draws=DRAWS, tune=TUNE, chains=1, cores=1, random_seed=1, progressbar=False, quiet=True,
            compute_convergence_checks=False,
        )  # fmt: skip
    seconds = idata["posterior"].attrs["sampling_time"]
    ess = float(az.ess(idata)["beta"].min())
    return {
        "rows": n_rows,
        "set-up s": set_up,
        "passes": step._prepared.passes,
        "rows a draw": float(idata["sample_stats"]["n_rows"].mean()),
        "µs a draw": 1e6 * seconds / (DRAWS + TUNE),
        "accepted": float(idata["sample_stats"]["accepted"].mean()),
        "ESS/s": ess / seconds,
    }


def with_nutpie(model: pm.Model) -> float:
    """Effective draws a second of nutpie after its compilation, from a short run."""
    import nutpie

    compiled = nutpie.compile_pymc_model(model)
    start = time.perf_counter()
    idata = nutpie.sample(compiled, draws=200, tune=200, chains=1, cores=1, seed=1, progress_bar=False)
    return float(az.ess(idata)["beta"].min()) / (time.perf_counter() - start)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e4, 1e5, 1e6])
    parser.add_argument("--nutpie", action="store_true")
    given = parser.parse_args()
    lines = []
    for n_rows in map(int, given.rows):
        model = logistic_model(*logistic_data(n_rows, 10, float))
        line = with_proxy(model, n_rows)
        if given.nutpie:
            line["nutpie ESS/s"] = with_nutpie(model)
            line["ratio"] = line["ESS/s"] / line["nutpie ESS/s"]
        lines.append(line)
    print(pd.DataFrame(lines).to_string(index=False, float_format="{:,.1f}".format))


if __name__ == "__main__":
    main()
