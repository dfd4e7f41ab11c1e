"""What a source of rows is asked: how many there are, and parts of them, again and again in the same order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol


class Block(NamedTuple):
    """Consecutive rows, from number `first` of a file or whatever else they are in; columns of one length."""

    where: str
    first: int
    columns: Mapping[str, Any]


class Part(Protocol):
    """Consecutive rows that are worked on at once, read where that is done: it travels to other processes."""

    n_rows: int

    def blocks(self) -> Iterator[Block]:
        """Yield them."""
        ...

    def on(self, client: Any) -> Any:
        """Return what stands for the part in a task of a Dask cluster: itself, or the future of a part."""
        return self


class Source(Protocol):
    """Rows that do not have to fit in memory."""

    def count(self) -> int:
        """Return the number of rows."""
        ...

    def parts(self, columns: Sequence[str], size: int) -> Iterator[Part]:
        """Yield all rows in parts of about `size`, the same ones in the same order each time."""
        ...

    def identity(self, columns: Sequence[str]) -> str:
        """Return words that differ between sources, as far as that can be known without reading them from a disk."""
        ...


@dataclass(frozen=True)
class Loaded(Part):
    """Rows that are at hand."""

    n_rows: int
    held: tuple[Block, ...]

    def blocks(self) -> Iterator[Block]:
        """Yield them."""
        yield from self.held


class BadRowError(ValueError):
    """Rows that a model cannot take, with the place where they are."""

    def __init__(self, where: str, row: int, what: str):
        super().__init__(f"{where}, row {row}: {what}")
        self._said = where, row, what

    def __reduce__(self) -> Any:
        return BadRowError, self._said
