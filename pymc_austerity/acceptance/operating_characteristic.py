"""How often a sequential test errs and how much it reads, by dynamic programming over its looks.

With z_j the distance of the mean from its threshold after look j, in standard errors, z₁, z₂, … is a Gaussian random
walk (Korattikara, Chen and Welling 2014, Proposition 2).  It is a Brownian motion seen at the *information*
t_j = 1/Var, with Var the variance of the mean in units of σ_l²/(N − 1): t_j = π_j/(1 − π_j) without replacement, where
π_j is the share of the rows read, and t_j = π_j with replacement.  In these units z_j has mean μ_std·√t_j and
Corr(z_i, z_j) = √(t_i/t_j).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import CubicSpline
from scipy.special import ndtr

from pymc_austerity.acceptance.sequential import SequentialT
from pymc_austerity.user_input import takes

#: A bound further out than this is as good as none, and left out; below it no density underflows.
_UNREACHABLE = 30.0
#: Standard deviations after which a normal tail (3e-9) is neglected.
_TAIL = 6.0
#: Nodes per narrowest standard deviation of the integrand, and at least: the error is then below 1e-8.
_NODES_PER_SD, _MIN_NODES = 1.3, 16
#: Values of μ_std at which a test is analysed; a spline connects them.
_GRID = 96


class LooksOfDesign(NamedTuple):
    """The looks of a sequential test before the last one, which reads all rows and decides exactly."""

    information: np.ndarray  # t_j, increasing, shape (J,)
    bounds: np.ndarray  # G_j: the test stops when |z_j| > G_j, shape (J,)
    shares: np.ndarray  # rows read until each look and until the last, divided by N, shape (J + 1,)


def looks_of_design(test: SequentialT, n_rows: int) -> LooksOfDesign:
    """Return the looks of a test at `n_rows` rows, with normal quantiles: the standard deviation is taken as known."""
    n = test.looks(n_rows).sizes[:-1]
    share = n / n_rows
    bounds = test.normal_bounds(n, n_rows)
    reachable = bounds < _UNREACHABLE
    last = 1.0 + (share[-1] if test.replacement and n.size else 0.0)
    information = share if test.replacement else share / (1 - share)
    return LooksOfDesign(information[reachable], bounds[reachable], np.append(share[reachable], last))


_legendre = lru_cache(maxsize=256)(np.polynomial.legendre.leggauss)


def _nodes(bound: float, sd: float) -> tuple[np.ndarray, np.ndarray]:
    """Return Gauss–Legendre nodes and weights on [−bound, bound] for an integrand with features of width `sd`."""
    n = max(_MIN_NODES, int(np.ceil(_NODES_PER_SD * np.pi * bound / sd)))
    node, weight = _legendre(-(-n // 8) * 8)
    return bound * node, bound * weight


def stopping_probabilities(looks: LooksOfDesign, mu_std: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities that a test stops at each look below and above its threshold, of shape (J, M).

    The density of z among tests that go on is carried from look to look for μ_std = 0.  Every other μ_std follows from
    it by the likelihood ratio exp(μ_std √t z − μ_std² t/2) of a Brownian motion with drift, so that one pass over the
    looks serves all M values of `mu_std` = (μ − μ0) √(N − 1)/σ_l, increasing and not negative.
    """
    root = np.sqrt(looks.information)
    below, above = np.zeros((2, root.size, mu_std.size))
    if not root.size:
        return below, above
    below[0] = ndtr(-looks.bounds[0] - mu_std * root[0])
    above[0] = ndtr(-looks.bounds[0] + mu_std * root[0])
    z = mass = np.empty(0)
    rho_before = sd_before = 0.0
    for j in range(1, root.size):
        rho = root[j - 1] / root[j]  # correlation of z_j with z_{j−1}
        sd = np.sqrt(1 - rho**2)
        ahead, weight = _nodes(looks.bounds[j - 1], min(1.0, sd / rho))
        if j == 1:
            density = _normal_density(ahead, 0.0, 1.0)[:, 0]
        else:
            density = _normal_density(ahead, rho_before * z, sd_before) @ mass
        z, mass = ahead, weight * density
        rho_before, sd_before = rho, sd

        # Tests with a drift that is stronger have stopped before.
        going = mu_std * root[j - 1] < looks.bounds[j - 1] + _TAIL
        drift = mu_std[going]
        tilted = mass[:, None] * np.exp(drift * root[j - 1] * z[:, None] - (drift * root[j - 1]) ** 2 / 2)
        centre = rho * z[:, None] + drift * (looks.information[j] - looks.information[j - 1]) / root[j]
        below[j, going] = (tilted * ndtr((-looks.bounds[j] - centre) / sd)).sum(axis=0)
        above[j, going] = (tilted * ndtr((centre - looks.bounds[j]) / sd)).sum(axis=0)
    return below, above


def _normal_density(z: np.ndarray, means: np.ndarray | float, sd: float) -> np.ndarray:
    """Return normal densities at every z, one column for each mean."""
    return np.exp(-(((z[:, None] - means) / sd) ** 2) / 2) / (np.sqrt(2 * np.pi) * sd)


@dataclass(frozen=True)
class OperatingCharacteristic:
    """Error and data use of a sequential test as functions of how clear a decision is.

    Returned by `analyse_test`.

    Attributes
    ----------
    looks : LooksOfDesign
    worst_error : float
        E(0): the probability of a wrong decision when the mean lies at its threshold; no error exceeds it, nor does
        the error of any acceptance probability.
    worst_share : float
        π̄(0): the expected share of the rows read there.
    """

    looks: LooksOfDesign
    worst_error: float
    worst_share: float
    reach: float
    _error: Callable[[np.ndarray], np.ndarray]
    _share: Callable[[np.ndarray], np.ndarray]

    def error(self, mu_std: ArrayLike) -> np.ndarray:
        """Return E(μ_std), the probability that the test decides wrongly.

        Parameters
        ----------
        mu_std : array_like
            (μ − μ0) √(N − 1)/σ_l, of either sign.
        """
        x = np.abs(np.asarray(mu_std, dtype=float))
        inside = x < self.reach
        return np.where(inside, np.clip(self._error(np.arcsinh(np.minimum(x, self.reach))), 0, 0.5), 0.0)

    def share(self, mu_std: ArrayLike) -> np.ndarray:
        """Return π̄(μ_std), the expected share of the rows that the test reads.

        Parameters
        ----------
        mu_std : array_like
        """
        x = np.minimum(np.abs(np.asarray(mu_std, dtype=float)), self.reach)
        return np.clip(self._share(np.arcsinh(x)), self.looks.shares[0], self.looks.shares[-1])


def operating_characteristic(looks: LooksOfDesign) -> OperatingCharacteristic:
    """Analyse a test from its looks."""
    if not looks.bounds.size:
        all_rows = float(looks.shares[-1])
        return OperatingCharacteristic(looks, 0.0, all_rows, 0.0, np.zeros_like, lambda x: np.full_like(x, all_rows))
    reach = float((looks.bounds[0] + _TAIL) / np.sqrt(looks.information[0]))
    scaled = np.linspace(0, np.arcsinh(reach), _GRID)  # dense near 0, where the error is
    below, above = stopping_probabilities(looks, np.sinh(scaled))
    stopped = below + above
    error, share = below.sum(axis=0), looks.shares[:-1] @ stopped + looks.shares[-1] * (1 - stopped.sum(axis=0))
    splines = CubicSpline(scaled, error), CubicSpline(scaled, share)
    return OperatingCharacteristic(looks, float(error[0]), float(share[0]), reach, *splines)


@takes()
def analyse_test(
    n_rows: int, *, epsilon: float = 0.01, batch_size: int = 500, alpha: float = 0.5, replacement: bool = False
) -> OperatingCharacteristic:
    """Work out the error and the data use of the sequential test of `ApproxMH`, without simulation.

    `epsilon` bounds the error of one look; a test takes several, and this is the error of all of them together.

    Parameters
    ----------
    n_rows : int
        Rows N of the data.
    epsilon, batch_size, alpha
        As in `ApproxMH`.
    replacement : bool, default False
        Whether rows are drawn with replacement, as with ``rows=Weighted()``.

    Returns
    -------
    OperatingCharacteristic

    Raises
    ------
    ValueError
        For settings that `ApproxMH` refuses, or fewer than two rows.

    Notes
    -----
    Assumes that the means of the batches are jointly normal and that σ_l is known, which many rows a batch and light
    tails bring about.  Cost O(J^2) for J looks: milliseconds up to a few hundred, a second for two thousand.

    References
    ----------
    A. Korattikara, Y. Chen and M. Welling, Austerity in MCMC land: cutting the Metropolis–Hastings budget, ICML 2014,
    appendix A, equations 21 to 23.

    Examples
    --------
    A test at ε = 0.05 that sees a tie errs in three of ten cases, after 16 of 26 looks on average.

    >>> import pymc_austerity as pma
    >>> test = pma.analyse_test(13_000, epsilon=0.05, batch_size=500)
    >>> round(test.worst_error, 2), round(test.worst_share * 26, 0)
    (0.3, 16.0)
    >>> bool(test.error(3.0) < test.error(1.0) < test.worst_error)
    True
    """
    if n_rows < 2:
        raise ValueError(f"n_rows={n_rows}: a sequential test needs at least two rows to look at more than once.")
    return operating_characteristic(looks_of_design(SequentialT(epsilon, batch_size, replacement, alpha), n_rows))
