"""Rows drawn where a surrogate errs most, and what they say of the sum over all rows.

A sum Σ y_i is estimated by Σ s_i + Σ_h N_h mean_h(y − s), with s_i a surrogate of y_i and rows drawn at random without
replacement in each stratum h of N_h rows (Magnusson, Riis Andersen, Jonasson and Vehtari 2019, 2020, who draw in one
stratum).  It is unbiased whatever the surrogate, and its variance is estimated by Σ_h N_h² (1 − n_h/N_h) s_h²/n_h, with
s_h² the variance of y − s among the rows drawn there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: Strata beside that of rows that are all drawn, and rows that are drawn in each at least.
_STRATA, _FEWEST = 12, 10
#: Influence from which a row may have a Pareto k that is too large, so that it is drawn in any case.
_INFLUENTIAL = 0.3
#: Share of the drawn rows that are drawn in any case, at most.
_MOST_CERTAIN = 0.5


class Strata(NamedTuple):
    """Numbers of the rows of each stratum, and of those that are drawn there."""

    members: list[np.ndarray]
    drawn: list[np.ndarray]

    @property
    def rows(self) -> np.ndarray:
        """The numbers of all rows that are drawn, stratum by stratum."""
        return np.concatenate(self.drawn)


class Estimate(NamedTuple):
    """What is known of a sum over all rows; `means` are what the surrogate misses on average in each stratum."""

    total: float
    variance: float
    means: list[float]


def draw_strata(influence: np.ndarray, n: int, rng: np.random.Generator) -> Strata:
    """Draw `n` rows, the more densely the more their surrogate may err.

    The first stratum holds rows that are all drawn: those of large influence, and those whose likely error is larger
    than an average stratum asks for. The others have equal sums of likely errors, and equally many drawn rows.
    """
    if n >= len(influence):
        return Strata([np.arange(len(influence))], [np.arange(len(influence))])
    error = likely_error(influence)
    order = np.argsort(-error, kind="stable")
    sums = np.cumsum(error[order], dtype=float)
    left = sums[-1] - sums + error[order]  # of a row and all that follow
    most = int(_MOST_CERTAIN * n)
    wanted = (error[order[:most]] * (n - np.arange(most)) >= left[:most]) | (influence[order[:most]] > _INFLUENTIAL)
    n_certain = most if wanted.all() else int(np.argmin(wanted))
    rest, certain = order[n_certain:], order[:n_certain]
    n_strata = max(1, min(_STRATA, (n - n_certain) // _FEWEST))
    beyond = sums[n_certain:] - (sums[n_certain - 1] if n_certain else 0.0)
    cuts = np.searchsorted(beyond, beyond[-1] * np.arange(1, n_strata) / n_strata)
    members = [part for part in np.split(rest, cuts) if len(part)]
    drawn, remaining = [], n - n_certain
    for k, part in enumerate(members):  # the first are the smallest
        size = min(len(part), remaining // (len(members) - k))
        drawn.append(np.sort(rng.choice(part, size, replace=False, shuffle=False)))
        remaining -= size
    return Strata([certain, *members], [certain, *drawn]) if n_certain else Strata(members, drawn)


def likely_error(influence: np.ndarray) -> np.ndarray:
    """Return the size of what the surrogate of each row may miss, up to a factor.

    It grows with the third power of the width of the posterior, and beyond an influence of one faster.
    """
    bounded = np.minimum(influence.astype(float), 1e3)
    return bounded**1.5 * (1 + bounded)


def estimate_sum(surrogate: np.ndarray, strata: Strata, values: np.ndarray) -> Estimate:
    """Return the difference estimate of a sum over all rows, from the values of the rows that were drawn."""
    total, variance, means, start = float(surrogate.sum(dtype=float)), 0.0, [], 0
    for members, drawn in zip(*strata, strict=True):
        missed = values[start : start + len(drawn)] - surrogate[drawn]
        start += len(drawn)
        means.append(float(missed.mean()))
        total += len(members) * means[-1]
        if len(drawn) < len(members):
            spread = missed.var(ddof=1) if len(drawn) > 1 else np.inf
            variance += len(members) ** 2 * (1 - len(drawn) / len(members)) * spread / len(drawn)
    return Estimate(total, float(variance), means)


def fill_in(surrogate: np.ndarray, strata: Strata, values: np.ndarray, estimate: Estimate) -> np.ndarray:
    """Return an array that adds up to the estimate: drawn rows at their values, others shifted by what theirs miss."""
    filled = surrogate.astype(float)
    for members, mean in zip(strata.members, estimate.means, strict=True):
        filled[members] += mean
    filled[strata.rows] = values
    return filled
