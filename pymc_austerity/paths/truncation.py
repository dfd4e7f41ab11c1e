"""The random truncation of a path: batch sizes, their probabilities, and what they cost.

Notation of Strathmann, Sejdinovic and Girolami (2015): batches n_1 = a < … < n_L = N, truncation T with
P(T = t) ∝ r^(−αt), and squared errors δ_t² = E|φ_t − φ_N|².
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def path_sizes(n_rows: int, min_batch: int, ratio: float = 2) -> tuple[int, ...]:
    """Return the batch sizes n_1 = a, n_2 ≈ a·r, …, n_L = N.

    The last batch is always the whole data, whether or not N is a·rᵏ: unbiasedness rests on it.
    """
    known_as = "the n_rows of debias or the n_max of debias_stream"
    if not (isinstance(n_rows, int | np.integer) and n_rows >= 1):
        raise ValueError(
            f"The rows of the last batch, {known_as}, must be a whole number of at least 1, found {n_rows!r}. "
            "Write an int."
        )
    if not 1 <= min_batch <= n_rows:
        raise ValueError(
            f"min_batch must be between 1 and {n_rows}, {known_as}, found {min_batch}: the first batch of a path is "
            "part of its last. Choose a smaller min_batch."
        )
    if not (math.isfinite(ratio) and ratio > 1):
        raise ValueError(f"ratio must be a number above 1, by which batches grow, found {ratio}. Use 2.")
    sizes: list[int] = []
    size = float(min_batch)
    while round(size) < n_rows:
        # Rounding can bring neighbours together only while they are few rows.
        if sizes and round(size) <= sizes[-1]:
            raise ValueError(
                f"ratio must make each batch larger than the one before, found ratio={ratio} with "
                f"min_batch={min_batch}, which gives two batches of {sizes[-1]} rows. Use 2, or a larger min_batch "
                "with a ratio near 1."
            )
        sizes.append(round(size))
        size *= ratio
    return (*sizes, n_rows)


@dataclass(frozen=True)
class Truncation:
    """Law of the number of batches T that a replication walks through: P(T = t) ∝ r^(−αt), α ≥ 0."""

    sizes: tuple[int, ...]
    alpha: float
    ratio: float = 2

    def __post_init__(self) -> None:
        number = isinstance(self.alpha, float | int | np.number)
        if not (number and math.isfinite(self.alpha) and self.alpha >= 0):
            raise ValueError(
                f"alpha must be a number ≥ 0 or 'auto', found {self.alpha!r}: P(T = t) ∝ ratio^(−alpha·t) "
                "has to fall with t. Values between 0 and the convergence rate β (often 1) are useful."
            )
        # Below this, 1 / P(T ≥ L) and its square leave the range of a double.
        if self.tail[-1] < 1e-150:
            raise ValueError(
                f"alpha={self.alpha} gives the last of {len(self.sizes)} batches the probability {self.tail[-1]:.0e}: "
                "the whole data would never be reached and the estimate would be biased. Choose a smaller alpha."
            )

    @cached_property
    def probability(self) -> FloatArray:
        """P(T = t) for t = 1 … L."""
        weights = self.ratio ** (-self.alpha * np.arange(len(self.sizes), dtype=float))
        return weights / weights.sum()

    @cached_property
    def tail(self) -> FloatArray:
        """P(T ≥ t) for t = 1 … L, the weights of Lemma 1; summed from the far end, where terms are small."""
        return self.probability[::-1].cumsum()[::-1] / self.probability.sum()

    def draw(self, rng: np.random.Generator) -> int:
        """Draw T, between 1 and L."""
        # P(tail_t > u) = P(T ≥ t) for u uniform on [0, 1), so T counts the tails above u.
        return int((self.tail > rng.random()).sum())

    def rows(self, level: int) -> int:
        """Σ_{t ≤ level} n_t, the rows that a replication truncated at `level` passes to φ."""
        return sum(self.sizes[:level])

    def expected_cost(self, cost: Callable[[int], float] = float) -> float:
        """E Σ_{t ≤ T} cost(n_t); with the default, the expected rows of a replication."""
        return float(self.tail @ [cost(n) for n in self.sizes])

    def variance(self, squared_error: FloatArray) -> float:
        """Return the variance of a replication about a fixed φ_N, for δ_t² = E|φ_t − φ_N|² at t = 1 … L."""
        return float(self.variance_by_level(squared_error).sum())

    def variance_by_level(self, squared_error: FloatArray) -> FloatArray:
        """Return what truncations after t = 1 … L − 1 add to the variance of a replication, shape (L − 1,).

        By Lemma 1 it is Σ_t (δ²_{t−1} − δ²_t) / P(T ≥ t) − φ_N² with δ_0 = φ_N, in which φ_N cancels; δ_L² is 0.
        """
        return np.asarray(squared_error, dtype=float)[:-1] * np.diff(1 / self.tail)

    def second_moment_bound(self, beta: float) -> float:
        """Σ_t δ²_{t−1} / P(T ≥ t) for δ_t² = n_t^(−β), the bound of Appendix A (n_0 = n_1 / r)."""
        before = np.concatenate([[self.sizes[0] / self.ratio], self.sizes[:-1]])
        return float((before**-beta / self.tail).sum())
