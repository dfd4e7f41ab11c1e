"""Rows in Parquet files, or in any other dataset that pyarrow reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from pymc_austerity.blocks.arrow_columns import as_bytes, import_pyarrow, is_arrow
from pymc_austerity.blocks.source import Block, Part, cut, refuse_duplicates, require_columns
from pymc_austerity.digests import digest_of_all

#: Rows that are decoded at once, where a row group has more.
_BATCH = 131_072
#: Batches that pyarrow reads ahead: its default of 16 would hold a million rows beside the one that is worked on.
_AHEAD = 2


class ParquetFiles:
    """A dataset of pyarrow, or Parquet files and folders, whose subfolders may be partitions (``year=2013``)."""

    def __init__(self, dataset: Any, filter: Any = None):
        pa = import_pyarrow()
        if filter is not None and not isinstance(filter, pa.dataset.Expression):
            raise TypeError(f"filter={filter!r} must be an expression such as pyarrow.dataset.field('year') == 2013.")
        self._given = dataset
        if not isinstance(dataset, pa.dataset.Dataset):
            dataset = _opened(pa, dataset)
        refuse_duplicates(dataset.schema.names, "Blocks")
        self._dataset, self._filter = dataset, filter
        self._files = _stamps(dataset.filesystem, dataset.files) if self.has_paths else {}

    @property
    def has_paths(self) -> bool:
        """Whether it was given by a path, or by several."""
        one = self._given[0] if isinstance(self._given, list | tuple) else self._given
        return isinstance(one, str | os.PathLike)

    def again(self) -> ParquetFiles:
        """Return all files that are there now."""
        return ParquetFiles(self._given, self._filter)

    def added(self) -> ParquetFiles | None:
        """Return the files that were added since these were listed, or None; refuse that others have changed."""
        pa, now = import_pyarrow(), self.again()
        if other := [path for path, seen in self._files.items() if now._files.get(path) != seen]:
            raise ValueError(
                f"{other[0]} is not what it was when its rows were read, and what was learnt from them does not hold. "
                "Build the step again."
            )
        of = now._dataset
        new = [fragment for fragment in of.get_fragments() if fragment.path not in self._files]
        now._dataset = pa.dataset.FileSystemDataset(new, of.schema, of.format, of.filesystem)
        return now if new else None

    @staticmethod
    def takes(source: Any) -> bool:
        """Whether this is what it reads."""
        one = source[0] if isinstance(source, list | tuple) and source else source
        return isinstance(one, str | os.PathLike) or (is_arrow(one) and not hasattr(one, "read_next_batch"))

    def count(self) -> int:
        """Return the number of rows, from the files' own account of themselves where nothing is filtered."""
        return sum(span.n_rows for span in self._spans)

    def identity(self, columns: Sequence[str]) -> str:
        """Return the files with their sizes and when they were last written, or a digest of a table, and the filter."""
        paths = dict.fromkeys(path for span in self._spans if (path := getattr(span.fragment, "path", "")))
        if not paths:
            named = [name for name in columns if name in self._dataset.schema.names]
            digest = digest_of_all(map(as_bytes, self._dataset.to_batches(columns=named)))
            return f"{self.count()} rows with the digest {digest}, {self._filter}"
        stamps = _stamps(next(self._dataset.get_fragments()).filesystem, list(paths))
        return f"{[(path, *stamp) for path, stamp in stamps.items()]}, {self._filter}"

    def parts(self, columns: Sequence[str], size: int) -> Iterator[Part]:
        """Yield all rows: those of a row group, or of several where they are small, of several files if need be."""
        require_columns(columns, self._dataset.schema.names, "the files have")
        chosen, waiting, n = tuple(columns), list[Span](), 0

        def part() -> FilePart:
            return FilePart(n, tuple(waiting), chosen, self._dataset.schema, self._filter)

        for span in self._spans:
            if waiting and n + span.n_rows > size:
                yield part()
                waiting, n = [], 0
            waiting.append(span)
            n += span.n_rows
            if n > size and not span.splits:  # a large file without row groups is read here, bit by bit
                yield from cut(part().blocks(), size)
                waiting, n = [], 0
        if waiting:
            yield part()

    @cached_property
    def _spans(self) -> list[Span]:
        """The row groups in order, or the whole files where they have none."""
        return [
            span
            for number, fragment in enumerate(self._dataset.get_fragments(filter=self._filter))
            for span in self._spans_of(fragment, getattr(fragment, "path", "") or f"fragment {number}")
        ]

    def _spans_of(self, fragment: Any, where: str) -> Iterator[Span]:
        splits, first = hasattr(fragment, "split_by_row_group"), 0
        groups = [fragment]
        if splits:
            groups = _of_file(import_pyarrow(), fragment, lambda file: file.split_by_row_group())
            refuse_duplicates(fragment.physical_schema.names, where)
        for group in groups:
            if self._filter is not None:
                n = group.to_table(schema=self._dataset.schema, columns=[], filter=self._filter).num_rows
            else:  # of a row group count_rows says how many the file has
                n = sum(g.num_rows for g in group.row_groups) if splits else group.count_rows()
            yield Span(group, where, first, n, splits)
            first += n


def _stamps(filesystem: Any, paths: list[str]) -> dict[str, tuple[int, int]]:
    """Return size and time of writing of files."""
    return {of.path: (of.size, of.mtime_ns) for of in filesystem.get_file_info(paths)}


def _opened(pa: Any, source: Any) -> Any:
    """Return the dataset of paths, of a table, or of several."""
    several = source if isinstance(source, list | tuple) else [source]
    if not isinstance(several[0], str | os.PathLike):
        try:
            return pa.dataset.dataset(source)
        except pa.ArrowInvalid as error:
            raise ValueError(f"Blocks cannot read the tables that it was given together: {error}") from error
    if wrong := [p for p in several if not isinstance(p, str | os.PathLike)]:
        raise TypeError(f"Blocks: {wrong[0]!r} is among the paths of files, and is none.")
    if empty := [p for p in several if not str(p).strip()]:
        raise ValueError(
            f"Blocks({str(empty[0])!r}): the path is empty. Give the path of a Parquet file, or of a folder."
        )
    paths = list(map(str, several)) if several is source else str(source)
    options = {"format": "parquet", "partitioning": "hive"}
    try:
        return pa.dataset.dataset(paths, **options)
    except FileNotFoundError as error:
        raise ValueError(f"Blocks({paths!r}): there is no {error}.") from error
    except (OSError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        for fragment in pa.dataset.dataset(paths, schema=pa.schema([]), **options).get_fragments():
            refuse_duplicates(_of_file(pa, fragment, lambda f: f.physical_schema).names, fragment.path)
        raise ValueError(f"Blocks({paths!r}) cannot be read: {error}") from error


def _of_file(pa: Any, fragment: Any, read: Callable[[Any], Any]) -> Any:
    """Return what is read of a file, or say which cannot be read."""
    try:
        return read(fragment)
    except (OSError, pa.ArrowInvalid) as error:
        raise ValueError(f"{fragment.path} cannot be read: {error}") from error


class Span(NamedTuple):
    """Rows of one file that are read together, from number `first`; `splits`, whether the file has them in groups."""

    fragment: Any
    where: str
    first: int
    n_rows: int
    splits: bool


@dataclass(frozen=True)
class FilePart(Part):
    """Some row groups."""

    n_rows: int
    spans: tuple[Span, ...]
    columns: tuple[str, ...]
    schema: Any
    filter: Any

    def blocks(self) -> Iterator[Block]:
        """Read the row groups."""
        pa, what = import_pyarrow(), {"schema": self.schema, "columns": list(self.columns), "filter": self.filter}
        for fragment, where, first, *_ in self.spans:
            try:
                for batch in fragment.to_batches(**what, batch_size=_BATCH, batch_readahead=_AHEAD):
                    yield Block(where, first, {name: batch.column(name) for name in self.columns})
                    first += batch.num_rows
            except (OSError, pa.ArrowInvalid) as error:
                raise ValueError(
                    f"{where} cannot be read: {error}. If the file was changed after its first pass, build the step "
                    "again."
                ) from error
