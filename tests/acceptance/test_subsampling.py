"""Scalable subsampling: exact by enumeration of what the compiled test does, row for row, in the file beside this."""

import numpy as np
import pytest
from evidence import stationary_law
from scipy import stats

from pymc_austerity.acceptance.scalable_subsampling import keep_probability, log_factor

# Twelve rows of a logistic regression, of four kinds, and five states of its only parameter.

STATES = np.linspace(-1.2, 1.2, 5)
COVARIATES = np.repeat([0.6, -1.1, 1.5, 2.0], 3)
LABELS = np.repeat([1, 0, 0, 1], 3)
PRIOR = stats.norm(0.3, 1.0).logpdf(STATES)


def log_likelihood(theta, order=2, centre=0.0):
    """ℓ_i(θ) of every row, and its expansion about a centre."""
    eta, p = COVARIATES * theta, 1 / (1 + np.exp(-COVARIATES * centre))
    slopes = LABELS - p, -p * (1 - p), -p * (1 - p) * (1 - 2 * p)
    value, h = LABELS * COVARIATES * centre + np.log1p(-p), COVARIATES * (theta - centre)
    q = value + slopes[0] * h + slopes[1] * h**2 / 2 + (slopes[2] * h**3 / 6 if order == 3 else 0.0)
    return LABELS * eta - np.logaddexp(0, eta), q


def change(i, j, expanded=(2, 0.0)):
    """ΔR_i of every row on the way from state i to state j, and the log ratio of prior and proxy."""
    (at, q), (to, q_to) = log_likelihood(STATES[i], *expanded), log_likelihood(STATES[j], *expanded)
    return (at - q) - (to - q_to), PRIOR[j] - PRIOR[i] + (q_to - q).sum()


def span(i, j, expanded=(2, 0.0)):
    order, centre = expanded
    return abs(STATES[i] - centre) ** (order + 1) + abs(STATES[j] - centre) ** (order + 1)


def tight(expanded):
    """Bounds as small as they may be: the largest change on the way to a neighbour."""
    ways = [(i, (i + 1) % 5, expanded) for i in range(5)]
    return np.max([np.abs(change(*way)[0]) / span(*way) for way in ways], axis=0)


#: Expansions of third order vanish at 0, where the rows are even about it.
CUBIC = (3, 0.4)
TIGHT = tight((2, 0.0))
BOUNDS = np.sqrt(3) / 108 * np.abs(COVARIATES) ** 3
POSTERIOR = np.array([np.exp(log_likelihood(s)[0].sum()) for s in STATES]) * np.exp(PRIOR)
POSTERIOR /= POSTERIOR.sum()


def expected_acceptance(v, rates, offset, keep=keep_probability):
    """E min(1, r ∏ φ′/φ) over Poisson numbers of kept rows; rows that are alike are counted together."""
    _, first, where = np.unique(np.round(v, 12), return_index=True, return_inverse=True)
    kinds, total = v[first], np.bincount(where, rates)
    counts, probability, factor = np.arange(30), np.ones(()), np.full((), offset)
    for kind, rate in zip(kinds, total):
        rate *= keep(kind)
        factor = factor[..., None] + np.where(counts > 0, np.maximum(counts, 1) * log_factor(kind), 0.0)
        probability = probability[..., None] * stats.poisson.pmf(counts, rate)
    return float((probability * np.exp(np.minimum(factor, 0.0))).sum())


def matrix(acceptance):
    """Transition matrix of a walk to a neighbour, or back to the other end, accepted with these probabilities."""
    found, n = np.zeros((5, 5)), 5
    for i in range(n):
        for j in ((i - 1) % n, (i + 1) % n):
            found[i, j] = 0.5 * acceptance(i, j)
        found[i, i] = 1 - found[i].sum()
    return found


def law(bounds, span=span, keep=keep_probability, expanded=(2, 0.0), always=(), drawn_too=False):
    """Stationary law of the chain; changes beyond the bound are cut off, which the step itself never does."""
    always, drawn = list(always), np.ones(12, dtype=bool)
    drawn[always] = drawn_too

    def acceptance(i, j):
        delta, offset = change(i, j, expanded)
        sizes = bounds * (span(i, j) if expanded[0] == 2 else span(i, j, expanded))
        v = np.clip(delta / sizes, -1, 1)
        return expected_acceptance(v[drawn], sizes[drawn], offset - delta[always].sum(), keep)

    return stationary_law(matrix(acceptance))


#: Cones of three rows that are like, or not.
CONES = np.repeat([1, 0, 2, 0], 3)


def by_cones(i, j):
    """M_g, another power of the distance in each cone, and in none less than in the bounds for all."""
    cones = [(1 + np.arange(3)) * abs(STATES[s]) ** 3 + 0.1 * np.arange(3) * abs(STATES[s]) for s in (i, j)]
    return sum(cones)[CONES]


RIGHT = {
    "tight": {"bounds": TIGHT},
    "loose": {"bounds": 3 * BOUNDS},
    "third order": {"bounds": tight(CUBIC), "expanded": CUBIC},
    "rows always read": {"bounds": TIGHT, "always": [3, 9]},
    "by cones": {"bounds": TIGHT, "span": by_cones},
}
MISTAKES = {
    "bound too small": {"bounds": 0.8 * TIGHT},
    "rows read always and drawn too": {"bounds": BOUNDS, "always": [3, 9], "drawn_too": True},
    "M not symmetric": {"bounds": BOUNDS, "span": lambda i, j: 2 * span(i, i) + 1.0},
    "cones not symmetric": {"bounds": TIGHT, "span": lambda i, j: by_cones(i, i) + 1.0},
    "keep probability of the wrong side": {"bounds": BOUNDS, "keep": lambda v: keep_probability(-v)},
}


@pytest.mark.parametrize("case", RIGHT)
def test_the_posterior_is_stationary_to_machine_precision(case):
    assert np.abs(law(**RIGHT[case]) - POSTERIOR).max() < 1e-14


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_moves_the_stationary_law(mistake):
    assert np.abs(law(**MISTAKES[mistake]) - POSTERIOR).max() > 1e-4  # computed, not sampled
