"""Moments of a chain that are brought up to date with every draw, and what those of several chains say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class RunningMoments:
    """Mean and sum of squares of some draws, entry by entry (Welford, Technometrics 4, 1962)."""

    def __init__(self, shape: tuple[int, ...]):
        self.n = 0
        self.mean, self.squares = np.zeros(shape), np.zeros(shape)

    def add(self, value: np.ndarray) -> None:
        """Add a draw."""
        self.n += 1
        away = value - self.mean
        self.mean += away / self.n
        self.squares += away * (value - self.mean)

    @property
    def variance(self) -> np.ndarray:
        """With n − 1 in the denominator."""
        return self.squares / max(1, self.n - 1)

    def copy(self) -> RunningMoments:
        """Return a copy that does not change any more."""
        other = RunningMoments(())
        other.n, other.mean, other.squares = self.n, self.mean.copy(), self.squares.copy()
        return other

    def without(self, first: RunningMoments) -> RunningMoments:
        """Return the moments of the draws behind the first."""
        other = RunningMoments(())
        other.n = self.n - first.n
        other.mean = (self.n * self.mean - first.n * first.mean) / other.n
        between = first.n * other.n / self.n * (other.mean - first.mean) ** 2
        other.squares = np.maximum(self.squares - first.squares - between, 0.0)
        return other


class ChainMoments:
    """Moments of one chain: of all draws, of its first half, and of the means of batches of draws.

    `batch` is the length of a batch; at draw number `half` the first half ends.
    """

    def __init__(self, shape: tuple[int, ...], batch: int, half: int):
        self._batch, self._half = batch, half
        self.all, self.of_batches = RunningMoments(shape), RunningMoments(shape)
        self._in_batch, self._first = np.zeros(shape), None  # type: tuple[np.ndarray, RunningMoments | None]

    def add(self, value: np.ndarray) -> None:
        """Add a draw."""
        self.all.add(value)
        self._in_batch += value
        if self.all.n % self._batch == 0:
            self.of_batches.add(self._in_batch / self._batch)
            self._in_batch[...] = 0.0
        if self.all.n == self._half:
            self._first = self.all.copy()

    def halves(self) -> list[RunningMoments]:
        """Return the moments of both halves, or of the whole before the second has two draws."""
        if self._first is None or self.all.n < self._first.n + 2:
            return [self.all]
        return [self._first, self.all.without(self._first)]

    def effective(self) -> np.ndarray:
        """Return how many independent draws have a mean as exact as that of the chain, from the means of batches."""
        n, of_mean = self.all.n, self._batch * self.of_batches.variance
        with np.errstate(all="ignore"):
            return np.minimum(n * self.all.variance / of_mean, n * max(1.0, np.log10(max(n, 1))))


def summarised(chains: Sequence[ChainMoments]) -> dict[str, np.ndarray]:
    """Return mean, sd, Monte Carlo error of the mean, effective draws and R-hat of all chains together."""
    n = np.array([chain.all.n for chain in chains])
    mean = sum(chain.all.n * chain.all.mean for chain in chains) / n.sum()
    squares = sum(chain.all.squares + chain.all.n * (chain.all.mean - mean) ** 2 for chain in chains)
    sd = np.sqrt(squares / max(1, n.sum() - 1))
    effective = sum(chain.effective() for chain in chains)
    halves = [half for chain in chains for half in chain.halves()]
    within = sum(half.variance for half in halves) / len(halves)
    length = np.mean([half.n for half in halves])
    middle = sum(half.mean for half in halves) / len(halves)
    between = sum((half.mean - middle) ** 2 for half in halves) / max(1, len(halves) - 1)
    with np.errstate(all="ignore"):
        r_hat = np.sqrt((length - 1) / length + between / within)
        return {"mean": mean, "sd": sd, "mcse_mean": sd / np.sqrt(effective), "ess": effective, "r_hat": r_hat}
