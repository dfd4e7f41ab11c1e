"""A table to whose folder files were added: passes read the new files alone, and the pool goes on from before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pymc_austerity.blocks.passes import Passes
from pymc_austerity.blocks.table import BlockTable
from pymc_austerity.rows import Reservoir, Rows, Work, no_op
from pymc_austerity.rows.grown import Known, NotKnownError, require_same


class GrownTable(BlockTable):
    """A table whose first rows are those of another, of which a pass is `known`."""

    def __init__(self, before: BlockTable, passes: Passes, known: Known):
        super().__init__(passes, before.slots, before.shares, before.shown)
        self.known, self._sample, self._pools = known, before.example, before.pools

    @property
    def n_known(self) -> int:
        """Number of the first rows, which passes need not look at again."""
        return self.known.n

    def each(self, work: Work, advance: Callable[[int], None] = no_op) -> Iterator[Any]:
        """Yield what is known of the first rows, and what is learnt from each part of the new ones."""
        yield from self.known.of_first(work, advance)
        yield from super().each(work, advance)

    def samples(self, wanted: Sequence[np.ndarray | None]) -> list[Rows]:
        """Return samples of the rows, in one pass over the new ones.

        Of the first rows as many are taken from a sample that was drawn before: which they are is chance in any case.
        """
        assert self._sample is not None
        first, samples = self._sample, []
        for numbers, new in zip(wanted, super().samples(wanted), strict=True):
            n_first = self.n_known if numbers is None else (numbers < self.n_known).sum()
            before = first.take(np.arange(n_first) % len(first)).arrays
            samples.append(Rows(tuple(map(np.concatenate, zip(before, new.arrays, strict=True)))))
        self.example = samples[0]
        return samples

    def started(self, kind: str, about: Sequence[np.ndarray]) -> tuple[Reservoir | None, list[np.ndarray]]:
        """Return the slots of the pool of the first rows, and those of them that are read always."""
        if kind not in self._pools:
            raise NotKnownError("the pool came from a checkpoint, which does not keep how it was drawn")
        before, reservoir, always = self._pools[kind]
        require_same(about, before)
        return reservoir.copy(), always


def grown_table(table: BlockTable, about: tuple[np.ndarray, ...], result: Any) -> GrownTable | None:
    """Return a table with the files that were added to the folder of another; None where there are none.

    The `result` is that of a pass over the rows of this table, `about` what it was about.
    """
    added = table.passes.files.added()
    if added is None:
        return None
    return GrownTable(table, table.passes.over(added, table.passes), Known(len(table), about, result))


def table_read_anew(table: BlockTable) -> BlockTable:
    """Return a table of all files that are in the folder of another now, of which nothing is known."""
    return BlockTable(table.passes.over(table.passes.files.again()), table.slots, table.shares, table.shown)
