"""A table of rows that are read from a source in passes, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_austerity.blocks.checkpoint import Checkpoint
from pymc_austerity.blocks.columns import Reader
from pymc_austerity.blocks.passes import Assigned, Executor, Worked
from pymc_austerity.blocks.source import Source
from pymc_austerity.progress import setup_progress
from pymc_austerity.rows import OUTWARDS, BoundPool, Offer, Pool, Reservoir, Rows, Slots, Work, nobody, rows_to_read

#: Rows of a part, and the bytes that they take at most: enough to make a task of, few enough to hold some a core.
PIECE, _PIECE_BYTES = 524_288, 64_000_000
#: Of an average bound, by which all are raised.
_RAISED = 1e-6


class BlockTable:
    """All rows of a source, as passes read them.

    Every row is checked in the first pass, and in later ones compared with what it was.

    Parameters
    ----------
    source : Source
    reader : Reader
    slots : Slots
        Of the pool that is drawn for sampling.
    shares : int
        Chains that the pool is for.
    executor : Executor
        Where parts are worked on.
    checkpoint : Checkpoint
        Where what was learnt is kept.
    progressbar : bool
        Whether the pass for samples shows a bar.
    """

    def __init__(
        self,
        source: Source,
        reader: Reader,
        slots: Slots,
        shares: int,
        executor: Executor,
        checkpoint: Checkpoint,
        progressbar: bool,
    ):
        self._source, self._reader, self._slots, self._shares = source, reader, slots, shares
        self._executor, self._checkpoint, self._shown = executor, checkpoint, progressbar
        self._n_rows = source.count()
        self._seen: list[int] | None = None
        self._example: Rows | None = None
        self.reading_passes = 0
        if self._n_rows < 1:
            raise ValueError("Blocks: the source has no rows. Check its paths, and filter=.")

    def __len__(self) -> int:
        return self._n_rows

    @property
    def n_table(self) -> int:
        """Number of rows: none are merged."""
        return len(self)

    def pieces(self) -> Iterator[Rows]:
        """Yield all rows, part by part."""
        return self._each(_itself)

    def each(self, work: Work, advance: Callable[[int], None] = nobody) -> Iterator[Any]:
        """Yield what is learnt from each part of the rows, in their order.

        Raises
        ------
        ValueError
            For rows that the model cannot take, a number of rows other than was said, or rows that are not those of
            the first pass.
        """
        return self._each(OnOneThread(work.released()), advance)

    def _each(
        self,
        work: Callable[..., Any],
        advance: Callable[[int], None] = nobody,
        more: Callable[[int, int, int], tuple[Any, ...]] = lambda number, start, stop: (),
    ) -> Iterator[Any]:
        """Yield what ``work(rows, *more(number, start, stop))`` returns for each part."""
        size = max(1, min(PIECE, _PIECE_BYTES // self._reader.row_bytes))
        known, checksums, n = self._seen, [], 0

        def assigned() -> Iterator[Assigned]:
            start = 0
            for number, part in enumerate(self._source.parts(self._reader.names, size)):
                # A part beyond those of the first pass is none of them, whatever its rows.
                checksum = None if known is None else known[number] if number < len(known) else -1
                yield Assigned(part, checksum, more(number, start, start + part.n_rows))
                start += part.n_rows

        for result in self._executor.each(Worked(self._reader, work), assigned()):
            checksums.append(result.checksum)
            if known is not None and (len(checksums) > len(known) or result.checksum != known[len(checksums) - 1]):
                raise ValueError(
                    f"{result.where}: rows {n:,} to {n + result.n_rows:,} of all are not what they were in the first "
                    "pass. What was learnt from them would not belong together. Leave files alone until sampling "
                    "begins; a function has to yield the same rows in the same order each time."
                )
            n += result.n_rows
            if n > self._n_rows:
                break
            advance(result.n_rows)
            yield result.value
        if n != self._n_rows:
            found = "more" if n > self._n_rows else f"{n:,}"
            raise ValueError(
                f"Blocks: a pass read {found} rows where {self._n_rows:,} were expected. Correct n_rows=, or leave the "
                "files alone until sampling begins."
            )
        self._seen = checksums

    def remembered(self, work: Work, learn: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return what a pass learns, from the checkpoint where it is there."""
        return self._remembered(type(work).__name__, work.about, learn)

    def _remembered(
        self, name: str, about: Sequence[np.ndarray], learn: Callable[[], Sequence[Any]]
    ) -> tuple[Any, ...]:
        found = self._checkpoint.find(name, about)
        if found is None:
            found = list(learn())
            self._checkpoint.keep(name, about, found)
        return tuple(found)

    def samples(self, wanted: Sequence[np.ndarray | None]) -> list[Rows]:
        """Return the rows with these numbers for each of several samples, or all rows for None, in one pass."""
        chosen = [np.arange(len(self)) if numbers is None else np.sort(numbers) for numbers in wanted]
        n_arrays = len(self._reader.containers)
        checksums, *arrays = self._remembered("Samples", chosen, lambda: self._sampled(chosen))
        self._seen = checksums.tolist()
        samples = [Rows(tuple(arrays[k : k + n_arrays])) for k in range(0, len(arrays), n_arrays)]
        self.reading_passes += 1
        self._example = samples[0]
        return samples

    def _sampled(self, chosen: Sequence[np.ndarray]) -> list[np.ndarray]:
        def here(number: int, start: int, stop: int) -> tuple[Any, ...]:
            return tuple(c[slice(*np.searchsorted(c, [start, stop]))] - start for c in chosen)

        with setup_progress(self._shown) as progress:
            task = progress.add_task("Samples", total=len(self), what=f"{len(self):,} rows")
            found = list(self._each(_taken, lambda n: progress.advance(task, n), here))
        joined = [np.concatenate(parts) for sample in zip(*found, strict=True) for parts in zip(*sample, strict=True)]
        return [np.array(self._seen, np.int64), *joined]

    def some(self, n: int) -> tuple[np.ndarray, ...]:
        """Return the arrays of at most `n` rows of the first sample."""
        assert self._example is not None
        return self._example.some(n)

    def weighed(self, sizes_of: Work, floor: float, advance: Callable[[int], None] = nobody) -> Pool:
        """Draw the pool, in one pass in which the rows are weighed too."""
        about = [*sizes_of.about, np.array(floor)]
        *arrays, weight = self._remembered("Pool", about, lambda: self._drawn(sizes_of, floor, advance))
        return Pool(Rows(tuple(arrays)), weight, len(self), self._shares)

    def _drawn(self, sizes_of: Work, floor: float, advance: Callable[[int], None]) -> list[np.ndarray]:
        assert self._example is not None
        slots = self._slots._replace(floor=floor)
        work = Offers(OnOneThread(sizes_of.released()), slots)
        average = float(np.mean(work.sizes_of(self._example)))
        reservoir = Reservoir(slots, average, len(self))
        self._fill(reservoir, work, advance)
        if not reservoir.is_full:  # the sample misjudged the average, by a factor
            reservoir = Reservoir(slots)
            self._fill(reservoir, work, nobody)
        pool = reservoir.pool(self._shares)
        return [*pool.rows.arrays, pool.weight]

    def _fill(self, reservoir: Reservoir, work: Offers, advance: Callable[[int], None]) -> None:
        for offer in self._offered(reservoir, work, advance):
            reservoir.let_in(offer)

    def bounded(self, bounds_of: Work, span: float) -> tuple[BoundPool, Rows]:
        """Draw the pool in proportion to bounds, in one pass in which they are found too."""
        about = [*bounds_of.about, np.array(span)]
        found = self._remembered("BoundPool", about, lambda: self._drawn_by_bounds(bounds_of, span))
        size, total, *arrays = found
        always = np.arange(len(size) - self._slots.n)
        self.reading_passes += 1
        return BoundPool(size, float(total), always, len(self), self._shares), Rows(tuple(arrays))

    def _drawn_by_bounds(self, bounds_of: Work, span: float) -> list[Any]:
        slots = self._slots._replace(floor=0.0)
        work, reservoir = BoundedOffers(OnOneThread(bounds_of.released()), slots, span), Reservoir(slots)
        read_always: list[tuple[np.ndarray, ...]] = []
        with setup_progress(self._shown) as progress:
            task = progress.add_task("Bounds", total=len(self), what=f"{len(self):,} rows")
            for offer, always in self._offered(reservoir, work, lambda n: progress.advance(task, n)):
                reservoir.let_in(offer)
                read_always.append(always)
        first = [np.concatenate(of_array) for of_array in zip(*read_always, strict=True)]
        slots_filled, sizes, total = reservoir.by_size()
        arrays = [np.concatenate([of_all, of_slots]) for of_all, of_slots in zip(first, slots_filled, strict=True)]
        return [np.concatenate([np.zeros(len(first[0])), sizes]), total, *arrays]

    def _offered(self, reservoir: Reservoir, work: Callable[..., Any], advance: Callable[[int], None]) -> Iterator[Any]:
        shared = self._executor.shares_memory

        def more(number: int, start: int, stop: int) -> tuple[Any, ...]:
            return number, reservoir.clocks if shared else reservoir.limits

        return self._each(work, advance, more)


@dataclass(frozen=True)
class OnOneThread:
    """Work on rows that leaves the other cores to other parts."""

    work: Work

    def __call__(self, rows: Rows) -> Any:
        """Do it."""
        return self.work(rows, 1)


@dataclass(frozen=True)
class Offers:
    """What the pass for the pool does with a part: weigh its rows, and draw what they offer to the slots."""

    sizes_of: Callable[[Rows], np.ndarray]
    slots: Slots

    def __call__(self, rows: Rows, number: int, limits: Any) -> Offer:
        """Weigh and draw."""
        return self.slots.offer(rows, self.sizes_of(rows), number, limits)


@dataclass(frozen=True)
class BoundedOffers:
    """What the pass for a pool by bounds does with a part."""

    bounds_of: Callable[[Rows], np.ndarray]
    slots: Slots
    span: float

    def __call__(self, rows: Rows, number: int, limits: Any) -> tuple[Offer, tuple[np.ndarray, ...]]:
        """Find the bounds, draw from most of the rows, and return those that are to be read always."""
        bounds = self.bounds_of(rows)
        always = rows_to_read(bounds, self.span)
        # More than the rounding of the sums that are drawn by: the bound of a slot is what it was drawn with.
        bounds = bounds * (1 + OUTWARDS) + _RAISED * bounds.mean()
        bounds[always] = 0.0
        return self.slots.offer(rows, bounds, number, limits), rows.take(always).arrays


def _itself(rows: Rows) -> Rows:
    return rows


def _taken(rows: Rows, *numbers: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    return [rows.take(of_sample).arrays for of_sample in numbers]
