"""Models with many groups: effective draws a CPU second of `GroupMH` beside nutpie, or PyMC's NUTS without it.

Run ``python benchmarks/groups.py`` (``--problems`` chooses, ``--tune`` and ``--draws`` are those of `GroupMH`,
``--refreshed`` compares shares of the groups, ``--together`` runs `PenaltyMH` with one decision over all of them,
``--reference 0`` leaves nutpie out).  Logistic regressions with five slopes, groups of very unequal size and an unknown
mean and scale of their effects; and radon in 386 counties, with an intercept and a slope each, where nutpie is run
centred and not; and crossed factors on real data: late flights by aircraft and destination, ratings by student and
lecturer, insurance claims by region and brand.  Nutpie is not run on ten million rows of 100,000 groups (``--problems
"10,000,000 x 200,004" --refreshed 0.02``).  One chain each.  CPU time of sampling, tuning included, set-up by itself.
ESS is ArviZ's bulk ESS: the smallest of what the groups share, and that of the slowest of 20 groups.  Shifts of means
and ratios of standard deviations are those of the same parameters, from the reference with most effective draws.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import arviz as az
import crossed
import numpy as np
import pandas as pd
import problems
import pymc as pm

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import as_dataset, group

OUTPUT = Path(__file__).parent / "output"


def model_of(n_rows: int, n_groups: int) -> pm.Model:
    """Build a logistic regression with an effect for each group, the sizes of the groups log-normal."""
    rng = np.random.default_rng(17)
    share = rng.lognormal(0, 1, n_groups)
    g = rng.choice(n_groups, n_rows, p=share / share.sum())
    X = rng.normal(size=(n_rows, 5))
    effects = rng.normal(-0.5, 0.7, n_groups)
    eta = effects[g] + X @ np.array([0.5, -0.3, 0.2, 0.0, 0.4])
    y = rng.random(n_rows) < 1 / (1 + np.exp(-eta))
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 2)
        log_scale = pm.Normal("log_scale", 0, 1)
        slopes = pm.Normal("slopes", 0, 1, shape=5)
        effect = pm.Normal("effect", intercept, pm.math.exp(log_scale), shape=n_groups)
        pm.Bernoulli("y", logit_p=effect[g] + X @ slopes, observed=y.astype(np.int8))
    return model


def with_slopes(n_rows: int, n_groups: int) -> pm.Model:
    """Build a logistic regression with an intercept and a slope for each group, the sizes of the groups log-normal."""
    rng = np.random.default_rng(18)
    share = rng.lognormal(0, 1, n_groups)
    g = rng.choice(n_groups, n_rows, p=share / share.sum()).astype(np.int32)
    x = rng.normal(size=n_rows)
    eta = rng.normal(-0.5, 0.7, n_groups)[g] + rng.normal(0.3, 0.4, n_groups)[g] * x
    y = rng.random(n_rows) < 1 / (1 + np.exp(-eta))
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2, shape=2)
        scale = pm.HalfNormal("scale", 1, shape=2)
        intercept = pm.Normal("intercept", mean[0], scale[0], shape=n_groups)
        slope = pm.Normal("slope", mean[1], scale[1], shape=n_groups)
        pm.Bernoulli("y", logit_p=intercept[g] + slope[g] * x, observed=y.astype(np.int8))
    return model


class Problem(NamedTuple):
    """A model, the forms of it that the reference samples, and its variables.

    Of very many effects no draws are kept, so that memory is that of the sampler.
    """

    build: Callable[[], pm.Model]
    references: dict[str, Callable[[], pm.Model]]
    shared: tuple[str, ...]
    effects: tuple[str, ...]

    def parameters(self, idata: Any) -> dict[str, np.ndarray]:
        """Return the draws of all that is shared and of 20 groups of each factor, shape (C, S, number) by kind."""
        posterior = as_dataset(group(idata, "posterior"))

        def draws(name: str) -> np.ndarray:
            return posterior[name].to_numpy().reshape(*posterior[name].shape[:2], -1)

        def some(of: np.ndarray) -> np.ndarray:
            return of[:, :, np.random.default_rng(1).choice(of.shape[2], min(20, of.shape[2]), replace=False)]

        kinds = {"shared": list(map(draws, self.shared)), "effects": [some(draws(name)) for name in self.effects]}
        return {kind: np.concatenate(found, axis=2) for kind, found in kinds.items() if found}


def _synthetic(n_rows: int, n_groups: int) -> Problem:
    build = partial(model_of, n_rows, n_groups)
    return Problem(build, {"centred": build}, ("intercept", "log_scale", "slopes"), ("effect",))


PROBLEMS = {
    "3,000 x 36": _synthetic(3_000, 30),
    "10,000 x 106": _synthetic(10_000, 100),
    "15,000 x 156": _synthetic(15_000, 150),
    "30,000 x 306": _synthetic(30_000, 300),
    "100,000 x 1,006": _synthetic(100_000, 1_000),
    "200,000 x 2,006": _synthetic(200_000, 2_000),
    "1,000,000 x 10,006": _synthetic(1_000_000, 10_000),
    "10,000,000 x 200,004": Problem(partial(with_slopes, 10_000_000, 100_000), {}, ("mean", "scale"), ()),
    "radon": Problem(
        problems.radon,
        {"centred": problems.radon, "not centred": partial(problems.radon, noncentred=True)},
        ("mean", "scale", "uranium", "sigma"),
        ("intercept", "slope"),
    ),
    "insteval": Problem(
        crossed.insteval,
        {"centred": crossed.insteval, "not centred": partial(crossed.insteval, noncentred=True)},
        ("intercept", "sigma", "student_scale", "lecturer_scale"),
        ("student", "lecturer"),
    ),
    "insteval, ordinal": Problem(
        crossed.insteval_ordinal,
        {
            "centred": crossed.insteval_ordinal,
            "not centred": partial(crossed.insteval_ordinal, noncentred=True),
        },
        ("cutpoints", "student_scale", "lecturer_scale"),
        ("student", "lecturer"),
    ),
    "flights": Problem(
        crossed.flights,
        {"centred": crossed.flights, "not centred": partial(crossed.flights, noncentred=True)},
        ("intercept", "slopes", "tail_scale", "dest_scale"),
        ("tail", "dest"),
    ),
    "delays": Problem(
        crossed.delays,
        {"centred": crossed.delays, "not centred": partial(crossed.delays, noncentred=True)},
        ("intercept", "slopes", "sigma", "tail_scale", "dest_scale", "carrier_scale"),
        ("tail", "dest", "carrier"),
    ),
    "claims": Problem(
        crossed.claims,
        {"centred": crossed.claims, "not centred": partial(crossed.claims, noncentred=True)},
        ("intercept", "slopes", "brand_scale", "region_scale"),
        ("brand", "region"),
    ),
}


def _ess(draws: np.ndarray) -> np.ndarray:
    return np.array([float(az.ess(draws[:, :, j])) for j in range(draws.shape[2])])


def summary(problem: Problem, idata: Any, seconds: float, set_up: float) -> dict[str, float]:
    """Return effective draws a CPU second."""
    ess = {kind: _ess(draws) for kind, draws in problem.parameters(idata).items()}
    return {
        "set-up s": set_up,
        "sampling s": seconds,
        **{f"ESS/s {kind}": of.min() / seconds for kind, of in ess.items()},
        **{f"median ESS/s {kind}": float(np.median(of)) / seconds for kind, of in ess.items()},
    }


def agreement(problem: Problem, idata: Any, reference: Any) -> dict[str, float]:
    """Return shifts from a reference in its standard deviations, their Monte Carlo errors, and ratios of these."""
    ours, theirs = (np.concatenate(list(problem.parameters(of).values()), axis=2) for of in (idata, reference))
    shift = (ours.mean((0, 1)) - theirs.mean((0, 1))) / theirs.std((0, 1))
    error = np.sqrt(1 / _ess(ours) + 1 / _ess(theirs))
    ratio = ours.std((0, 1)) / theirs.std((0, 1))
    return {
        "rms shift": float(np.sqrt((shift**2).mean())),
        "rms shift expected by chance": float(np.sqrt((error**2).mean())),
        "largest shift": float(np.abs(shift).max()),
        "smallest sd ratio": ratio.min(),
        "largest sd ratio": ratio.max(),
    }


def sampled(
    problem: Problem, build: Callable[[], Any], tune: int, draws: int
) -> tuple[Any, dict[str, float], dict[str, float]]:
    """Sample with a step; return draws, what of the sampler is alike for all steps, and what the draws are worth."""
    with problem.build():
        start = time.process_time()
        step = build()
        set_up = time.process_time() - start
        start = time.process_time()
        idata = pm.sample(
            draws, tune=tune, step=step, chains=1, cores=1, random_seed=1, progressbar=False, quiet=True,
            compute_convergence_checks=False, var_names=[*problem.shared, *problem.effects],
        )  # fmt: skip
        seconds = time.process_time() - start
    stats = group(idata, "sample_stats")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    used = {"rows a draw": float(stats["n_rows"].mean()), "ms a draw": 1e3 * seconds / (draws + tune)}
    return idata, {**used, "peak GB": memory}, summary(problem, idata, seconds, set_up)


def run_together(problem: Problem, tune: int, draws: int) -> tuple[Any, dict[str, float]]:
    """Sample with `PenaltyMH`, one decision over all groups."""
    build = partial(pma.PenaltyMH, proposal=pma.CrankNicolson(), progressbar=False)
    idata, used, worth = sampled(problem, build, tune, draws)
    return idata, {**used, "accepted": float(group(idata, "sample_stats")["accepted"].mean()), **worth}


def run_groups(problem: Problem, tune: int, draws: int, refreshed: Any) -> tuple[Any, dict[str, float]]:
    """Sample with `GroupMH`."""
    build = partial(pma.GroupMH, refreshed=refreshed, progressbar=False)
    idata, used, worth = sampled(problem, build, tune, draws)
    stats = group(idata, "sample_stats")
    return idata, {
        "groups a draw": float(stats["n_refreshed"].mean()),
        "of which carried": float(stats["n_rows_carried"].mean()),
        "carried accepted": float(stats["accepted"].mean()),
        "angle of its moves": float(stats["scaling"].mean()),
        "refreshed accepted": float(stats["refresh_accept"].mean()),
        "shifts accepted": float(stats["shift_accept"].mean()),
        **used,
        **worth,
    }


def run_reference(problem: Problem, form: str, draws: int) -> tuple[Any, dict[str, float]]:
    """Sample with nutpie, or with PyMC's NUTS where it is not installed."""
    model = problem.references[form]()
    start = time.process_time()
    try:
        import nutpie

        compiled = nutpie.compile_pymc_model(model)
        set_up = time.process_time() - start
        start = time.process_time()
        idata = nutpie.sample(compiled, draws=draws, tune=draws, chains=1, cores=1, seed=1, progress_bar=False)
    except ImportError:
        set_up = 0.0
        with model:
            idata = pm.sample(draws, tune=draws, chains=1, cores=1, random_seed=1, progressbar=False)
    return idata, summary(problem, idata, time.process_time() - start, set_up)


def run(problem: Problem, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Return a column of the table for each run."""
    columns, runs, references = {}, {}, {}
    for share in options.refreshed:
        key = f"GroupMH, {share}"
        runs[key], columns[key] = run_groups(
            problem, options.tune, options.draws, share if share == "auto" else float(share)
        )
        print(key, columns[key], flush=True)
    if options.together:
        runs["PenaltyMH"], columns["PenaltyMH"] = run_together(problem, options.tune, options.draws)
    for form in problem.references if options.reference else ():
        key = f"NUTS, {form}"
        references[key], columns[key] = run_reference(problem, form, options.reference)
    if references:
        best = max(references, key=lambda key: min(columns[key]["ESS/s shared"], columns[key]["ESS/s effects"]))
        for key, idata in runs.items():
            columns[key] |= agreement(problem, idata, references[best])
    return columns


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--problems", nargs="+", default=["radon", "30,000 x 306", "200,000 x 2,006"], choices=list(PROBLEMS)
    )
    parser.add_argument("--tune", type=int, default=1_000)
    parser.add_argument("--draws", type=int, default=6_000)
    parser.add_argument(
        "--reference", type=int, default=300, help="draws of nutpie, after as many of tuning; 0 leaves it out"
    )
    parser.add_argument("--together", action="store_true", help="beside it PenaltyMH, one decision over all groups")
    parser.add_argument("--refreshed", nargs="+", default=["auto"], help="shares of the groups to compare, or auto")
    options = parser.parse_args()
    OUTPUT.mkdir(exist_ok=True)
    found: dict[tuple[str, str], dict[str, float]] = {}
    for name in options.problems:
        found |= {(name, column): of for column, of in run(PROBLEMS[name], options).items()}
        table = pd.DataFrame(found)
        table.to_csv(OUTPUT / "groups.csv")
        print(table.to_string(float_format=lambda x: f"{x:,.4g}"), flush=True)


if __name__ == "__main__":
    main()
