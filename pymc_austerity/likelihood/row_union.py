"""Several sets of rows as one population.

Observed variables of different length (two groups, observed and censored times, two sources) have no row in common.
Their rows are numbered one set after the other, and a row is a number k of its set and the data of that set:

    ℓ_i(θ) = Σ_s 1[k_i = s] ℓ_s(data of row i in set s)

Whatever samples, weighs, expands or bounds rows does so with the rows of all sets.  A set has a
copy of its first row where the row is of another set, so that its term is finite there, and so are its derivatives,
though it does not count.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np
import pytensor.tensor as pt
from pymc.model import Model
from pytensor.graph.basic import Variable
from pytensor.tensor.type import TensorType

from pymc_austerity.likelihood.rebuild import NotRowWiseError
from pymc_austerity.likelihood.row_set import RowSet, row_set
from pymc_austerity.likelihood.row_terms import RowTerms, SetTerms, candidate_terms, in_full, warn_about_remainder
from pymc_austerity.unsupported_model import UnsupportedModelError

_log = logging.getLogger("pymc_austerity")

#: Sets of at most so many rows are part of the prior.  A draw of some 200 rows would evaluate their density as often,
#: and what few rows say is less normal than an expansion takes it for: measured with a second group of 10 to 1,000 rows
#: beside one of 4,000.
FEW_ROWS = 300
#: Type of the number of a row's set.
_SET_NUMBER = "uint8"
_MOST_SETS = 255


def row_sets(
    model: Model, observed: str | Sequence[str] | None, point: Mapping[str, np.ndarray], *, several: bool = True
) -> tuple[RowTerms, tuple[RowSet, ...]]:
    """Choose the sets of rows that are subsampled, and show that each splits into rows.

    The longest must split.  Others that do not, or have few rows, are evaluated in full at every draw unless the user
    named them.

    Parameters
    ----------
    model : pymc.Model
    observed : str, sequence of str, or None
        Names of observed variables or potentials; by default all that have rows.
    point : mapping of str to array
        Values of the free variables.
    several : bool
        Whether the step can read more than one set.

    Returns
    -------
    RowTerms, tuple of RowSet

    Raises
    ------
    NotRowWiseError, ValueError
        As `candidate_terms` and `row_set`.
    """
    candidates = candidate_terms(model, observed, point, several=several)
    kept: list[tuple[SetTerms, RowSet]] = []
    for own in candidates.sets:
        needed = not kept or candidates.chosen
        if not needed and (own.n_rows <= FEW_ROWS or len(kept) == _MOST_SETS):
            _log.info(in_full([own], "there are fewer than it takes for drawing them to cost less"))
            continue
        try:
            kept.append(_split(model, own))
        except UnsupportedModelError as error:
            if needed:
                raise
            _log.info(in_full([own], str(error).rstrip(".")))
    terms = RowTerms(tuple(t for t, _ in kept))
    if len(kept) > 1:
        parts = ", ".join(f"{t.n_rows:,} of {t.names}" for t in terms.sets)
        _log.info(f"The rows of {len(kept)} sets are drawn as those of one population of {terms.n_rows:,}: {parts}.")
    warn_about_remainder(model, terms, candidates.shapes)
    return terms, tuple(rows for _, rows in kept)


def _split(model: Model, terms: SetTerms) -> tuple[SetTerms, RowSet]:
    """Split terms into rows along the axis that they have, or else along another."""
    try:
        return terms, row_set(model, terms)
    except NotRowWiseError:
        for other in terms.along_other_axes():
            with suppress(UnsupportedModelError):
                return other, row_set(model, other)
        raise


def union_of(sets: Sequence[RowSet]) -> tuple[Variable, tuple[Variable, ...]]:
    """Return the row terms of all sets as one vector over a batch, and the batches that it reads.

    Parameters
    ----------
    sets : sequence of RowSet

    Returns
    -------
    Variable, tuple of Variable
        With several sets, the numbers of the rows' sets are the last batch.
    """
    batches = tuple(leaf.batch for s in sets for leaf in s.leaves)
    *rest, rows = [s.rows for s in sets]
    if not rest:
        return rows, batches
    number = TensorType(_SET_NUMBER, shape=(None,))("set")
    for k, own in reversed(list(enumerate(rest))):
        rows = pt.switch(pt.eq(number, k), own, rows)
    return rows, (*batches, number)


def union_arrays(sets: Sequence[Sequence[np.ndarray]]) -> tuple[np.ndarray, ...]:
    """Return the data of all sets, each array as long as all of them together, and the numbers of the rows' sets.

    Parameters
    ----------
    sets : sequence of sequence of numpy.ndarray
        The arrays of each set, of equal length within a set.
    """
    if len(sets) == 1:
        return tuple(sets[0])
    stops = np.cumsum([len(arrays[0]) for arrays in sets])
    padded = []
    for arrays, stop in zip(sets, stops, strict=True):
        for array in arrays:
            rows = np.empty((stops[-1], *array.shape[1:]), array.dtype)
            rows[:] = array[0]
            rows[stop - len(array) : stop] = array
            padded.append(rows)
    return (*padded, np.repeat(np.arange(len(sets), dtype=_SET_NUMBER), np.diff(stops, prepend=0)))
