"""How the rows of a batch are chosen where they all count the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numba import njit


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
