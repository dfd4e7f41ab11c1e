"""Passes over a source, part by part: checked, and kept when done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, cast

import numpy as np

from pymc_austerity.blocks.checkpoint import Checkpoint
from pymc_austerity.blocks.columns import Reader
from pymc_austerity.blocks.executors import Assigned, Executor, Worked
from pymc_austerity.blocks.parquet import ParquetFiles
from pymc_austerity.blocks.source import Part, Source, length_of
from pymc_austerity.rows import no_op

#: Rows of a part, and the bytes that they take at most: enough to make a task of, few enough to hold some a core.
PIECE, _PIECE_BYTES = 524_288, 64_000_000


class Passes:
    """Passes over the rows of a source, whose every row is checked in the first and compared in later ones.

    `seen` holds the checksums of the parts, once they were read. What was added to a source that had been read is
    behind it: rows `before` it are numbered, and not read.
    """

    def __init__(
        self,
        source: Source,
        reader: Reader,
        executor: Executor,
        checkpoint: Checkpoint,
        before: Passes | None = None,
    ):
        self.reader, self.executor, self.seen = reader, executor, cast("list[int] | None", None)
        self._sources: tuple[Source, ...] = (source,) if before is None else (*before._sources, source)
        self._checkpoint = checkpoint
        self._before, self.n_before = ([], 0) if before is None else (before.seen or [], len(before))
        self._n_rows = self.n_before + source.count()
        if self._n_rows < 1:
            raise ValueError("Blocks: the source has no rows. Check its paths, its filter= or the WHERE of its query.")

    def __len__(self) -> int:
        return self._n_rows

    @property
    def n_read(self) -> int:
        """Rows that a pass reads."""
        return self._n_rows - self.n_before

    def _parts(self) -> Iterator[tuple[int, int, Part]]:
        """Yield the number of every part, that of its first row, and the part."""
        size, start = max(1, min(PIECE, _PIECE_BYTES // self.reader.row_bytes)), 0
        parts = chain.from_iterable(source.parts(self.reader.names, size) for source in self._sources)
        for number, part in enumerate(parts):
            yield number, start, part
            start += part.n_rows

    def each(
        self,
        work: Callable[..., Any],
        advance: Callable[[int], None] = no_op,
        more: Callable[[int, int, int], tuple[Any, ...]] = lambda number, start, stop: (),
    ) -> Iterator[Any]:
        """Yield what ``work(rows, *more(number, start, stop))`` returns for each part, in their order."""
        known, checksums, n = self.seen, list(self._before), self.n_before

        def assigned() -> Iterator[Assigned]:
            for number, start, part in self._parts():
                if number >= len(self._before):
                    # A part beyond those of the first pass is none of them, whatever its rows.
                    checksum = None if known is None else known[number] if number < len(known) else -1
                    yield Assigned(part, checksum, more(number, start, start + part.n_rows))

        for result in self.executor.each(Worked(self.reader, work), assigned()):
            checksums.append(result.checksum)
            if known is not None and (len(checksums) > len(known) or result.checksum != known[len(checksums) - 1]):
                raise ValueError(
                    f"{result.where}: rows {n:,} to {n + result.n_rows:,} of all are not what they were in the first "
                    "pass. What was learnt from them would not belong together. Leave files alone until sampling "
                    "begins; a function has to yield the same rows in the same order each time."
                )
            n += result.n_rows
            if n > self._n_rows:
                break
            advance(result.n_rows)
            yield result.value
        if n != self._n_rows:
            found = "more" if n > self._n_rows else f"{n:,}"
            raise ValueError(
                f"Blocks: a pass read {found} rows where {self._n_rows:,} were expected. Correct n_rows= if it is "
                "wrong; otherwise leave files alone until sampling begins, and have a function or a query return the "
                "same rows each time."
            )
        self.seen = checksums

    @property
    def files(self) -> ParquetFiles:
        """The source; refused where it has no files to which others may be added."""
        source = self._sources[-1]
        if not isinstance(source, ParquetFiles) or not source.has_paths:
            raise ValueError(
                "Blocks: files are added to a folder, and this source is none that was given by its path. Build the "
                "step again, and it reads all rows."
            )
        return source

    def over(self, source: ParquetFiles, before: Passes | None = None) -> Passes:
        """Return passes over other files for the same model, of which nothing is kept on disk."""
        return Passes(source, self.reader, self.executor, Checkpoint(None, {}), before)

    def place(self, row: int) -> str:
        """Say in which file, or block, the row of a number is, and which there."""
        for _, start, part in self._parts():
            for block in part.blocks() if row < start + part.n_rows else ():
                n = length_of(next(iter(block.columns.values())))
                if row < start + n:
                    return f"{block.where}, row {block.first + row - start}"
                start += n
        raise IndexError(row)

    def read_again(self) -> None:
        """Compare some parts with their checksums: the first, and the middle and last where they can be read alone."""
        known = cast("list[int]", self.seen)
        for number, start, part in self._parts():
            if number and not part.alone:  # all parts between would have to be made
                break
            if number in (0, len(known) // 2) or number >= len(known) - 1:
                checksum = known[number] if number < len(known) else -1
                (result,) = self.executor.each(Worked(self.reader, lambda rows: None), [Assigned(part, checksum, ())])
                if result.checksum != checksum:
                    self._checkpoint.refuse_rows(result.where, start, result.n_rows, checksum, result.checksum)

    def remembered(self, name: str, about: Sequence[np.ndarray], learn: Callable[[], Sequence[Any]]) -> tuple[Any, ...]:
        """Return what a pass learns from these rows, from the checkpoint where it is there."""
        about = [*about, *([] if self.seen is None else [np.array(self.seen, np.int64)])]
        found = self._checkpoint.find(name, about)
        if found is None:
            found = list(learn())
            self._checkpoint.keep(name, about, found)
        return tuple(found)
