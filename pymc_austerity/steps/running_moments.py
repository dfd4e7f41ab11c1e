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


class ChainMoments:
    """Moments of the halves of one chain, of which the first has `half` draws, and of the means of `batch` draws."""

    def __init__(self, shape: tuple[int, ...], batch: int, half: int):
        self._batch, self._half, self._in_batch = batch, half, np.zeros(shape)
        self.halves, self.of_batches = (RunningMoments(shape), RunningMoments(shape)), RunningMoments(shape)

    @property
    def n(self) -> int:
        """Number of draws."""
        return sum(half.n for half in self.halves)

    def add(self, value: np.ndarray) -> None:
        """Add a draw."""
        self.halves[self.n >= self._half].add(value)
        self._in_batch += value
        if self.n % self._batch == 0:
            self.of_batches.add(self._in_batch / self._batch)
            self._in_batch[...] = 0.0

    def effective(self) -> np.ndarray:
        """Return how many independent draws have a mean as exact as that of the chain, from the means of batches."""
        variance, of_mean = _mean_and_variance(self.halves)[1], self._batch * self.of_batches.variance
        with np.errstate(all="ignore"):
            return np.minimum(self.n * variance / of_mean, self.n * max(1.0, np.log10(self.n)))


def _mean_and_variance(parts: Sequence[RunningMoments]) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of the draws of all parts together."""
    n = sum(part.n for part in parts)
    mean = np.sum([part.n * part.mean for part in parts], axis=0) / n
    squares = np.sum([part.squares + part.n * (part.mean - mean) ** 2 for part in parts], axis=0)
    return mean, squares / max(1, n - 1)


def summarised(chains: Sequence[ChainMoments]) -> dict[str, np.ndarray]:
    """Return mean, sd, Monte Carlo error of the mean, effective draws and R-hat of all chains together."""
    mean, variance = _mean_and_variance([half for chain in chains for half in chain.halves])
    sd, effective = np.sqrt(variance), np.sum([chain.effective() for chain in chains], axis=0)
    halves = [half for chain in chains for half in chain.halves if half.n > 1] or [chains[0].halves[0]]
    within = sum(half.variance for half in halves) / len(halves)
    length = np.mean([half.n for half in halves])
    middle = sum(half.mean for half in halves) / len(halves)
    between = sum((half.mean - middle) ** 2 for half in halves) / max(1, len(halves) - 1)
    with np.errstate(all="ignore"):
        r_hat = np.sqrt((length - 1) / length + between / within)
        return {"mean": mean, "sd": sd, "mcse_mean": sd / np.sqrt(effective), "ess": effective, "r_hat": r_hat}
