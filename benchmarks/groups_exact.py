"""Models with crossed effects and normal errors beside an exact answer, which linear algebra has.

Run ``python benchmarks/groups_exact.py`` (``--problems delays insteval``, ``--steps``, ``--draws``).  Given σ and the
scales of the factors everything else is jointly normal: the finest factor is eliminated, which is a diagonal block, and
what is left of the precision is factorised.  The scales, three or four numbers, are drawn from a t law around their
mode and weighted (importance sampling), the rest given each of these draws.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from agreement import agreement, flat, of_draws, of_weighted
from group_models import NORMAL, NormalTable, normal
from scipy import linalg, optimize, sparse, stats
from statsmodels.tools.numdiff import approx_hess
from timing import sampled, show

import pymc_austerity as pma

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


class NormalPosterior:
    """The posterior of a table with crossed effects and normal errors."""

    def __init__(self, table: NormalTable):
        self.table = table
        self.X = np.column_stack([np.ones(len(table.y)), table.slopes])
        self.prior_mean = np.r_[table.intercept, np.zeros(table.slopes.shape[1])]
        self.widths = np.r_[table.sigma, np.ones(len(table.factors))]

    @cached_property
    def sums(self) -> Sums:
        """Work out the sums over all rows."""
        y, n = self.table.y.astype(float), len(self.table.y)
        finest, *others = (
            sparse.csr_matrix((np.ones(n), (np.arange(n), of)), (n, of.max() + 1)) for of in self.table.factors.values()
        )
        design = sparse.hstack([sparse.csr_matrix(self.X), *others]).tocsr()
        sizes = np.asarray(finest.sum(axis=0)).ravel()
        rest = (design.T @ design).toarray()
        return Sums(sizes, (finest.T @ design).tocsr(), rest, finest.T @ y, design.T @ y, float(y @ y))

    def given(self, log_scales: np.ndarray) -> Given:
        """Work out everything given log σ and the log scales."""
        of, s, n = self.sums, log_scales, len(self.table.y)
        rate, own = np.exp(-2 * s[0]), np.exp(-2 * s[1])
        sizes = [int(numbers.max()) + 1 for numbers in self.table.factors.values()]
        prior = np.r_[np.ones(self.X.shape[1]), np.repeat(np.exp(-2 * s[2:]), sizes[1:])]
        start = np.r_[self.prior_mean, np.zeros(sum(sizes[1:]))]
        finest = rate * of.sizes + own
        through = sparse.diags(1 / finest) @ of.cross
        left = rate * of.rest + np.diag(prior) - rate**2 * (of.cross.T @ through).toarray()
        factor = np.linalg.cholesky(left)
        half = linalg.solve_triangular(
            factor, start + rate * of.of_rest - rate**2 * (through.T @ of.of_finest), lower=True
        )
        value = -n * s[0] - rate * of.squares / 2 + rate**2 * (of.of_finest**2 / finest).sum() / 2 + half @ half / 2
        value -= np.log(np.diag(factor)).sum() + np.log(finest).sum() / 2 + np.dot(sizes, s[1:])
        value += (stats.halfnorm.logpdf(np.exp(s), scale=self.widths) + s).sum()
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

    @property
    def names(self) -> list[str]:
        """Return the variables of the model in the order of the draws."""
        finest, *others = self.table.factors
        scales = [f"{of}_scale" for of in self.table.factors]
        return ["sigma", *scales, "intercept", *["slopes"] * (self.X.shape[1] > 1), *others, finest]


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", default=list(NORMAL), choices=list(NORMAL))
    parser.add_argument("--steps", nargs="+", default=["GroupMH"])
    parser.add_argument("--tune", type=int, default=1_000)
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--exact", type=int, default=4_000, help="draws by linear algebra")
    options = parser.parse_args()
    lines = []
    for name in options.problems:
        start = time.process_time()
        posterior = NormalPosterior(NORMAL[name]())
        exact = of_weighted(*posterior.draw(options.exact, np.random.default_rng(1)))
        seconds = time.process_time() - start
        for step in options.steps:
            with normal(name):
                run = sampled(partial(getattr(pma, step), progressbar=False), options.draws, options.tune)
            spent = {"CPU s of the exact": seconds, "of the step": run.set_up + run.sampling}
            ours = of_draws(flat(run.idata, posterior.names))
            lines.append({"problem": name, "step": step, **spent, **agreement(ours, exact)})
            show(lines[-1:])
    show(lines)


if __name__ == "__main__":
    main()
