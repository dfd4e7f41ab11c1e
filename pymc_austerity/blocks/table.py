"""A table of rows that are read from a source in passes, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pymc_austerity.blocks.passes import Passes
from pymc_austerity.digests import digest_of, number_of
from pymc_austerity.progress import setup_progress
from pymc_austerity.rows import OUTWARDS, Pool, Reservoir, Rows, Slots, Table, Work, no_op
from pymc_austerity.rows.by_bounds import BoundPool, rows_to_read
from pymc_austerity.rows.reservoir import Offer

#: Of an average bound, by which all are raised.
_RAISED = 1e-6


class BlockTable(Table):
    """All rows of a source, as passes read them.

    Every row is checked in the first pass, and in later ones compared with what it was. The pool that is drawn for
    sampling has `slots`, and is for `shares` chains.
    """

    def __init__(self, passes: Passes, slots: Slots, shares: int, progressbar: bool):
        self.passes, self._n_arrays = passes, len(passes.reader.containers)
        self.slots, self.shares, self.shown = slots, shares, progressbar
        self.example: Rows | None = None
        #: By the kind of a pool, what its pass was about, its slots, and rows that are read always.
        self.pools: dict[str, tuple[list[np.ndarray], Reservoir, list[np.ndarray]]] = {}

    def __len__(self) -> int:
        return len(self.passes)

    @property
    def digest(self) -> int:
        """Number of the rows as the first pass found them; of other rows, or another order, it is another."""
        return number_of(digest_of(np.array(self.passes.seen, np.int64)), elsewhere=True)

    def pieces(self) -> Iterator[Rows]:
        """Yield all rows, part by part."""
        return self.passes.each(lambda rows: rows)

    def each(self, work: Work, advance: Callable[[int], None] = no_op) -> Iterator[Any]:
        """Yield what is learnt from each part of the rows, in their order."""
        yield from self.passes.each(OnOneThread(work.released()), advance)

    def remembered(self, work: Work, learn: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return what a pass learns, from the checkpoint where it is there."""
        return self.passes.remembered(type(work).__name__, work.about, learn)

    def samples(self, wanted: Sequence[np.ndarray | None]) -> list[Rows]:
        """Return the rows with these numbers for each of several samples, or all rows for None, in one pass."""
        chosen = [np.arange(len(self)) if numbers is None else np.sort(numbers) for numbers in wanted]
        checksums, *arrays = self.passes.remembered("Samples", chosen, lambda: sampled(self.passes, chosen, self.shown))
        if self.passes.seen is None:  # the samples were kept by an earlier set-up
            self.passes.seen = checksums.tolist()
            self.passes.read_again()
        samples = [Rows(tuple(arrays[k : k + self._n_arrays])) for k in range(0, len(arrays), self._n_arrays)]
        self.reading_passes += self.passes.n_read / len(self)
        self.example = samples[0]
        return samples

    def some(self, n: int) -> tuple[np.ndarray, ...]:
        """Return the arrays of at most `n` rows of the first sample."""
        assert self.example is not None
        return self.example.some(n)

    def weighed(self, sizes_of: Work, floor: float, advance: Callable[[int], None] = no_op) -> Pool:
        """Draw the pool, in one pass in which the rows are weighed too."""
        about, example, slots = [*sizes_of.about, np.array(floor)], self.example, self.slots._replace(floor=floor)

        def learn() -> list[np.ndarray]:
            started, _ = self.started("Pool", about)
            reservoir, _ = drawn(self.passes, slots, sizes_of, advance, example=example, started=started)
            self.pools["Pool"] = about, reservoir, []
            pool = reservoir.pool(self.shares)
            return [*pool.rows.arrays, pool.weight]

        *arrays, weight = self.passes.remembered("Pool", about, learn)
        return Pool(Rows(tuple(arrays)), weight, len(self), self.shares)

    def bounded(self, bounds_of: Work, span: float) -> tuple[BoundPool, Rows]:
        """Draw the pool in proportion to bounds, in one pass in which they are found too."""
        about, slots = list(bounds_of.about), self.slots._replace(floor=0.0)

        def learn() -> list[Any]:
            started, first = self.started("BoundPool", about)
            with setup_progress(self.shown) as progress:
                task = progress.add_task("Bounds", total=self.passes.n_read, what=f"{self.passes.n_read:,} rows")
                advance = partial(progress.advance, task)
                reservoir, added = drawn(self.passes, slots, bounds_of, advance, span=span, started=started)
            always = [np.concatenate(of) for of in zip(first, added, strict=True)] if first else added
            self.pools["BoundPool"] = about, reservoir, always
            return reservoir.bounded(always)

        self.reading_passes += self.passes.n_read / len(self)
        size, total, *arrays = self.passes.remembered("BoundPool", [*about, np.array(span)], learn)
        always = np.arange(len(size) - slots.n)
        return BoundPool(size, float(total), always, len(self), self.shares), Rows(tuple(arrays))

    def started(self, kind: str, about: Sequence[np.ndarray]) -> tuple[Reservoir | None, list[np.ndarray]]:
        """Return the slots with which a pool of that kind begins, None for empty ones, and rows always read so far."""
        return None, []


def sampled(passes: Passes, chosen: Sequence[np.ndarray], shown: bool) -> list[np.ndarray]:
    """Return the checksums of the parts, and the arrays of the rows with the numbers of each sample, in one pass."""

    def here(number: int, start: int, stop: int) -> tuple[Any, ...]:
        return tuple(c[slice(*np.searchsorted(c, [start, stop]))] - start for c in chosen)

    with setup_progress(shown) as progress:
        task = progress.add_task("Samples", total=passes.n_read, what=f"{passes.n_read:,} rows")
        found = list(passes.each(_taken, lambda n: progress.advance(task, n), here))
    joined = [np.concatenate(parts) for sample in zip(*found, strict=True) for parts in zip(*sample, strict=True)]
    return [np.array(passes.seen, np.int64), *joined]


def _taken(rows: Rows, *numbers: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    return [rows.take(of_sample).arrays for of_sample in numbers]


def drawn(
    passes: Passes,
    slots: Slots,
    sizes_of: Work,
    advance: Callable[[int], None],
    *,
    span: float | None = None,
    example: Rows | None = None,
    started: Reservoir | None = None,
) -> tuple[Reservoir, list[np.ndarray]]:
    """Return slots with rows in proportion to their sizes, and with a `span` the rows that are read always.

    The average size is guessed from an `example`. Slots that are `started` hold rows of the parts before those that are
    read.
    """
    work, shared = Offers(OnOneThread(sizes_of.released()), slots, span), passes.executor.shares_memory
    average = 0.0 if example is None else float(np.mean(work.sizes_of(example)))
    reservoir = started or Reservoir(slots, average, len(passes) if average else 0)
    read_always: list[tuple[np.ndarray, ...]] = []

    def more(number: int, start: int, stop: int) -> tuple[Any, ...]:
        return number, reservoir.keys if shared else reservoir.limits

    for offer, always in passes.each(work, advance, more):
        reservoir.let_in(offer)
        read_always.append(always)
    if not reservoir.is_full and average:  # the example misjudged it, by a factor
        return drawn(passes, slots, sizes_of, no_op, span=span)
    return reservoir, [np.concatenate(of_array) for of_array in zip(*read_always, strict=True)]


@dataclass(frozen=True)
class OnOneThread:
    """Work on rows that leaves the other cores to other parts."""

    work: Work

    def __call__(self, rows: Rows) -> Any:
        """Do it."""
        return self.work(rows, 1)


@dataclass(frozen=True)
class Offers:
    """What the pass for a pool does with a part: weigh its rows, and draw what they offer to the slots."""

    sizes_of: Callable[[Rows], np.ndarray]
    slots: Slots
    #: M of a typical decision, where sizes are bounds: rows that would be drawn more than once are read always.
    span: float | None

    def __call__(self, rows: Rows, number: int, limits: Any) -> tuple[Offer, tuple[np.ndarray, ...]]:
        """Return what is offered of most rows, and those that are to be read always."""
        sizes, always = self.sizes_of(rows), np.empty(0, np.int64)
        if self.span is not None:
            always = rows_to_read(sizes, self.span)
            # More than the rounding of the sums that are drawn by: the bound of a slot is what it was drawn with.
            sizes = sizes * (1 + OUTWARDS) + _RAISED * sizes.mean()
            sizes[always] = 0.0
        return self.slots.offer(rows, sizes, number, limits), rows.take(always).arrays
