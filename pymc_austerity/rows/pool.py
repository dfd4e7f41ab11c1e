"""Rows that were drawn before sampling and are read in order, each once."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pymc_austerity.rows.sources import PooledSource, RowSource, Share
from pymc_austerity.rows.storage import Rows
from pymc_austerity.rows.weighted import AliasTable, WeightedRows, weigh_rows


class Pool(NamedTuple):
    """Rows drawn with replacement from all rows of a table, independently of each other."""

    rows: Rows  # k rows
    weight: np.ndarray  # float32 (K,): 1/(N p_i) for the row in each slot, p_i the probability with which it was drawn
    n_total: int  # N, the rows of the table
    shares: int  # chains that divide the rows among them

    def to_read(self, rows: Any) -> Rows:
        """Return the rows that chains read, in place of those that were drawn from."""
        return self.rows

    def source(self) -> RowSource:
        """Return the row source of chains."""
        return PooledRows(self.weight, self.n_total, self.shares)


class PoolState(NamedTuple):
    """The share of one chain of a pool."""

    weight: np.ndarray  # float32 (K,)
    always: np.ndarray  # int64 (0,): no row is read at every decision
    n_total: int
    #: Slots of the share.
    first: int
    end: int
    drawn: np.ndarray  # int64 (1,): rows of the share that past tests have used up


@dataclass(frozen=True, eq=False)
class PooledRows(PooledSource):
    """The row source of a pool.  No row is read twice, so that decisions are independent."""

    weight: np.ndarray
    total: int
    n_shares: int

    weigh = staticmethod(weigh_rows)
    weighted: ClassVar[bool] = True

    @property
    def shares(self) -> int | None:
        """Chains that the rows are divided among."""
        return self.n_shares

    @property
    def weights(self) -> np.ndarray | None:
        """1/(N p_i) for every slot."""
        return self.weight

    def population(self, n_stored: int) -> RowSource:
        """Return a source that draws slots with replacement, uniformly."""
        k = n_stored
        table = AliasTable(np.ones(k, np.float32), np.arange(k, dtype=np.uint32), np.ones(k, np.float32))
        return SlotsInPlaceOfRows(table, self.weight[:k] * np.float64(self.total / k), self.total)

    def n_rows(self, n_stored: int) -> int:
        """Return N."""
        return self.total

    def state(self, n_rows: int, share: Share | None = None) -> PoolState:
        """Return the share of one chain; nothing beyond the first `n_rows` slots where there are fewer."""
        chain, drawn = (0, np.zeros(1, np.int64)) if share is None else share
        size = self.weight.size // self.n_shares
        first = chain % self.n_shares * size
        return PoolState(self.weight, np.empty(0, np.int64), self.total, first, min(first + size, n_rows), drawn)


@dataclass(frozen=True, eq=False)
class SlotsInPlaceOfRows(WeightedRows):
    """The slots of a pool as all rows, each standing for `each` of them."""

    each: np.ndarray
    total: int

    def n_rows(self, n_stored: int) -> int:
        """Return N."""
        return self.total

    @property
    def counts(self) -> np.ndarray | None:
        """N times the weight over the number of slots: what a slot adds to an estimate of the sum over all rows."""
        return self.each
