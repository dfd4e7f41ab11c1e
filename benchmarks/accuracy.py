"""How far the defaults are from an exact answer, model by model, beside the Laplace approximation's own error.

Run ``python benchmarks/accuracy.py`` (add ``--problems`` with names of `problems.py` to choose).  The exact answer
reads all rows of every draw.  Where the posterior is close to normal it is importance sampling from the normal
approximation, whose weights are the exact density of the model and whose error is judged by Pareto smoothing (Vehtari
et al. 2024); elsewhere, and where its k̂ is above 0.5, it is a chain of `ExactMH`, or of NUTS where that is quicker.
Its moments are kept in ``benchmarks/output`` for ``benchmarks/peers.py``.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
from arviz_stats.base import array_stats
from problems import PROBLEMS, radon

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import group
from pymc_austerity.proxy.full_pass import FullPass, read_coordinates
from pymc_austerity.proxy.mode import PriorCurvature, find_mode
from pymc_austerity.proxy.samples import draw_samples

OUTPUT = Path(__file__).parent / "output"
DRAWS, TUNE, CHAINS = 20_000, 300, 4
EXACT_DRAWS, EXACT_TUNE, EXACT_CHAINS = 5_000, 300, 2
#: Problems of few rows and many parameters, where NUTS needs less time for an effective draw than `ExactMH`, each in
#: the parametrisation that suits NUTS.
FOR_NUTS, NUTS_DRAWS, NUTS_CHAINS = {"radon": partial(radon, noncentred=True)}, 4_000, 4
#: Draws of the importance sampler; the seconds that it, or the exact chain, may take.
IMPORTANCE_DRAWS, SECONDS = 4_000, 300.0
#: Above this the weights of importance sampling have too heavy a tail for its errors to mean what they say.
LARGEST_K = 0.5
_SMOOTHED_FROM = 0.9


class Moments(NamedTuple):
    """Mean and standard deviation of every scalar with their Monte Carlo errors, all of shape (D,)."""

    mean: np.ndarray
    sd: np.ndarray
    mean_error: np.ndarray
    sd_error: np.ndarray
    effective: float
    how: str


def names_of(model: pm.Model) -> list[str]:
    """Return the free variables as the user knows them."""
    return [v.name for v in model.free_RVs]


def chain_moments(model: pm.Model, idata: object, how: str) -> Moments:
    """Return the moments of the draws with ArviZ's Monte Carlo errors."""
    draws = group(idata, "posterior")[names_of(model)]
    data = draws.to_dataset() if hasattr(draws, "to_dataset") else draws

    def flat(values: object) -> np.ndarray:
        values = values.to_dataset() if hasattr(values, "to_dataset") else values
        return np.concatenate([np.ravel(values[name].to_numpy()) for name in names_of(model)])

    return Moments(
        flat(data.mean(("chain", "draw"))), flat(data.std(("chain", "draw"))), flat(az.mcse(draws, method="mean")),
        flat(az.mcse(draws, method="sd")), float(flat(az.ess(draws)).min()), how,
    )  # fmt: skip


def sample(step: object, draws: int, tune: int, chains: int) -> object:
    """Sample without anything on the screen."""
    return pm.sample(
        draws, step=step, tune=tune, chains=chains, cores=2, random_seed=1, progressbar=False, quiet=True,
        compute_convergence_checks=False,
    )  # fmt: skip


def normal_draws(normal: object, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw θ from the normal approximation, its first two moments met exactly; return θ and the log densities."""
    z = np.random.default_rng(11).standard_normal((n, normal.centre.size))
    z -= z.mean(axis=0)
    z = np.linalg.solve(np.linalg.cholesky(z.T @ z / n), z.T).T
    return normal.centre + z @ normal.factor.T, -0.5 * (z**2).sum(axis=1)


def constrained(model: pm.Model, step: object, thetas: np.ndarray) -> np.ndarray:
    """Return the free variables, flat, at every unconstrained point."""
    outputs = model.replace_rvs_by_values(model.free_RVs)
    inverse = model.compile_fn(outputs, inputs=model.value_vars, on_unused_input="ignore", point_fn=True)
    return np.stack([np.concatenate([np.ravel(v) for v in inverse(as_point(step, theta))]) for theta in thetas])


def as_point(step: object, theta: np.ndarray) -> dict[str, np.ndarray]:
    """Return θ as PyMC's dictionary of values."""
    return {b.name: theta[b.start : b.stop].reshape(b.shape) for b in step.decider.likelihood.blocks}


def importance_moments(model: pm.Model, step: object) -> Moments | None:
    """Return exact moments by importance sampling, or None where the normal approximation is too far off."""
    normal = step.decider.prepared.normal
    log_density = model.compile_logp()
    log_density(as_point(step, normal.centre))
    start = time.perf_counter()
    log_density(as_point(step, normal.centre))
    n = int(np.clip(SECONDS / (time.perf_counter() - start), 1_000, IMPORTANCE_DRAWS))
    thetas, log_normal = normal_draws(normal, n)
    log_weight = np.array([float(log_density(as_point(step, theta))) for theta in thetas]) - log_normal
    smoothed, k = array_stats.psislw(log_weight.max() - log_weight)  # which takes minus the log weights
    if k > LARGEST_K:
        print(f"  importance sampling: k̂ = {float(k):.2f}, refused", flush=True)
        return None
    weight = np.exp(smoothed - smoothed.max())
    weight *= n / weight.sum()
    draws = constrained(model, step, thetas)
    mean = (weight[:, None] * draws).mean(axis=0)
    # As every moment of the draws themselves is met, what is left of the error comes from the weights.
    spread = (draws - mean) ** 2
    sd = np.sqrt((weight[:, None] * spread).mean(axis=0))
    unevenness = ((weight - 1) ** 2)[:, None]
    mean_error = np.sqrt((unevenness * spread).mean(axis=0) / n)
    sd_error = np.sqrt((unevenness * (spread - sd**2) ** 2).mean(axis=0) / n) / (2 * sd)
    effective = n / (weight**2).mean()
    return Moments(mean, sd, mean_error, sd_error, effective, f"importance, {n:,} draws, k̂ {float(k):.2f}")


def nuts_moments(model: pm.Model, rewritten: pm.Model) -> Moments:
    """Return the moments of a run of nutpie on the model in another parametrisation."""
    import nutpie

    compiled = nutpie.compile_pymc_model(rewritten)
    idata = nutpie.sample(
        compiled, draws=NUTS_DRAWS, tune=1_000, chains=NUTS_CHAINS, cores=2, seed=1, progress_bar=False
    )
    return chain_moments(model, idata, f"nutpie, {NUTS_CHAINS} × {NUTS_DRAWS:,}")


def exact_moments(name: str, model: pm.Model, rewritten: pm.Model, step: object) -> Moments:
    """Return the exact moments, by whatever is cheaper."""
    if name in FOR_NUTS:
        return nuts_moments(model, rewritten)
    if step.decider.prepared.normality > _SMOOTHED_FROM:
        found = importance_moments(model, step)
        if found is not None:
            return found
    theta = step.chain.start
    start = time.perf_counter()
    for _ in range(5):
        step.chain.transition(theta, np.empty(0), 1.0)
    seconds = (time.perf_counter() - start) / 5
    draws = int(np.clip(SECONDS / seconds, 600, EXACT_DRAWS))
    idata = sample(step, draws, EXACT_TUNE, EXACT_CHAINS)
    return chain_moments(model, idata, f"ExactMH, {EXACT_CHAINS} × {draws:,}")


def laplace(step: object) -> tuple[np.ndarray, np.ndarray]:
    """Return centre and standard deviations of the normal approximation at the posterior mode."""
    decider = step.decider
    likelihood, fixed = decider.likelihood, decider.fixed
    coordinates = np.arange(likelihood.theta_size)
    full_pass, prior = FullPass(likelihood, read_coordinates(likelihood)), PriorCurvature(likelihood, {"mode": "NUMBA"})
    samples = draw_samples(decider.rows, full_pass.coordinates.size)
    start = decider.expansion.centre
    psi, sums, _ = find_mode(likelihood, full_pass, prior, start, fixed, decider.rows, samples, 1.0, False)
    _, slope, curvature = prior(psi, fixed, coordinates)
    slope[full_pass.coordinates] += sums.gradient
    curvature[np.ix_(full_pass.coordinates, full_pass.coordinates)] += sums.hessian
    covariance = np.linalg.inv(-curvature)
    return psi + covariance @ slope, np.sqrt(np.abs(np.diag(covariance)))


def laplace_error(step: object, exact: Moments) -> tuple[float, float]:
    """Return the largest shift and the sd ratio furthest from 1 of the normal approximation at the mode.

    Over the variables that are sampled as they are; a transformed one is normal in another space.
    """
    centre, sd = laplace(step)
    shifts, ratios, start = [], [], 0
    for block in step.decider.likelihood.blocks:
        size = block.stop - block.start
        if not block.name.endswith("__"):
            own, here = slice(block.start, block.stop), slice(start, start + size)
            shifts.append((centre[own] - exact.mean[here]) / exact.sd[here])
            ratios.append(sd[own] / exact.sd[here])
        start += size
    ratio = np.concatenate(ratios)
    return float(np.abs(np.concatenate(shifts)).max()), float(ratio[np.abs(np.log(ratio)).argmax()])


def rms(values: np.ndarray) -> float:
    """Return the root mean square."""
    return float(np.sqrt((values**2).mean()))


def compare(name: str) -> list[dict[str, object]]:
    """Return one line for each test."""
    model = PROBLEMS[name]()
    rewritten = FOR_NUTS[name]() if name in FOR_NUTS else model
    lines = []
    with model:
        step = pma.ExactMH()
        start = time.perf_counter()
        exact = exact_moments(name, model, rewritten, step)
        print(f"{name}: {exact.how}, in {time.perf_counter() - start:,.0f} s", flush=True)
        OUTPUT.mkdir(exist_ok=True)
        pd.DataFrame({"mean": exact.mean, "sd": exact.sd}).to_csv(OUTPUT / f"{name}.csv")
        laplace_shift, laplace_ratio = laplace_error(step, exact)
        for test in (pma.PenaltyMH, pma.MinibatchBarker):
            idata = sample(test(), DRAWS, TUNE, CHAINS)
            ours = chain_moments(model, idata, test.__name__)
            shift, ratio = (ours.mean - exact.mean) / exact.sd, ours.sd / exact.sd
            shift_error = np.hypot(ours.mean_error, exact.mean_error) / exact.sd
            ratio_error = np.hypot(ours.sd_error, exact.sd_error) / exact.sd
            lines.append(
                {
                    "problem": name, "test": test.__name__, "reference": exact.how, "its ESS": exact.effective,
                    "N": len(step.decider.rows), "D": exact.mean.size,
                    "rows a draw": float(group(idata, "sample_stats")["n_rows"].mean()), "min ESS": ours.effective,
                    "shift rms": rms(shift), "MC error rms": rms(shift_error), "shift max": np.abs(shift).max(),
                    "max, MC errors": np.abs(shift / shift_error).max(),
                    "sd ratio min": ratio.min(), "sd ratio max": ratio.max(), "sd error rms": rms(ratio_error),
                    "sd max, MC errors": np.abs((ratio - 1) / ratio_error).max(),
                    "Laplace shift max": laplace_shift, "Laplace sd ratio": laplace_ratio,
                }
            )  # fmt: skip
            print(pd.Series(lines[-1]).to_string(), flush=True)
    return lines


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    lines = [line for name in parser.parse_args().problems for line in compare(name)]
    print(pd.DataFrame(lines).to_string(index=False, float_format="{:,.3f}".format))


if __name__ == "__main__":
    main()
