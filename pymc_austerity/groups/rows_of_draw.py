"""How many rows a draw of groups reads, and how its moves are decided, in words."""

from __future__ import annotations

import numpy as np

from pymc_austerity.acceptance import Reads
from pymc_austerity.groups.group_decider import GroupDecider


def predicted_rows(decider: GroupDecider) -> float:
    """Return the rows that a draw reads where all moves draw them by bounds and stay where these hold."""
    found = decider.prepared
    if found.bounds is None or found.costs is None:
        return float(decider.n_rows)
    refreshed = decider.n_refreshed.sum() / len(decider.model.groups.own) * found.costs.refreshed
    return min(decider.n_rows, found.bounds.widening * found.costs.drawn_within) + float(refreshed)


def expected_rows(decider: GroupDecider) -> tuple[float, bool]:
    """Return the rows that a draw reads, and whether some draws read all.

    Where the test of the carried move reads batches, its rows are those of the first look.
    """
    if decider.parts.drawn.reads is Reads.BY_BOUNDS:
        costs = decider.prepared.costs
        return predicted_rows(decider), costs is not None and costs.drawn_within < costs.drawn == np.inf
    share, test = decider.n_refreshed.sum() / len(decider.model.groups.own), decider.test
    refreshed = share * decider.prepared.rows_refreshed(test, decider.few)
    return float(test.looks(decider.n_rows).sizes[0] + refreshed), False


def described(decider: GroupDecider) -> str:
    """Say how groups and what they share are decided, in a sentence or two."""
    found = decider.prepared
    if not found.nothing_left and all(decider.model.groups.tied):
        return "Their prior ties the groups to each other: they move together, and one decision is made for all."
    if not found.nothing_left and decider.model.groups.moves_together.all():
        return "The effects sum to zero: they move together, and one decision is made for all."
    if found.bounds is None or found.costs is None:
        few = "all of their rows" if decider.few >= len(found.rows) else "all of their rows, or a batch of many"
        return f"Groups read {few}: {found.without_bounds}."
    if found.nothing_left:
        return "Sums over the rows of each group determine the likelihood: no row is read, and draws are exact."
    rows = f"A move of all groups reads about {found.costs.refreshed:,.0f} of {len(found.rows):,} rows"
    if decider.parts.drawn.reads is Reads.BY_BOUNDS:
        return f"{rows} and is exact, as is that of the shared parameters."
    return f"{rows} and is exact; the shared parameters are moved by decisions on a batch of rows."
