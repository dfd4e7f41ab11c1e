"""Which groups are refreshed together: groups that are independent given all others.

Those of a factor are, unless rows read several of them, as in ``rating[i] - rating[j]``.  Then groups with rows in
common have different turns, as neighbours of a Markov field do (a colouring of its graph; Gonzalez, Low, Gretton and
Guestrin, AISTATS 2011).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pymc_austerity.groups.group_expansion import GroupExpansion


class Turns(NamedTuple):
    """Sets of groups that are independent given all others, as arrays for compiled code."""

    start: np.ndarray  # int64 (T + 1,): the groups of turn t are ``groups[start[t]]`` to ``groups[start[t + 1] - 1]``
    groups: np.ndarray  # int64


def find_turns(e: GroupExpansion, tied: Iterable[bool]) -> Turns:
    """Return the turns of the groups of all factors but those that are `tied`, which move together."""
    turns = [np.empty(0, np.int64)]
    for (first, end), together in zip(pairwise(e.first.tolist()), tied, strict=True):
        if not together:
            colours = _colours(first, end, e.cell_start, e.cell_with.astype(np.int64))
            turns.extend(first + np.flatnonzero(colours == colour) for colour in range(colours.max(initial=-1) + 1))
    return Turns(np.cumsum([0, *map(len, turns[1:])]), np.concatenate(turns))


def _colours(first: int, end: int, cell_start: np.ndarray, cell_with: np.ndarray) -> np.ndarray:
    """Give groups of a factor that have rows in common different numbers, those with the most neighbours first."""
    colours = np.full(end - first, -1)
    degrees = np.diff(cell_start[first : end + 1])
    for i in np.argsort(-degrees, kind="stable").tolist():
        others = cell_with[cell_start[first + i] : cell_start[first + i + 1]]
        taken = colours[others[(others >= first) & (others < end)] - first]
        free = np.ones(taken.size + 1, bool)
        free[taken[(taken >= 0) & (taken <= taken.size)]] = False
        colours[i] = free.argmax()
    return colours
