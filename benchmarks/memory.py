"""Memory of a process that builds one model after the other, no two alike, and samples each by a step of its own.

Run ``python benchmarks/memory.py --models 50``.  ``--same`` samples one model with other data each time, as a
simulation study does, and ``--nuts`` lets PyMC's own NUTS sample the models.  ``--cold`` compiles all of it anew, in an
empty folder; otherwise code that an earlier run has kept is loaded, so run it twice.
Memory is what the system counts after
the allocator has given back what is free: what stays is in use.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import logging
import os
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
import psutil
import pymc as pm

import pymc_austerity as pma

FAMILIES = ("normal", "Bernoulli", "Poisson", "negative binomial", "Student t")


def build(k: int, seed: int, nuts: bool) -> None:
    """Sample the k-th model: of another family, another number of columns, of rows and another prior."""
    family, n_columns, n_rows = FAMILIES[k % len(FAMILIES)], 2 + k // len(FAMILIES), 1_500 + 137 * k
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns))
    with pm.Model():
        eta = X @ pm.Normal("b", 0, 2 + k / 10, shape=n_columns)
        match family:
            case "normal":
                pm.Normal("y", eta, pm.HalfNormal("s", 3), observed=rng.normal(size=n_rows))
            case "Bernoulli":
                pm.Bernoulli("y", logit_p=eta, observed=rng.integers(0, 2, n_rows))
            case "Poisson":
                pm.Poisson("y", pm.math.exp(0.1 * eta), observed=rng.poisson(1, n_rows))
            case "negative binomial":
                pm.NegativeBinomial("y", pm.math.exp(0.1 * eta), pm.HalfNormal("a", 3), observed=rng.poisson(1, n_rows))
            case _:
                nu, s = pm.Gamma("nu", 2, 0.1), pm.HalfNormal("s", 3)
                pm.StudentT("y", nu=nu, mu=eta, sigma=s, observed=rng.standard_t(4, size=n_rows))
        options = {"chains": 1, "cores": 1, "random_seed": 1, "progressbar": False, "compute_convergence_checks": False}
        pm.sample(5, tune=5, step=None if nuts else pma.PenaltyMH(progressbar=False), **options)


def megabytes() -> float:
    """Return what the process holds once all that is free has been given back."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    return psutil.Process().memory_info().rss / 1e6


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--models", type=int, default=50)
    arguments.add_argument("--same", action="store_true", help="the first model again and again, with other data")
    arguments.add_argument("--nuts", action="store_true", help="by PyMC's own NUTS")
    arguments.add_argument("--cold", action="store_true", help="compile everything anew")
    given = arguments.parse_args()
    if given.cold:
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "PYTENSOR_FLAGS": f"base_compiledir={folder}"}
            again = [argument for argument in sys.argv[1:] if argument != "--cold"]
            subprocess.run([sys.executable, __file__, *again], env=environment, check=True)
        return
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    print("| models | MB | MB a model since | CPU s |\n|---|---|---|---|", flush=True)
    last, before = 0, megabytes()
    print(f"| 0 | {before:.0f} | | {time.process_time():.0f} |", flush=True)
    for k in range(given.models):
        build(0 if given.same else k, k, given.nuts)
        if k + 1 in (1, 5, given.models) or (k + 1) % 10 == 0:
            now = megabytes()
            print(
                f"| {k + 1} | {now:.0f} | {(now - before) / (k + 1 - last):.1f} | {time.process_time():.0f} |",
                flush=True,
            )
            last, before = k + 1, now


if __name__ == "__main__":
    main()
