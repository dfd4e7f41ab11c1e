"""Blocks of any length, cut to parts of one length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from pymc_austerity.blocks.columns import Categories
from pymc_austerity.blocks.source import Block, Loaded


def cut(blocks: Iterable[Block], size: int) -> Iterator[Loaded]:
    """Yield the rows in parts of `size`, and what is left in a last one.

    A block whose columns differ in length is yielded as it is, for whoever reads it to refuse.
    """
    waiting: list[Block] = []
    n = 0
    for block in blocks:
        lengths = {length_of(column) for column in block.columns.values()}
        if len(lengths) > 1:
            yield Loaded(n + max(lengths), (*waiting, block))
            return
        start, length = 0, next(iter(lengths), 0)
        while start < length:
            stop = min(length, start + size - n)
            taken = {name: _rows(column, start, stop) for name, column in block.columns.items()}
            waiting.append(Block(block.where, block.first + start, taken))
            n, start = n + stop - start, stop
            if n == size:
                yield Loaded(n, tuple(waiting))
                waiting, n = [], 0
    if n:
        yield Loaded(n, tuple(waiting))


def length_of(column: Any) -> int:
    """Return the number of rows of a column, as it was yielded."""
    return len(column.numbers) if isinstance(column, Categories) else int(np.shape(column)[0])


def _rows(column: Any, start: int, stop: int) -> Any:
    if isinstance(column, Categories):
        return Categories(column.numbers[start:stop], column.values)
    if isinstance(column, pd.Series):
        return column.iloc[start:stop]
    return column[start:stop] if hasattr(column, "__getitem__") else np.asarray(column)[start:stop]
