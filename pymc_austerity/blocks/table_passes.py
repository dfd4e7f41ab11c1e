"""Passes over a source, part by part: in one order, checked, and kept where they are done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np

from pymc_austerity.blocks.checkpoint import Checkpoint
from pymc_austerity.blocks.columns import Reader
from pymc_austerity.blocks.passes import Assigned, Executor, Worked
from pymc_austerity.blocks.source import Loaded, Source
from pymc_austerity.rows import Rows, no_op

#: Rows of a part, and the bytes that they take at most: enough to make a task of, few enough to hold some a core.
PIECE, _PIECE_BYTES = 524_288, 64_000_000


class Passes:
    """Passes over the rows of a source, whose every row is checked in the first and compared in later ones.

    `seen` holds the checksums of the parts, once they were read.
    """

    def __init__(self, source: Source, reader: Reader, executor: Executor, checkpoint: Checkpoint):
        self.reader, self.executor, self.seen = reader, executor, cast("list[int] | None", None)
        self._source, self._checkpoint = source, checkpoint
        self._n_rows = source.count()
        if self._n_rows < 1:
            raise ValueError("Blocks: the source has no rows. Check its paths, and filter=.")

    def __len__(self) -> int:
        return self._n_rows

    @property
    def _size(self) -> int:
        """Rows of a part."""
        return max(1, min(PIECE, _PIECE_BYTES // self.reader.row_bytes))

    def each(
        self,
        work: Callable[..., Any],
        advance: Callable[[int], None] = no_op,
        more: Callable[[int, int, int], tuple[Any, ...]] = lambda number, start, stop: (),
    ) -> Iterator[Any]:
        """Yield what ``work(rows, *more(number, start, stop))`` returns for each part, in their order."""
        known, checksums, n = self.seen, [], 0

        def assigned() -> Iterator[Assigned]:
            start = 0
            for number, part in enumerate(self._source.parts(self.reader.names, self._size)):
                # A part beyond those of the first pass is none of them, whatever its rows.
                checksum = None if known is None else known[number] if number < len(known) else -1
                yield Assigned(part, checksum, more(number, start, start + part.n_rows))
                start += part.n_rows

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
                f"Blocks: a pass read {found} rows where {self._n_rows:,} were expected. Correct n_rows=, or leave the "
                "files alone until sampling begins."
            )
        self.seen = checksums

    def place(self, row: int) -> str:
        """Say in which file, or block, the row of a number is, and which there."""
        for part in self._source.parts(self.reader.names, self._size):
            if row < part.n_rows:
                for block in part.blocks():
                    n = len(self.reader.arrays(block)[0])
                    if row < n:
                        return f"{block.where}, row {block.first + row}"
                    row -= n
            row -= part.n_rows
        raise IndexError(row)

    def read_again(self) -> None:
        """Compare some parts with their checksums: the first, and the middle and last where they can be read alone."""
        known, start = cast("list[int]", self.seen), 0
        for number, part in enumerate(self._source.parts(self.reader.names, self._size)):
            if number and isinstance(part, Loaded):  # all parts between would have to be made
                break
            if number in (0, len(known) // 2) or number >= len(known) - 1:
                checksum = known[number] if number < len(known) else -1
                (result,) = self.executor.each(Worked(self.reader, _nothing), [Assigned(part, checksum, ())])
                if result.checksum != checksum:
                    self._checkpoint.refuse_rows(result.where, start, result.n_rows, checksum, result.checksum)
            start += part.n_rows

    def remembered(self, name: str, about: Sequence[np.ndarray], learn: Callable[[], Sequence[Any]]) -> tuple[Any, ...]:
        """Return what a pass learns from these rows, from the checkpoint where it is there."""
        about = [*about, *([] if self.seen is None else [np.array(self.seen, np.int64)])]
        found = self._checkpoint.find(name, about)
        if found is None:
            found = list(learn())
            self._checkpoint.keep(name, about, found)
        return tuple(found)


def _nothing(rows: Rows) -> None:
    """Learn nothing from rows whose checksum is wanted."""
