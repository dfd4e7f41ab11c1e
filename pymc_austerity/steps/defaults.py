"""What a step uses where it was not told: a proxy where there can be one, and the rows that go with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from pymc_austerity.acceptance import AcceptanceTest, NeedsDistinctRowsError, Reads
from pymc_austerity.proposals import Proposal
from pymc_austerity.proxy import ProxyPlan, Taylor
from pymc_austerity.rows import Uniform, Weighted

ProxyChoice = Taylor | Literal["auto"] | None

#: What a test that reads by bounds says where there is no proxy.
_NEEDS_PROXY = (
    "MHSS reads rows by bounds on what a proxy leaves of them. Use PenaltyMH, which needs no bound and does without a "
    "proxy where it has to."
)
#: A step that does without a proxy.
_NONE = ProxyPlan(None, None, required=False)


def plan_proxy(
    test: AcceptanceTest,
    proposal: Proposal | None,
    proxy: ProxyChoice,
    rows: Uniform | Weighted | None,
    bound: str | Callable[..., Any] | None,
) -> ProxyPlan:
    """Check that the parts go together, or raise a TypeError or ValueError, and choose those that were left open."""
    _check_kinds(proposal, proxy, rows)
    moves, weighted = proposal is not None and proposal.needs_proxy, isinstance(rows, Weighted)
    because = "" if proposal is None else proposal.no_proxy_because
    if test.reads is Reads.BY_BOUNDS and (proxy is None or because):
        excluded = "proxy=None" if proxy is None else f"proposal={proposal!r}, {because},"
        raise ValueError(f"{excluded} excludes a proxy, and {_NEEDS_PROXY}")
    if because:
        if isinstance(proxy, Taylor) or weighted:
            raise ValueError(
                f"proposal={proposal!r} does not go with a proxy, nor with rows weighted by one: "
                f"{because}. Leave out proxy= and rows=."
            )
        return _NONE
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
        return replace(_NONE, excluded=True)
    floor = _floor(test, rows)
    taken = proxy if isinstance(proxy, Taylor) else Taylor()
    if test.reads is Reads.BY_BOUNDS:
        return ProxyPlan(taken, floor, required=True, otherwise=_NEEDS_PROXY)
    needs = {"proxy=": taken is proxy, "proposal=": moves, "rows=": weighted}
    need_it = [name for name, needs_it in needs.items() if needs_it]
    if callable(bound) and not need_it:
        return _NONE  # a bound that was written for the rows is none for their remainders
    otherwise = f"To sample without a proxy leave out {', '.join(need_it)}."
    return ProxyPlan(taken, floor, required=bool(need_it), otherwise=otherwise)


def plan_pool(plan: ProxyPlan, test: AcceptanceTest, proposal: Proposal | None, name: str) -> ProxyPlan:
    """Return the plan for rows that are drawn from blocks before sampling; raise a ValueError for parts without one."""
    if test.needs_all_rows:
        raise ValueError(
            f"data= does not go with {name}: rows of blocks are drawn before sampling, and {test.needs_all_rows}. Use "
            "PenaltyMH, MinibatchBarker or MHSS."
        )
    if proposal is not None and (proposal.reads_rows or proposal.selects_coefficients):
        raise ValueError(
            f"data= does not go with proposal={proposal!r}, which reads rows in a way of its own. Leave proposal= out, "
            "or use CrankNicolson, SurrogateHMC or a walk."
        )
    if plan.proxy is None:
        raise ValueError(
            "data= needs a proxy: without one a test reads a fixed share of all rows at every draw, and they are not "
            "in memory. Leave out proxy=None, and any proposal that has none."
        )
    if plan.proxy.order == 3:
        raise ValueError("data= goes with proxies of first and second order. Use Taylor(order=2).")
    otherwise = "Rows in blocks need a proxy; a part of the rows that fits in memory can be sampled without."
    weighted = None if test.reads is Reads.BY_BOUNDS else 1.0 if plan.floor is None else plan.floor
    return replace(plan, floor=weighted, required=True, otherwise=otherwise)


def _floor(test: AcceptanceTest, rows: Uniform | Weighted | None) -> float | None:
    """Return the share of uniform draws among weighted rows, None for rows of equal weight."""
    if isinstance(rows, Uniform):
        return None
    try:
        test.with_replacement()
    except NeedsDistinctRowsError as reason:
        if rows is None:
            return None
        raise ValueError(
            f"rows=Weighted() does not go with {type(test).__name__}: {reason}. Use rows=pymc_austerity.Uniform(), or "
            "MinibatchBarker, PenaltyMH or ApproxMH."
        ) from None
    return (rows or Weighted()).floor


def _check_kinds(proposal: object, proxy: object, rows: object) -> None:
    if not (proxy is None or isinstance(proxy, Taylor) or (isinstance(proxy, str) and proxy == "auto")):
        raise TypeError(f"proxy={proxy!r} must be 'auto', None or an object such as pymc_austerity.Taylor(order=2).")
    if rows is not None and not isinstance(rows, Uniform | Weighted):
        raise TypeError(f"rows={rows!r} must be pymc_austerity.Uniform() or pymc_austerity.Weighted().")
    if proposal is not None and (isinstance(proposal, type) or not isinstance(proposal, Proposal)):
        raise TypeError(
            f"proposal={proposal!r} is not a proposal. Pass an object such as pymc_austerity.RandomWalk(scale=0.1) "
            "or pymc_austerity.AdaptiveMetropolis()."
        )
