"""A table to whose folder files were added: passes read these alone, and the pool that was drawn goes on from there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pymc_austerity.blocks.passes import Passes
from pymc_austerity.blocks.table import BlockTable, bound_pool, sampled
from pymc_austerity.blocks.table_pools import drawn_by_bounds, drawn_further
from pymc_austerity.digests import digest_of, number_of
from pymc_austerity.rows import Pool, Reservoir, Rows, Work, no_op
from pymc_austerity.rows.by_bounds import BoundPool


class NotKnownError(RuntimeError):
    """A pass is about something else than that of the first rows was, so that these have to be read again."""


class KnownSum(NamedTuple):
    """What a pass over the first rows was about (`Work.about`), and its result."""

    about: tuple[np.ndarray, ...]
    result: Any


class GrownBlockTable(BlockTable):
    """The rows of a table `before`, of which what a step needs is known, and behind them those that `passes` read."""

    def __init__(self, before: BlockTable, passes: Passes, known: KnownSum):
        super().__init__(passes, before.slots, before.shares, before.shown)
        self._known, self.n_before, self._parts_before = known, len(before), before.n_parts
        self._digest_before, self._example_before, self._pools_before = before.digest, before.example, before.pools

    def __len__(self) -> int:
        return self.n_before + len(self.passes)

    @property
    def n_known(self) -> int:
        """Number of rows that passes need not look at again."""
        return self.n_before

    @property
    def n_parts(self) -> int:
        """Parts of the rows before, and of those that were added."""
        return self._parts_before + super().n_parts

    @property
    def digest(self) -> int:
        """Number of all rows as they were read."""
        return number_of(digest_of(np.array([self._digest_before, super().digest], np.int64)), elsewhere=True)

    def each(self, work: Work, advance: Callable[[int], None] = no_op) -> Iterator[Any]:
        """Yield what is known of the first rows, and what is learnt from the new."""
        _require_same(work.about, self._known.about)
        advance(self.n_before)
        yield self._known.result
        yield from super().each(work, advance)

    def remembered(self, work: Work, learn: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return what a pass learns."""
        return learn()

    def samples(self, wanted: Sequence[np.ndarray | None]) -> list[Rows]:
        """Return samples with as many rows of both parts as are wanted.

        Of the first rows those of a sample are taken that was drawn before: which they are is chance in any case.
        """
        n, n_arrays, before = self.n_before, self._n_arrays, self._example_before
        assert before is not None
        chosen = [np.arange(len(self)) if numbers is None else np.sort(numbers) for numbers in wanted]
        _, *arrays = sampled(self.passes, [numbers[numbers >= n] - n for numbers in chosen], self.shown)
        samples = []
        for k, numbers in enumerate(chosen):
            first = before.take(np.arange((numbers < n).sum()) % len(before)).arrays
            new = arrays[k * n_arrays : (k + 1) * n_arrays]
            samples.append(Rows(tuple(np.concatenate(of) for of in zip(first, new, strict=True))))
        self.reading_passes, self.example = len(self.passes) / len(self), samples[0]
        return samples

    def weighed(self, sizes_of: Work, floor: float, advance: Callable[[int], None] = no_op) -> Pool:
        """Let the new rows into the pool of the others, in one pass in which they are weighed."""
        about = [*sizes_of.about, np.array(floor)]
        reservoir, _ = self._started("Pool", about)
        drawn_further(self.passes, reservoir, sizes_of, self._parts_before, advance)
        self.pools["Pool"] = about, reservoir, []
        return reservoir.pool(self.shares)

    def bounded(self, bounds_of: Work, span: float) -> tuple[BoundPool, Rows]:
        """Let the new rows into the pool of the others, in one pass in which their bounds are found."""
        about = list(bounds_of.about)
        started, first = self._started("BoundPool", about)
        slots, here = started.slots, (self.shown, started, self._parts_before)
        reservoir, added = drawn_by_bounds(self.passes, slots, bounds_of, span, *here)
        always = [np.concatenate(of) for of in zip(first, added, strict=True)]
        self.pools["BoundPool"] = about, reservoir, always
        self.reading_passes += len(self.passes) / len(self)
        return bound_pool(reservoir.bounded(always), self)

    def _started(self, kind: str, about: Sequence[np.ndarray]) -> tuple[Reservoir, list[np.ndarray]]:
        if kind not in self._pools_before:
            raise NotKnownError("the pool came from a checkpoint, which does not keep how it was drawn")
        before, reservoir, always = self._pools_before[kind]
        _require_same(about, before)
        return reservoir.copy(), always


def _require_same(about: Sequence[np.ndarray], known: Sequence[np.ndarray]) -> None:
    if len(about) != len(known) or not all(map(np.array_equal, about, known)):
        raise NotKnownError("they would be expanded, or weighed, otherwise than the first were")


def with_added_files(table: BlockTable, known: KnownSum) -> GrownBlockTable | None:
    """Return a table with the files that were added to its folder; None where there are none."""
    added = table.passes.files.added()
    return None if added is None else GrownBlockTable(table, table.passes.over(added), known)


def read_anew(table: BlockTable) -> BlockTable:
    """Return a table of all files that are in its folder now, of which nothing is known."""
    return BlockTable(table.passes.over(table.passes.files.again()), table.slots, table.shares, table.shown)
