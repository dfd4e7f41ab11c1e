"""Rows drawn in proportion to their bounds, for tests that draw a Poisson number of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from pymc_austerity.compile.bounded_integers import integer_below
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.rows.sources import PooledSource, RowSource, Share, draw_next
from pymc_austerity.rows.weighted import alias_table

#: Bounds are raised by this share: rounding of the remainders and of ‖z‖ must not break them.
OUTWARDS = 1e-9
#: More than the rounding of a sum of shares.
_OUTWARDS = 1 + 1e-12


#: ``rate(state, span)``: the sum of the bounds of all rows that are drawn, at the M of a decision.
Rate = Callable[..., float]
#: ``choose(rng, state, span, start, stop)``: row numbers drawn in proportion to their bounds.
Choose = Callable[..., np.ndarray]
#: ``limits(state, span, numbers)``: the bounds of some rows.
Limits = Callable[..., np.ndarray]


class BoundTable(NamedTuple):
    """Alias table for rows in proportion to their bounds, and the bounds that it draws by."""

    keep: np.ndarray  # (N,): probability that a column of the table stands for its own row
    alias: np.ndarray  # uint32 or int64 (N,): the row that it stands for otherwise
    size: np.ndarray  # (N,): c_i: the probability with which the table draws the row, times `total`
    total: float  # C = Σc_i
    always: np.ndarray  # int64 (m,): rows that are read at every decision, and never drawn: their c_i are 0 here

    def source(self) -> RowSource:
        """Return the row source of chains."""
        return RowsByBounds(self)


def rows_to_read(bounds: np.ndarray, span: float) -> np.ndarray:
    """Return the numbers of the rows that would be drawn more than once a decision, c_i M > 1, in order.

    `bounds`, shape (N,): c_i; `span`: M of a typical decision.
    """
    return np.flatnonzero(bounds * span > 1)


def bound_table(bounds: np.ndarray, always: np.ndarray | None = None) -> BoundTable:
    """Make the table for rows with these bounds.

    The probabilities of an alias table are rounded, and a row drawn less often than in proportion to its bound would
    shift the stationary distribution.  So c_i is taken from the table, and the total raised until no c_i is below its
    bound.

    `bounds`, shape (N,): numbers ≥ 0, finite; `always`: rows that are read without being drawn.
    """
    always = np.empty(0, np.int64) if always is None else np.ascontiguousarray(always, dtype=np.int64)
    bounds = bounds.copy()
    bounds[always] = 0.0
    n, total = bounds.size, bounds.sum()
    if not total > 0:
        return BoundTable(np.ones(n), np.arange(n, dtype=np.int64), np.zeros(n), 0.0, always)
    keep, alias = alias_table(bounds / total)
    # Rounding may leave a column of no weight to its own row, which would then count twice.
    left = always[keep[always] > 0]
    keep[left], alias[left] = 0.0, bounds.argmax()
    share = keep / n
    np.add.at(share, alias, (1 - keep) / n)
    asked = bounds > 0
    total = float((bounds[asked] / share[asked]).max() * _OUTWARDS)
    return BoundTable(keep, alias.astype(np.uint32 if n < 2**32 else np.int64), total * share, total, always)


@njit
def draw_by_bounds(rng: np.random.Generator, table: BoundTable, start: int, stop: int) -> np.ndarray:
    """Draw row numbers with replacement, in proportion to their bounds."""
    numbers = np.empty(stop - start, np.int64)
    for k in range(numbers.size):
        column = integer_below(rng, table.keep.size)
        # A number of its own: what a column leaves of one at a billion rows would not settle a small probability.
        numbers[k] = column if rng.random() < table.keep[column] else np.int64(table.alias[column])
    return numbers


@njit
def rate_of_total(state: Any, span: float) -> float:
    """Return C M."""
    return state.total * span


@njit
def limits_by_bounds(state: Any, span: float, numbers: np.ndarray) -> np.ndarray:
    """Return c_i M of some rows."""
    return state.size[numbers] * span


class BoundedSource(RowSource, Protocol):
    """The interface of a row source for tests that draw by bounds, compiled."""

    rate: ClassVar[Rate] = staticmethod(rate_of_total)
    choose: ClassVar[Choose]
    limits: ClassVar[Limits] = staticmethod(limits_by_bounds)


@njit
def choose_by_bounds(rng: np.random.Generator, table: BoundTable, span: float, start: int, stop: int) -> np.ndarray:
    """Draw row numbers with replacement: all bounds have the same M."""
    return draw_by_bounds(rng, table, start, stop)


@dataclass(frozen=True, eq=False)
class RowsByBounds(BoundedSource):
    """The row source of a table of bounds.  Rows are drawn with replacement, and the test thins them itself."""

    table: BoundTable

    draw = staticmethod(draw_by_bounds)
    choose = staticmethod(choose_by_bounds)

    def state(self, n_rows: int, share: Share | None = None) -> BoundTable:
        """Return the table; for the fewer rows of the warm-up, one of the same types that draws none."""
        table = self.table
        if n_rows >= table.keep.size:
            return table
        numbers = np.arange(n_rows, dtype=table.alias.dtype)
        return BoundTable(np.ones(n_rows), numbers, np.zeros(n_rows), 0.0, np.empty(0, np.int64))


class BoundPool(NamedTuple):
    """Rows that were drawn in proportion to their bounds before sampling, behind those that are read always."""

    #: (m + K,): c_i of the row in each slot: the probability with which it was drawn, times `total`; 0 for the first m.
    size: np.ndarray
    total: float  # C = Σc_i over all rows of the table
    always: np.ndarray  # int64 (m,): 0 … m − 1
    n_total: int  # N
    shares: int  # chains that divide the slots among them

    def source(self) -> RowSource:
        """Return the row source of chains."""
        return PooledByBounds(self)


class BoundPoolState(NamedTuple):
    """The share of one chain of such a pool."""

    #: See `BoundPool`.
    size: np.ndarray
    total: float
    always: np.ndarray
    n_total: int
    #: Slots of the share.
    first: int
    end: int
    drawn: np.ndarray  # int64 (1,): slots of the share that past tests have used up


@njit
def choose_next_by_bounds(
    rng: np.random.Generator, state: BoundPoolState, span: float, start: int, stop: int
) -> np.ndarray:
    """Return the next slots of the share: all bounds have the same M."""
    return draw_next(rng, state, start, stop)


@dataclass(frozen=True, eq=False)
class PooledByBounds(PooledSource, BoundedSource):
    """The row source of a `BoundPool`: each slot is an independent draw, and read once."""

    pool: BoundPool

    choose = staticmethod(choose_next_by_bounds)

    @property
    def shares(self) -> int | None:
        """Chains that the slots are divided among."""
        return self.pool.shares

    def n_rows(self, n_stored: int) -> int:
        """Return N."""
        return self.pool.n_total

    def population(self, n_stored: int) -> RowSource:
        """Return the first slots as a source whose `counts` are what each stands for."""
        n_always = self.pool.always.size
        with np.errstate(divide="ignore"):
            counts = self.pool.total / (max(1, n_stored - n_always) * self.pool.size[:n_stored])
        return BoundedSlots(self.pool, np.where(np.arange(counts.size) < n_always, 1.0, counts))

    def state(self, n_rows: int, share: Share | None = None) -> BoundPoolState:
        """Return the share of one chain; for the fewer rows of the warm-up, one that draws none."""
        pool = self.pool
        if n_rows < pool.size.size:
            none = np.empty(0, np.int64)
            return BoundPoolState(np.zeros(n_rows), 0.0, none, n_rows, 0, n_rows, np.zeros(1, np.int64))
        chain, drawn = (0, np.zeros(1, np.int64)) if share is None else share
        size = (pool.size.size - pool.always.size) // pool.shares
        first = pool.always.size + chain % pool.shares * size
        return BoundPoolState(pool.size, pool.total, pool.always, pool.n_total, first, first + size, drawn)


@dataclass(frozen=True, eq=False)
class BoundedSlots(PooledByBounds):
    """The slots of such a pool as all rows, each standing for `each` of them."""

    each: np.ndarray

    @property
    def counts(self) -> np.ndarray | None:
        """What a row adds to an estimate of the sum over all rows."""
        return self.each
