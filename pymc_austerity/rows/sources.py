"""The interface of a row source, and rows drawn uniformly without replacement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from pymc_austerity.compile.bounded_integers import integer_below
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.user_input import takes_fields

#: Rows evaluated at once at most: bounds the memory of a full scan, and a batch stays in the cache.
CHUNK = 4096

#: ``draw(rng, state, start, stop)``: numbers of the stored rows at these positions of the current test.
DrawRows = Callable[..., np.ndarray]
#: ``restore(state, n_drawn)`` puts the state in order after a test that drew so many rows.
RestoreRows = Callable[..., None]
#: ``weigh(state, numbers, new, old)`` multiplies the terms of these rows by their weights, in place.
WeighRows = Callable[..., None]
#: ``n_total(state, n_stored)``: N, the rows of a sum over all rows.
TotalRows = Callable[..., int]
#: ``left(state)``: how many rows the current test may draw.
RowsLeft = Callable[..., int]


class Share(NamedTuple):
    """One of the chains that share the rows, and the rows that it has drawn."""

    chain: int  # a number that differs between the chains of a run
    drawn: np.ndarray  # int64 (1,): rows that the chain has drawn in past tests, for sources that give each row once


@njit
def stored(state, n_stored):  # type: ignore[no-untyped-def]
    """Return the number of stored rows."""
    return n_stored


@njit
def no_end(state):  # type: ignore[no-untyped-def]
    """Return 2⁶²: rows do not run out."""
    return 2**62


@njit
def nothing_to_restore(order: np.ndarray, n_drawn: int) -> None:
    """Do nothing."""


@njit
def weigh_equally(order: np.ndarray, numbers: np.ndarray, new: np.ndarray, old: np.ndarray) -> None:
    """Do nothing."""


class RowSource(Protocol):
    """How the rows of a batch are drawn; a class that inherits from this one has the defaults below."""

    draw: ClassVar[DrawRows]
    restore: ClassVar[RestoreRows] = staticmethod(nothing_to_restore)
    weigh: ClassVar[WeighRows] = staticmethod(weigh_equally)
    weighted: ClassVar[bool] = False  # whether rows come with replacement and weights
    complete: ClassVar[bool] = True  # whether the stored rows are all rows, so that a test may end by reading them
    called: ClassVar[str] = "row"  # in messages, before the number of a row
    n_total: ClassVar[TotalRows] = staticmethod(stored)
    left: ClassVar[RowsLeft] = staticmethod(no_end)

    @property
    def shares(self) -> int | None:
        """Chains that the rows are divided among; None where any number may draw them."""
        return None

    @property
    def weights(self) -> np.ndarray | None:
        """What each row counts for when it is drawn; None where they all count the same."""
        return None

    @property
    def counts(self) -> np.ndarray | None:
        """How many of all rows each stored row stands for; None where each stands for itself."""
        return None

    def population(self, n_stored: int) -> RowSource:
        """Return a source that draws in the same way from rows that can all be read, for diagnostics.

        Where the stored rows are not all rows, the first `n_stored` of them stand for all.
        """
        return self

    def n_rows(self, n_stored: int) -> int:
        """Return N, of which `n_stored` rows are stored."""
        return n_stored

    def for_points(self, n_numbers: int) -> RowSource:
        """Return a source for points of so many numbers, for sources that keep a point."""
        return self

    def state(self, n_rows: int, share: Share | None = None) -> Any:
        """Return the memory that one chain needs for `n_rows` stored rows; `share` says which chain it is."""


@njit
def draw_without_replacement(rng: np.random.Generator, order: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Extend a uniform random subset of the rows from `start` to `stop` members (Fisher–Yates, in place)."""
    n_rows = order.size
    for k in range(start, stop):
        j = k + integer_below(rng, n_rows - k)
        order[k], order[j] = order[j], order[k]
    return order[start:stop]


@njit
def restore_order(order: np.ndarray, n_drawn: int) -> None:
    """Put `order` back to 0..N−1 in O(n_drawn) time, for the next test.

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
        drawn = integer_below(rng, last + 1)
        row = last if drawn in seen else drawn
        seen.add(row)
        numbers[k] = row
    return numbers


@njit
def draw_in_order(rng: np.random.Generator, state: Any, start: int, stop: int) -> np.ndarray:
    """Return rows start..stop as they lie in memory."""
    return np.arange(start, stop)


@takes_fields
@dataclass(frozen=True)
class Uniform(RowSource):
    """Rows drawn uniformly without replacement inside a test, independently between tests.

    Costs O(rows drawn) time a test and 4 bytes a row a chain (8 from 2³² rows on).
    """

    draw = staticmethod(draw_without_replacement)
    restore = staticmethod(restore_order)

    def state(self, n_rows: int, share: Share | None = None) -> np.ndarray:
        """Return the row numbers in order, which `draw` shuffles and `restore` puts back."""
        return np.arange(n_rows, dtype=np.uint32 if n_rows < 2**32 else np.int64)


# Of rows that were drawn before sampling: `state` has the slots of a chain's share, first to end, how many of them are
# drawn, N, and the slots that are read at every decision, which lie before the share.
@njit
def draw_next(rng: np.random.Generator, state: Any, start: int, stop: int) -> np.ndarray:
    """Return the next slots of the share; positions of a test begin with the rows that it reads always."""
    first = state.first + state.drawn[0] - state.always.size
    return np.arange(first + start, first + stop)


@njit
def use_up(state: Any, n_drawn: int) -> None:
    """End a test: its slots are read once."""
    state.drawn[0] += max(0, n_drawn - state.always.size)


@njit
def left_of_share(state: Any) -> int:
    """Return how many rows a test may read: those that it reads always, and what is left of the share."""
    return state.always.size + state.end - state.first - state.drawn[0]


@njit
def table_size(state: Any, n_stored: int) -> int:
    """Return N, the rows that were drawn from."""
    return state.n_total


class PooledSource(RowSource, Protocol):
    """Rows that were drawn before sampling, as independent draws; chains divide the slots, and read each once."""

    draw: ClassVar[DrawRows] = staticmethod(draw_next)
    restore: ClassVar[RestoreRows] = staticmethod(use_up)
    left: ClassVar[RowsLeft] = staticmethod(left_of_share)
    n_total: ClassVar[TotalRows] = staticmethod(table_size)
    complete: ClassVar[bool] = False
    called: ClassVar[str] = "row of the pool number"


class LastPass(NamedTuple):
    """The log-likelihood at the current point, summed over each chunk of rows."""

    point: np.ndarray  # (n,): θ and the variables of other steps; not a number where no sums are known
    sums: np.ndarray  # (2, n_chunks): at that point, and room for those at a proposal


@njit
def is_at(point: np.ndarray, theta: np.ndarray, others: np.ndarray) -> bool:
    """Whether the sums of a `LastPass` are those at this point."""
    same = point.size == theta.size + others.size
    for k in range(point.size if same else 0):
        same = same and point[k] == (theta[k] if k < theta.size else others[k - theta.size])
    return same


@njit
def move_to(point: np.ndarray, theta: np.ndarray, others: np.ndarray) -> None:
    """Store the point of the sums, where there is room for it."""
    if point.size == theta.size + others.size:
        for k in range(theta.size):
            point[k] = theta[k]
        for k in range(others.size):
            point[theta.size + k] = others[k]


@dataclass(frozen=True)
class InOrder(RowSource):
    """All rows in the order of memory, for tests that read all."""

    n_numbers: int = 0  # numbers of the point that a chain keeps; 0 for none

    draw = staticmethod(draw_in_order)

    def for_points(self, n_numbers: int) -> InOrder:
        """Return a source that keeps points of so many numbers."""
        return replace(self, n_numbers=n_numbers)

    def state(self, n_rows: int, share: Share | None = None) -> LastPass:
        """Return sums at no point: rows have not been read yet."""
        return LastPass(np.full(self.n_numbers, np.nan), np.zeros((2, -(-n_rows // CHUNK))))
