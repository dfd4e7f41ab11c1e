"""InstEval, two crossed factors with normal errors, beside the collapsed Gibbs sampler of crossed-effects.

Run ``python benchmarks/collapsed_gibbs.py FOLDER`` with a clone of github.com/timsf/crossed-effects, which needs NumPy,
SciPy and pandas (Papaspiliopoulos, Stumpf-Fétizon and Zanella 2023).  Effective draws a second of processor time of the
slowest of mean and scales and of the slowest of 40 effects, of one chain, with set-up and tuning and without.  Its
priors of precisions are conjugate, those here half-normal: with thousands of levels the posteriors are the same.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
from problems import FOLDER
from timing import ONE_CHAIN, show

import pymc_austerity as pma

FACTORS = ("student", "lecturer")
Draws = dict[str, np.ndarray]


def by_step(table: Any, how: str, draws: int, tune: int) -> tuple[float, float, Draws]:
    """Return the seconds of set-up and of sampling, and draws of all that is shared and of all effects."""
    with pm.Model():
        mean: Any = pm.Normal("mean", 3, 2)
        for name in FACTORS:
            sd, levels = pm.HalfNormal(f"{name}_sd", 1), int(table[name].max()) + 1
            centred = how == "centred"
            effects = pm.Normal(name, 0, sd, shape=levels) if centred else sd * pm.Normal(name, 0, 1, shape=levels)
            mean += effects[table[name]]
        pm.Normal("y", mean, pm.HalfNormal("error", 2), observed=table["rating"].astype(float))
        start = time.process_time()
        step = pma.PenaltyMH(progressbar=False)
        between = time.process_time()
        idata = pm.sample(draws, tune=tune, step=step, quiet=True, **ONE_CHAIN)
        end = time.process_time()
    found = {name: idata.posterior[name].to_numpy()[0] for name in idata.posterior}
    if how != "centred":
        found |= {name: found[name] * found[f"{name}_sd"][:, None] for name in FACTORS}
    return between - start, end - between, found


def by_gibbs(table: Any, folder: Path, draws: int, tune: int) -> tuple[float, float, Draws]:
    """Return the same of the collapsed Gibbs sampler."""
    sys.path.insert(0, str(folder))
    from xfx.lm import gibbs

    update = gibbs.update_intercept
    # The release calls it with the precisions of prior and errors exchanged, and the mean is then not that of the data.
    gibbs.update_intercept = lambda x0, x1, a, of_prior, of_errors, rng: update(x0, x1, a, of_errors, of_prior, rng)
    y, codes = table["rating"].astype(float), np.stack([table[name] for name in FACTORS], axis=1)
    start = time.process_time()
    chain = gibbs.sample_posterior(
        y, y**2, np.ones_like(y), codes.max(axis=0) + 1, codes, ome=np.random.default_rng(1)
    )  # the first draw reduces the data
    states = [next(chain)]
    between = time.process_time()
    states += [next(chain) for _ in range(tune + draws - 1)]
    end = time.process_time()
    kept = states[tune:]
    found = {name: np.array([state[0][1 + k] for state in kept]) for k, name in enumerate(FACTORS)}
    found |= {f"{name}_sd": np.array([state[1][k] ** -0.5 for state in kept]) for k, name in enumerate(FACTORS)}
    found |= {"mean": np.array([state[0][0][0] for state in kept]), "error": np.array([s[2] ** -0.5 for s in kept])}
    return between - start, end - between, found


def line(name: str, set_up: float, sampling: float, found: Draws) -> dict[str, Any]:
    """Return a line of the table."""
    some = np.random.default_rng(1).choice(1_000, 20, replace=False)
    shared = {of: float(az.ess(found[of][None])) for of in ("mean", "error", *(f"{factor}_sd" for factor in FACTORS))}
    slowest = min(shared, key=lambda of: shared[of])
    effects = min(float(az.ess(found[name][None, :, k])) for name in FACTORS for k in some)
    return {
        "sampler": name, "set-up s": set_up, "s": sampling, "slowest": slowest, "ESS/s": shared[slowest] / sampling,
        "effects, ESS/s": effects / sampling, "with set-up": shared[slowest] / (set_up + sampling),
        "effects, with set-up": effects / (set_up + sampling),
        ", ".join(shared): ", ".join(f"{found[of].mean():.3f}" for of in shared),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=4_000)
    parser.add_argument("--tune", type=int, default=1_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with np.load(FOLDER / "insteval.npz") as file:
        table = {name: file[name].astype("int64") for name in ("rating", *FACTORS)}
    run = options.draws, options.tune
    found = [line(f"PenaltyMH, {how}", *by_step(table, how, *run)) for how in ("centred", "not centred")]
    show([*found, line("collapsed Gibbs", *by_gibbs(table, options.folder, *run))])


if __name__ == "__main__":
    main()
