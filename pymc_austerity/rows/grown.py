"""Rows that were added to a table of which all has been learnt: passes look at the new ones alone."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pymc_austerity.rows.by_bounds import OUTWARDS, BoundTable, bound_table, rows_to_read
from pymc_austerity.rows.storage import Rows, Work, no_op
from pymc_austerity.rows.weighted import AliasTable, row_table, sizes_drawn_by

#: Rows that are weighed again to find the unit of the sizes of all.
_WEIGHED_AGAIN = 1_000


class NotKnownError(RuntimeError):
    """A pass is about something else than that of the first rows was, so that these have to be read again."""


class Known(NamedTuple):
    """What has been learnt from the first rows of a table: what a pass was about (`Work.about`), and its result."""

    n: int
    about: tuple[np.ndarray, ...]
    result: Any

    def of_first(self, work: Work, advance: Callable[[int], None]) -> Iterator[Any]:
        """Yield what a pass learns from the first rows."""
        require_same(work.about, self.about)
        yield self.result
        advance(self.n)


def require_same(about: Sequence[np.ndarray], known: Sequence[np.ndarray]) -> None:
    """Raise `NotKnownError` where a pass is about something else than one before."""
    if len(about) != len(known) or not all(map(np.array_equal, about, known)):
        raise NotKnownError("they would be expanded, or weighed, otherwise than the first were")


@dataclass(frozen=True)
class GrownRows(Rows):
    """Rows of which the first are known.  In another process they are `Rows`."""

    known: Known = field(kw_only=True)
    weights: AliasTable | None = field(kw_only=True)
    bounds: BoundTable | None = field(kw_only=True)

    @property
    def new(self) -> Rows:
        """The rows that were added."""
        return Rows(tuple(a[self.known.n :] for a in self.arrays))

    @property
    def n_known(self) -> int:
        """Number of rows that passes need not look at again."""
        return self.known.n

    def each(self, work: Work, advance: Callable[[int], None] = no_op) -> Iterator[Any]:
        """Yield what is known of the first rows, and what is learnt from the new."""
        yield from self.known.of_first(work, advance)
        yield work(self.new, advance=advance)

    def weighed(self, sizes_of: Work, floor: float, advance: Callable[[int], None] = no_op) -> AliasTable:
        """Weigh the new rows, and find what the first were weighed by."""
        if self.weights is None:
            return super().weighed(sizes_of, floor, advance)  # type: ignore[return-value]
        before = sizes_drawn_by(self.weights, floor)
        few = np.sort(np.argpartition(-before, min(_WEIGHED_AGAIN, before.size) - 1)[:_WEIGHED_AGAIN])
        unit = sizes_of(self.take(few)).sum(dtype=float) / max(before[few].sum(dtype=float), np.finfo(float).tiny)
        advance(self.known.n)
        return row_table(np.concatenate([before * unit, sizes_of(self.new, advance=advance)]), floor)

    def bounded(self, bounds_of: Work, span: float) -> tuple[BoundTable, Rows]:
        """Find the bounds of the new rows, and of those of the first that were read always."""
        before = self.bounds
        if before is None:
            return super().bounded(bounds_of, span)
        sizes = np.concatenate([before.size, bounds_of(self.new)])
        if before.always.size:
            sizes[before.always] = bounds_of(self.take(before.always))
        return bound_table(sizes * (1 + OUTWARDS), rows_to_read(sizes, span)), self
