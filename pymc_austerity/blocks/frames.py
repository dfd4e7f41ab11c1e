"""Rows in a Dask data frame, partition by partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pymc_austerity.blocks.source import Block


class DaskFrame:
    """A ``dask.dataframe``; each partition is computed when its rows are read, by the scheduler that Dask uses."""

    def __init__(self, frame: Any):
        self._frame = frame

    @staticmethod
    def takes(source: Any) -> bool:
        """Whether this is what it reads."""
        return all(hasattr(source, name) for name in ("npartitions", "columns", "map_partitions"))

    def count(self) -> int:
        """Return the number of rows: a computation of its own."""
        return len(self._frame)

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """Yield the partitions."""
        if missing := [name for name in columns if name not in self._frame.columns]:
            raise ValueError(
                f"columns: the frame has no column {missing[0]!r}, only {list(self._frame.columns)}. Say which column "
                "each container of the model is."
            )
        for number in range(self._frame.npartitions):
            frame = self._frame.partitions[number][list(columns)].compute()
            yield Block(f"partition {number}", 0, {name: frame[name] for name in columns})
