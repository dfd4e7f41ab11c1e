"""The sizes at which a test looks at the rows."""

from __future__ import annotations

import math

import numpy as np

from pymc_austerity.argument_kinds import is_whole


def check_batch_size(batch_size: int, advice: str) -> None:
    """Refuse a number of rows that has no standard deviation, with advice on what to use."""
    if not is_whole(batch_size, 2):
        raise ValueError(
            f"batch_size={batch_size} must be a whole number of at least 2 rows: fewer have no standard deviation. "
            f"{advice}"
        )


def growing_sizes(first: int, ratio: float, n_rows: int) -> np.ndarray:
    """Return the sizes t ← ⌈ratio·t⌉ from `first` on, the last being `n_rows`."""
    sizes = [min(first, n_rows)]
    while sizes[-1] < n_rows:
        sizes.append(min(n_rows, math.ceil(ratio * sizes[-1])))
    return np.array(sizes)
