"""A leave-one-out surrogate for every row, from the row's log-likelihood at some points around the mean of the draws.

Let ψ̄ and Σ be the mean and the covariance of the draws, and Σ = Σ_k d_k d_kᵀ.  From ℓ_i at ψ̄ and ψ̄ ± d_k follow

    v_i = Σ_k ((ℓ_i(ψ̄ + d_k) − ℓ_i(ψ̄ − d_k)) / 2)²                  ≈ gᵀΣg
    t_i = Σ_k (ℓ_i(ψ̄ + d_k) + ℓ_i(ψ̄ − d_k) − 2 ℓ_i(ψ̄))              ≈ tr HΣ

with g and H the gradient and the Hessian of ℓ_i.  Under normal ψ, and an ℓ_i that is quadratic along one direction,

    log E[exp ℓ_i]   = ℓ_i(ψ̄) − ½ log(1 − t_i) + ½ v_i / (1 − t_i)
    −log E[exp −ℓ_i] = ℓ_i(ψ̄) + ½ log(1 + t_i) − ½ v_i / (1 + t_i)

the second of which is the log predictive density of row i without that row.  Both are right to second order for
any ℓ_i.  Where rows read ψ through one linear predictor η_i, whose variance is Σ_k (η_i(ψ̄ + d_k) − η_i(ψ̄))², both are
integrals over η_i, found by Gauss–Hermite quadrature.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from pymc_austerity.likelihood.row_entries import PickedEntries, entries_read
from pymc_austerity.prediction.rows_of_run import RowsOfRun, RowValues
from pymc_austerity.progress import setup_progress
from pymc_austerity.rows import Rows, no_op

#: Rows evaluated at once.
_CHUNK = 16_384
#: Directions at most for parameters that all rows read; of more parameters, so many random combinations are taken.
_MOST_DIRECTIONS = 64
#: Sets of random signs for entries of which a row picks several.
_SIGNS = 8
#: Numbers among the draws that a covariance is found from.
_MOST_NUMBERS = 20_000_000
#: Nodes and weights of the quadrature.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
#: Curvature beyond which rows are taken for this curved: the formulas end at ±1.
_MOST_CURVED = 0.8


class SurrogateOfRows(NamedTuple):
    """What is known of every row before any is evaluated at the draws, each of shape (N,)."""

    #: The log predictive density without the row, float64.
    elpd: np.ndarray
    #: What the log predictive density with the row is larger by, float32.
    p: np.ndarray
    #: v_i + |t_i|, float32: what the errors of both grow with.
    influence: np.ndarray


def surrogate_of_rows(run: RowsOfRun, rng: np.random.Generator, progressbar: bool) -> SurrogateOfRows:
    """Return the surrogate of all rows, in one pass over them."""
    centre, away = middle_and_spread(run)
    picked, by_all = entries_read(run.values.likelihood)
    work = SurrogateAround(run.values, centre, spread_directions(away, picked, by_all, rng))
    with setup_progress(progressbar) as progress:
        what = f"{len(run.table):,} rows at {1 + 2 * len(work.directions)} points"
        task = progress.add_task("Leave-one-out surrogate", total=len(run.table), what=what)
        parts = list(run.table.each(work, lambda n: progress.advance(task, n)))
    return SurrogateOfRows(*map(np.concatenate, zip(*parts, strict=True)))


def middle_and_spread(run: RowsOfRun) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of the draws, and draws less it over the root of their number, for `spread_directions`."""
    psi = run.psi
    centre, draws = psi.mean(axis=0), psi[:: max(1, psi.size // _MOST_NUMBERS)]
    away = (draws - centre) / np.sqrt(max(1, len(draws) - 1))
    for block in run.values.likelihood.psi_blocks:  # a whole number stays at the value that is in the middle
        if np.dtype(block.dtype).kind != "f":
            entries = slice(block.start, block.stop)
            centre[entries], away[:, entries] = np.median(psi[:, entries], axis=0).round(), 0.0
    return centre, away


def spread_directions(
    away: np.ndarray, picked: list[PickedEntries], by_all: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return directions d_k, shape (K, P), with Σ_k (d_k·g)² = gᵀΣg for the gradient of every row.

    `away`, of shape (S, P), are the draws less their mean, over the root of their number less one: Σ is awayᵀ away. A
    row reads the entries of one group among many, so that one direction serves the effects of all groups at once: first
    along what all rows read, with the effects as they regress on that, then along what is left of the effects. Of
    several factors, what is left is taken as independent. Exact up to 64 parameters that all rows read; otherwise gᵀΣg
    is right on average, with an error of a sixth.
    """
    n_draws, size = away.shape
    if by_all.size > _MOST_DIRECTIONS:
        combined = rng.standard_normal((_MOST_DIRECTIONS, n_draws)) / np.sqrt(_MOST_DIRECTIONS)
        return combined @ away
    basis, scale, _ = np.linalg.svd(away[:, by_all], full_matrices=False)
    basis = basis[:, scale > 1e-12 * max(scale, default=0.0)]
    found = [basis.T @ away]
    for entries in picked:
        of_lines = away[:, entries.numbers] - np.tensordot(basis, found[0][:, entries.numbers], 1)
        values, vectors = np.linalg.eigh(np.einsum("sgk,sgl->gkl", of_lines, of_lines))
        factors = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        n_signs = 1 if entries.one_each else _SIGNS
        for _ in range(n_signs):
            signed = factors * rng.choice([-1.0, 1.0], size=(len(factors), 1, 1)) / np.sqrt(n_signs)
            own = np.zeros((factors.shape[2], size))
            own[:, entries.numbers] = np.moveaxis(signed, 2, 0)
            found.append(own)
    return np.concatenate(found)


@dataclass(eq=False)
class SurrogateAround:
    """What a pass does with rows: find the surrogate of each, from points around the centre."""

    values: RowValues
    centre: np.ndarray
    directions: np.ndarray

    @property
    def about(self) -> tuple[np.ndarray, ...]:
        """The points."""
        return self.centre, self.directions, *self.values.fixed

    def released(self) -> SurrogateAround:
        """Return itself: NumPy lets other threads run."""
        return self

    def __call__(
        self, rows: Rows, n_threads: int | None = None, advance: Callable[[int], None] = no_op
    ) -> SurrogateOfRows:
        """Return the surrogate of some rows."""
        parts = []
        for start in range(0, len(rows), _CHUNK):
            arrays = tuple(np.array(a[start : start + _CHUNK], order="C") for a in rows.arrays)
            parts.append(self._of_chunk(arrays))
            advance(len(arrays[0]))
        return SurrogateOfRows(*map(np.concatenate, zip(*parts, strict=True)))

    def _of_chunk(self, arrays: tuple[np.ndarray, ...]) -> SurrogateOfRows:
        with np.errstate(all="ignore"):  # rows that are impossible at one of the points
            if self.values.predictor is not None:
                return where_known(*self._by_quadrature(arrays))
            return where_known(*by_expansion(partial(self.values, arrays=arrays), self.centre, self.directions))

    def _by_quadrature(self, arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        eta, of_eta, fixed = self.values.predictor, self.values.given_predictor, self.values.fixed
        assert eta is not None
        assert of_eta is not None
        middle = eta(self.centre, *fixed, *arrays)
        variance = np.zeros_like(middle)
        for direction in self.directions:
            variance += (eta(self.centre + direction, *fixed, *arrays) - middle) ** 2
        sd = np.sqrt(variance)
        values = np.array([of_eta(middle + z * sd, *fixed, *arrays) for z in _NODES])
        weights = _WEIGHTS / _WEIGHTS.sum()
        mean = weights @ values
        slope, curvature = weights @ (values - mean) ** 2, (weights * (_NODES**2 - 1)) @ values
        within, without = _log_mean_exp(values), -_log_mean_exp(-values)
        return mean, within, without, slope + np.abs(curvature)


def by_expansion(
    values_at: Callable[[np.ndarray], np.ndarray], centre: np.ndarray, directions: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Return ℓ at the centre, log E[exp ℓ], −log E[exp −ℓ] and the influence, by the formulas at the top."""
    middle = values_at(centre)
    slope, curvature = np.zeros_like(middle), np.zeros_like(middle)
    for direction in directions:
        up, down = values_at(centre + direction), values_at(centre - direction)
        slope += (up - down) ** 2 / 4
        curvature += up + down - 2 * middle
    t = np.clip(curvature, -_MOST_CURVED, _MOST_CURVED)
    within = middle - np.log1p(-t) / 2 + slope / (1 - t) / 2
    without = middle + np.log1p(t) / 2 - slope / (1 + t) / 2
    return middle, within, without, slope + np.abs(curvature)


def where_known(middle: np.ndarray, within: np.ndarray, without: np.ndarray, influence: np.ndarray) -> SurrogateOfRows:
    """Return the surrogate, of infinite influence where it is not finite."""
    known = np.isfinite(without) & np.isfinite(within)
    return SurrogateOfRows(
        np.where(known, without, np.where(np.isfinite(middle), middle, 0.0)),
        np.where(known, within - without, 0.0).astype(np.float32),
        np.where(known, influence, np.inf).astype(np.float32),
    )


def _log_mean_exp(values: np.ndarray) -> np.ndarray:
    largest = values.max(axis=0)
    return largest + np.log(_WEIGHTS / _WEIGHTS.sum() @ np.exp(values - largest))
