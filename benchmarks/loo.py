"""Leave-one-out from a sample of 1e7 rows: seconds and peak memory.

Run ``python benchmarks/loo.py --rows 1e7`` for a logistic regression with ten coefficients, whose draws are those of
the normal approximation to its posterior.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pymc as pm
import xarray as xr
from scipy import special
from timing import quiet, show

import pymc_austerity as pma
from pymc_austerity.compat import as_sampling_result


def held(field: str = "VmRSS") -> float:
    """Return the memory that this process holds, in MB, and begin to look for its peak (VmHWM, of Linux)."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field)]
    if field == "VmRSS":
        Path("/proc/self/clear_refs").write_text("5")
    return int(line.split()[1]) / 1e3


def of_size(n: int) -> None:
    rng, beta = np.random.default_rng(7), np.linspace(-0.5, 0.5, 10)
    X, y = np.empty((n, 10)), np.empty(n, np.int8)
    information = np.zeros((10, 10))
    for start in range(0, n, 100_000):
        part = slice(start, min(start + 100_000, n))
        X[part] = rng.standard_normal(X[part].shape)
        p = special.expit(X[part] @ beta)
        y[part] = rng.random(len(p)) < p
        information += (X[part] * (p * (1 - p))[:, None]).T @ X[part]
    draws = rng.multivariate_normal(beta, np.linalg.inv(information), size=(4, 500))
    idata = as_sampling_result({"posterior": xr.Dataset({"b": (("chain", "draw", "column"), draws)})})
    with pm.Model() as model:
        b = pm.Normal("b", 0, 1, shape=10)
        pm.Bernoulli("y", logit_p=pm.math.dot(pm.Data("X", X), b), observed=pm.Data("seen", y))
    before, cpu = held(), time.process_time()
    found = pma.loo(idata, model, random_seed=1, progressbar=False)
    line = {
        "rows": n,
        "data, MB": (X.nbytes + y.nbytes) / 1e6,
        "CPU s": time.process_time() - cpu,
        "memory beside, MB": held("VmHWM") - before,
        "elpd": float(found["elpd"]),
        "± over rows": float(found["se"]),
        "± of the sample": float(found["subsampling_se"]),
    }
    show([line])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e7)
    quiet()
    of_size(int(parser.parse_args().rows))
