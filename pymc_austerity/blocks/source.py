"""What a source of rows is asked: how many there are, and parts of them, again and again in the same order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd

from pymc_austerity.blocks.arrow_columns import by_itself
from pymc_austerity.rows.mapped import received, require_whole, sent
from pymc_austerity.user_input import shown


class Block(NamedTuple):
    """Consecutive rows, from number `first` of a file or whatever else they are in; columns of one length."""

    where: str
    first: int
    columns: Mapping[str, Any]


class Part(Protocol):
    """Consecutive rows that are worked on at once, read where that is done: it travels to other processes."""

    n_rows: int
    #: Whether it is read without the parts before it; those of a stream have all been made.
    alone: bool = True

    def blocks(self) -> Iterator[Block]:
        """Yield them."""

    def on(self, client: Any) -> Any:
        """Return what stands for the part in a task of a Dask cluster: itself, or the future of a part."""
        return self


class Source(Protocol):
    """Rows that do not have to fit in memory."""

    def count(self) -> int:
        """Return the number of rows."""

    def parts(self, columns: Sequence[str], size: int) -> Iterator[Part]:
        """Yield all rows in parts of about `size`, the same ones in the same order each time."""

    def identity(self, columns: Sequence[str]) -> str:
        """Return words that differ between sources, as far as that can be known without reading them from a disk."""


@dataclass(frozen=True)
class Loaded(Part):
    """Rows that are at hand, in mapped files or in a store; what lies in mapped files travels as the path of these."""

    n_rows: int
    held: tuple[Block, ...]
    alone: bool = False

    def blocks(self) -> Iterator[Block]:
        """Yield them."""
        for block in self.held:
            require_whole([column for column in block.columns.values() if isinstance(column, np.ndarray)])
            yield block

    def __reduce__(self) -> Any:
        # A slice of a column of Arrow would travel with all that it is a slice of.
        held = [b._replace(columns={name: _sent(column) for name, column in b.columns.items()}) for b in self.held]
        return _received, (self.n_rows, held)


def _sent(column: Any) -> Any:
    return sent(column) if isinstance(column, np.ndarray) else by_itself(column)


def _received(n_rows: int, held: Iterable[Block]) -> Loaded:
    here = [b._replace(columns={name: received(column) for name, column in b.columns.items()}) for b in held]
    return Loaded(n_rows, tuple(here))


class BadRowError(ValueError):
    """Rows that a model cannot take, with the place where they are."""

    def __init__(self, where: str, row: int, what: str):
        super().__init__(f"{where}, row {row}: {what}")
        self._said = where, row, what

    def __reduce__(self) -> Any:
        return BadRowError, self._said


def cut(blocks: Iterable[Block], size: int) -> Iterator[Loaded]:
    """Yield the rows of blocks of any length in parts of `size`, and what is left in a last one.

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
            taken = {name: rows_between(column, start, stop) for name, column in block.columns.items()}
            waiting.append(Block(block.where, block.first + start, taken))
            n, start = n + stop - start, stop
            if n == size:
                yield Loaded(n, tuple(waiting))
                waiting, n = [], 0
    if n:
        yield Loaded(n, tuple(waiting))


def length_of(column: Any) -> int:
    """Return the number of rows of a column, as it was yielded."""
    if not hasattr(column, "__len__") or not getattr(column, "shape", (1,)):
        raise ValueError(f"Blocks: a column is {shown(column)}, and an array with an entry for each row was expected.")
    return len(column)


def rows_between(column: Any, start: int, stop: int) -> Any:
    """Return some rows of a column, by their number, whatever the index of a pandas series is."""
    if isinstance(column, pd.Series):
        return column.iloc[start:stop]
    return column[start:stop] if hasattr(column, "__getitem__") else np.asarray(column)[start:stop]


def require_columns(names: Iterable[str], there: Sequence[str], whose: str, kind: str = "column") -> None:
    """Refuse names of columns that a source does not have."""
    if missing := [name for name in names if name not in there]:
        raise ValueError(
            f"columns: {whose} no {kind} {missing[0]!r}, only {list(there)}. Say which {kind} each container of the "
            "model is."
        )


def refuse_duplicates(names: Sequence[Any], where: str) -> None:
    """Refuse two columns of one name."""
    if twice := [name for k, name in enumerate(names) if name in names[:k]]:
        raise ValueError(
            f"{where}: several columns are named {twice[0]!r}, and it is not known which is meant. Rename all but one."
        )
