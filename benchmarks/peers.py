"""Effective draws a second beside NUTS (PyMC, nutpie, NumPyro) and NumPyro's HMCECS, one chain each, in one run.

Run ``python benchmarks/peers.py`` (``--problems`` and ``--peers`` choose, ``--seconds`` bounds a peer's run, ``--cut``
says how many draws and tuning draws it makes).  Set-up is compilation, mode, expansion and weights for us, compilation
for the others.  ESS is ArviZ's bulk ESS, the smallest over all parameters; ESS/s counts the time of sampling, tuning
included.  A peer that cannot finish its draws in the time given makes fewer, which the table shows; nutpie where it
cannot finish 60 is given one effective draw a draw.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import arviz as az
import numpy as np
import numpyro_logistic
import pandas as pd
import pymc as pm
from problems import PROBLEMS

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import group

OUTPUT = Path(__file__).parent / "output"
OURS_DRAWS, OURS_TUNE = 20_000, 300
#: Draws and tuning draws of a peer, from the most to the least it may be cut to.
PEER_DRAWS = ((1_000, 500), (200, 200), (60, 60))


class Budget(NamedTuple):
    """What a peer's run may cost: seconds, or the draws and tuning draws that it is cut to."""

    seconds: float
    cut: tuple[int, int] | None


class Run(NamedTuple):
    """One finished run."""

    idata: Any
    set_up: float
    sampling: float
    draws: int
    tune: int
    rows: float
    at_most: float | None = None


def ours(step_class: Callable[[], Any]) -> Callable[[pm.Model, Budget], Run]:
    """Return a runner of one of our steps, at its defaults."""

    def run(model: pm.Model, budget: Budget) -> Run:
        with model:
            start = time.perf_counter()
            step = step_class()
            set_up = time.perf_counter() - start
            start = time.perf_counter()
            idata = pm.sample(
                OURS_DRAWS, tune=OURS_TUNE, step=step, chains=1, cores=1, random_seed=1, progressbar=False, quiet=True,
                compute_convergence_checks=False,
            )  # fmt: skip
        rows = float(group(idata, "sample_stats")["n_rows"].mean())
        return Run(idata, set_up, time.perf_counter() - start, OURS_DRAWS, OURS_TUNE, rows)

    return run


def _affordable(model: pm.Model, budget: Budget) -> tuple[int, int]:
    """Return draws and tuning draws: as given, or the most that fit, were every draw to take 15 gradients."""
    if budget.cut is not None:
        return budget.cut
    evaluate = model.logp_dlogp_function(ravel_inputs=True)
    point = np.concatenate([np.ravel(v) for v in model.initial_point().values()])
    evaluate(point)
    start = time.perf_counter()
    evaluate(point)
    one_gradient = time.perf_counter() - start
    fitting = [cut for cut in PEER_DRAWS if sum(cut) * 15 * one_gradient < budget.seconds]
    return [*fitting, PEER_DRAWS[-1]][0]


def nutpie(model: pm.Model, budget: Budget) -> Run:
    """NUTS of nutpie, stopped where even its shortest run takes more than twice the time.

    A stopped run has no effective sample size.  In its place every draw is counted as one effective draw of as many
    steps as its last draws took: more than nutpie would reach, so the ratio to it is a lower bound.
    """
    import nutpie as peer

    draws, tune = _affordable(model, budget)
    start = time.perf_counter()
    compiled = peer.compile_pymc_model(model)
    set_up = time.perf_counter() - start
    start = time.perf_counter()
    sampler = peer.sample(
        compiled, draws=draws, tune=tune, chains=1, cores=1, seed=1, progress_bar=False, blocking=False
    )
    try:
        idata = sampler.wait(timeout=2 * budget.seconds)
        return Run(idata, set_up, time.perf_counter() - start, draws, tune, _leapfrog_rows(idata, model))
    except TimeoutError:
        idata, sampling = sampler.abort(), time.perf_counter() - start
    kept = [name for name in ("warmup_sample_stats", "sample_stats") if name in idata.children]
    steps = np.concatenate([np.ravel(idata[name]["n_steps"]) for name in kept])
    return Run(idata, set_up, sampling, 0, steps.size, float("nan"), steps.sum() / np.median(steps[-10:]))


def nuts(model: pm.Model, budget: Budget) -> Run:
    """NUTS of PyMC."""
    draws, tune = _affordable(model, budget)
    with model:
        start = time.perf_counter()
        step = pm.NUTS()
        set_up = time.perf_counter() - start
        start = time.perf_counter()
        idata = pm.sample(
            draws, tune=tune, step=step, chains=1, cores=1, random_seed=1, progressbar=False, quiet=True,
            compute_convergence_checks=False,
        )  # fmt: skip
    return Run(idata, set_up, time.perf_counter() - start, draws, tune, _leapfrog_rows(idata, model))


def _leapfrog_rows(idata: Any, model: pm.Model) -> float:
    observed = next(iter(model.observed_RVs))
    return float(group(idata, "sample_stats")["n_steps"].mean()) * model.rvs_to_values[observed].data.shape[0]


def _logistic_of(model: pm.Model) -> tuple[np.ndarray, np.ndarray]:
    """Return covariates and labels of a model with one ``beta`` and one ``y``."""
    from pymc_austerity.likelihood.row_likelihood import row_likelihood

    arrays = row_likelihood(model)[1].row_arrays()
    X, y = (next(a for a in arrays if a.ndim == n) for n in (2, 1))
    return X, y


def numpyro(subsample: bool) -> Callable[[pm.Model, Budget], Run]:
    """Return a runner of NumPyro's NUTS, or of its HMCECS (subsample 1,000, Taylor proxy at the mode)."""

    def run(model: pm.Model, budget: Budget) -> Run:
        import jax
        from numpyro.infer import MCMC, NUTS

        jax.config.update("jax_enable_x64", True)
        X, y = (jax.numpy.asarray(a) for a in _logistic_of(model))
        scale = float(np.sqrt(0.1)) if X.shape[1] == 50 else 1.0
        logistic = numpyro_logistic.regression(scale, 1_000 if subsample else None)
        start = time.perf_counter()
        if subsample:
            step = pma.PenaltyMH(model=model)
            kernel = numpyro_logistic.hmcecs(logistic, step.decider.prepared.expansion.centre)
            draws, tune = 2_000, 500
        else:
            kernel = NUTS(logistic)
            draws, tune = _affordable(model, budget)
        mcmc = MCMC(kernel, num_warmup=1, num_samples=1, progress_bar=False)
        mcmc.run(jax.random.PRNGKey(0), X, y)
        set_up = time.perf_counter() - start
        mcmc = MCMC(kernel, num_warmup=tune, num_samples=draws, progress_bar=False)
        start = time.perf_counter()
        mcmc.run(jax.random.PRNGKey(1), X, y, extra_fields=() if subsample else ("num_steps",))
        beta = np.asarray(mcmc.get_samples()["beta"])[None]
        sampling = time.perf_counter() - start
        idata = az.from_dict({"posterior": {"beta": beta}})
        steps = 1.0 if subsample else float(np.asarray(mcmc.get_extra_fields()["num_steps"]).mean())
        rows = float("nan") if subsample else steps * len(y)
        return Run(idata, set_up, sampling, draws, tune, rows)

    return run


RUNNERS: dict[str, Callable[[pm.Model, Budget], Run]] = {
    "PenaltyMH": ours(pma.PenaltyMH),
    "MinibatchBarker": ours(pma.MinibatchBarker),
    "ApproxMH": ours(pma.ApproxMH),
    "nutpie": nutpie,
    "PyMC NUTS": nuts,
    "NumPyro NUTS": numpyro(subsample=False),
    "NumPyro HMCECS": numpyro(subsample=True),
}


def smallest_ess(idata: Any) -> float:
    """Return ArviZ's bulk ESS, smallest over all parameters."""
    ess = az.ess(group(idata, "posterior"))
    data = ess.to_dataset() if hasattr(ess, "to_dataset") else ess
    return min(float(values.min()) for values in data.data_vars.values())


def error(problem: str, model: pm.Model, idata: Any) -> float:
    """Return the root mean square shift from the exact means of ``benchmarks/accuracy.py``, in posterior sd."""
    path = OUTPUT / f"{problem}.csv"
    if not path.exists():
        return float("nan")
    exact = pd.read_csv(path, index_col=0)
    draws = group(idata, "posterior")
    found = np.concatenate([np.ravel(draws[v.name].mean(("chain", "draw"))) for v in model.free_RVs])
    return float(np.sqrt((((found - exact["mean"].to_numpy()) / exact["sd"].to_numpy()) ** 2).mean()))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--peers", nargs="+", choices=RUNNERS, default=list(RUNNERS))
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--cut", nargs=2, type=int, metavar=("DRAWS", "TUNE"))
    given = parser.parse_args()
    budget = Budget(given.seconds, tuple(given.cut) if given.cut else None)
    lines = []
    for problem in given.problems:
        model = PROBLEMS[problem]()
        for name in given.peers:
            if name.startswith("NumPyro") and [v.name for v in model.free_RVs] != ["beta"]:
                continue
            run = RUNNERS[name](model, budget)
            ess = smallest_ess(run.idata) if run.at_most is None else run.at_most
            rate = ess / run.sampling
            tuning = run.sampling * run.tune / (run.tune + run.draws) if run.at_most is None else 0.0
            lines.append(
                {
                    "problem": problem, "sampler": name, "draws": run.draws, "set-up s": run.set_up,
                    "sampling s": run.sampling, "min ESS": ess, "ESS/s": rate,
                    "s to 1,000 ESS": run.set_up + tuning + (run.sampling - tuning) * 1_000 / ess,
                    "rows a draw": run.rows,
                    "error, sd": error(problem, model, run.idata) if run.at_most is None else float("nan"),
                }
            )  # fmt: skip
            print(pd.Series(lines[-1]).to_string(), flush=True)
    table = pd.DataFrame(lines)
    fastest = table[table["sampler"] == "nutpie"].set_index("problem")["ESS/s"]
    table["times nutpie"] = table["ESS/s"] / table["problem"].map(fastest)
    print(table.to_string(index=False, float_format="{:,.2f}".format))


if __name__ == "__main__":
    main()
