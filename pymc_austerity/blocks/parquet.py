"""Rows in Parquet files, or in any other dataset that pyarrow reads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pymc_austerity.blocks.columns import Categories
from pymc_austerity.blocks.source import BadRowError, Block

#: Rows that are decoded at once, where a row group has more.
_BATCH = 131_072
#: Batches that pyarrow reads ahead: its default of 16 would hold a million rows beside the one that is worked on.
_AHEAD = 2


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.dataset
    except ImportError as error:
        raise ImportError(
            "Blocks reads Parquet by pyarrow, which is not installed. Install it by pip install "
            "'pymc-austerity[parquet]', or give a function that yields dicts of arrays."
        ) from error
    return pyarrow


class ParquetFiles:
    """A dataset of pyarrow, file by file.

    Parameters
    ----------
    dataset : str, path, sequence of these, or pyarrow.dataset.Dataset
        Paths are those of Parquet files, or of a folder of them whose subfolders may be partitions
        (``year=2013/month=1``).
    filter : pyarrow.dataset.Expression or None
        Rows to read.

    Raises
    ------
    ImportError
        Without pyarrow.
    TypeError, ValueError
        For a filter that is none, or files that are not there.
    """

    def __init__(self, dataset: Any, filter: Any = None):
        pa = self._pa = _pyarrow()
        if filter is not None and not isinstance(filter, pa.dataset.Expression):
            raise TypeError(f"filter={filter!r} must be an expression such as pyarrow.dataset.field('year') == 2013.")
        if not isinstance(dataset, pa.dataset.Dataset):
            several = isinstance(dataset, list | tuple)
            if not isinstance(dataset[0] if several else dataset, str | os.PathLike):
                dataset = pa.dataset.dataset(dataset)  # a table of pyarrow, or several
            else:
                paths = [str(p) for p in dataset] if several else str(dataset)
                try:
                    dataset = pa.dataset.dataset(paths, format="parquet", partitioning="hive")
                except FileNotFoundError as error:
                    raise ValueError(f"Blocks({paths!r}): {error}.") from error
        self._dataset, self._filter = dataset, filter

    @staticmethod
    def takes(source: Any) -> bool:
        """Whether this is what it reads."""
        one = source[0] if isinstance(source, list | tuple) and source else source
        return isinstance(one, str | os.PathLike) or type(one).__module__.startswith("pyarrow")

    def count(self) -> int:
        """Return the number of rows, from the files' own account of themselves where nothing is filtered."""
        return int(self._dataset.count_rows(filter=self._filter))

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """Yield all rows, file by file."""
        if missing := [name for name in columns if name not in self._dataset.schema.names]:
            raise ValueError(
                f"columns: the files have no column {missing[0]!r}, only {self._dataset.schema.names}. Say which "
                "column each container of the model is."
            )
        for number, fragment in enumerate(self._dataset.get_fragments(filter=self._filter)):
            where, first = getattr(fragment, "path", "") or f"fragment {number}", 0
            for batch in self._batches(fragment, where, columns):
                taken = {name: self._column(batch.column(name), where, first, name) for name in columns}
                yield Block(where, first, taken)
                first += batch.num_rows

    def _batches(self, fragment: Any, where: str, columns: Sequence[str]) -> Iterator[Any]:
        try:
            yield from fragment.to_batches(
                schema=self._dataset.schema,
                columns=list(columns),
                filter=self._filter,
                batch_size=_BATCH,
                batch_readahead=_AHEAD,
            )
        except (OSError, self._pa.ArrowInvalid) as error:
            raise ValueError(
                f"{where} cannot be read: {error}. If the file was changed after its first pass, build the step again."
            ) from error

    def _column(self, column: Any, where: str, first: int, name: str) -> Any:
        """Return a column as an array, or as numbers of categories."""
        pa = self._pa
        if column.null_count:
            row = int(np.flatnonzero(pa.compute.is_null(column).to_numpy(zero_copy_only=False))[0])
            raise BadRowError(
                where, first + row, f"column {name!r} is missing. Leave such rows out by filter=, or impute them."
            )
        kind = column.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            column = column.dictionary_encode()
        if isinstance(column, pa.DictionaryArray):
            numbers = column.indices.to_numpy(zero_copy_only=False)
            return Categories(numbers, column.dictionary.to_pandas().to_numpy())
        if pa.types.is_fixed_size_list(kind):
            return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), kind.list_size)
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
            return column.to_numpy(zero_copy_only=False)
        raise ValueError(
            f"{where}: column {name!r} is of type {kind}, which is no number. Store it as one, or give a function that "
            "yields dicts of arrays."
        )
