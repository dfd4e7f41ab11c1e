"""The pools that are drawn of a source, in one pass in which sizes or bounds of its rows are found too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_austerity.blocks.passes import Passes
from pymc_austerity.progress import setup_progress
from pymc_austerity.rows import OUTWARDS, Reservoir, Rows, Slots, Work, no_op
from pymc_austerity.rows.by_bounds import rows_to_read
from pymc_austerity.rows.reservoir import Offer

#: Of an average bound, by which all are raised.
_RAISED = 1e-6


def drawn_by_size(
    passes: Passes,
    slots: Slots,
    sizes_of: Work,
    example: Rows,
    advance: Callable[[int], None],
    started: Reservoir | None = None,
) -> Reservoir:
    """Return slots with rows in proportion to their sizes, the average of which is guessed from the `example`.

    Slots that are `started` hold rows of the parts before those that are read.
    """
    work = Offers(OnOneThread(sizes_of.released()), slots)
    reservoir = started or Reservoir(slots, float(np.mean(work.sizes_of(example))), len(passes))
    for offer in _offered(passes, reservoir, work, advance):
        reservoir.let_in(offer)
    if not reservoir.is_full:  # the sample misjudged the average, by a factor
        reservoir = Reservoir(slots)
        for offer in _offered(passes, reservoir, work, no_op):
            reservoir.let_in(offer)
    return reservoir


def drawn_by_bounds(
    passes: Passes, slots: Slots, bounds_of: Work, span: float, shown: bool, started: Reservoir | None = None
) -> tuple[Reservoir, list[np.ndarray]]:
    """Return slots with rows in proportion to their bounds, and the rows that are read always."""
    work, reservoir = BoundedOffers(OnOneThread(bounds_of.released()), slots, span), started or Reservoir(slots)
    read_always: list[tuple[np.ndarray, ...]] = []
    with setup_progress(shown) as progress:
        task = progress.add_task("Bounds", total=passes.n_read, what=f"{passes.n_read:,} rows")
        for offer, always in _offered(passes, reservoir, work, lambda n: progress.advance(task, n)):
            reservoir.let_in(offer)
            read_always.append(always)
    return reservoir, [np.concatenate(of_array) for of_array in zip(*read_always, strict=True)]


def _offered(
    passes: Passes, reservoir: Reservoir, work: Callable[..., Any], advance: Callable[[int], None]
) -> Iterator[Any]:
    shared = passes.executor.shares_memory

    def more(number: int, start: int, stop: int) -> tuple[Any, ...]:
        return number, reservoir.keys if shared else reservoir.limits

    return passes.each(work, advance, more)


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
