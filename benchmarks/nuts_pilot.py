"""What `recommend` says that NUTS takes, beside what it takes: ten models, some minutes on one core.

Processor seconds of four chains to 4,000 effective draws of the slowest parameter.  The truth is that of two chains of
``pm.sample`` with 1,000 draws after 1,000 to tune.
"""

from __future__ import annotations

import logging
import sys

import arviz as az
import numpy as np
import pymc as pm

import pymc_austerity as pma

RNG = np.random.default_rng(0)
DRAWS, CHAINS = 4_000, 4


def normal_mean():
    pm.Normal("y", pm.Normal("mean"), pm.HalfNormal("sd"), observed=RNG.normal(size=300))


def logistic(n, d):
    x = RNG.normal(size=(n, d))
    y = RNG.random(n) < 1 / (1 + np.exp(-x @ RNG.normal(size=d) / 3))
    pm.Bernoulli("y", logit_p=pm.Normal("a") + x @ pm.Normal("b", shape=d), observed=y)


def correlated():
    x = RNG.normal(size=(2_000, 1)) + 0.1 * RNG.normal(size=(2_000, 8))
    pm.Normal("y", x @ pm.Normal("b", shape=8), pm.HalfNormal("sd"), observed=x[:, 0] + RNG.normal(size=2_000))


def poisson():
    x = RNG.normal(size=(20_000, 6))
    pm.Poisson("y", pm.math.exp(x @ pm.Normal("b", shape=6)), observed=RNG.poisson(np.exp(x[:, 0] / 2)))


def student():
    x = RNG.normal(size=(5_000, 4))
    sd, nu = pm.HalfNormal("sd"), pm.Gamma("nu", 2, 0.1)
    pm.StudentT("y", nu, mu=x @ pm.Normal("b", shape=4), sigma=sd, observed=RNG.standard_t(5, 5_000))


def effects(centred, n=3_000, groups=40):
    g, scale = RNG.integers(0, groups, n), pm.HalfNormal("scale")
    u = pm.Normal("u", 0, scale, shape=groups) if centred else scale * pm.Normal("z", shape=groups)
    y = RNG.random(n) < 1 / (1 + np.exp(-RNG.normal(size=groups)[g] / 2))
    pm.Bernoulli("y", logit_p=pm.Normal("a") + u[g], observed=y)


def random_walk():
    pm.Normal("y", pm.Normal("steps", 0, 0.1, shape=100).cumsum(), 1, observed=RNG.normal(size=100))


MODELS = {
    "a mean, 300 rows": normal_mean,
    "logistic 1,000 x 5": lambda: logistic(1_000, 5),
    "logistic 20,000 x 10": lambda: logistic(20_000, 10),
    "logistic 50,000 x 3": lambda: logistic(50_000, 3),
    "correlated 2,000 x 8": correlated,
    "Poisson 20,000 x 6": poisson,
    "Student 5,000 x 4": student,
    "40 groups, centred": lambda: effects(True),
    "40 groups, not centred": lambda: effects(False),
    "random walk, 100 steps": random_walk,
}


def truth(model: pm.Model, setup: float) -> float:
    """Return the seconds that NUTS takes."""
    with model:
        run = pm.sample(
            draws=1_000, tune=1_000, chains=2, cores=1, random_seed=2, progressbar=False, nuts_sampler="pymc",
            discard_tuned_samples=False, compute_convergence_checks=False,
        )  # fmt: skip
    ess = az.ess(run["posterior"])
    share = min(float(ess[name].min()) for name in ess.data_vars) / 2_000
    tuning, draw = (float(run[group]["process_time_diff"].mean()) for group in ("warmup_sample_stats", "sample_stats"))
    return setup + CHAINS * 1_000 * tuning + DRAWS * draw / share


if __name__ == "__main__":
    logging.getLogger("pymc").setLevel(logging.ERROR)
    print("| model | estimate, s | truth, s | ratio |\n|---|---|---|---|")
    for name, build in MODELS.items():
        if len(sys.argv) > 1 and sys.argv[1] not in name:
            continue
        with pm.Model() as model:
            build()
        line = pma.recommend(model, progressbar=False).table.loc["NUTS"]
        found = truth(model, line["set-up"])
        print(f"| {name} | {line['seconds']:.1f} | {found:.1f} | {line['seconds'] / found:.2f} |", flush=True)
