"""Whether a step tries to build a proxy, and what becomes of it where none can be built."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass, replace
from typing import Any

from pymc_austerity.bounds import Bound
from pymc_austerity.likelihood import RowLikelihood
from pymc_austerity.proxy.effects import Effects
from pymc_austerity.proxy.expansion import CubicExpansion, Expansion, Taylor
from pymc_austerity.proxy.known_by_sums import with_sums
from pymc_austerity.proxy.preparation import DiscreteError, NoProxyError, Prepared, prepare
from pymc_austerity.proxy.third_derivatives import check_triples, third_derivatives
from pymc_austerity.unsupported_model import UnsupportedModelError

_log = logging.getLogger("pymc_austerity")


@dataclass(frozen=True)
class ProxyPlan:
    """Whether a step tries to build a proxy.

    Attributes
    ----------
    proxy : Taylor or None
    floor : float or None
        Share of uniform draws among weighted rows; None for rows of equal weight.
    required : bool
        Whether the step is refused where the proxy cannot be built; otherwise it does without, and says so.
    excluded : bool
        Whether the user said ``proxy=None``.
    otherwise : str
        What to do where it is required and cannot be built, a sentence.
    by_sums : bool
        Whether sums over the data determine the log-likelihood of all rows, so that the proxy leaves nothing of them.
    """

    proxy: Taylor | None
    floor: float | None
    required: bool
    excluded: bool = False
    otherwise: str = "Sample with proxy=None, or NUTS."
    by_sums: bool = False

    def without(self) -> ProxyPlan:
        """Return the plan that builds none."""
        return replace(self, proxy=None, floor=None, required=False)

    def with_bound(self, bound: Bound) -> ProxyPlan:
        """Return the plan for a step with a bound: without a proxy where the bound is none on what a proxy leaves.

        Raises
        ------
        ValueError
            Where a proxy was asked for.
        """
        if self.proxy is not None and bound.known_by_sums:
            return replace(self, by_sums=True)
        if self.proxy is None or bound.of_remainder(self.proxy.order) is not None:
            return self
        if self.required:
            raise UnsupportedModelError(
                f"proxy={self.proxy}: no bound is known on what it leaves of a row of this model (known at order 2: "
                "Bernoulli, Binomial and Categorical with logit_p). Use bound='scan', or proxy=None, or a test that "
                "needs no bound, such as MinibatchBarker or PenaltyMH."
            )
        return self.without()

    def for_effects(self, effects: Effects, bound: Bound, *at: Any) -> ProxyPlan:
        """Return the plan for a proxy in the space of the effects: none where rows read more, or a bound reads θ.

        Raises
        ------
        ValueError
            Where a proxy was asked for.
        """
        if self.proxy is None:
            return self
        if bound.of_effects(effects.likelihood) is None:
            reason = "a bound on the rows is known for the variables of the step, and not for their effects"
        elif effects.are_all_that_rows_read(*at):
            return self
        else:
            reason = "the rows read more of the coefficients and the indicators than their product"
        if self.required:
            raise UnsupportedModelError(
                f"proxy={self.proxy} cannot be built for this model: {reason}. {self.otherwise}"
            )
        _log.info(f"No proxy: {reason}. Rows are drawn uniformly.")
        return self.without()

    def prepare(self, *arguments: Any, stacklevel: int) -> Prepared | None:
        """Return what `prepare` learns with the arguments given, or None with a word on why there is no proxy.

        Parameters
        ----------
        *arguments
            Of `prepare`.
        stacklevel : int
            Frames from here to the user's code, for the warning.

        Raises
        ------
        ValueError
            Where a proxy was asked for and cannot be built, or is of third order in too many dimensions.
        """
        if self.proxy is not None and self.proxy.order == 3 and not self.by_sums:
            check_triples(arguments[0])
        try:
            prepared = prepare(*arguments)
        except NoProxyError as error:
            if self.required:
                raise UnsupportedModelError(
                    f"proxy={self.proxy} cannot be built for this model: {error}. {self.otherwise}"
                ) from error
            if isinstance(error, DiscreteError):
                _log.info(f"No proxy: {error}. Rows are drawn uniformly and moves are a random walk.")
            else:
                warnings.warn(
                    f"No proxy could be built: {error}. Sampling goes on without one, by a random walk on uniform "
                    "rows, which reads far more of them. See the 'Proxies' page; proxy=None says that this is meant.",
                    UserWarning,
                    stacklevel=stacklevel,
                )
            return None
        return self._with_more(prepared, *arguments)

    def _with_more(self, prepared: Prepared, likelihood: RowLikelihood, *arguments: Any) -> Prepared:
        """Return what was prepared, with what the sum over all rows is known by beyond second order."""
        _, _, _, _, rows, fixed, *_, options, progressbar = arguments
        second = Expansion(*prepared.expansion[:4])
        if self.by_sums:
            return prepared._replace(expansion=with_sums(second, rows, fixed), passes=prepared.passes + 2)
        if prepared.order < 3:
            return prepared
        cubic = third_derivatives(likelihood, second, rows, fixed, options, progressbar)
        return prepared._replace(expansion=CubicExpansion(*second, cubic), passes=prepared.passes + 1)
