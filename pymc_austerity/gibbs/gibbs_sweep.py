"""One sweep of approximate Gibbs sampling over discrete variables, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pymc_austerity.compile.bounded_integers import integer_below
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.likelihood import LinkedBothSides, LinkedLogPrior

#: Factors evaluated at once at most.
CHUNK = 4096


class Incidence(NamedTuple):
    """Which factors contain which variable, in compressed form."""

    start: np.ndarray  # int64 (D + 1,)
    #: int64: variable d is in the factors ``members[start[d]:start[d + 1]]``; the order within is shuffled by sampling.
    members: np.ndarray


class VariableLooks(NamedTuple):
    """The looks of the sequential test, for every number of factors that a variable has."""

    #: int64 (D + 1,): variable d looks after ``sizes[first[d]:first[d + 1]]`` factors, the last of which is all of
    #: them.
    first: np.ndarray
    sizes: np.ndarray  # int64
    #: A difference of means is clear when it is further than ``bounds`` standard deviations of it from its threshold.
    bounds: np.ndarray


class SweepOutcome(NamedTuple):
    """What happened in one sweep."""

    theta: np.ndarray  # (D,)
    changed: int  # variables that took another value
    n_rows: int  # factors evaluated, all values of a variable counted once
    n_stages: int  # looks
    n_full: int  # variables decided on all of their factors
    bad: int  # variable for which no value had a finite density, or −1


@njit
def extend(rng: np.random.Generator, members: np.ndarray, start: int, stop: int, n: int, m: int) -> None:
    """Extend a uniform random subset of ``members[start:stop]`` from `n` to `m` members, in place."""
    for i in range(start + n, start + m):
        j = i + integer_below(rng, stop - i)
        members[i], members[j] = members[j], members[i]


@njit
def add_batch(n: int, mean: np.ndarray, products: np.ndarray, terms: np.ndarray) -> None:
    """Update the mean and the centred products of `n` columns in place with a batch of them (Chan et al.)."""
    n_values, size = terms.shape
    shift = np.empty(n_values)
    for k in range(n_values):
        centre = terms[k].mean()
        shift[k] = centre - mean[k]
        terms[k] -= centre
    for k in range(n_values):
        for j in range(n_values):
            products[k, j] += np.sum(terms[k] * terms[j]) + shift[k] * shift[j] * n * size / (n + size)
    mean += shift * size / (n + size)


@njit
def race(
    alive: np.ndarray, n: int, n_total: int, mean: np.ndarray, products: np.ndarray, offset: np.ndarray, bound: float
) -> int:
    """Drop the values that are clearly behind; return the leader once it is alone, else −1.

    Value k scores n_total·mean[k] + offset[k], where the offset holds prior and Gumbel noise.  With two values this is
    the sequential t-test of the log odds against logit(u).
    """
    leader, best = -1, -np.inf
    for k in range(mean.size):
        score = n_total * mean[k] + offset[k]
        if alive[k] and score > best:
            leader, best = k, score
    if leader < 0 or n == n_total:
        return leader
    n_alive = 0
    for k in range(mean.size):
        if alive[k] and k != leader:
            distance = (best - n_total * mean[k] - offset[k]) / n_total
            square = products[leader, leader] + products[k, k] - 2 * products[leader, k]
            if distance > bound * np.sqrt(max(square, 0.0) / (n - 1)):
                alive[k] = False
        n_alive += alive[k]
    return leader if n_alive == 1 else -1


class Factors(NamedTuple):
    """The factors that are read in a sweep, and how."""

    incidence: Incidence
    looks: VariableLooks
    n_values: np.ndarray  # int64 (D,): values that each variable may take


def build_conditional(log_prior: LinkedLogPrior, both_sides: LinkedBothSides) -> Callable[..., tuple[int, int, int]]:
    """Compile a draw of one variable: its value, −1 where none has a density, the factors read and the looks."""

    @njit
    def conditional(d, theta, around, factors, rng_decide, rng_rows):  # type: ignore[no-untyped-def]
        links, others, fixed, arrays = around.links, around.others, around.fixed, around.arrays
        incidence, looks, n_values = factors.incidence, factors.looks, factors.n_values[d]
        start, stop = incidence.start[d], incidence.start[d + 1]
        n_total = stop - start
        # Noise comes before any factor is read, so that what is read cannot depend on it.
        offset, alive = np.empty(n_values), np.ones(n_values, np.bool_)
        states = np.empty((n_values, theta.size))
        for k in range(n_values):
            states[k] = theta
            states[k, d] = k
            prior = log_prior(links, states[k], others, fixed)
            offset[k] = prior - np.log(rng_decide.standard_exponential())
            alive[k] = np.isfinite(prior)
        mean, products = np.zeros(n_values), np.zeros((n_values, n_values))
        n, look, winner = 0, 0, -1
        if n_total == 0:
            return race(alive, 0, 0, mean, products, offset, 0.0), 0, 0
        while winner < 0 and np.any(alive):
            at = looks.first[d] + look
            size = looks.sizes[at]
            extend(rng_rows, incidence.members, start, stop, n, size)
            while n < size:
                until = min(n + CHUNK, size)
                numbers = incidence.members[start + n : start + until]
                terms = np.empty((n_values, until - n))
                for k in range(1, n_values):
                    new, old = both_sides(links, states[k], states[0], others, others, fixed, arrays, numbers)
                    terms[k] = new
                    if k == 1:
                        terms[0] = old
                for k in range(n_values):
                    if not np.isfinite(terms[k].sum()):
                        alive[k] = False
                        terms[k] = 0.0
                add_batch(n, mean, products, terms)
                n = until
            winner = race(alive, n, n_total, mean, products, offset, looks.bounds[at])
            look += 1
        return winner, n, look

    return conditional


@built_once
def build_sweep(log_prior: LinkedLogPrior, both_sides: LinkedBothSides) -> Callable[..., tuple[Any, ...]]:
    """Compile ``sweep(theta, around, factors, variables, rng_order, rng_decide, rng_rows)``.

    It draws the given variables in random order and returns the fields of a `SweepOutcome`.
    """
    conditional = build_conditional(log_prior, both_sides)

    @njit
    def sweep(theta, around, factors, variables, rng_order, rng_decide, rng_rows):  # type: ignore[no-untyped-def]
        theta, start = theta.copy(), factors.incidence.start
        changed, n_rows, n_stages, n_full = 0, 0, 0, 0
        for d in rng_order.permutation(variables):
            value, n, n_looks = conditional(d, theta, around, factors, rng_decide, rng_rows)
            if value < 0:
                return SweepOutcome(theta, changed, n_rows, n_stages, n_full, d)[:]
            n_rows, n_stages = n_rows + n, n_stages + n_looks
            n_full += n == start[d + 1] - start[d]
            changed += value != theta[d]
            theta[d] = value
        return SweepOutcome(theta, changed, n_rows, n_stages, n_full, -1)[:]

    return sweep
