"""Whether a step builds a proxy, and what it does where none can be built."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from pymc_austerity.bounds import Bound
from pymc_austerity.likelihood.jumps import require_seen_jumps
from pymc_austerity.likelihood.moving_support import require_fixed_support
from pymc_austerity.proxy.centre import ToLearn
from pymc_austerity.proxy.expansion import CubicExpansion, Expansion, Taylor
from pymc_austerity.proxy.log_posterior import DiscreteError, NoProxyError
from pymc_austerity.proxy.preparation import Prepared, prepare
from pymc_austerity.proxy.selected_coefficients import SelectedCoefficients
from pymc_austerity.proxy.sufficient_statistics import with_statistics
from pymc_austerity.proxy.third_derivatives import check_triples, third_derivatives
from pymc_austerity.rows import Rows
from pymc_austerity.unsupported_model import UnsupportedModelError

_log = logging.getLogger("pymc_austerity")


@dataclass(frozen=True)
class ProxyPlan:
    """Whether a step tries to build a proxy."""

    proxy: Taylor | None
    floor: float | None  # share of uniform draws among weighted rows; None for rows of equal weight
    #: Whether the step is refused where the proxy cannot be built; otherwise it does without, and says so.
    required: bool
    excluded: bool = False  # whether the user said ``proxy=None``
    #: What to do where it is required and cannot be built, a sentence.
    otherwise: str = "Sample with proxy=None, or NUTS."
    by_statistics: bool = False  # whether the model has sufficient statistics, so that the proxy leaves no remainder

    def without(self) -> ProxyPlan:
        """Return the plan that builds none."""
        return replace(self, proxy=None, floor=None, required=False)

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
            prepared = prepare(given, self.proxy, self.floor)
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
        return prepared._replace(expansion=CubicExpansion(*second, cubic), passes=prepared.passes + 1)
