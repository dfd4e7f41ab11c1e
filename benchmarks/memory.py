"""MB that each further model leaves in a process.

Run ``python benchmarks/memory.py`` (``--models``).  The step of a model is built, draws once and is dropped, again and
again, in a process of its own for each line: the same model, or models with other constants in their prior and their
predictor; with code on disk, or compiled anew.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import psutil
import pymc as pm
from timing import elsewhere

import pymc_austerity as pma

N_ROWS, N_GROUPS = 2_000, 50


def logistic(k: float) -> None:
    """Build a regression; another graph for another `k`."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N_ROWS, 3))
    pm.Bernoulli("y", logit_p=k * (X @ pm.Normal("beta", 0, k, shape=3)), observed=rng.integers(0, 2, N_ROWS))


def grouped(k: float) -> None:
    """Build groups with intercepts; another graph for another `k`."""
    rng = np.random.default_rng(1)
    group = rng.permutation(np.arange(N_ROWS) % N_GROUPS)
    intercept = pm.Normal("intercept", pm.Normal("mean", 0, k), pm.HalfNormal("spread"), shape=N_GROUPS)
    pm.Bernoulli("y", logit_p=k * intercept[group], observed=rng.integers(0, 2, N_ROWS))


MODELS = {f.__name__: f for f in (logistic, grouped)}


def here(name: str, different: bool, n_models: int) -> float:
    """Return MB a model, from the third on: the first bring what all share."""
    held = []
    for k in range(n_models):
        with pm.Model() as model:
            MODELS[name](1.0 + 0.01 * k * different)
            step = pma.PenaltyMH(progressbar=False, rng=1)
            step.step(model.initial_point())
        del model, step
        gc.collect()
        held.append(psutil.Process().memory_info().rss / 1e6)
    return (held[-1] - held[1]) / (n_models - 2)


def main() -> None:
    """Print one line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", type=int, default=12, help="how many are built in a process")
    parser.add_argument("--kinds", nargs="+", choices=MODELS, default=list(MODELS))
    options = parser.parse_args()
    for name in options.kinds:
        for which in ("same", "different"):
            with tempfile.TemporaryDirectory() as folder:
                env = {**os.environ, "PYTENSOR_FLAGS": f"base_compiledir={folder}"}
                for code in ("compiled anew", "code on disk"):
                    arguments = "--here", name, which, str(options.models)
                    found = elsewhere(*arguments, env=env, stderr=subprocess.DEVNULL)
                    print(f"{name}, {which}, {code}: {found:.1f} MB a model", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--here"]:
        print(json.dumps(here(sys.argv[2], sys.argv[3] == "different", int(sys.argv[4]))))
    else:
        main()
