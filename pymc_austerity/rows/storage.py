"""The data of a step: arrays in memory or mapped files, and the interface of all tables of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np

from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.rows.by_bounds import OUTWARDS, BoundPool, BoundTable, bound_table, rows_to_read
from pymc_austerity.rows.mapped import SentFile, received, sent
from pymc_austerity.rows.weighted import row_table

#: ``gather(arrays, numbers)``: the rows with these numbers of every array, contiguous and in that order.
Gather = Callable[..., tuple[np.ndarray, ...]]


class DrawnRows(Protocol):
    """Rows with weights, as chains draw them."""

    def to_read(self, rows: Any) -> Rows:
        """Return the rows that chains read, given those that were weighed."""

    def source(self) -> Any:
        """Return the `RowSource`."""


def no_op(n: int) -> None:
    """Do nothing: the callback of a pass without a progress bar."""


class Work(Protocol):
    """What a pass does with rows; it travels to other processes."""

    @property
    def about(self) -> tuple[np.ndarray, ...]:
        """What the result depends on beside the rows and the model."""

    def released(self) -> Work:
        """Return the same with code that releases the GIL."""

    def __call__(self, rows: Rows, n_threads: int | None = None, advance: Callable[[int], None] = no_op) -> Any:
        """Return what is learnt from some rows.

        `n_threads`: that it may use; all cores by default; `advance`: told how many rows more are done.
        """


class Table(Protocol):
    """All rows of the data, in memory or on disk, as passes read them; a class that inherits has the defaults below."""

    reading_passes: float = 0.0  # so far, in which rows were read and not evaluated

    @property
    def n_table(self) -> int:
        """Number of rows as the user counts them, each by itself where some were merged."""
        return len(self)

    @property
    def n_known(self) -> int:
        """Number of the first rows of which a pass about the centre of the expansion is known already."""
        return 0

    def __len__(self) -> int: ...

    def pieces(self) -> Iterator[Rows]:
        """Yield all rows, part by part, in the same order each time."""

    def each(self, work: Work, advance: Callable[[int], None] = no_op) -> Iterator[Any]:
        """Yield what is learnt from each part of the rows, in their order: the same parts each time."""

    def remembered(self, work: Work, learn: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return the numbers and arrays that `learn` returns, from a checkpoint where there is one."""
        return learn()

    def samples(self, wanted: Sequence[np.ndarray | None]) -> list[Rows]:
        """Return the rows with these numbers for each of several samples, in memory, or all of them for None."""

    def some(self, n: int) -> tuple[np.ndarray, ...]:
        """Return the arrays of at most `n` rows, to try something on."""

    def weighed(self, sizes_of: Work, floor: float, advance: Callable[[int], None] = no_op) -> DrawnRows:
        """Return rows that are drawn in proportion to their sizes, a share of `floor` of them uniformly.

        `sizes_of`: returns a number ≥ 0 for each of some rows; `advance`: told how many rows more are done.
        """

    def bounded(self, bounds_of: Work, span: float) -> tuple[BoundTable | BoundPool, Rows]:
        """Return rows that are drawn in proportion to their bounds, and those among which their numbers are.

        `bounds_of`: returns c_i ≥ 0 for each of some rows; `span`: M of a typical decision; rows that would be drawn
        more than once a decision are read always.
        """


@dataclass(frozen=True)
class Rows(Table):
    """The data arrays of a model, each with one row per observation on its first axis.

    Arrays in mapped files are pickled as the path of their file, so that a process started by ``spawn`` does not
    receive the data through a pipe; where the file no longer holds what is in memory, the entries are sent.
    """

    #: Of equal length.  One that is not contiguous row by row, or not aligned, is copied once, because gathering a row
    #: from it would touch as many places in memory as the row has entries.
    arrays: tuple[np.ndarray, ...]
    #: Where rows stand for several of a table: the number in it of the first that each stands for.  The last array then
    #: holds their counts.
    first: np.ndarray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrays", tuple(np.require(a, requirements=["C", "A"]) for a in self.arrays))

    def __len__(self) -> int:
        return len(self.arrays[0])

    @property
    def counts(self) -> np.ndarray | None:
        """How many rows of a table each stands for; None where each is one."""
        return None if self.first is None else self.arrays[-1]

    @property
    def values(self) -> tuple[np.ndarray, ...]:
        """The arrays without the counts."""
        return self.arrays if self.first is None else self.arrays[:-1]

    @property
    def n_table(self) -> int:
        """Number of rows of the table."""
        return len(self) if self.counts is None else round(float(self.counts.sum()))

    def take(self, numbers: np.ndarray) -> Rows:
        """Return the rows with these numbers, in that order, in memory."""
        first = None if self.first is None else self.first[numbers]
        return Rows(tuple(np.asarray(np.take(a, numbers, axis=0), order="C") for a in self.arrays), first)

    def pieces(self) -> Iterator[Rows]:
        """Yield all rows: in one piece."""
        yield self

    def samples(self, wanted: Sequence[np.ndarray | None]) -> list[Rows]:
        """Return the rows with these numbers for each of several samples, or all of them for None."""
        return [self if numbers is None else self.take(np.sort(numbers)) for numbers in wanted]

    def some(self, n: int) -> tuple[np.ndarray, ...]:
        """Return the arrays of at most `n` rows, to try something on."""
        return tuple(a[: min(len(self), n)] for a in self.arrays)

    def each(self, work: Work, advance: Callable[[int], None] = no_op) -> Iterator[Any]:
        """Yield what is learnt from all rows."""
        yield work(self, advance=advance)

    def weighed(self, sizes_of: Work, floor: float, advance: Callable[[int], None] = no_op) -> DrawnRows:
        """Weigh all rows by their sizes."""
        return row_table(sizes_of(self, advance=advance), floor)

    def bounded(self, bounds_of: Work, span: float) -> tuple[BoundTable, Rows]:
        """Return all rows by their bounds."""
        sizes = bounds_of(self)
        return bound_table(sizes * (1 + OUTWARDS), rows_to_read(sizes, span)), self

    def __reduce__(self) -> Any:
        return _received, (tuple(map(sent, self.arrays)), self.first)


def _received(arrays: tuple[np.ndarray | SentFile, ...], first: np.ndarray | None) -> Rows:
    return Rows(tuple(map(received, arrays)), first)


@njit
def _take_vectors(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    out = np.empty((rows.size, array.shape[1]), array.dtype)
    for i in range(rows.size):
        row = rows[i]
        for j in range(array.shape[1]):
            out[i, j] = array[row, j]
    return out


@njit
def _take_arrays(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    out = np.empty((rows.size, *array.shape[1:]), array.dtype)
    for i in range(rows.size):
        out[i] = array[rows[i]]
    return out


@njit
def _gather_nothing(arrays: tuple[()], rows: np.ndarray) -> tuple[()]:
    return ()


@cache
def build_gather(ndims: tuple[int, ...]) -> Gather:
    """Compile the copying of some rows of every array into contiguous batches.

    `ndims`: number of dimensions of each array.
    """
    if not ndims:
        return _gather_nothing
    take = _take_vectors if ndims[0] == 2 else _take_arrays
    rest = build_gather(ndims[1:])

    @njit
    def gather(arrays, rows):  # type: ignore[no-untyped-def]
        return (take(arrays[0], rows), *rest(arrays[1:], rows))

    return gather
