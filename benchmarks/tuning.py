"""For how long steps have to be tuned: effective draws and R-hat after 1,000, 300 and 100 draws of tuning.

Run ``python benchmarks/tuning.py``: three models, 4 chains of 1,000 draws.  ESS is ArviZ's bulk ESS of
the slowest parameter, R-hat the largest of all.
"""

from __future__ import annotations

from collections.abc import Callable

import arviz as az
import numpy as np
import pymc as pm
from problems import synthetic
from timing import quiet, show, smallest_ess

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import as_dataset, group


def groups() -> pm.Model:
    rng = np.random.default_rng(3)
    g, x = rng.integers(0, 150, 6_000), rng.normal(size=6_000)
    seen = rng.random(6_000) < 1 / (1 + np.exp(-(rng.normal(0, 0.5, 150)[g] + 0.5 * x)))
    with pm.Model() as model:
        u = pm.Normal("u", pm.Normal("mean"), pm.HalfNormal("scale"), shape=150)
        pm.Bernoulli("y", logit_p=u[g] + pm.Normal("slope") * x, observed=seen)
    return model


def negative_binomial() -> pm.Model:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(50_000, 6))
    mean = np.exp(0.5 + X @ np.linspace(-0.3, 0.3, 6))
    with pm.Model() as model:
        mu = pm.math.exp(pm.Normal("a") + X @ pm.Normal("b", 0, 1, shape=6))
        pm.NegativeBinomial(
            "y", mu=mu, alpha=pm.Exponential("alpha", 1), observed=rng.negative_binomial(2, 2 / (2 + mean))
        )
    return model


MODELS: dict[str, tuple[Callable[[], pm.Model], Callable[..., object]]] = {
    "logistic, 100,000 × 10, `MHSS`": (synthetic(100_000).build, pma.MHSS),
    "150 groups, 6,000 rows, `GroupMH`": (groups, pma.GroupMH),
    "negative binomial, 50,000 × 6, `PenaltyMH`": (negative_binomial, pma.PenaltyMH),
}


def main() -> None:
    quiet()
    lines = []
    for name, (build, make) in MODELS.items():
        with build():
            step = make(progressbar=False)
            for tune in (1_000, 300, 100):
                run = pm.sample(
                    1_000, tune=tune, chains=4, cores=1, step=step, random_seed=1, progressbar=False, quiet=True,
                    compute_convergence_checks=False,
                )  # fmt: skip
                r_hat = max(float(v.max()) for v in as_dataset(az.rhat(group(run, "posterior"))).data_vars.values())
                ess = smallest_ess(run)
                lines.append({"model": name, "tuning draws": tune, "ESS of 4,000": ess, "R-hat": f"{r_hat:.3f}"})
    show(lines)


if __name__ == "__main__":
    main()
