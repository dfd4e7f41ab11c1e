"""The sequential t-test on a few rows, enumerated over every order in which the rows can be drawn.

Independent of the package: written from the definition of the test.
"""

from itertools import combinations
from math import comb, sqrt
from statistics import fmean, stdev

import numpy as np
from scipy.special import stdtr


def decide(values, n_total, mu0, epsilon):
    """Decision after one look at `values`: True, False, or None for more rows."""
    n, distance = len(values), fmean(values) - mu0
    if n < n_total:
        s = stdev(values) / sqrt(n) * sqrt(1 - (n - 1) / (n_total - 1))
        if s > 0 and stdtr(n - 1, -abs(distance) / s) >= epsilon:
            return None
    return distance > 0


def run_test(values, mu0, epsilon, batch):
    """Decision and number of rows read when the rows come in the order of `values`."""
    for n in (*range(batch, len(values), batch), len(values)):
        verdict = decide(values[:n], len(values), mu0, epsilon)
        if verdict is not None:
            return verdict, n
    raise AssertionError("a look at all rows decides")


def partitions(n_total, batch):
    """Every way to draw the rows batch by batch; the order within a batch does not matter to the test."""

    def extend(left):
        if not left:
            yield ()
            return
        for chosen in combinations(left, min(batch, len(left))):
            for rest in extend(tuple(sorted(set(left) - set(chosen)))):
                yield chosen + rest

    return extend(tuple(range(n_total)))


def acceptance_probability(values, offset, epsilon, batch, n_uniform=1_000):
    """Probability to accept a move with row log ratios `values`, over orders of the rows and the uniform number.

    By the midpoint rule in u, with all subsets of a size at once.
    """
    values = np.asarray(values, float)
    n_total = values.size
    log_u = np.log((np.arange(n_uniform) + 0.5) / n_uniform)
    mu0 = (log_u - offset) / n_total
    accept_later = (values.mean() > mu0).astype(float)[None, :]
    later = np.ones((1, n_total), dtype=bool)
    for n in reversed(range(batch, n_total, batch)):
        members = np.zeros((comb(n_total, n), n_total), dtype=bool)
        for row, chosen in zip(members, combinations(range(n_total), n)):
            row[list(chosen)] = True
        contained = ~(members[:, None, :] & ~later[None, :, :]).any(axis=2)
        going_on = contained / contained.sum(axis=1, keepdims=True) @ accept_later
        samples = np.array([values[m] for m in members])
        s = samples.std(axis=1, ddof=1) / np.sqrt(n) * np.sqrt(1 - (n - 1) / (n_total - 1))
        distance = samples.mean(axis=1)[:, None] - mu0
        stop = stdtr(n - 1, -np.abs(distance) / s[:, None]) < epsilon
        accept_later, later = np.where(stop, distance > 0, going_on), members
    return accept_later.mean()
