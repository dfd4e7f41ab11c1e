"""Which rows a user asks for: so many at random, these, or a range."""

from __future__ import annotations

from typing import Any

import numpy as np
from pymc.util import RandomGenerator, get_random_generator

from pymc_austerity.argument_kinds import are_numbers, is_whole, short

#: Name of the axis of the rows, whose coordinate is their numbers.
ROW = "row"


def chosen_rows(rows: Any, n_rows: int, random_seed: RandomGenerator, caller: str) -> np.ndarray:
    """Return the numbers of rows: so many at random without replacement, all where there are no more, or these."""
    if isinstance(rows, slice):
        numbers = np.arange(n_rows)[rows]
    elif is_whole(rows, 1):
        rng = get_random_generator(random_seed, copy=False)
        numbers = np.sort(rng.choice(n_rows, min(int(rows), n_rows), replace=False, shuffle=False))
    elif are_numbers(rows) and np.ndim(rows) == 1 and np.asarray(rows).dtype.kind in "iu":
        numbers = np.asarray(rows, np.int64)
    else:
        raise TypeError(
            f"{caller}: rows={short(rows)} must be a whole number, of rows to draw at random, a slice, or an array of "
            "the numbers of rows."
        )
    if not len(numbers):
        raise ValueError(f"{caller}: rows={short(rows)} leaves none of {n_rows:,} rows.")
    if numbers.min() < 0 or numbers.max() >= n_rows:
        wrong = numbers[(numbers < 0) | (numbers >= n_rows)][0]
        raise ValueError(f"{caller}: rows= has {wrong}, and rows have the numbers from 0 to {n_rows - 1}.")
    return numbers
