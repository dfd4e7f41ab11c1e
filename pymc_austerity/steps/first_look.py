"""A warning that comes before the wait: a few transitions and draws of the surrogate show what a chain will do."""

from __future__ import annotations

import logging
import time

import numpy as np

from pymc_austerity.acceptance import DECIDED, Reads
from pymc_austerity.diagnostics.judged_decisions import judge_shapes
from pymc_austerity.diagnostics.spot_check import evaluate_pair, pair_shape
from pymc_austerity.diagnostics.verdicts import DO_NOT_TRUST, Finding
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.kernel import Chain, Decider
from pymc_austerity.proposals import CrankNicolson, SurrogateHMC

_log = logging.getLogger("pymc_austerity")

#: Transitions that are tried at most, and the fewest that show how often a chain moves.
_TRIED, _FEWEST = 40, 20
#: Of fewer rows most may be read.
_FEW_ROWS = 2_000
#: Passes over the rows after which the trial ends.
_PASSES = 4.0
#: Share of the rows a decision, and of moves that are accepted, from which on a user should know.
_MOST_READ, _FEWEST_ACCEPTED = 0.5, 0.05
#: Draws of the surrogate at which the posterior is compared with it, on how many rows, and how much further from the
#: centre than these it is compared again, in √D parts: a posterior that is wider than its surrogate shows there alone.
_COMPARED, _ROWS, _FURTHER = 40, 20_000, 1.5
#: Rate at which states of the posterior are left by moves on the surrogate, below which a user should know, and the
#: standard error of the log posterior above which it is not known.
_LEAST_LEFT, _NOISE = 0.65, 1.0
#: Proposals at which the shape of batches is looked at, within so many row terms.
_PROPOSALS, _TERMS = 20, 2_000_000
#: Seconds that all rows take at both ends of a move, up to which NUTS makes a few thousand draws in about the time of
#: the set-up: of a dozen models in `docs/not_normal.md`.
_QUICK = 7e-4
_REMEDY = (
    "One decision over all its variables does not suit this posterior. Standardise covariates, or use NUTS: "
    "pymc_austerity.recommend(model) compares them."
)


def look_ahead(decider: Decider, name: str) -> float | None:
    """Return the rows that a decision reads, where it is tried; warn where it reads most, or moves hardly ever.

    `name` is that of the step.  Nothing is tried without a proxy, or of rows that are not all in memory; decisions that
    read all rows are not, but their moves are looked at.
    """
    n_rows, prepared, all_there = len(decider.parts.stored), decider.parts.prepared, decider.row_source.complete
    if prepared is None or not all_there:
        return None
    if (seconds := _seconds_of_rows(decider)) <= _QUICK:
        _log.info(
            f"All {n_rows:,} rows are evaluated in {1e3 * seconds:.2g} ms: for a few thousand draws NUTS is about as "
            "quick. pymc_austerity.recommend(model) compares them."
        )
    if n_rows < _FEW_ROWS:
        return None
    draws = decider.draws_of_surrogate()
    chain, theta = Chain(decider, np.random.default_rng(0)), draws[0]
    read: list[int] = []
    accepted: list[float] = []
    most = _TRIED if decider.test.reads.a_part else 0
    while len(read) < most and sum(read) < _PASSES * n_rows:
        outcome = chain.transition(theta, decider.parts.others0, float(decider.parts.temperature.final))
        if outcome.status != DECIDED:  # the chain itself will say so
            return None
        theta = outcome.theta
        read.append(outcome.n_rows)
        accepted.append(outcome.accepted)
    mean_read, rate = (float(np.mean(read)), float(np.mean(accepted))) if read else (0.0, 1.0)
    share = min(1.0, mean_read / n_rows)
    while_built = f"in {len(read)} transitions that were tried while it was built"
    if share > _MOST_READ:
        _log.warning(f"{name} reads most of the rows, {share:.0%} of {n_rows:,} a decision {while_built}. {_REMEDY}")
    elif len(read) >= _FEWEST and rate < _FEWEST_ACCEPTED:
        _log.warning(f"{name} hardly moves: {rate:.0%} of the moves were accepted {while_built}. {_REMEDY}")
    elif (left := _rate_of_leaving(decider)) < _LEAST_LEFT:
        _log.warning(
            f"{name} will have few effective draws: moves across the posterior, above all those that begin in its "
            f"tails, are rejected {1 - left:.0%} of the time, as its shape is not that of the expanded rows. {_REMEDY}"
        )
    elif skewed := [f for f in _of_batches(decider, draws, mean_read) if f.verdict == DO_NOT_TRUST]:
        _log.warning(
            f"{name} draws batches whose means are not normal, as its test takes them to be. {skewed[0].reason} "
            f"{skewed[0].remedy} Or use NUTS: pymc_austerity.recommend(model) compares them."
        )
    return mean_read if read else None


def _seconds_of_rows(decider: Decider) -> float:
    """Return the seconds that the terms of all rows take at both ends of a move, the least of three goes."""
    parts, arrays, took = decider.parts, decider.parts.stored.some(_ROWS), []
    at = parts.theta0, parts.theta0, parts.others0
    for _ in range(3):
        start = time.perf_counter()
        uninterrupted(decider.density.both_sides, *at, *decider.row_inputs, *arrays)
        took.append(time.perf_counter() - start)
    return min(took) * len(parts.stored) / len(arrays[0])


def _of_batches(decider: Decider, draws: np.ndarray, read: float) -> list[Finding]:
    """Judge batches of so many rows as `reliability` does after a run, at proposals from draws of the surrogate."""
    others, n_rows = decider.parts.others0, len(decider.parts.stored)
    if decider.test.reads is not Reads.BATCHES:
        return []
    rng, state = np.random.default_rng(1982), decider.new_state()
    n = int(np.clip(_TERMS // n_rows, 2, _PROPOSALS))
    proposed = [decider.propose(theta, others, state, rng) for theta in draws[:: -(-len(draws) // n)]]
    pairs = [pair for pair in (evaluate_pair(decider, one) for one in proposed) if pair is not None]
    return judge_shapes(decider, [(pair_shape(decider, pair), read) for pair in pairs], n_rows) if pairs else []


def _rate_of_leaving(decider: Decider) -> float:
    """Return how often a state of the posterior is left for a draw of the surrogate; 1 where that is not known.

    The posterior is known at draws of the surrogate that were moved away from its centre, each weighted by its density
    over that of such a draw.  Of very many rows some are read, unless every draw reads all.
    """
    prepared, others = decider.parts.prepared, decider.parts.others0
    if prepared is None or not isinstance(decider.proposal, CrankNicolson | SurrogateHMC):
        return 1.0
    around, n_rows = decider.surroundings(others), len(decider.parts.stored)
    n_read = min(_ROWS, n_rows) if decider.test.reads.a_part else n_rows
    numbers = np.sort(np.random.default_rng(1980).choice(n_rows, n_read, replace=False))
    rows, counts = decider.parts.stored.take(numbers).arrays, decider.row_source.counts
    times = n_rows / float(decider.parts.temperature.final) * (1.0 if counts is None else counts[numbers])
    draws = prepared.draws[:: -(-len(prepared.draws) // _COMPARED)]
    mean = prepared.draws.mean(axis=0)
    away = mean + (1 + _FURTHER / np.sqrt(mean.size)) * (draws - mean)
    noise: list[float] = []

    def rows_at(new: np.ndarray, old: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return uninterrupted(decider.density.both_sides, new, old, others, *decider.row_inputs, *rows)

    def log_densities(theta: np.ndarray, rows_there: np.ndarray) -> tuple[float, float]:
        """Return the log density of the posterior, up to a constant, and that of the surrogate."""
        left = times * (rows_there - at_mean)
        noise.append(left.std() * np.sqrt(1 / numbers.size - 1 / n_rows))
        _, offset = uninterrupted(decider.offset_of, theta, mean, 0.0, around)
        linearisation = prepared.move.linearisation
        surrogate, _ = uninterrupted(decider.compiled.surrogate.evaluate, theta, linearisation, around)
        return offset + left.mean(), surrogate

    with np.errstate(all="ignore"):
        at_mean = rows_at(mean, mean)[0]
        pairs = [[log_densities(*at) for at in zip(ends, rows_at(*ends))] for ends in zip(draws, away)]
        here, there = np.array(pairs).swapaxes(0, 1)
        if not np.median(noise) < _NOISE:
            return 1.0
        weight = np.nan_to_num(np.exp(np.minimum(there[:, 0] - here[:, 1] - (there[:, 0] - here[:, 1]).max(), 0.0)))
        excess, excess_there = (at[:, 0] - at[:, 1] for at in (here, there))
        left = np.exp(np.minimum(excess - excess_there[:, None], 0.0)).mean(axis=1)
    return float(np.nansum(weight * left) / weight.sum())
