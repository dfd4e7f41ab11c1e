"""What a step says of its chains before they run: a few transitions on the surrogate's draws show most of it."""

from __future__ import annotations

import logging

import numpy as np

from pymc_austerity.acceptance import DECIDED
from pymc_austerity.kernel import Chain, Decider

_log = logging.getLogger("pymc_austerity")

#: Transitions that are tried at most, and the fewest that show how often a chain moves.
_TRIED, _FEWEST = 40, 20
#: Of fewer rows most may be read.
_FEW_ROWS = 2_000
#: Passes over the rows after which the trial ends.
_PASSES = 4.0
#: Share of the rows a decision, and of moves that are accepted, from which on a user should know.
_MOST_READ, _FEWEST_ACCEPTED = 0.5, 0.05


def look_ahead(decider: Decider, name: str) -> float | None:
    """Return the rows that a decision reads, where it is tried; warn where it reads most, or moves hardly ever.

    Parameters
    ----------
    decider : Decider
        Nothing is tried without a proxy, of rows that are not all in memory, or of a test that reads all of them.
    name : str
        Of the step.
    """
    n_rows = len(decider.rows)
    if (
        decider.prepared is None
        or not decider.test.reads.a_part
        or not decider.row_source.complete
        or n_rows < _FEW_ROWS
    ):
        return None
    chain, theta, others = Chain(decider, np.random.default_rng(0)), decider.prepared.draws[0], decider.parts.others0
    read: list[int] = []
    accepted: list[float] = []
    while len(read) < _TRIED and sum(read) < _PASSES * n_rows:
        outcome = chain.transition(theta, others, float(decider.parts.temperature.final))
        if outcome.status != DECIDED:  # the chain itself will say so
            return None
        theta = outcome.theta
        read.append(outcome.n_rows)
        accepted.append(outcome.accepted)
    share, rate = min(1.0, float(np.mean(read)) / n_rows), float(np.mean(accepted))
    while_built = f"in {len(read)} transitions that were tried while it was built"
    remedy = (
        "One decision over all its variables does not suit this posterior. Standardise covariates, or use NUTS: "
        "pymc_austerity.recommend(model) compares them."
    )
    if share > _MOST_READ:
        _log.warning(f"{name} reads most of the rows, {share:.0%} of {n_rows:,} a decision {while_built}. {remedy}")
    elif len(read) >= _FEWEST and rate < _FEWEST_ACCEPTED:
        _log.warning(f"{name} hardly moves: {rate:.0%} of the moves were accepted {while_built}. {remedy}")
    return float(np.mean(read))
