"""What a user would choose instead: the same models by every method at hand, from a fresh process to the answer.

Run ``python benchmarks/choices.py`` (``--problems`` and ``--methods`` choose, ``--seconds`` ends a run that takes
longer).  Each run is a process of its own.  Its seconds are of the wall, from the start of the process to draws and
verdict, without the making of the data: imports, compilation and tuning are in them.  Methods whose library is not
installed are left out and named; ``pip install pymc-extras numpyro nutpie`` has them all.

Errors are against a long run of NUTS, or of `MHSS` where there are a million rows: root mean square and largest shift
of means, standard deviations as ratios, the largest shift of a 5 or 95 % quantile, all in posterior standard
deviations.  `says` is what the method itself tells of its error: R-hat and divergences, the verdict of `reliability`,
a Pareto k above .7; nothing for the others.  Results are kept in ``benchmarks/output/choices`` and not made again.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

OUTPUT = Path(__file__).parent / "output" / "choices"
BATCH, DRAWS, SEED = 500, 1_000, 1
QUIET = {"progressbar": False, "random_seed": SEED}

Arrays = tuple[np.ndarray, ...]
#: All rows as they are, or a minibatch of them.
Rows = Callable[..., Any]


class Problem(NamedTuple):
    """Data, the model of all their rows or of a minibatch, our step for it, and what errors are measured against."""

    data: Callable[[], Arrays]
    model: Callable[[Arrays, Rows], Any]
    ours: str
    reference: str = "nutpie"


class Answer(NamedTuple):
    """Draws of the free variables, and what the method says of them."""

    draws: dict[str, np.ndarray]
    says: str


def whole(*arrays: np.ndarray) -> Arrays:
    """Return all rows."""
    return arrays


def logistic_rows(n: int, d: int) -> Arrays:
    """Make a table and labels."""
    from kernel import logistic_data

    return logistic_data(n, d, float)


def logistic(arrays: Arrays, rows: Rows) -> Any:
    """Logistic regression."""
    import pymc as pm

    with pm.Model() as model:
        X, y = rows(*arrays)
        eta = pm.math.dot(X, pm.Normal("beta", 0, 1, shape=arrays[0].shape[1]))
        pm.Bernoulli("y", logit_p=eta, observed=y, total_size=_total(arrays, rows))
    return model


def flights_rows() -> Arrays:
    """Read standardised covariates and delays."""
    from problems import flight_rows

    return flight_rows()


def student(arrays: Arrays, rows: Rows) -> Any:
    """Linear regression with Student errors, unknown scale and degrees of freedom."""
    import pymc as pm

    with pm.Model() as model:
        X, y = rows(*arrays)
        beta, sigma = pm.Normal("beta", 0, 1, shape=arrays[0].shape[1]), pm.HalfNormal("sigma", 1)
        law = {"nu": pm.Gamma("nu", 2, 0.1), "mu": pm.math.dot(X, beta), "sigma": sigma}
        pm.StudentT("y", **law, observed=y, total_size=_total(arrays, rows))
    return model


def grouped_rows(n: int, n_groups: int) -> Arrays:
    """Make a table, labels, and the group of every row, of very unequal sizes."""
    rng = np.random.default_rng(17)
    share = rng.lognormal(0, 1, n_groups)
    g = rng.choice(n_groups, n, p=share / share.sum())
    X, effects = rng.normal(size=(n, 5)), rng.normal(-0.5, 0.7, n_groups)
    eta = effects[g] + X @ np.array([0.5, -0.3, 0.2, 0.0, 0.4])
    return X, (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(np.int8), g


def hierarchical(arrays: Arrays, rows: Rows) -> Any:
    """Logistic regression with an effect for every group, whose mean and scale are unknown."""
    import pymc as pm

    with pm.Model() as model:
        X, y, g = rows(*arrays)
        intercept, log_scale = pm.Normal("intercept", 0, 2), pm.Normal("log_scale", 0, 1)
        slopes = pm.Normal("slopes", 0, 1, shape=arrays[0].shape[1])
        effect = pm.Normal("effect", intercept, pm.math.exp(log_scale), shape=int(arrays[2].max()) + 1)
        pm.Bernoulli("y", logit_p=effect[g] + X @ slopes, observed=y, total_size=_total(arrays, rows))
    return model


def _total(arrays: Arrays, rows: Rows) -> int | None:
    return None if rows is whole else len(arrays[1])


PROBLEMS: dict[str, Problem] = {
    "logistic 1e3 x 5": Problem(partial(logistic_rows, 1_000, 5), logistic, "MHSS"),
    "logistic 1e5 x 10": Problem(partial(logistic_rows, 100_000, 10), logistic, "MHSS"),
    "logistic 1e6 x 10": Problem(partial(logistic_rows, 1_000_000, 10), logistic, "MHSS", "MHSS"),
    "flights, Student, 327,346 x 11": Problem(flights_rows, student, "MHSS"),
    "300 groups, 3e4 rows": Problem(partial(grouped_rows, 30_000, 300), hierarchical, "GroupMH"),
    "2,000 groups, 2e5 rows": Problem(partial(grouped_rows, 200_000, 2_000), hierarchical, "GroupMH"),
}


# Methods: each takes a problem and its data.


def ours(problem: Problem, arrays: Arrays, name: str = "", draws: int = 5_000, judged: bool = True) -> Answer:
    """Run one of our steps, by default that which suits the problem, and judge it."""
    import pymc as pm

    import pymc_austerity as pma

    with problem.model(arrays, whole) as model:
        step = getattr(pma, name or problem.ours)(progressbar=False)
        idata = pm.sample(
            draws, tune=1_000, step=step, chains=4, cores=2, compute_convergence_checks=False, quiet=True, **QUIET
        )
    says = pma.reliability(idata, model, step=step).verdict if judged else ""
    return Answer(_posterior(idata, model), says)


def nuts(problem: Problem, arrays: Arrays, sampler: str = "pymc", draws: int = DRAWS) -> Answer:
    """Run NUTS of PyMC, of nutpie or of NumPyro: four chains."""
    import pymc as pm

    with problem.model(arrays, whole) as model:
        idata = pm.sample(draws, chains=4, cores=2, nuts_sampler=sampler, compute_convergence_checks=False, **QUIET)
    return Answer(_posterior(idata, model), _convergence(idata))


def laplace(problem: Problem, arrays: Arrays) -> Answer:
    """Run the Laplace approximation of pymc-extras."""
    import pymc_extras as pmx

    with problem.model(arrays, whole) as model:
        idata = pmx.fit_laplace(draws=4 * DRAWS, include_transformed=False, **QUIET)
    return Answer(_posterior(idata, model), "")


def pathfinder(problem: Problem, arrays: Arrays) -> Answer:
    """Run multi-path Pathfinder of pymc-extras with Pareto-smoothed importance sampling."""
    import pymc_extras as pmx

    with problem.model(arrays, whole) as model:
        idata = pmx.fit_pathfinder(num_draws=DRAWS, **QUIET)
    return Answer(_posterior(idata, model), "")


def importance(problem: Problem, arrays: Arrays) -> Answer:
    """Weight draws of a Laplace approximation, by PyMC's mode and Hessian, with ArviZ's Pareto smoothing."""
    import pymc as pm
    from arviz_stats.base import array_stats
    from pymc.blocking import DictToArrayBijection
    from scipy import stats

    with problem.model(arrays, whole) as model:
        found = pm.find_MAP(progressbar=False, include_transformed=True)
    mode = {v.name: found[v.name] for v in model.value_vars}
    flat = DictToArrayBijection.map(mode)
    covariance = np.linalg.inv(np.asarray(model.compile_d2logp()(mode)))
    law = stats.multivariate_t(flat.data, covariance, df=5, seed=SEED)
    draws = np.atleast_2d(law.rvs(2 * DRAWS))
    points = [DictToArrayBijection.rmap(flat._replace(data=x)) for x in draws]
    log_density = model.compile_logp()
    log_weight, k = array_stats.psislw(law.logpdf(draws) - np.array([float(log_density(at)) for at in points]))
    weight = np.exp(log_weight - np.logaddexp.reduce(log_weight))
    chosen = np.random.default_rng(SEED).choice(len(points), 2 * DRAWS, p=weight)
    back = model.compile_fn(model.unobserved_value_vars, inputs=model.value_vars, point_fn=True)
    names = [v.name for v in model.unobserved_value_vars]
    values = [dict(zip(names, back(points[i]), strict=True)) for i in chosen]
    posterior = {v.name: np.array([at[v.name] for at in values]) for v in model.free_RVs}
    return Answer(posterior, f"Pareto k {float(k):.2f}")


def advi(problem: Problem, arrays: Arrays) -> Answer:
    """Run minibatch ADVI of PyMC, 20,000 steps."""
    import pymc as pm

    def rows(*arrays: np.ndarray) -> Any:
        # PyMC makes whole numbers int32, and takes no minibatch that is converted.
        return pm.Minibatch(*(a.astype(np.int32) if a.dtype.kind == "i" else a for a in arrays), batch_size=BATCH)

    with problem.model(arrays, rows) as model:
        fitted = pm.fit(20_000, method="advi", **QUIET)
        idata = fitted.sample(4 * DRAWS, random_seed=SEED)
    return Answer(_posterior(idata, model), "")


def sgld(problem: Problem, arrays: Arrays) -> Answer:
    """Run SGLD with control variates and a step of a tenth of the posterior's width."""
    import pymc as pm

    import pymc_austerity as pma

    with problem.model(arrays, whole) as model:
        step = pma.SGLD(step_size=0.1, batch_size=BATCH, proxy=pma.Taylor(order=1), progressbar=False)
        idata = pm.sample(5_000, tune=1_000, step=step, chains=4, cores=2, compute_convergence_checks=False, **QUIET)
    return Answer(_posterior(idata, model), "")


METHODS: dict[str, tuple[Callable[..., Answer], str]] = {
    "ours": (ours, "pymc_austerity"),
    "PenaltyMH": (partial(ours, name="PenaltyMH"), "pymc_austerity"),
    "nutpie": (partial(nuts, sampler="nutpie"), "nutpie"),
    "PyMC NUTS": (nuts, "pymc"),
    "NumPyro NUTS": (partial(nuts, sampler="numpyro"), "numpyro"),
    "Laplace": (laplace, "pymc_extras"),
    "Pathfinder": (pathfinder, "pymc_extras"),
    "minibatch ADVI": (advi, "pymc"),
    "importance sampling": (importance, "pymc_austerity"),
    "SGLD": (sgld, "pymc_austerity"),
}
#: Long runs for what errors are measured against.
REFERENCES: dict[str, Callable[..., Answer]] = {
    "nutpie": partial(nuts, sampler="nutpie", draws=5_000),
    "MHSS": partial(ours, name="MHSS", draws=25_000, judged=False),
}


# One run, in a process of its own, and the table of all.


def _posterior(idata: Any, model: Any) -> dict[str, np.ndarray]:
    posterior = idata["posterior"]
    found = {}
    for variable in model.free_RVs:
        values = posterior[variable.name].to_numpy()
        found[variable.name] = values.reshape(values.shape[0] * values.shape[1], *values.shape[2:])
    return found


def _convergence(idata: Any) -> str:
    import arviz as az

    rhat = az.rhat(idata)
    values = rhat.to_dataset() if hasattr(rhat, "to_dataset") else rhat
    largest = max(float(v.max()) for v in values.data_vars.values())
    diverging = int(idata["sample_stats"]["diverging"].sum())
    return f"R-hat {largest:.2f}" + (f", {diverging} divergences" if diverging else "")


def _moments(draws: dict[str, np.ndarray]) -> dict[str, list[float]]:
    flat = np.column_stack([draws[name].reshape(len(draws[name]), -1) for name in sorted(draws)])
    low, high = np.quantile(flat, [0.05, 0.95], axis=0)
    found = {"mean": flat.mean(axis=0), "sd": flat.std(axis=0), "low": low, "high": high}
    return {name: values.tolist() for name, values in found.items()}


def run_one(problem: str, method: str, path: Path, begun: float) -> None:
    """Run one method on one problem, and write what came of it."""
    import logging

    logging.getLogger("pymc").setLevel(logging.ERROR)
    start = time.time()
    arrays = PROBLEMS[problem].data()
    making = time.time() - start
    run = REFERENCES[PROBLEMS[problem].reference] if method == "reference" else METHODS[method][0]
    answer = run(PROBLEMS[problem], arrays)
    result = {"seconds": time.time() - begun - making, "says": answer.says, **_moments(answer.draws)}
    path.write_text(json.dumps(result))


def in_a_process(problem: str, method: str, seconds: float) -> dict[str, Any]:
    """Return what a fresh process makes of it, or has made; a failure in words."""
    path = OUTPUT / f"{problem} {method}.json".replace(" ", "_").replace(",", "")
    if not path.exists():
        command = [sys.executable, __file__, "--one", problem, method, str(path), str(time.time())]
        try:
            subprocess.run(command, timeout=seconds, check=True, capture_output=True, text=True)
        except subprocess.TimeoutExpired:
            path.write_text(json.dumps({"failed": f"not finished after {seconds:,.0f} s"}))
        except subprocess.CalledProcessError as ended:
            last = (ended.stderr.strip().splitlines() or ["it ended without a word"])[-1]
            path.write_text(json.dumps({"failed": last[:120]}))
    return json.loads(path.read_text())


def compared(found: dict[str, Any], reference: dict[str, Any]) -> dict[str, Any]:
    """Return a line of the table."""
    if "failed" in found:
        return {"says": found["failed"]}
    own, exact = ({k: np.array(r[k]) for k in ("mean", "sd", "low", "high")} for r in (found, reference))
    shift, ratio = (own["mean"] - exact["mean"]) / exact["sd"], own["sd"] / exact["sd"]
    tails = np.concatenate([own["low"] - exact["low"], own["high"] - exact["high"]]) / np.tile(exact["sd"], 2)
    return {
        "seconds": found["seconds"],
        "means, rms": np.sqrt((shift**2).mean()),
        "largest": np.abs(shift).max(),
        "sd, least": ratio.min(),
        "most": ratio.max(),
        "tails": np.abs(tails).max(),
        "says": found["says"],
    }


def main() -> None:
    """Run what is asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--one", nargs=4, metavar=("PROBLEM", "METHOD", "PATH", "BEGUN"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        problem, method, path, begun = options.one
        run_one(problem, method, Path(path), float(begun))
        return
    OUTPUT.mkdir(parents=True, exist_ok=True)
    left_out = [m for m in options.methods if importlib.util.find_spec(METHODS[m][1]) is None]
    for method in left_out:
        print(f"{method} is left out: {METHODS[method][1]} is not installed.", flush=True)
    lines = {}
    for problem in options.problems:
        reference = in_a_process(problem, "reference", 6 * options.seconds)
        if "failed" in reference:
            print(f"{problem}: the reference failed: {reference['failed']}", flush=True)
            continue
        for method in options.methods:
            if method not in left_out:
                lines[problem, method] = compared(in_a_process(problem, method, options.seconds), reference)
        table = pd.DataFrame(lines).T
        table.to_csv(OUTPUT / "choices.csv")
        print(table.loc[[problem]].to_string(float_format="{:,.2f}".format, na_rep=""), flush=True)


if __name__ == "__main__":
    main()
