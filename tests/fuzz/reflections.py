"""Decisions of the steps between two points, against PyMC's own density at these points.

The proposal of every step here is θ′ = a + b − θ: between a and b it goes to and fro.  With π the density and α the
share of proposals that are accepted, α(a → b) π(a) = α(b → a) π(b) whatever the test, and more is known of some.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from checks import Found, tried
from numba import njit
from scipy import optimize, special

import pymc_austerity as pma
from pymc_austerity.likelihood import flatten, with_blocks
from pymc_austerity.proposals.proposal import Move, Proposal, adapt_nothing

#: Standard errors that a share may be off by: once in two million comparisons.
ERRORS = 5.0
#: Share of the variance of the rows' terms that one row may have for means of batches to be about normal.
MOST_OF_ONE = 0.3


class Between(NamedTuple):
    log_scale: np.ndarray
    both: np.ndarray


@njit
def _reflect(rng, theta, state, surroundings):
    return state.both - theta, 0.0, 0


def _state(theta, discrete, n_rows):
    return Between(np.zeros(1), 2 * theta)


@dataclass(frozen=True)
class Reflect(Proposal):
    def for_model(self, target):
        return Move(_reflect, adapt_nothing, _state)


@dataclass(frozen=True)
class Law:
    """A step, its probability to accept where it is known, and by how much that may be off.

    The probability is asked at a log ratio, of so many rows, with the standard error of the ratio from half of them.
    """

    build: object
    probability: object = None
    error: float = 0.0
    balanced: bool = True


def metropolis(log_ratio, n_rows, noise):
    return np.exp(min(0.0, log_ratio))


def barker(log_ratio, n_rows, noise):
    return special.expit(log_ratio)


SEQUENTIAL = {"epsilon": 0.01, "batch_size": 100}


def sequential(log_ratio, n_rows, noise):
    """The errors that `ApproxMH` states of its decisions."""
    error, _ = pma.acceptance_error(pma.analyse_test(n_rows, **SEQUENTIAL), [log_ratio], [noise])
    return np.exp(min(0.0, log_ratio)) + error[0]


#: `ExactMH` and `MHSS` make no errors; those of the others are known where means of batches are normal.
LAWS = {
    "ExactMH": Law(partial(pma.ExactMH, proxy=None), metropolis),
    "ExactBarker": Law(partial(pma.ExactMH, test=pma.ExactBarker(), proxy=None), barker),
    "MHSS": Law(pma.MHSS),
    "PenaltyMH": Law(pma.PenaltyMH, error=0.03),
    "MinibatchBarker": Law(pma.MinibatchBarker, barker, error=0.03),
    "ApproxMH, all rows": Law(partial(pma.ApproxMH, epsilon=0.0, batch_size=10, proxy=None), metropolis),
    "ApproxMH": Law(partial(pma.ApproxMH, proxy=None, **SEQUENTIAL), sequential, error=0.05, balanced=False),
}


def near_the_mode(split):
    """Return a point of high density, found without this package."""
    blocks, start = split.likelihood.blocks, flatten(split.data.point, split.likelihood.blocks)

    def against(z):
        value = split.density(with_blocks(split.data.point, start + split.widths * z, blocks))
        return -value if np.isfinite(value) else 1e30

    found = optimize.minimize(against, np.zeros(start.size), method="BFGS", options={"maxiter": 30})
    return start + split.widths * found.x


def pairs(split, n):
    """Return pairs of points whose log densities differ by less than two, and the differences."""
    rng, mode, found = np.random.default_rng(6), near_the_mode(split), []

    def density(theta):
        return split.density(with_blocks(split.data.point, theta, split.likelihood.blocks))

    top = density(mode)
    for _ in range(n):
        jumps = split.widths * rng.standard_normal((2, mode.size))
        while any(not density(mode + jump) > top - 2 for jump in jumps):
            jumps /= 1.5
            if np.abs(jumps / split.widths).max() < 1e-6:
                return found
        a, b = mode + jumps
        found.append((a, b, density(b) - density(a)))
    return found


def share(step, a, b, n):
    """Return the share of proposals from a to b that the step accepts."""
    chain = step.chain
    chain.state.both[:] = a + b
    outcomes = [chain.transition(a, np.zeros(0), 1.0) for _ in range(n)]
    if bad := [o for o in outcomes if o.status]:
        raise Found(f"a decision ended with status {bad[0].status} at a point where PyMC's density is finite")
    return np.mean([o.accepted for o in outcomes])


def check_decisions(split, names=tuple(LAWS), n=600):
    """Compare how often steps accept with what PyMC's density says; return the names of steps that could be built."""
    built = []
    found = pairs(split, 2)
    for name in names if found else ():
        law = LAWS[name]
        build = partial(law.build, model=split.model, proposal=Reflect(), rng=7, tune=False, progressbar=False)
        step, refused = tried(f"building {name}", build)
        if refused or step.decider.parts.theta0.size != found[0][0].size:
            continue
        built.append(name)
        for a, b, log_ratio in found:
            there, back = share(step, a, b, n), share(step, b, a, n)
            terms = split.of(b, split.rows) - split.of(a, split.rows)
            squares = (terms - terms.mean()) ** 2
            if law.error and squares.max() > MOST_OF_ONE * squares.sum():
                continue
            of_rows = terms.size, float(terms.std() * terms.size / np.sqrt(terms.size - 1))
            _compare(name, law, there, back, log_ratio, of_rows, n)
            _compare(f"{name}, back", law, back, there, -log_ratio, of_rows, n)
    return built


def _compare(name, law, there, back, log_ratio, of_rows, n):
    if law.balanced and log_ratio <= 0:  # α(a → b) = α(b → a) π(b)/π(a)
        ratio = np.exp(log_ratio)
        variance = _variance(there, n) + ratio**2 * _variance(back, n)
        if abs(there - ratio * back) > ERRORS * np.sqrt(variance) + law.error:
            raise Found(f"{name}: accepts {there:.3f}, and {back:.3f} back, at a log ratio of {log_ratio:.3f}")
    if law.probability is not None:
        expected = float(law.probability(log_ratio, *of_rows))
        if abs(there - expected) > ERRORS * np.sqrt(_variance(expected, n)) + law.error:
            raise Found(f"{name}: accepts {there:.3f} in place of {expected:.3f} at a log ratio of {log_ratio:.3f}")


def _variance(p, n):
    """Return the variance of a share of n, which is not nothing where none of them was accepted."""
    q = (n * p + 2) / (n + 4)
    return q * (1 - q) / n
