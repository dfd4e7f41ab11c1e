"""Everything that is learnt from all rows before sampling: centre, expansion, surrogate, row weights; or none of it."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from pymc_austerity.bounds import Bound, Region
from pymc_austerity.likelihood import numba_options
from pymc_austerity.likelihood.jumps import require_seen_jumps
from pymc_austerity.likelihood.moving_support import require_fixed_support
from pymc_austerity.progress import setup_progress
from pymc_austerity.proxy.centre import Kept, ToLearn, find_centre, stay_at
from pymc_austerity.proxy.expansion import Expansion, Taylor, check_order, compile_remainder
from pymc_austerity.proxy.full_pass import Sums
from pymc_austerity.proxy.linear_maps import WIDE, compressed
from pymc_austerity.proxy.log_posterior import DiscreteError, NoProxyError
from pymc_austerity.proxy.remainder_sizes import SizesOfRows
from pymc_austerity.proxy.selected_coefficients import SelectedCoefficients
from pymc_austerity.proxy.sufficient_statistics import ExpansionWithStatistics, with_statistics
from pymc_austerity.proxy.surrogate import SurrogateState
from pymc_austerity.proxy.third_derivatives import check_triples, third_derivatives
from pymc_austerity.proxy.tuning import normality_of
from pymc_austerity.rows import Rows
from pymc_austerity.rows.storage import DrawnRows
from pymc_austerity.unsupported_model import UnsupportedModelError

_log = logging.getLogger("pymc_austerity")

#: Pairs of draws between which rows are weighed, and so many of more coordinates than this: a rare dummy column hardly
#: moves in some pairs, and all of its rows would seldom be drawn.  So would rows with kinks, which few moves cross.
_FEW_PAIRS, _MANY_PAIRS, _MANY_COORDINATES = 4, 32, 40


#: Constants of a bound, and the rows that are drawn from.
LearntBounds = tuple[tuple[Any, ...], Any]
#: ``choose(region, draws)``: the order of the expansion, and its bounds, with draws of θ from the surrogate.
ChooseOrder = Callable[[Region, np.ndarray], tuple[int, LearntBounds]]


class Prepared(NamedTuple):
    """What a step keeps of its preparation, in arrays that can be pickled."""

    expansion: Expansion | ExpansionWithStatistics
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
    #: What the bound has learnt of the rows where the order was chosen by it; None once a step has that.
    bounds: LearntBounds | None = None

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


def prepare(given: ToLearn, taylor: Taylor, floor: float | None, choose: ChooseOrder | None = None) -> Prepared:
    """Find the centre, expand all rows there, tune a move on the surrogate, and weigh the rows.

    `floor` is the share of uniform draws among weighted rows, None for no weights.  Where an order is chosen the
    expansion has no third derivatives yet.  Raises NoProxyError with the reason: a discrete variable, no mode,
    derivatives that fail their check.
    """
    likelihood, rows, fixed, d = given.likelihood, given.rows, given.fixed, given.likelihood.theta_size
    found = find_centre(given, taylor) if given.kept is None else stay_at(given.kept, given)
    psi, powers, sums, tuned, coordinates, rows_read, other_mode = found
    is_plain = likelihood.rounded is None and coordinates.size <= _MANY_COORDINATES
    n_pairs = _FEW_PAIRS if is_plain else _MANY_PAIRS
    # Draws that lie far apart in the chain, between which remainders change.
    far = len(tuned.draws) // 2
    pairs = [(tuned.draws[-1 - k], tuned.draws[-1 - k - far]) for k in range(n_pairs)]
    kept = given.kept or Kept(psi, sums.value, pairs, tuned.normal.factor, other_mode)
    kept = kept._replace(value=sums.value)
    centre, bent = np.append(psi, powers), powers.size > 0
    hessian = sums.hessian if taylor.order > 1 else np.zeros_like(sums.hessian)
    # What a draw costs is a product with it, where parameters are very many.
    expansion = Expansion(centre, coordinates, sums.gradient, compressed(hessian) if len(hessian) > WIDE else hessian)
    order, bounds = taylor.order, None
    if choose is not None:
        order, bounds = choose(Region(centre, coordinates, kept.factor, order, fixed, cast("Rows", rows)), tuned.draws)
    options = numba_options(given.compile_kwargs)
    both_sides = given.remainders(bent, order).both_sides
    # Of rows with kinks the expansion is that of what stands in for them.
    of_expanded = (
        both_sides if likelihood.rounded is None else compile_remainder(likelihood.of_expanded(), order, options, bent)
    )
    # A step within the posterior: along sd of correlated parameters it would end far outside.
    spread = np.concatenate([tuned.draws[-1] - psi[:d], np.zeros(psi.size - d)])
    if wrong := check_order(of_expanded, expansion, order, spread, fixed, rows.some(500), d):
        raise NoProxyError(wrong)
    table = None
    if floor is not None:
        sizes_of = SizesOfRows(likelihood, order, options, kept.pairs, centre, fixed, both_sides)
        with setup_progress(given.progressbar) as progress:
            task = progress.add_task("Row weights", total=len(rows), what=f"{len(rows):,} rows")
            table = rows.weighed(sizes_of, floor, partial(progress.advance, task))
        rows_read += len(rows) - rows.n_known
    if other_mode:
        _log.warning(
            f"{other_mode} All draws are of the first. Where both are one model with its components exchanged, nothing "
            "is lost: order them, as by transform=pm.distributions.transforms.ordered. Otherwise initial_point= starts "
            "from another place, and pm.sample_smc visits both."
        )
    passes = rows_read / len(rows) + rows.reading_passes
    _log.info(f"Proxy of order {order} for {len(rows):,} rows after {passes:.1f} passes over the data.")
    normality = normality_of(given.surrogate, tuned.normal, tuned.draws, given.around(psi))
    return Prepared(
        expansion, order, tuned.move, tuned.normal, normality, tuned.draws, table, passes, bent, kept, bounds
    )


@dataclass(frozen=True)
class ProxyPlan:
    """Whether a step tries to build a proxy."""

    proxy: Taylor | None
    floor: float | None  # share of uniform draws among weighted rows; None for rows of equal weight
    #: Whether the step is refused where the proxy cannot be built; otherwise it does without, and says so.
    required: bool
    excluded: bool = False  # whether the user said ``proxy=None``
    #: What to do where it is required and cannot be built, a sentence.
    otherwise: str = ""
    by_statistics: bool = False  # whether the model has sufficient statistics, so that the proxy leaves no remainder
    #: Chooses the order once the centre is known; None where it is that of `proxy`.
    choose_order: ChooseOrder | None = None

    def without(self) -> ProxyPlan:
        """Return the plan that builds none."""
        return replace(self, proxy=None, floor=None, required=False)

    def of_order(self, order: int) -> ProxyPlan:
        """Return the plan with the order that was chosen."""
        assert self.proxy is not None
        return replace(self, proxy=replace(self.proxy, order=order), choose_order=None)

    def with_bound(self, bound: Bound) -> ProxyPlan:
        """Return the plan for a step with a bound: without a proxy where the bound is none on what a proxy leaves."""
        if self.proxy is not None and bound.known_by_sums:
            return replace(self, by_statistics=True)
        if self.proxy is None or bound.of_remainder(self.proxy.order) is not None:
            return self
        if self.required:
            raise UnsupportedModelError(
                f"proxy={self.proxy}: no bound is known on what it leaves of a row of this model (known at order 2 "
                "where the third derivative has a limit). Use bound='scan', or proxy=None, or a test that "
                "needs no bound, such as MinibatchBarker or PenaltyMH."
            )
        return self.without()

    def for_selected(self, selected: SelectedCoefficients, bound: Bound, *at: Any) -> ProxyPlan:
        """Return the plan for a proxy in the space of the products: none where rows read more, or a bound reads θ."""
        if self.proxy is None:
            return self
        if bound.of_selected(selected.likelihood) is None:
            reason = "a bound on the rows is known for θ, and not for products of coefficients and indicators"
        elif selected.are_all_that_rows_read(*at):
            return self
        else:
            reason = "the rows read more of the coefficients and the indicators than their product"
        if self.required:
            raise UnsupportedModelError(
                f"proxy={self.proxy} cannot be built for this model: {reason}. {self.otherwise}"
            )
        _log.info(f"No proxy: {reason}. Rows are drawn uniformly.")
        return self.without()

    def prepare(self, given: ToLearn, made_by: str, a_part_decides: bool, stacklevel: int) -> Prepared | None:
        """Return what is learnt from all rows, or None with a warning that says why there is no proxy."""
        assert self.proxy is not None
        if self.proxy.order == 3 and not self.by_statistics:
            check_triples(given.likelihood)
        try:
            prepared = prepare(given, self.proxy, self.floor, None if self.by_statistics else self.choose_order)
        except NoProxyError as error:
            if given.kept is not None:  # which the caller can learn without
                raise
            # At random, without a proxy that knows the rows next to a limit.
            if a_part_decides and not isinstance(error, DiscreteError):
                require_fixed_support(given.likelihood, made_by)
                theta, others = np.split(given.start, [given.likelihood.theta_size])
                require_seen_jumps(given.likelihood, given.rows, given.fixed, theta, others, None, made_by)
            if self.required:
                raise UnsupportedModelError(
                    f"proxy={self.proxy} cannot be built for this model: {error}. {self.otherwise}"
                ) from None  # whose words these are
            if isinstance(error, DiscreteError):
                _log.info(f"No proxy: {error}. Rows are drawn uniformly and moves are a random walk.")
            else:
                more = " on uniform rows, which reads far more of them" if a_part_decides else ""
                warnings.warn(
                    f"No proxy could be built: {error}. Sampling goes on without one, by a random walk{more}. "
                    "See the 'Proxies' page; proxy=None says that this is meant.",
                    UserWarning,
                    stacklevel=stacklevel,
                )
            return None
        second, rows = Expansion(*prepared.expansion[:4]), cast("Rows", given.rows)
        if self.by_statistics:
            known = with_statistics(second, rows, given.fixed)
            return prepared._replace(expansion=known, passes=prepared.passes + 2)
        if prepared.order < 3:
            return prepared
        options, bar = given.compile_kwargs, given.progressbar
        cubic = third_derivatives(given.likelihood, second, rows, given.fixed, options, bar)
        return prepared._replace(expansion=second._replace(cubic=cubic), passes=prepared.passes + 1)
