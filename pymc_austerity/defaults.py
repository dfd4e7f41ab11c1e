"""What a step uses where it was not told: a proxy where there can be one, and the move and rows that go with it."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pymc_austerity.acceptance import AcceptanceTest
from pymc_austerity.bounds import Bound, Scan, Unbounded
from pymc_austerity.crank_nicolson import CrankNicolson
from pymc_austerity.effects import Effects
from pymc_austerity.model_moves import ModelProposal
from pymc_austerity.preparation import DiscreteError, NoProxyError, Prepared, prepare
from pymc_austerity.proposals import AdaptiveMetropolis, Proposal, RandomWalk
from pymc_austerity.proxy import Taylor
from pymc_austerity.rows import Uniform
from pymc_austerity.stiefel import StiefelWalk
from pymc_austerity.surrogate_hmc import SurrogateHMC
from pymc_austerity.weights import Weighted, takes_weights

SurrogateMove = SurrogateHMC | CrankNicolson
ProxyChoice = Taylor | Literal["auto"] | None

_log = logging.getLogger("pymc_austerity")

#: Above this many parameters a dense proposal covariance costs more than it gains by default.
_MAX_DENSE = 200
#: A surrogate that accepts this share of independent draws from its normal approximation is as good as normal.
_NORMAL_ENOUGH = 0.9


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
    """

    proxy: Taylor | None
    floor: float | None
    required: bool

    def with_bound(self, bound: Bound) -> ProxyPlan:
        """Return the plan for a step with a bound: without a proxy where the bound is none on what a proxy leaves.

        Raises
        ------
        ValueError
            Where a proxy was asked for.
        """
        if self.proxy is None or bound.of_remainder(self.proxy.order) is not None:
            return self
        if self.required:
            raise ValueError(
                f"proxy={self.proxy}: no bound is known on what it leaves of a row of this model (known at order 2: "
                "Bernoulli, Binomial and Categorical with logit_p). Use bound='scan', or proxy=None, or a test that "
                "needs no bound, such as MinibatchBarker or PenaltyMH."
            )
        return ProxyPlan(None, None, False)

    def for_effects(self, effects: Effects, bound: Bound, *at: Any) -> ProxyPlan:
        """Return the plan for a proxy in the space of the effects: none where rows read more, or a bound reads θ.

        Raises
        ------
        ValueError
            Where a proxy was asked for.
        """
        if self.proxy is None:
            return self
        if not isinstance(bound, Unbounded | Scan):
            reason = "a bound on the rows is known for the variables of the step, and not for their effects"
        elif effects.are_all_that_rows_read(*at):
            return self
        else:
            reason = "the rows read more of the coefficients and the indicators than their product"
        if self.required:
            raise ValueError(f"proxy={self.proxy} cannot be built for this model: {reason}. Sample with proxy=None.")
        _log.info(f"No proxy: {reason}. Rows are drawn uniformly.")
        return ProxyPlan(None, None, False)


def plan_proxy(
    test: AcceptanceTest,
    proposal: object,
    proxy: object,
    rows: object,
    bound: str | Callable[..., Any] | None,
) -> ProxyPlan:
    """Check that the parts go together, and choose those that were left open.

    Raises
    ------
    TypeError, ValueError
        For parts that are not what they should be, or do not go together.
    """
    _check_kinds(proposal, proxy, rows)
    moves, weighted = isinstance(proposal, SurrogateMove), isinstance(rows, Weighted)
    if isinstance(proposal, StiefelWalk):
        if isinstance(proxy, Taylor) or weighted:
            raise ValueError(
                f"proposal={proposal!r} does not go with a proxy, nor with rows weighted by one: the likelihood would "
                "be expanded in directions that leave the manifold. Leave out proxy= and rows=."
            )
        return ProxyPlan(None, None, False)
    if proxy is None:
        if moves:
            raise ValueError(
                f"proposal={proposal!r} moves on a surrogate that a proxy defines, and proxy=None excludes it. "
                "Leave out proxy=, or use pymc_austerity.AdaptiveMetropolis()."
            )
        if weighted:
            raise ValueError(
                "rows=Weighted() weighs rows by what a proxy leaves of them, and proxy=None excludes it. "
                "Leave out proxy=, or use rows=pymc_austerity.Uniform()."
            )
        return ProxyPlan(None, None, False)
    floor = None
    if isinstance(rows, Weighted):
        takes_weights(test, required=True)
        floor = rows.floor
    elif rows is None and takes_weights(test):
        floor = Weighted().floor
    if isinstance(proxy, Taylor):
        return ProxyPlan(proxy, floor, True)
    if callable(bound) and not (moves or weighted):
        return ProxyPlan(None, None, False)  # a bound that was written for the rows is none for their remainders
    return ProxyPlan(Taylor(), floor, moves or weighted)


def _check_kinds(proposal: object, proxy: object, rows: object) -> None:
    if not (proxy is None or isinstance(proxy, Taylor) or (isinstance(proxy, str) and proxy == "auto")):
        raise TypeError(f"proxy={proxy!r} must be 'auto', None or an object such as pymc_austerity.Taylor(order=2).")
    if rows is not None and not isinstance(rows, Uniform | Weighted):
        raise TypeError(f"rows={rows!r} must be pymc_austerity.Uniform() or pymc_austerity.Weighted().")
    if proposal is not None and not isinstance(proposal, Proposal | ModelProposal):
        raise TypeError(
            f"proposal={proposal!r} is not a proposal. Pass an object such as pymc_austerity.RandomWalk(scale=0.1) "
            "or pymc_austerity.AdaptiveMetropolis()."
        )


def prepare_or_do_without(plan: ProxyPlan, *arguments: Any) -> Prepared | None:
    """Return what `prepare` learns with the arguments given, or None with a word on why there is no proxy.

    Raises
    ------
    ValueError
        Where a proxy was asked for and cannot be built.
    """
    try:
        return prepare(*arguments)
    except NoProxyError as error:
        if plan.required:
            raise ValueError(
                f"proxy={plan.proxy} cannot be built for this model: {error}. Sample with proxy=None, or NUTS."
            ) from error
        if isinstance(error, DiscreteError):
            _log.info(f"No proxy: {error}. Rows are drawn uniformly and moves are a random walk.")
        else:
            warnings.warn(
                f"No proxy could be built: {error}. Sampling goes on without one, by a random walk on uniform rows, "
                "which reads far more of them. See the 'Proxies' page; proxy=None says that this is meant.",
                UserWarning,
                stacklevel=7,
            )
        return None


def default_walk(dimension: int) -> Proposal:
    """Return the proposal of a step without a proxy."""
    return AdaptiveMetropolis() if dimension <= _MAX_DENSE else RandomWalk()


def default_move(prepared: Prepared) -> SurrogateMove:
    """Return the proposal of a step with a proxy: the cheaper one where the surrogate is as good as normal."""
    return CrankNicolson() if prepared.normality >= _NORMAL_ENOUGH else SurrogateHMC()
