"""Everything that is learnt from all rows before sampling: centre, expansion, surrogate, row weights."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pymc_austerity.bounds import Region
from pymc_austerity.likelihood import numba_options
from pymc_austerity.progress import setup_progress
from pymc_austerity.proxy.centre import Kept, ToLearn, find_centre, stay_at
from pymc_austerity.proxy.expansion import CubicExpansion, Expansion, Taylor, check_order, compile_remainder
from pymc_austerity.proxy.full_pass import Sums
from pymc_austerity.proxy.linear_maps import WIDE, compressed
from pymc_austerity.proxy.log_posterior import NoProxyError
from pymc_austerity.proxy.remainder_sizes import SizesOfRows
from pymc_austerity.proxy.sufficient_statistics import ExpansionWithStatistics
from pymc_austerity.proxy.surrogate import SurrogateState
from pymc_austerity.proxy.tuning import normality_of
from pymc_austerity.rows.storage import DrawnRows

_log = logging.getLogger("pymc_austerity")

#: Pairs of draws between which rows are weighed, and so many of more coordinates than this: a rare dummy column hardly
#: moves in some pairs, and all of its rows would seldom be drawn.  So would rows with kinks, which few moves cross.
_FEW_PAIRS, _MANY_PAIRS, _MANY_COORDINATES = 4, 32, 40


class Prepared(NamedTuple):
    """What a step keeps of its preparation, in arrays that can be pickled."""

    expansion: Expansion | CubicExpansion | ExpansionWithStatistics
    order: int
    move: SurrogateState  # Hamiltonian moves, tuned on the surrogate
    normal: SurrogateState  # the normal approximation of the surrogate: centre and factor
    #: Share of independent draws from that approximation that the surrogate would accept; 1 where it is normal.
    normality: float
    draws: np.ndarray  # draws of θ from the surrogate, shape (k, D)
    table: DrawnRows | None  # rows with weights, where they were asked for
    passes: float  # passes over all rows, in rows evaluated divided by N
    bent: bool  # whether rows are expanded in powers of parameters
    kept: Kept

    def region(self, fixed: tuple[np.ndarray, ...], rows: Any) -> Region:
        """Return where the rows are expanded, and how wide the posterior is there."""
        centre, coordinates, *_ = self.expansion
        return Region(centre, coordinates, self.kept.factor, self.order, fixed, rows)

    def sums_known(self, fixed: tuple[np.ndarray, ...]) -> tuple[tuple[np.ndarray, ...], Sums] | None:
        """Return what the pass over all rows at the centre was about, and its result; None where it is not kept."""
        _, coordinates, gradient, hessian, *_ = self.expansion
        if self.bent or self.order < 2 or not isinstance(hessian, np.ndarray):
            return None
        about = self.kept.psi, coordinates, np.array(True), *fixed
        return about, Sums(self.kept.value, gradient, hessian)


def prepare(given: ToLearn, taylor: Taylor, floor: float | None) -> Prepared:
    """Find the centre, expand all rows there, tune a move on the surrogate, and weigh the rows.

    `floor` is the share of uniform draws among weighted rows, None for no weights.  Raises NoProxyError with the
    reason: a discrete variable, no mode, derivatives that fail their check.
    """
    likelihood, rows, fixed, d = given.likelihood, given.rows, given.fixed, given.likelihood.theta_size
    found = find_centre(given, taylor) if given.kept is None else stay_at(given.kept, given)
    psi, powers, sums, tuned, coordinates, rows_read = found
    is_plain = likelihood.rounded is None and coordinates.size <= _MANY_COORDINATES
    n_pairs = _FEW_PAIRS if is_plain else _MANY_PAIRS
    kept = given.kept or Kept(psi, sums.value, _pairs_of(tuned.draws, n_pairs), tuned.normal.factor)
    kept = kept._replace(value=sums.value)
    centre, bent = np.append(psi, powers), powers.size > 0
    hessian = sums.hessian if taylor.order > 1 else np.zeros_like(sums.hessian)
    # What a draw costs is a product with it, where parameters are very many.
    expansion = Expansion(centre, coordinates, sums.gradient, compressed(hessian) if len(hessian) > WIDE else hessian)
    options = numba_options(given.compile_kwargs)
    both_sides = given.remainders(bent).both_sides
    # Of rows with kinks the expansion is that of what stands in for them.
    of_expanded = (
        both_sides
        if likelihood.rounded is None
        else compile_remainder(likelihood.of_expanded(), taylor.order, options, bent)
    )
    # A step within the posterior: along sd of correlated parameters it would end far outside.
    spread = np.concatenate([tuned.draws[-1] - psi[:d], np.zeros(psi.size - d)])
    if wrong := check_order(of_expanded, expansion, taylor.order, spread, fixed, rows.some(500), d):
        raise NoProxyError(wrong)
    table = None
    if floor is not None:
        sizes_of = SizesOfRows(likelihood, taylor.order, options, kept.pairs, centre, fixed, both_sides)
        with setup_progress(given.progressbar) as progress:
            task = progress.add_task("Row weights", total=len(rows), what=f"{len(rows):,} rows")
            table = rows.weighed(sizes_of, floor, partial(progress.advance, task))
        rows_read += len(rows) - rows.n_known
    passes = rows_read / len(rows) + rows.reading_passes
    _log.info(f"Proxy of order {taylor.order} for {len(rows):,} rows after {passes:.1f} passes over the data.")
    normality = normality_of(given.surrogate, tuned.normal, tuned.draws, given.around(psi))
    return Prepared(
        expansion, taylor.order, tuned.move, tuned.normal, normality, tuned.draws, table, passes, bent, kept
    )


def _pairs_of(draws: np.ndarray, n_pairs: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return draws that lie far apart in the chain, two by two, between which remainders change."""
    far = len(draws) // 2
    return [(draws[-1 - k], draws[-1 - k - far]) for k in range(n_pairs)]
