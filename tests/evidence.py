"""How surprising a result is: every statistical test compares one of these numbers with the same level.

A test of the suite asks for p-values above `LEVEL` or distances below `MAX_Z`; its negative control shows that
the same question is answered otherwise for a planted mistake.
"""

import arviz as az
import numpy as np
from scipy import stats

#: Of about fifty p-values in the suite, one below this is expected in two hundred suites.
LEVEL = 1e-4
#: Two-sided normal quantile of 1e-5.
MAX_Z = 4.4


def multinomial_p(counts, probabilities):
    """p-value of Pearson's chi-square; cells that expect fewer than five are pooled."""
    counts, expected = np.asarray(counts, float), np.asarray(probabilities, float) * np.sum(counts)
    if np.any(counts[expected == 0] > 0):
        return 0.0
    small = expected < 5
    if small.any():
        counts = np.append(counts[~small], counts[small].sum())
        expected = np.append(expected[~small], expected[small].sum())
    counts, expected = counts[expected > 0], expected[expected > 0]
    return stats.chi2.sf(np.sum((counts - expected) ** 2 / expected), counts.size - 1)


def occupancy_p(visits, transition):
    """p-value of the number of visits to each state of a Markov chain whose transition matrix is known.

    The covariance of the visits is the chain's own, so autocorrelation needs no estimate.
    """
    law = stationary_law(transition)
    n_states = law.size
    fundamental = np.linalg.inv(np.eye(n_states) - transition + law)
    covariance = law[:, None] * fundamental
    covariance = covariance + covariance.T - np.diag(law) - np.outer(law, law)
    n = visits.sum()
    deviation = (visits / n - law)[:-1]
    return stats.chi2.sf(n * deviation @ np.linalg.solve(covariance[:-1, :-1], deviation), n_states - 1)


def stationary_law(transition):
    """Left eigenvector of a stochastic matrix."""
    n_states = len(transition)
    equations = np.vstack([transition.T - np.eye(n_states), np.ones(n_states)])
    return np.linalg.lstsq(equations, np.append(np.zeros(n_states), 1.0), rcond=None)[0]


def mean_z(draws, expected, expected_error=0.0):
    """Distance of the mean of draws (chain, draw) from `expected`, in Monte Carlo standard errors."""
    return (np.mean(draws) - expected) / np.hypot(mean_error(draws), expected_error)


def mean_error(draws):
    """Monte Carlo standard error of the mean of draws (chain, draw)."""
    return float(az.mcse(az.convert_to_dataset({"x": np.asarray(draws, float)}), method="mean")["x"])


def moment_z(draws, mean, sd):
    """Distances of mean and variance of draws (chain, draw) from a known law, in Monte Carlo standard errors."""
    squares = (np.asarray(draws) - mean) ** 2
    return np.array([mean_z(draws, mean), mean_z(squares, sd**2)])


def difference_z(draws, reference):
    """Distances between the means and the variances of two runs, in Monte Carlo standard errors."""
    centre = np.mean(reference)
    pairs = [(draws, reference), ((draws - centre) ** 2, (reference - centre) ** 2)]
    return np.array([mean_z(a, np.mean(b), mean_error(b)) for a, b in pairs])


def moments_on_grid(grid, log_density):
    """Mean and standard deviation of the law that has this log density at the points of an even grid."""
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    mean = weight @ grid
    return mean, np.sqrt(weight @ (grid - mean) ** 2)
