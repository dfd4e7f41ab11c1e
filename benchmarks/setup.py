"""Seconds from a model to the first draw, imports apart, each in a process of its own.

Run ``python benchmarks/setup.py`` (``--models`` and ``--samplers`` choose).  Three processes in turn share an empty
folder for compiled code: the first finds nothing in it, the second makes the same step again, the third one for other
data of the same types.  A fourth finds what a step for a related model of such data has left in a folder of its own.
CPU seconds say what compilation costs on any machine; wall seconds only on a quiet one.  `PenaltyMH` moves groups by
themselves; "one decision" is the step that decides over all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np
import pymc as pm
from rich.console import Console
from rich.table import Table
from timing import elsewhere

import pymc_austerity as pma

SAMPLERS = ("PenaltyMH", "one decision", "nutpie", "NUTS")
PROCESSES = ("nothing kept", "second process", "other data", "new model")


def rows(rng: np.random.Generator, n_rows: int, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw covariates and their effect on each row."""
    X = rng.normal(size=(n_rows, n_columns))
    return X, X @ rng.normal(0, 0.3, size=n_columns)


def bernoulli(name: str, predictor: Any, observed: np.ndarray, related: bool) -> None:
    """Add successes and failures by a logit, or, in the related model, by a probit."""
    form = {"p": pm.math.invprobit(predictor)} if related else {"logit_p": predictor}
    pm.Bernoulli(name, **form, observed=observed)


def logistic(rng: np.random.Generator, related: bool) -> None:
    """100,000 rows, 10 coefficients."""
    X, effect = rows(rng, 100_000, 10)
    bernoulli("y", X @ pm.Normal("beta", shape=10), 1 * (rng.logistic(size=len(X)) < effect), related)


def hierarchical(rng: np.random.Generator, related: bool) -> None:
    """30,000 rows, 4 coefficients, 300 groups, their mean and spread."""
    X, effect = rows(rng, 30_000, 4)
    group = rng.integers(0, 300, len(X))
    intercepts = pm.Normal("intercept", pm.Normal("mean"), pm.HalfNormal("spread"), shape=300)
    y = 1 * (rng.logistic(size=len(X)) < effect + rng.normal(0, 0.7, 300)[group])
    bernoulli("y", intercepts[group] + X @ pm.Normal("beta", shape=4), y, related)


def ordinal(rng: np.random.Generator, related: bool) -> None:
    """5,000 rows, 7 coefficients, 4 cut points."""
    X, effect = rows(rng, 5_000, 7)
    ordered = pm.distributions.transforms.ordered
    cut = pm.Normal("cut", 0, 2, shape=4, transform=ordered, initval=np.arange(4.0) - 1.5)
    y = np.digitize(effect + rng.logistic(size=len(X)), np.arange(4) - 1.5)
    of_rows = pm.OrderedProbit if related else pm.OrderedLogistic
    of_rows("y", eta=X @ pm.Normal("beta", shape=7), cutpoints=cut, observed=y)


def zero_inflated(rng: np.random.Generator, related: bool) -> None:
    """4,400 rows, 6 coefficients, one probability."""
    X, effect = rows(rng, 4_400, 6)
    y = rng.poisson(np.exp(effect)) * (rng.random(len(X)) < 0.7)
    mu = pm.math.exp(X @ pm.Normal("beta", shape=6))
    psi = pm.Beta("psi", 2, 2)
    if related:
        pm.ZeroInflatedNegativeBinomial("y", psi=psi, mu=mu, alpha=2.0, observed=y)
    else:
        pm.ZeroInflatedPoisson("y", psi=psi, mu=mu, observed=y)


def negative_binomial(rng: np.random.Generator, related: bool) -> None:
    """163,000 rows, 14 coefficients, one dispersion."""
    X, effect = rows(rng, 163_000, 14)
    y = rng.poisson(np.exp(effect) * rng.gamma(2.0, 0.5, len(X)))
    mu = pm.math.exp(X @ pm.Normal("beta", shape=14))
    if related:
        pm.ZeroInflatedPoisson("y", psi=pm.Beta("psi", 2, 2), mu=mu, observed=y)
    else:
        pm.NegativeBinomial("y", mu=mu, alpha=pm.Exponential("alpha", 1), observed=y)


MODELS = {f.__name__: f for f in (logistic, hierarchical, ordinal, zero_inflated, negative_binomial)}


def here(model_name: str, sampler: str, seed: int, related: bool) -> dict[str, float]:
    """Build a sampler in this process and let it draw; for nutpie, compile it, and for NUTS, take one leapfrog step."""
    with pm.Model() as model:
        MODELS[model_name](np.random.default_rng(seed), related)
    point = model.initial_point()
    if sampler == "nutpie":
        import nutpie
    wall, cpu = time.perf_counter(), time.process_time()
    if sampler == "nutpie":
        nutpie.compile_pymc_model(model)
    else:
        step = {
            "NUTS": lambda: pm.NUTS(model=model, rng=1, max_treedepth=1),
            "PenaltyMH": lambda: pma.PenaltyMH(model=model, rng=1),
            "one decision": lambda: pma.PenaltyMH(proposal=pma.CrankNicolson(), model=model, rng=1),
        }[sampler]()
        for _ in range(2):
            point, _ = step.step(point)
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def in_a_process(folder: str, model_name: str, sampler: str, seed: int, *related: str) -> str:
    """Do the same in a process that keeps compiled code in a folder."""
    env = {**os.environ, "PYTENSOR_FLAGS": f"base_compiledir={folder}", "OMP_NUM_THREADS": "1"}
    try:
        took = elsewhere("--here", model_name, sampler, str(seed), *related, env=env, stderr=subprocess.PIPE)
    except subprocess.CalledProcessError as failed:
        return (failed.stderr.strip().splitlines() or ["failed"])[-1][:40]
    return f"{took['cpu']:.1f} / {took['wall']:.1f}"


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--samplers", nargs="+", choices=SAMPLERS, default=list(SAMPLERS), metavar="SAMPLER")
    arguments = parser.parse_args()
    table = Table("model", "sampler", *PROCESSES, title="Before the first draw, s of CPU / wall")
    for name in arguments.models:
        for sampler in arguments.samplers:
            with tempfile.TemporaryDirectory() as folder:
                cells = [in_a_process(folder, name, sampler, seed) for seed in (1, 1, 2)]
            with tempfile.TemporaryDirectory() as folder:
                in_a_process(folder, name, sampler, 1, "related")
                cells.append(in_a_process(folder, name, sampler, 1))
            table.add_row(name, sampler, *cells)
    Console(width=120).print(table)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--here"]:
        print(json.dumps(here(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5:] == ["related"])))
    else:
        main()
