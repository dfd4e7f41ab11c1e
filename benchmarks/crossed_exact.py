"""Crossed effects with normal errors: `GroupMH` beside the posterior as linear algebra has it.

Run ``python benchmarks/crossed_exact.py`` (``--problems delays insteval``, ``--draws``).  Given σ and the scales of the
factors everything else is jointly normal: the finest factor is eliminated, which is a diagonal block, and what is left
of the precision is factorised.  The scales, three or four numbers, are drawn from a t law around their mode and
weighted (importance sampling), the rest given each of these draws.  Differences of means in posterior standard
deviations, what Monte Carlo error lets one expect, and ratios of standard deviations, over all parameters.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import arviz as az
import crossed
import numpy as np
import pandas as pd
import pymc as pm
from scipy import linalg, optimize, sparse, stats
from statsmodels.tools.numdiff import approx_hess

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import as_dataset, group

#: Degrees of freedom of the law from which scales are drawn.
_TAILS = 5
#: Step of the numerical derivatives of the log posterior of the log scales.
_STEP = 0.02


class Sums(NamedTuple):
    """What of the data the likelihood depends on: the finest factor first, then everything else."""

    sizes: np.ndarray
    cross: sparse.csr_matrix
    rest: np.ndarray
    of_finest: np.ndarray
    of_rest: np.ndarray
    squares: float


class Given(NamedTuple):
    """The posterior given σ and the scales.

    Attributes
    ----------
    log_density : float
        Of the logarithms of σ and the scales, up to a constant.
    finest : numpy.ndarray
        Precisions of the effects of the finest factor given all else.
    factor : numpy.ndarray
        Lower Cholesky factor L of what is left of the precision without them.
    half : numpy.ndarray
        L⁻¹ of what is left of the moments.
    """

    log_density: float
    finest: np.ndarray
    factor: np.ndarray
    half: np.ndarray


@dataclass(frozen=True)
class NormalPosterior:
    """The posterior of one `crossed.NormalTable`."""

    table: crossed.NormalTable

    @cached_property
    def sums(self) -> Sums:
        """Work out the sums over all rows."""
        y, n = self.table.y.astype(float), len(self.table.y)
        finest, *others = (
            sparse.csr_matrix((np.ones(n), (np.arange(n), of)), (n, of.max() + 1)) for of in self.table.factors.values()
        )
        design = sparse.hstack([sparse.csr_matrix(self.table.X), *others]).tocsr()
        sizes = np.asarray(finest.sum(axis=0)).ravel()
        rest = (design.T @ design).toarray()
        return Sums(sizes, (finest.T @ design).tocsr(), rest, finest.T @ y, design.T @ y, float(y @ y))

    def given(self, log_scales: np.ndarray) -> Given:
        """Work out everything given log σ and the log scales."""
        of, s, n = self.sums, log_scales, len(self.table.y)
        rate, own = np.exp(-2 * s[0]), np.exp(-2 * s[1])
        sizes = [int(numbers.max()) + 1 for numbers in self.table.factors.values()]
        prior = np.r_[self.table.prior_precision, np.repeat(np.exp(-2 * s[2:]), sizes[1:])]
        start = np.r_[self.table.prior_precision * self.table.prior_mean, np.zeros(sum(sizes[1:]))]
        finest = rate * of.sizes + own
        through = sparse.diags(1 / finest) @ of.cross
        left = rate * of.rest + np.diag(prior) - rate**2 * (of.cross.T @ through).toarray()
        factor = np.linalg.cholesky(left)
        half = linalg.solve_triangular(
            factor, start + rate * of.of_rest - rate**2 * (through.T @ of.of_finest), lower=True
        )
        value = -n * s[0] - rate * of.squares / 2 + rate**2 * (of.of_finest**2 / finest).sum() / 2 + half @ half / 2
        value -= np.log(np.diag(factor)).sum() + np.log(finest).sum() / 2 + np.dot(sizes, s[1:])
        value += (stats.halfnorm.logpdf(np.exp(s), scale=self.table.widths) + s).sum()
        return Given(float(value), finest, factor, half)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return draws of σ, the scales, coefficients and effects of all factors, and their weights."""
        start = np.log(self.table.y.std() * np.r_[0.9, np.full(len(self.table.factors), 0.2)])
        mode = optimize.minimize(
            lambda s: -self.given(s).log_density, start, method="Nelder-Mead", options={"fatol": 1e-4}
        ).x
        hessian = approx_hess(mode, lambda s: self.given(s).log_density, epsilon=_STEP)
        law = stats.multivariate_t(mode, np.linalg.inv(-hessian), df=_TAILS, seed=rng)
        scales, draws, log_weights = law.rvs(n).reshape(n, mode.size), [], []
        for s in scales:
            value, finest, factor, half = self.given(s)
            coefficients = linalg.solve_triangular(factor.T, half + rng.standard_normal(half.size))
            mean = np.exp(-2 * s[0]) * (self.sums.of_finest - self.sums.cross @ coefficients) / finest
            own = mean + rng.standard_normal(finest.size) / np.sqrt(finest)
            draws.append(np.concatenate([np.exp(s), coefficients, own]))
            log_weights.append(value - law.logpdf(s))
        weights = np.exp(np.array(log_weights) - np.max(log_weights))
        return np.array(draws), weights / weights.sum()


def sampled(name: str, table: crossed.NormalTable, tune: int, draws: int) -> tuple[np.ndarray, float]:
    """Return what `GroupMH` draws of the same parameters in the same order, and its CPU seconds, set-up included."""
    start = time.process_time()
    with getattr(crossed, name)():
        step = pma.GroupMH(progressbar=False)
        idata = pm.sample(
            draws, tune=tune, step=step, chains=1, cores=1, random_seed=1, progressbar=False, quiet=True,
            compute_convergence_checks=False,
        )  # fmt: skip
    seconds, posterior = time.process_time() - start, as_dataset(group(idata, "posterior"))
    finest, *others = table.factors
    names = ["sigma", *(f"{of}_scale" for of in table.factors), *table.coefficients, *others, finest]
    return np.column_stack([posterior[of].to_numpy().reshape(draws, -1) for of in names]), seconds


def compared(ours: np.ndarray, exact: np.ndarray, weights: np.ndarray) -> dict[str, Any]:
    """Return how far means and standard deviations are from the exact ones."""
    mean = weights @ exact
    sd = np.sqrt(weights @ (exact - mean) ** 2)
    shift, ratio = (ours.mean(axis=0) - mean) / sd, ours.std(axis=0) / sd
    ess = np.array([float(az.ess(ours[None, :, j])) for j in range(ours.shape[1])])
    error = np.sqrt(1 / ess + (weights**2).sum())
    return {
        "parameters": ours.shape[1],
        "smallest ESS": ess.min(),
        "ESS of the exact": 1 / (weights**2).sum(),
        "rms shift": np.sqrt((shift**2).mean()),
        "rms shift expected by chance": np.sqrt((error**2).mean()),
        "largest shift, in its errors": np.abs(shift / error).max(),
        "largest shift": np.abs(shift).max(),
        "smallest sd ratio": ratio.min(),
        "largest sd ratio": ratio.max(),
    }


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="+", default=list(crossed.NORMAL), choices=list(crossed.NORMAL))
    parser.add_argument("--tune", type=int, default=1_000)
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--exact", type=int, default=4_000, help="draws by linear algebra")
    options = parser.parse_args()
    found = {}
    for name in options.problems:
        table = crossed.NORMAL[name]()
        start = time.process_time()
        exact, weights = NormalPosterior(table).draw(options.exact, np.random.default_rng(1))
        seconds = {"CPU s of linear algebra": time.process_time() - start}
        ours, seconds["CPU s of GroupMH"] = sampled(name, table, options.tune, options.draws)
        found[name] = {**seconds, **compared(ours, exact, weights)}
        print(pd.DataFrame(found).to_string(float_format=lambda x: f"{x:,.4g}"), flush=True)


if __name__ == "__main__":
    main()
