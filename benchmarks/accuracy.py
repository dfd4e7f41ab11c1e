"""How far the defaults are from an exact answer, model by model.

Run ``python benchmarks/accuracy.py`` (``--problems`` chooses, ``--draws``, ``--seconds`` for the exact answer).  The
exact answer reads all rows of every draw.  Where the posterior is close to normal it is importance sampling from the
normal approximation, whose weights are the exact density of the model and whose error is judged by Pareto smoothing
(Vehtari et al. 2024); elsewhere, and where its k̂ is above 0.5, it is a chain of `ExactMH`, or of nutpie for radon.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
import pymc as pm
from agreement import Moments, agreement, flat, of_draws
from arviz_stats.base import array_stats
from draw import MODELS
from group_models import radon
from timing import ONE_CHAIN, show

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import group

TUNE, CHAINS, EXACT_DRAWS, IMPORTANCE_DRAWS = 300, 4, 5_000, 4_000
#: Above this the weights of importance sampling have too heavy a tail for its errors to mean what they say.
LARGEST_K = 0.5
_SMOOTHED_FROM = 0.9


def moments(model: pm.Model, idata: Any) -> Moments:
    """Return the moments of the free variables."""
    return of_draws(flat(idata, [v.name for v in model.free_RVs]))


def sample(step: Any, draws: int, chains: int) -> Any:
    """Sample some chains."""
    return pm.sample(draws, tune=TUNE, step=step, quiet=True, **{**ONE_CHAIN, "chains": chains, "cores": 2})


def normal_draws(normal: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw θ from the normal approximation, its first two moments met exactly; return θ and the log densities."""
    z = np.random.default_rng(11).standard_normal((n, normal.centre.size))
    z -= z.mean(axis=0)
    z = np.linalg.solve(np.linalg.cholesky(z.T @ z / n), z.T).T
    return normal.centre + z @ normal.factor.T, -0.5 * (z**2).sum(axis=1)


def as_point(step: Any, theta: np.ndarray) -> dict[str, np.ndarray]:
    """Return θ as PyMC's dictionary of values."""
    return {b.name: theta[b.start : b.stop].reshape(b.shape) for b in step.decider.parts.likelihood.blocks}


def constrained(model: pm.Model, points: list[dict[str, np.ndarray]]) -> np.ndarray:
    """Return the free variables, flat, at every unconstrained point."""
    outputs = model.replace_rvs_by_values(model.free_RVs)
    inverse = model.compile_fn(outputs, inputs=model.value_vars, on_unused_input="ignore", point_fn=True)
    return np.stack([np.concatenate([np.ravel(v) for v in inverse(point)]) for point in points])


def by_importance(model: pm.Model, step: Any, seconds: float) -> tuple[Moments, str] | None:
    """Return exact moments by importance sampling, or None where the normal approximation is too far off."""
    normal, log_density = step.decider.parts.prepared.normal, model.compile_logp()
    log_density(as_point(step, normal.centre))
    start = time.perf_counter()
    log_density(as_point(step, normal.centre))
    n = int(np.clip(seconds / (time.perf_counter() - start), 1_000, IMPORTANCE_DRAWS))
    thetas, log_normal = normal_draws(normal, n)
    points = [as_point(step, theta) for theta in thetas]
    log_weight = np.array([float(log_density(point)) for point in points]) - log_normal
    smoothed, k = array_stats.psislw(log_weight.max() - log_weight)  # which takes minus the log weights
    if k > LARGEST_K:
        print(f"  importance sampling: k̂ = {float(k):.2f}, refused", flush=True)
        return None
    weight = np.exp(smoothed - smoothed.max())
    weight *= n / weight.sum()
    draws = constrained(model, points)
    mean = (weight[:, None] * draws).mean(axis=0)
    # As every moment of the draws themselves is met, what is left of the error comes from the weights.
    spread = (draws - mean) ** 2
    sd = np.sqrt((weight[:, None] * spread).mean(axis=0))
    unevenness = ((weight - 1) ** 2)[:, None]
    mean_error = np.sqrt((unevenness * spread).mean(axis=0) / n)
    sd_error = np.sqrt((unevenness * (spread - sd**2) ** 2).mean(axis=0) / n) / (2 * sd)
    exact = Moments(mean, sd, mean_error, sd_error, n / (weight**2).mean())
    return exact, f"importance, {n:,} draws, k̂ {float(k):.2f}"


def exact_moments(name: str, model: pm.Model, step: Any, seconds: float) -> tuple[Moments, str]:
    """Return the exact moments, by whatever is cheapest, and say how."""
    if name == "radon":  # few rows and many parameters, in the parametrisation that suits NUTS
        with radon(noncentred=True):
            chains = {**ONE_CHAIN, "chains": 4, "cores": 2}
            idata = pm.sample(4_000, tune=1_000, nuts_sampler="nutpie", **chains)
        return moments(model, idata), "nutpie, 4 × 4,000"
    if step.decider.parts.prepared.normality > _SMOOTHED_FROM:
        found = by_importance(model, step, seconds)
        if found is not None:
            return found
    start = time.perf_counter()
    for _ in range(5):
        step.chain.transition(step.chain.start, np.empty(0), 1.0)
    draws = int(np.clip(seconds * 5 / (time.perf_counter() - start), 600, EXACT_DRAWS))
    return moments(model, sample(step, draws, 2)), f"ExactMH, 2 × {draws:,}"


def compare(name: str, draws: int, seconds: float) -> list[dict[str, Any]]:
    """Return one line for each test."""
    model, lines = MODELS[name](), []
    with model:
        step = pma.ExactMH()
        start = time.perf_counter()
        exact, how = exact_moments(name, model, step, seconds)
        print(f"{name}: {how}, in {time.perf_counter() - start:,.0f} s", flush=True)
        for test in (pma.PenaltyMH, pma.MinibatchBarker):
            idata = sample(test(), draws, CHAINS)
            rows = float(group(idata, "sample_stats")["n_rows"].mean())
            found = agreement(moments(model, idata), exact)
            lines.append({"problem": name, "test": test.__name__, "exact": how, "rows a draw": rows, **found})
            show(lines[-1:], sys.stderr)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--draws", type=int, default=20_000, help="of each of four chains")
    parser.add_argument("--seconds", type=float, default=300.0, help="that the exact answer may take")
    options = parser.parse_args()
    show([line for name in options.problems for line in compare(name, options.draws, options.seconds)])


if __name__ == "__main__":
    main()
