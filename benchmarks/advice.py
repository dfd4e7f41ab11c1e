"""What the advisers take beside the work that they advise on: `recommend`, `reliability`, and a run of the step named.

Run ``python benchmarks/advice.py``: each model in a process of its own, a second time, so that compiled code is read
from disk.  Seconds of wall clock, as a user waits: of `recommend`, of ``pm.sample`` by the step that it built (4 chains
of 1,000 draws after 1,000 of tuning, one after the other), and of `reliability` for that run.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy as np
import pymc as pm
from timing import elsewhere, quiet, show

import pymc_austerity as pma

RNG = np.random.default_rng(0)


def logistic(n: int = 1_000_000, d: int = 10) -> None:
    X = RNG.normal(size=(n, d))
    y = RNG.random(n) < 1 / (1 + np.exp(-X @ RNG.normal(0, 0.3, d)))
    pm.Bernoulli("y", logit_p=X @ pm.Normal("beta", 0, 1, shape=d), observed=y)


def groups(n: int = 300_000, m: int = 1_200) -> None:
    g, x = RNG.integers(0, m, n), RNG.normal(size=n)
    y = RNG.random(n) < 1 / (1 + np.exp(-(RNG.normal(0, 0.5, m)[g] + 0.3 * x)))
    effect = pm.Normal("effect", pm.Normal("mean"), pm.HalfNormal("scale"), shape=m)
    pm.Bernoulli("y", logit_p=effect[g] + pm.Normal("slope") * x, observed=y)


def ordered(n: int = 10_758, d: int = 24) -> None:
    X = RNG.normal(size=(n, d))
    y = np.digitize(X @ RNG.normal(0, 0.3, d) + RNG.logistic(size=n), [-2, -0.5, 0.5, 2])
    cuts = pm.Normal("cuts", 0, 2, shape=4, transform=pm.distributions.transforms.ordered, initval=[-2, -0.5, 0.5, 2])
    pm.OrderedLogistic("y", eta=X @ pm.Normal("beta", 0, 1, shape=d), cutpoints=cuts, observed=y)


def outcomes(n: int = 100, m: int = 150) -> None:
    """Build 150 observed variables in a loop, with an intercept each."""
    mean, scale, sigma = pm.Normal("mean"), pm.HalfNormal("scale"), pm.HalfNormal("sigma")
    for k in range(m):
        pm.Normal(f"y{k}", pm.Normal(f"a{k}", mean, scale), sigma, observed=RNG.normal(RNG.normal(), 1, n))


MODELS: dict[str, Callable[[], None]] = {
    "logistic, 1,000,000 x 10": logistic,
    "300,000 rows, 1,200 groups": groups,
    "ordered logistic, 10,758 x 24": ordered,
    "150 outcomes of 100 rows": outcomes,
}


def timed(call: Callable[[], object]) -> tuple[float, object]:
    """Return the seconds of a call, and what it returned."""
    start = time.perf_counter()
    returned = call()
    return time.perf_counter() - start, returned


def of_model(name: str) -> None:
    """Print what a model takes, as JSON."""
    quiet()
    with pm.Model() as model:
        MODELS[name]()
    found, advice = timed(lambda: pma.recommend(model, progressbar=False))
    step = advice.build()
    sampled, idata = timed(
        lambda: pm.sample(1_000, tune=1_000, chains=4, cores=1, step=step, model=model, random_seed=1, quiet=True)
    )
    judged, report = timed(lambda: pma.reliability(idata, model, step=step, progressbar=False))
    print(json.dumps([found, type(step).__name__, sampled, judged, report.verdict]))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        of_model(sys.argv[1])
    else:
        lines = []
        for name in MODELS:
            elsewhere(name)
            found, step, sampled, judged, verdict = elsewhere(name)
            lines.append(
                {"model": name, "`recommend`, s": found, "named": f"`{step}`", "its run, s": sampled,
                 "`reliability`, s": judged, "verdict": verdict}
            )  # fmt: skip
        show(lines)
