"""What a source of rows is asked: how many there are, and blocks of them, again and again in the same order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol


class Block(NamedTuple):
    """Consecutive rows.

    Attributes
    ----------
    where : str
        The file, or whatever else the rows are in, for messages.
    first : int
        Number of the first row there.
    columns : mapping of str to array_like or `Categories`
        As many entries in each.
    """

    where: str
    first: int
    columns: Mapping[str, Any]


class Source(Protocol):
    """Rows that do not have to fit in memory."""

    def count(self) -> int:
        """Return the number of rows.

        Raises
        ------
        ValueError
            Where it is not known.
        """
        ...

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """Yield all rows, in the same order each time."""
        ...


class BadRowError(ValueError):
    """Rows that a model cannot take, with the place where they are."""

    def __init__(self, where: str, row: int, what: str):
        super().__init__(f"{where}, row {row}: {what}")
