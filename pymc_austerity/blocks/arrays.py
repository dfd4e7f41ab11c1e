"""Rows in arrays that are sliced: memory maps, Zarr and Dask arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pymc_austerity.blocks.source import Block

#: Rows of a slice.
_SLICE = 131_072


class Arrays:
    """Arrays of equal length, by name.

    Parameters
    ----------
    arrays : mapping of str to array_like
        With a shape, and slices along their first axis that NumPy can take.

    Raises
    ------
    ValueError
        For arrays of different lengths.
    """

    def __init__(self, arrays: Mapping[str, Any]):
        arrays = {name: a if hasattr(a, "shape") else np.asarray(a) for name, a in arrays.items()}
        lengths = {name: int(a.shape[0]) if a.shape else 0 for name, a in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(
                f"Blocks: the arrays differ in length: {lengths}. Row i of each must belong to the same observation."
            )
        self._arrays, self._n_rows = arrays, next(iter(lengths.values()), 0)

    @staticmethod
    def takes(source: Any) -> bool:
        """Whether this is what it reads."""
        return isinstance(source, Mapping)

    def count(self) -> int:
        """Return the length."""
        return self._n_rows

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """Yield slices."""
        if missing := [name for name in columns if name not in self._arrays]:
            raise ValueError(
                f"columns: there is no array {missing[0]!r}, only {list(self._arrays)}. Say which array each container "
                "of the model is."
            )
        for start in range(0, self._n_rows, _SLICE):
            stop = min(start + _SLICE, self._n_rows)
            yield Block("the arrays", start, {name: np.asarray(self._arrays[name][start:stop]) for name in columns})
