"""Where rows live, and how batches of them are drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Protocol

import numpy as np
from numba import njit


@dataclass(frozen=True)
class Rows:
    """The data arrays of a model, each with one row per observation on its first axis.

    Parameters
    ----------
    arrays : tuple of numpy.ndarray
        Arrays of equal length.  One that is not contiguous row by row is copied once, because gathering a row
        from it would touch as many places in memory as the row has entries.

    Notes
    -----
    A memory-mapped array is pickled as its path and mapped again, so that a process started by ``spawn`` does
    not receive the data through a pipe.
    """

    arrays: tuple[np.ndarray, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrays", tuple(_row_contiguous(a) for a in self.arrays))

    def __len__(self) -> int:
        return len(self.arrays[0])

    def taken(self, numbers: np.ndarray) -> Rows:
        """Return some of the rows, in memory."""
        return Rows(tuple(a[np.sort(numbers)] for a in self.arrays))

    def batch(self, numbers: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the rows with the given numbers, in that order, as a compiled function takes them."""
        return tuple(np.asarray(a[numbers], order="C") for a in self.arrays)

    def __getstate__(self) -> dict[str, Any]:
        return {"arrays": tuple(_MappedFile.of(a) or a for a in self.arrays)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        arrays = tuple(a.open() if isinstance(a, _MappedFile) else a for a in state["arrays"])
        object.__setattr__(self, "arrays", arrays)


def _row_contiguous(array: np.ndarray) -> np.ndarray:
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


@dataclass(frozen=True)
class _MappedFile:
    """A whole memory-mapped file as an array, by path."""

    path: str
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int

    @classmethod
    def of(cls, array: np.ndarray) -> _MappedFile | None:
        """Describe `array` if it is a view of a memory-mapped file, from wherever in the file it starts."""
        mapped: Any = array
        while mapped is not None and not isinstance(mapped, np.memmap):
            mapped = getattr(mapped, "base", None)
        if mapped is None or mapped.filename is None or not array.flags.c_contiguous:
            return None
        root = mapped
        while isinstance(root.base, np.memmap):
            root = root.base
        start = array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        return cls(str(root.filename), array.dtype, array.shape, root.offset + start)

    def open(self) -> np.ndarray:
        return np.memmap(self.path, self.dtype, "r", self.offset, self.shape)


class RowSource(Protocol):
    """How the rows of a batch are chosen.

    ``draw(rng, state, start, stop)`` and ``restore(state, n_drawn)`` are compiled by numba.  ``draw`` returns the
    numbers of the rows at positions start..stop of the current test; ``restore`` forgets the test.
    """

    @property
    def draw(self) -> Callable[..., Any]:
        """Compiled draw."""
        ...

    @property
    def restore(self) -> Callable[..., Any]:
        """Compiled restoration."""
        ...

    @property
    def weighted(self) -> bool:
        """Whether rows come with replacement and weights; then ``weigh(state, numbers, new, old)`` applies them."""
        ...

    @property
    def weigh(self) -> Callable[..., Any]:
        """Compiled weighting, in place."""
        ...

    @property
    def weights(self) -> np.ndarray | None:
        """What each row counts for when it is drawn; None where they all count the same."""
        ...

    def state(self, n_rows: int) -> Any:
        """Return the memory that one chain needs for `n_rows` rows."""
        ...


@njit
def draw_without_replacement(rng: np.random.Generator, order: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Extend a uniform random subset of the rows from `start` to `stop` members (Fisher–Yates, in place)."""
    n_rows = order.size
    for k in range(start, stop):
        j = k + rng.integers(0, n_rows - k)
        order[k], order[j] = order[j], order[k]
    return order[start:stop]


@njit
def restore_order(order: np.ndarray, n_drawn: int) -> None:
    """Put `order` back to 0..N−1 in O(n_drawn) time, so that a test leaves nothing behind for the next one.

    Started from the identity, a Fisher–Yates shuffle moves the entry of a position p ≥ n_drawn only when p is
    drawn, so the positions out of place are the first n_drawn and those of the rows drawn.
    """
    for k in range(n_drawn):
        row = order[k]
        if row >= n_drawn:
            order[row] = row
    for k in range(n_drawn):
        order[k] = k


@njit
def draw_subset(rng: np.random.Generator, n_rows: int, size: int) -> np.ndarray:
    """Return a uniform random subset of the rows in O(size) time and memory (Bentley and Floyd 1987)."""
    if size >= n_rows:
        return np.arange(n_rows)
    numbers = np.empty(size, np.int64)
    seen = set()
    for k in range(size):
        last = n_rows - size + k
        drawn = rng.integers(0, last + 1)
        row = last if drawn in seen else drawn
        seen.add(row)
        numbers[k] = row
    return numbers


@njit
def draw_in_order(rng: np.random.Generator, order: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Return rows start..stop as they lie in memory."""
    return np.arange(start, stop)


@njit
def nothing_to_restore(order: np.ndarray, n_drawn: int) -> None:
    """Leave things as they are: nothing was shuffled."""


@njit
def weigh_equally(order: np.ndarray, numbers: np.ndarray, new: np.ndarray, old: np.ndarray) -> None:
    """Leave the row terms as they are."""


@dataclass(frozen=True)
class Uniform:
    """Rows drawn uniformly without replacement inside a test, independently between tests.

    Costs O(rows drawn) time a test and 4 bytes a row a chain (8 from 2³² rows on).
    """

    draw = staticmethod(draw_without_replacement)
    restore = staticmethod(restore_order)
    weigh = staticmethod(weigh_equally)
    weighted: ClassVar[bool] = False
    weights: ClassVar[None] = None

    def state(self, n_rows: int) -> np.ndarray:
        """Return the row numbers in order, which `draw` shuffles and `restore` puts back."""
        return np.arange(n_rows, dtype=np.uint32 if n_rows < 2**32 else np.int64)


@dataclass(frozen=True)
class InOrder:
    """All rows as they lie in memory: for tests that read everything."""

    draw = staticmethod(draw_in_order)
    restore = staticmethod(nothing_to_restore)
    weigh = staticmethod(weigh_equally)
    weighted: ClassVar[bool] = False
    weights: ClassVar[None] = None

    def state(self, n_rows: int) -> np.ndarray:
        """Return nothing: the order never changes."""
        return np.empty(0, dtype=np.uint32)


@njit
def _take_scalars(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    out = np.empty(rows.size, array.dtype)
    for i in range(rows.size):
        out[i] = array[rows[i]]
    return out


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
def build_gather(ndims: tuple[int, ...]) -> Callable[..., Any]:
    """Compile ``gather(arrays, rows)``, which copies some rows of every array into contiguous batches.

    Parameters
    ----------
    ndims : tuple of int
        Number of dimensions of each array.
    """
    if not ndims:
        return _gather_nothing
    take = {1: _take_scalars, 2: _take_vectors}.get(ndims[0], _take_arrays)
    rest = build_gather(ndims[1:])

    @njit
    def gather(arrays, rows):  # type: ignore[no-untyped-def]
        return (take(arrays[0], rows), *rest(arrays[1:], rows))

    return gather
