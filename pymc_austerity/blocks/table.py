"""A table of rows that are read from a source in passes, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pymc_austerity.blocks.passes import Passes
from pymc_austerity.blocks.table_pools import OnOneThread, drawn_by_bounds, drawn_by_size
from pymc_austerity.digests import digest_of, number_of
from pymc_austerity.progress import setup_progress
from pymc_austerity.rows import Pool, Reservoir, Rows, Slots, Work, no_op
from pymc_austerity.rows.by_bounds import BoundPool


class BlockTable:
    """All rows of a source, as passes read them.

    Every row is checked in the first pass, and in later ones compared with what it was. The pool that is drawn for
    sampling has `slots`, and is for `shares` chains.
    """

    def __init__(self, passes: Passes, slots: Slots, shares: int, progressbar: bool):
        self.passes, self._n_arrays = passes, len(passes.reader.containers)
        self.slots, self.shares, self.shown = slots, shares, progressbar
        self.example: Rows | None = None
        self.reading_passes = 0.0
        #: By the kind of a pool, what its pass was about, its slots, and rows that are read always.
        self.pools: dict[str, tuple[list[np.ndarray], Reservoir, list[np.ndarray]]] = {}

    def __len__(self) -> int:
        return len(self.passes)

    @property
    def n_table(self) -> int:
        """Number of rows: none are merged."""
        return len(self)

    @property
    def n_known(self) -> int:
        """None are known before they are read."""
        return 0

    @property
    def n_parts(self) -> int:
        """Parts that the rows were read in."""
        return len(self.passes.seen or ())

    @property
    def digest(self) -> int:
        """Number of the rows as the first pass found them; of other rows, or another order, it is another."""
        return number_of(digest_of(np.array(self.passes.seen, np.int64)), elsewhere=True)

    def pieces(self) -> Iterator[Rows]:
        """Yield all rows, part by part."""
        return self.passes.each(_itself)

    def place(self, row: int) -> str:
        """Say in which file, or block, the row of a number is, and which there."""
        return self.passes.place(row)

    def each(self, work: Work, advance: Callable[[int], None] = no_op) -> Iterator[Any]:
        """Yield what is learnt from each part of the rows, in their order."""
        return self.passes.each(OnOneThread(work.released()), advance)

    def remembered(self, work: Work, learn: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return what a pass learns, from the checkpoint where it is there."""
        return self.passes.remembered(type(work).__name__, work.about, learn)

    def samples(self, wanted: Sequence[np.ndarray | None]) -> list[Rows]:
        """Return the rows with these numbers for each of several samples, or all rows for None, in one pass."""
        chosen = [np.arange(len(self)) if numbers is None else np.sort(numbers) for numbers in wanted]
        n_arrays = self._n_arrays
        checksums, *arrays = self.passes.remembered("Samples", chosen, lambda: sampled(self.passes, chosen, self.shown))
        if self.passes.seen is None:  # the samples were kept by an earlier set-up
            self.passes.seen = checksums.tolist()
            self.passes.read_again()
        samples = [Rows(tuple(arrays[k : k + n_arrays])) for k in range(0, len(arrays), n_arrays)]
        self.reading_passes += 1
        self.example = samples[0]
        return samples

    def some(self, n: int) -> tuple[np.ndarray, ...]:
        """Return the arrays of at most `n` rows of the first sample."""
        assert self.example is not None
        return self.example.some(n)

    def weighed(self, sizes_of: Work, floor: float, advance: Callable[[int], None] = no_op) -> Pool:
        """Draw the pool, in one pass in which the rows are weighed too."""
        about, example, slots = [*sizes_of.about, np.array(floor)], self.example, self.slots._replace(floor=floor)
        assert example is not None

        def learn() -> list[np.ndarray]:
            reservoir = drawn_by_size(self.passes, slots, sizes_of, example, advance)
            self.pools["Pool"] = about, reservoir, []
            pool = reservoir.pool(self.shares)
            return [*pool.rows.arrays, pool.weight]

        *arrays, weight = self.passes.remembered("Pool", about, learn)
        return Pool(Rows(tuple(arrays)), weight, len(self), self.shares)

    def bounded(self, bounds_of: Work, span: float) -> tuple[BoundPool, Rows]:
        """Draw the pool in proportion to bounds, in one pass in which they are found too."""
        about, slots = [*bounds_of.about, np.array(span)], self.slots._replace(floor=0.0)

        def learn() -> list[Any]:
            reservoir, always = drawn_by_bounds(self.passes, slots, bounds_of, span, self.shown)
            self.pools["BoundPool"] = about[:-1], reservoir, always
            return reservoir.bounded(always)

        self.reading_passes += 1
        return bound_pool(self.passes.remembered("BoundPool", about, learn), self)


def sampled(passes: Passes, chosen: Sequence[np.ndarray], shown: bool) -> list[np.ndarray]:
    """Return the checksums of the parts, and the arrays of the rows with the numbers of each sample, in one pass."""

    def here(number: int, start: int, stop: int) -> tuple[Any, ...]:
        return tuple(c[slice(*np.searchsorted(c, [start, stop]))] - start for c in chosen)

    with setup_progress(shown) as progress:
        task = progress.add_task("Samples", total=len(passes), what=f"{len(passes):,} rows")
        found = list(passes.each(_taken, lambda n: progress.advance(task, n), here))
    joined = [np.concatenate(parts) for sample in zip(*found, strict=True) for parts in zip(*sample, strict=True)]
    return [np.array(passes.seen, np.int64), *joined]


def bound_pool(found: Sequence[Any], table: BlockTable) -> tuple[BoundPool, Rows]:
    """Return the pool of what `Reservoir.bounded` returns, for the chains of a table."""
    size, total, *arrays = found
    always = np.arange(len(size) - table.slots.n)
    return BoundPool(size, float(total), always, len(table), table.shares), Rows(tuple(arrays))


def _itself(rows: Rows) -> Rows:
    return rows


def _taken(rows: Rows, *numbers: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    return [rows.take(of_sample).arrays for of_sample in numbers]
