"""The pools that are drawn of a source, in one pass in which sizes or bounds of its rows are found too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_austerity.blocks.passes import Passes
from pymc_austerity.rows import OUTWARDS, Reservoir, Rows, Slots, Work, no_op
from pymc_austerity.rows.by_bounds import rows_to_read
from pymc_austerity.rows.reservoir import Offer

#: Of an average bound, by which all are raised.
_RAISED = 1e-6


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
