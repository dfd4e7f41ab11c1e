"""Outcomes of different length, drawn as one population or with the shorter one evaluated in full at every draw.

Run ``python benchmarks/outcomes.py``: `PenaltyMH`, 2 chains of 5,000 draws after 500 of tuning, seconds of the
processor without compilation.  ESS is ArviZ's bulk ESS of the slowest parameter.
"""

from __future__ import annotations

import time

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from timing import quiet, show, smallest_ess

import pymc_austerity as pma

DRAWS = 5_000


def groups(n: int = 4_000, m: int = 1_500) -> pm.Model:
    """Build Kruschke's comparison of two groups: a location and a scale for each, and one normality."""
    rng = np.random.default_rng(1)
    with pm.Model() as model:
        mu, sigma = pm.Normal("mu", 0, 10, shape=2), pm.HalfNormal("sigma", 5, shape=2)
        nu = pm.Exponential("nu", 1 / 29) + 1
        pm.StudentT("first", nu=nu, mu=mu[0], sigma=sigma[0], observed=2 * rng.standard_t(4, n) + 1)
        pm.StudentT("second", nu=nu, mu=mu[1], sigma=sigma[1], observed=rng.standard_t(4, m) + 0.3)
    return model


def censored(n: int = 60_000, m: int = 25_000) -> pm.Model:
    """Build a Weibull regression with the times that ended and the times that were cut short as two outcomes."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n + m, 5))
    times = rng.weibull(1.5, n + m) * np.exp(X @ np.array([0.3, -0.2, 0.1, 0.0, 0.2]))
    with pm.Model() as model:
        alpha, start, beta = pm.HalfNormal("alpha", 2), pm.Normal("start"), pm.Normal("beta", 0, 1, shape=5)
        pm.Weibull("ended", alpha, pt.exp(start + X[:n] @ beta), observed=times[:n])
        scale = pt.exp(start + X[n:] @ beta)
        pm.Potential("cut short", -((0.6 * times[n:] / scale) ** alpha))
    return model


def hurdle(n: int = 50_000) -> pm.Model:
    """Build a hurdle in two parts with slopes of their own: whether there is anything, and how much."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 4))
    some = rng.random(n) < 1 / (1 + np.exp(0.5 - X @ np.array([1.0, 0.5, 0.0, -0.5])))
    amount = np.exp(0.2 + X[some] @ np.array([0.3, 0.0, 0.1, -0.2]) + 0.7 * rng.normal(size=some.sum()))
    with pm.Model() as model:
        first, second = (pm.Normal(name, 0, 1, shape=5) for name in ("whether", "how much"))
        pm.Bernoulli("any", logit_p=first[0] + X @ first[1:], observed=some)
        mean = second[0] + X[some] @ second[1:]
        pm.LogNormal("amount", mean, pm.HalfNormal("sigma"), observed=amount)
    return model


MODELS = {
    "two groups, Student": (groups, ["first", "second"]),
    "times, some cut short": (censored, ["ended", "cut short"]),
    "hurdle in two parts": (hurdle, ["any", "amount"]),
}


def run(model: pm.Model, observed: list[str]) -> dict[str, float]:
    """Sample, and return what a draw costs and is worth."""
    with model:
        step = pma.PenaltyMH(observed=observed, progressbar=False)
        options = {"chains": 2, "cores": 1, "progressbar": False, "compute_convergence_checks": False, "quiet": True}
        pm.sample(10, tune=10, step=step, random_seed=1, **options)
        start = time.process_time()
        idata = pm.sample(DRAWS, tune=500, step=step, random_seed=1, **options)
        seconds = time.process_time() - start
    usage = pma.data_usage(idata)
    return {
        "rows": int(usage["total_rows"]),
        "rows a draw": float(usage["mean"]),
        "µs a draw": 1e6 * seconds / (2 * (DRAWS + 500)),
        "ESS/s": smallest_ess(idata) / seconds,
    }


def main() -> None:
    quiet()
    lines = []
    for name, (build, names) in MODELS.items():
        for way, observed in ((f"{names[1]}: in full at every draw", names[:1]), ("one population", names)):
            lines.append({"outcomes": name, "": way, **run(build(), observed)})
    show(lines)


if __name__ == "__main__":
    main()
