"""Which factor contains which variable: from a user's table to lists, and the check that the table tells the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pymc_austerity.gibbs.gibbs_sweep import Incidence, VariableLooks
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import Block, Density, ModelData

#: Factors that a check of one variable looks at, and the variables that are checked.
_CHECKED_FACTORS, _CHECKED_VARIABLES = 5_000, 500


def incidence_of(factors: Any, blocks: Sequence[Block], n_factors: int) -> Incidence:
    """Turn ``factors=`` into a list of factors for each variable, or raise a ValueError."""
    if not isinstance(factors, Mapping):
        if len(blocks) > 1:
            raise ValueError(
                f"The step draws {[b.name for b in blocks]}; give factors= as a dict with one table for each."
            )
        factors = {blocks[0].name: factors}
    tables = {getattr(key, "name", key): value for key, value in factors.items()}
    by_name = {block.name: block for block in blocks}
    if tables.keys() != by_name.keys():
        raise ValueError(f"factors= has tables for {sorted(tables)}, but the step draws {sorted(by_name)}.")
    pairs = [_pairs(table, by_name[name], n_factors) for name, table in tables.items()]
    found = np.unique(np.concatenate(pairs), axis=0)
    start = np.searchsorted(found[:, 0], np.arange(blocks[-1].stop + 1))
    return Incidence(start.astype(np.int64), np.ascontiguousarray(found[:, 1]))


def _pairs(table: ArrayLike, block: Block, n_factors: int) -> np.ndarray:
    array = np.asarray(table)
    size = block.stop - block.start
    if array.dtype.kind not in "iu" or array.ndim not in (1, 2) or len(array) != n_factors:
        raise ValueError(
            f"The table of {block.name!r} in factors= has shape {array.shape} and type {array.dtype}; it must hold "
            f"whole numbers, one row for each of the {n_factors} factors: the positions in {block.name!r} of the "
            "entries that the factor contains, filled up with −1."
        )
    if array.min() < -1 or array.max() >= size:
        raise ValueError(
            f"The table of {block.name!r} in factors= holds positions from {array.min()} to {array.max()}; they must "
            f"lie between 0 and {size - 1}, or be −1 for none."
        )
    columns = array.reshape(n_factors, -1).astype(np.int64)
    factor, column = np.nonzero(columns >= 0)
    return np.column_stack([columns[factor, column] + block.start, factor])


def check_incidence(
    incidence: Incidence, n_values: np.ndarray, density: Density, data: ModelData, theta: np.ndarray, others: np.ndarray
) -> None:
    """Change variables, one at a time, at a random point; raise a ValueError where a factor changes that has it not.

    Its share in the conditional law would be left out without a trace.
    """
    rows, names = data.rows, [f"{b.name}[{i}]" for b in data.likelihood.blocks for i in range(b.stop - b.start)]
    rng = np.random.default_rng(20140621)
    theta = np.where(n_values > 0, rng.integers(0, np.maximum(n_values, 1)), theta).astype(float)
    variables = np.flatnonzero(n_values > 1)
    if variables.size > _CHECKED_VARIABLES:
        variables = rng.choice(variables, _CHECKED_VARIABLES, replace=False)
    for d in map(int, variables):
        members = incidence.members[incidence.start[d] : incidence.start[d + 1]]
        numbers = np.setdiff1d(np.unique(rng.integers(0, len(rows), _CHECKED_FACTORS)), members)
        if not numbers.size:
            continue
        moved = theta.copy()
        moved[d] = (theta[d] + 1) % n_values[d]
        new, old = uninterrupted(density.both_sides, moved, theta, others, *data.fixed, *rows.take(numbers).arrays)
        wrong = np.flatnonzero(~((new == old) | (np.isnan(new) & np.isnan(old))))
        if wrong.size:
            raise ValueError(
                f"Factor {numbers[wrong[0]]} changes with {names[d]}, which factors= does not say it contains. The "
                f"factor would be left out of the conditional law of {names[d]}. Correct row {numbers[wrong[0]]} of "
                "the table (positions count from 0 in the variable itself, not in the model)."
            )


def looks_of(incidence: Incidence, looks: Any) -> VariableLooks:
    """Lay out the looks of a test for every variable; `looks` is the method of that name of a `SequentialT`."""
    sizes, bounds, first = [], [], [0]
    by_count: dict[int, Any] = {}
    for count in np.diff(incidence.start):
        if count not in by_count:
            by_count[count] = looks(int(count)) if count > 0 else None
        found = by_count[count]
        if found is not None:
            sizes.append(found.sizes)
            bounds.append(found.bounds)
        first.append(first[-1] + (0 if found is None else found.sizes.size))
    return VariableLooks(np.array(first), np.concatenate(sizes).astype(np.int64), np.concatenate(bounds).astype(float))
