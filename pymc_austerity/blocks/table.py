"""A table of rows that are read from a source in passes, block by block."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from pymc_austerity.blocks.columns import Reader
from pymc_austerity.blocks.source import Source
from pymc_austerity.progress import setup_progress
from pymc_austerity.rows import Pool, Reservoir, Rows

#: Rows of a piece, whatever the blocks of the source: sums and draws depend on where pieces end.
PIECE = 65_536


class BlockTable:
    """All rows of a source, as passes read them.

    Every row is checked in the first pass, and in later ones compared with what it was.

    Parameters
    ----------
    source : Source
    reader : Reader
    pool : int
        Rows that are drawn for sampling.
    shares : int
        Chains that they are for.
    random_seed : int
        For drawing them.
    progressbar : bool
        Whether the pass for samples shows a bar.
    """

    def __init__(self, source: Source, reader: Reader, pool: int, shares: int, random_seed: int, progressbar: bool):
        self._source, self._reader = source, reader
        self._pool, self._shares, self._seed, self._shown = pool, shares, random_seed, progressbar
        self._n_rows = source.count()
        self._seen: list[int] | None = None
        self._example: Rows | None = None
        self.reading_passes = 0
        if self._n_rows < 1:
            raise ValueError("Blocks: the source has no rows. Check its paths, and filter=.")

    def __len__(self) -> int:
        return self._n_rows

    @property
    def n_table(self) -> int:
        """Number of rows: none are merged."""
        return len(self)

    def pieces(self) -> Iterator[Rows]:
        """Yield all rows, in pieces of equal length.

        Raises
        ------
        ValueError
            For rows that the model cannot take, a number of rows other than was said, or rows that are not those of
            the first pass.
        """
        sums, n = [], 0
        for piece, where in self._regular():
            sums.append(_checksum(piece))
            if self._seen is not None and (len(sums) > len(self._seen) or sums[-1] != self._seen[len(sums) - 1]):
                raise ValueError(
                    f"{where}: rows {n:,} to {n + len(piece):,} of all are not what they were in the first pass. What "
                    "was learnt from them would not belong together. Leave files alone until sampling begins; a "
                    "function has to yield the same rows in the same order each time."
                )
            n += len(piece)
            if n > self._n_rows:
                break
            yield piece
        if n != self._n_rows:
            more = "more" if n > self._n_rows else f"{n:,}"
            raise ValueError(
                f"Blocks: a pass read {more} rows where {self._n_rows:,} were expected. Correct n_rows=, or leave the "
                "files alone until sampling begins."
            )
        self._seen = sums

    def _regular(self) -> Iterator[tuple[Rows, str]]:
        """Yield the rows of all blocks in pieces of `PIECE` rows, and where each begins."""
        waiting: list[tuple[np.ndarray, ...]] = []
        n, where = 0, ""
        for block in self._source.blocks(self._reader.names):
            arrays = self._reader.arrays(block)
            where = where if n else block.where
            start, length = 0, len(arrays[0])
            while start < length:
                stop = min(length, start + PIECE - n)
                waiting.append(tuple(a[start:stop] for a in arrays))
                n, start = n + stop - start, stop
                if n == PIECE:
                    yield _joined(waiting), where
                    waiting, n, where = [], 0, block.where
        if n:
            yield _joined(waiting), where

    def samples(self, wanted: Sequence[np.ndarray | None]) -> list[Rows]:
        """Return the rows with these numbers for each of several samples, or all rows for None, in one pass."""
        chosen = [None if numbers is None else np.sort(numbers) for numbers in wanted]
        found: list[list[tuple[np.ndarray, ...]]] = [[] for _ in wanted]
        start = 0
        with setup_progress(self._shown) as progress:
            task = progress.add_task("Samples", total=len(self), what=f"{len(self):,} rows")
            for piece in self.pieces():
                stop = start + len(piece)
                for numbers, parts in zip(chosen, found, strict=True):
                    if numbers is None:
                        parts.append(piece.arrays)
                    else:
                        here = slice(*np.searchsorted(numbers, [start, stop]))
                        parts.append(piece.take(numbers[here] - start).arrays)
                start = stop
                progress.advance(task, len(piece))
        self.reading_passes += 1
        samples = [_joined(parts) for parts in found]
        self._example = samples[0]
        return samples

    def some(self, n: int) -> tuple[np.ndarray, ...]:
        """Return the arrays of at most `n` rows of the first sample."""
        assert self._example is not None
        return self._example.some(n)

    def weighed(self, sizes_of: Callable[[Rows], np.ndarray], floor: float) -> Pool:
        """Draw the pool, in one pass in which the rows are weighed too."""
        reservoir = Reservoir(self._pool, floor, self._seed)
        for number, piece in enumerate(self.pieces()):
            reservoir.take(piece, sizes_of(piece), np.random.default_rng([self._seed, number]))
        return reservoir.pool(self._shares)


def _joined(parts: Sequence[tuple[np.ndarray, ...]]) -> Rows:
    """Return rows that lie behind one another, as one; copied, so that they hold no larger array in memory."""
    return Rows(tuple(np.concatenate(of_array) for of_array in zip(*parts, strict=True)))


def _checksum(rows: Rows) -> int:
    checksum = 0
    for array in rows.arrays:
        checksum = zlib.crc32(array.view(np.uint8).reshape(-1), checksum)
    return checksum
