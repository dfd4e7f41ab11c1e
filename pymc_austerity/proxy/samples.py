"""Samples of the rows, for searches that need no pass over all of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pymc_austerity.rows import Rows, Table

#: Rows of the first search: enough for 20 a parameter, or this many.
_SUBSET_ROWS, _SUBSET_PER_PARAMETER = 20_000, 20
#: Rows that are searched from several starts.
_FEW_ROWS = 1_000
#: With this many rows a pass is dear, and so many of them are enough beside the expansion of all: what D parameters add
#: to the gradient is of the order of D posterior standard deviations over √N, its noise of D over √(N × part).
_MAX_ROWS, _PART = 100_000, 20_000


class Samples(NamedTuple):
    """Rows drawn uniformly from all over the data, the same whatever the seed of the chains."""

    search: Rows  # on which the mode is searched first
    few: Rows  # some of these, on which it is searched from several starts
    average: Rows  # over which derivatives are averaged: all rows, or of very many a part


def draw_samples(rows: Table, n_coordinates: int) -> Samples:
    """Draw the samples for a model whose rows read some number of parameters, in one pass."""
    n = len(rows)
    size = min(n, max(_SUBSET_ROWS, _SUBSET_PER_PARAMETER * n_coordinates))
    # The same subset whatever the seed of the chains: the centre is no part of their randomness.
    numbers = np.random.default_rng(2014).choice(n, size, replace=False)
    averaged = min(n, max(_PART, _SUBSET_PER_PARAMETER * n_coordinates))
    part = None if n < _MAX_ROWS else np.random.default_rng(2016).choice(n, averaged, replace=False)
    search, average = rows.samples([numbers, part])
    few = np.sort(numbers[: max(_FEW_ROWS, _SUBSET_PER_PARAMETER * n_coordinates)])
    return Samples(search, search.take(np.searchsorted(np.sort(numbers), few)), average)
