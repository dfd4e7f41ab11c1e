"""Where the microseconds of a draw go when next to no row is read, and what several transitions a draw make of them.

Run ``python benchmarks/thin.py`` (``--rows``, ``--draws``).  `MHSS` on synthetic logistic rows with ten coefficients,
one chain, with its default moves, whose draws are nearly independent already, and with a random walk.  Times are of the
processor.  Parts are the best of five repetitions, since other work on a machine only adds; runs of ``pm.sample`` count
tuning, and ESS is ArviZ's bulk ESS, the smallest over the coefficients.
"""

from __future__ import annotations

import argparse
import inspect
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from kernel import logistic_data, logistic_model
from mhss import measure
from pymc.backends.ndarray import NDArray

import pymc_austerity as pma
from pymc_austerity.likelihood import flatten

REPEATED, TIMES = 1_000, 5


def best(call: Callable[[], Any], n: int, each: int = 1) -> float:
    """Return the fewest microseconds of processor time that one of `n` × `each` took."""
    call()
    found = []
    for _ in range(TIMES):
        start = time.process_time()
        for _ in range(n):
            call()
        found.append(time.process_time() - start)
    return 1e6 * min(found) / (n * each)


def parts(model: pm.Model) -> pd.Series:
    """Return microseconds a draw, by what they are spent on."""
    with model:
        step = pma.MHSS()
    step.stop_tuning()
    point, chain, others = model.initial_point(), step.chain, np.empty(0)
    theta = step.decider.prepared.draws[-1]
    at = {"point": point}

    def draw() -> None:
        at["point"], at["stats"] = step.step(at["point"])

    compiled = best(lambda: chain.draws(1, REPEATED, theta, others, 1.0), 5, REPEATED)
    ahead = best(lambda: chain.draws(64, 1, theta, others, 1.0), REPEATED // 64, 64)
    called = best(lambda: chain.transition(theta, others, 1.0), REPEATED)
    whole = best(draw, REPEATED)
    trace = NDArray(model=model)
    trace.setup(TIMES * REPEATED + 1, 0, step.stats_dtypes)
    late = {"in_warmup": False} if "in_warmup" in inspect.signature(trace.record).parameters else {}
    recorded = best(lambda: trace.record(at["point"], at["stats"], **late), REPEATED)
    return pd.Series(
        {
            "compiled transition": compiled,
            "calling it from Python, one at a time": called - compiled,
            "the same, made ahead": ahead - compiled,
            "point to vector and back": best(lambda: flatten(point, step.decider.likelihood.blocks), REPEATED),
            "the step, in all": whole,
            "of that statistics and its own look": whole - ahead,
            "PyMC's trace": recorded,
        }
    )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e5)
    parser.add_argument("--draws", type=int, default=20_000, help="transitions of each run")
    parser.add_argument("--thin", type=int, nargs="+", default=[1, 2, 5, 10])
    options = parser.parse_args()
    model = logistic_model(*logistic_data(int(options.rows), 10, float))
    print(parts(model).to_string(float_format=lambda x: f"{x:.1f} us"), flush=True)
    found = {}
    for name, proposal in (("default", None), ("walk", pma.AdaptiveMetropolis())):
        for thin in options.thin:
            run = measure(model, partial(pma.MHSS, proposal=proposal, thin=thin), options.draws // thin)
            found[name, thin] = {**run, "us a transition": run["us a draw"] / thin}
    table = pd.DataFrame(found).T.rename_axis(["moves", "thin"])
    columns = ["rows a draw", "accepted", "us a draw", "us a transition", "ESS", "ESS/s"]
    print(table[columns].to_string(float_format=lambda x: f"{x:,.4g}"), flush=True)


if __name__ == "__main__":
    main()
