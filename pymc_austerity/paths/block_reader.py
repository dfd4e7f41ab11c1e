"""Rows, a given number at a time, off a stream of blocks of any length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Block = NDArray[Any] | tuple[NDArray[Any], ...]


class StreamEndedError(Exception):
    """The stream has fewer rows left than were asked for."""


class StreamError(Exception):
    """The stream raised an error, or its blocks do not fit together."""


class BlockReader:
    """Takes rows off a stream of arrays, or of tuples of them, each once and in their order."""

    def __init__(self, batches: Iterable[Block]):
        if not isinstance(batches, Iterable):
            raise TypeError(
                f"batches must be an iterable of arrays, or of tuples of arrays, found {type(batches).__name__}. Pass "
                "[array] for a single one."
            )
        self._blocks: Iterator[Block] = iter(batches)
        self._held: list[tuple[NDArray[Any], ...]] = []
        self._single = True
        self._arrays_per_block: int | None = None
        self.rows_read = 0
        self.cut = 0

    def take(self, count: int) -> Block:
        """Return the next `count` rows, in the form of the blocks."""
        have = sum(len(block[0]) for block in self._held)
        while have < count:
            try:
                block = next(self._blocks)
            except StopIteration:
                self.cut = have
                raise StreamEndedError from None
            except Exception as error:
                text = f"The stream failed after {self.rows_read + have} rows: {type(error).__name__}: {error}"
                raise StreamError(text) from error
            self._held.append(self._arrays_of(block))
            have += len(self._held[-1][0])
        columns = [np.concatenate(parts) if len(parts) > 1 else parts[0] for parts in zip(*self._held)]
        self._held = [tuple(column[count:] for column in columns)] if have > count else []
        self.rows_read += count
        taken = tuple(column[:count] for column in columns)
        return taken[0] if self._single else taken

    def _arrays_of(self, block: Block) -> tuple[NDArray[Any], ...]:
        self._single = not isinstance(block, tuple)
        arrays = tuple(np.asarray(a) for a in (block if isinstance(block, tuple) else (block,)))
        if self._arrays_per_block is None:
            self._arrays_per_block = len(arrays)
        same_length = all(a.ndim for a in arrays) and len({len(a) for a in arrays}) == 1
        if not same_length or len(arrays) != self._arrays_per_block:
            raise StreamError(
                "Every block must be the same number of arrays, all of the same length, rows first; found shapes "
                f"{[a.shape for a in arrays]}."
            )
        return arrays
