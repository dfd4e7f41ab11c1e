"""The arrays of a model that are indexed by row, as one table.

Observed variables of different length (two groups, observed and censored times, two sources) have no row in common.
Their rows are numbered one set after the other, and a row is a number k of its set and the data of that set:

    ℓ_i(θ) = Σ_s 1[k_i = s] ℓ_s(data of row i in set s)

A set has a copy of its first row where the row is of another set, so that its term and its derivatives are finite
there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.tensor.type import TensorType

from pymc_austerity.likelihood.model_graph import array_of
from pymc_austerity.likelihood.row_leaves import RowLeaf
from pymc_austerity.likelihood.row_set import RowSet
from pymc_austerity.likelihood.term_refusals import has_total_size
from pymc_austerity.unsupported_model import UnsupportedModelError

#: Type of the number of a row's set.
_SET_NUMBER = "uint8"


@dataclass(frozen=True)
class DataSource:
    """Where the arrays come from that a `RowLikelihood` takes: read anew, they follow ``pm.set_data``."""

    sets: tuple[RowSet, ...]
    fixed: tuple[Variable, ...]  # shared variables that are not indexed by row

    @property
    def leaves(self) -> tuple[RowLeaf, ...]:
        """The data arrays of all sets."""
        return tuple(leaf for s in self.sets for leaf in s.leaves)

    def row_arrays(self) -> tuple[np.ndarray, ...]:
        """Return the data arrays as they are now, rows on the first axis, with as many rows as all sets together.

        Arrays of different length in a set, none, or other rows than `total_size` says are refused.
        """
        return _union_arrays([_arrays_of(s) for s in self.sets])

    def fixed_arrays(self) -> tuple[np.ndarray, ...]:
        """Return the values of the shared variables that are not indexed by row, laid out as `tuple_of` says."""
        return tuple(np.require(array_of(s), requirements=["C", "A", "W"]) for s in self.fixed)


def _arrays_of(of: RowSet) -> list[np.ndarray]:
    arrays = [leaf.array for leaf in of.leaves]
    lengths = {leaf.label: len(a) for leaf, a in zip(of.leaves, arrays, strict=True)}
    if len(set(lengths.values())) > 1:
        raise UnsupportedModelError(
            f"The data arrays of the model differ in length: {lengths}. Row i of each must belong to the same "
            "observation. Replace all of them in one pm.set_data call."
        )
    if not len(arrays[0]):
        raise UnsupportedModelError(
            f"Data array {of.leaves[0].label} has no rows left, so that there is nothing for a step to read. Set data "
            "with rows by pm.set_data, or leave out of the model what has none and build the step anew."
        )
    for numbers in of.numbered:
        numbers.require(len(arrays[0]))
    stated = [t.name for t in of.terms.terms if t.value is not None and has_total_size(t.variable)]
    if stated and len(arrays[0]) != of.terms.n_rows:
        raise UnsupportedModelError(
            f"Observed variable {stated[0]!r} was given total_size={of.terms.n_rows} and now has {len(arrays[0])} "
            "rows, so that PyMC would count each for more or less than one. Leave total_size out: the step draws its "
            "own batches."
        )
    shared_out = [t.name for t in of.terms.terms if t.summed is not None and t.summed.shares]
    if shared_out and len(arrays[0]) != of.terms.n_rows:
        raise UnsupportedModelError(
            f"Potential {shared_out[0]!r} is a sum over {of.terms.n_rows} rows and numbers beside it, which were "
            f"shared out among these, and now there are {len(arrays[0])}. Build the step again, or give the potential "
            "an entry for each row."
        )
    return arrays


def union_of(sets: Sequence[RowSet]) -> tuple[Variable, tuple[Variable, ...]]:
    """Return the row terms of all sets as one vector over a batch, and the batches that it reads.

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


def _union_arrays(sets: Sequence[Sequence[np.ndarray]]) -> tuple[np.ndarray, ...]:
    """Return the data of all sets, each array as long as all of them together, and the numbers of the rows' sets."""
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
