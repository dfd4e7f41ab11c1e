"""What the record of a run of `GroupMH` shows: both its moves, groups that stayed where they were, and what is slowest.

Decisions of single groups are not looked at again: those of all but large groups without bounds are exact.
"""

from __future__ import annotations

import numpy as np
from pymc.model import Model

from pymc_austerity.diagnostics.convergence import effective_draws
from pymc_austerity.diagnostics.results import SamplingResult, group, posterior_variables
from pymc_austerity.diagnostics.verdicts import CARE, DO_NOT_TRUST, ESS_PER_CHAIN, TRUST, Finding, judge_acceptance

#: Share of refreshed groups that moved; below, effects follow their law at a slower pace than they are refreshed.
_REFRESH_RATE = 0.3
#: Parameters that are named.
_NAMED = 3


def made_by_groups(idata: SamplingResult) -> bool:
    """Whether a run refreshed groups."""
    return "refresh_accept" in group(idata, "sample_stats")


def group_findings(idata: SamplingResult, model: Model) -> list[Finding]:
    """Judge the moves of shared parameters and of groups, from what a run recorded.

    Parameters
    ----------
    idata : InferenceData or DataTree
    model : pymc.Model
    """
    stats = group(idata, "sample_stats")
    draws = posterior_variables(idata, [rv.name for rv in model.free_RVs])
    found = [
        judge_acceptance(float(stats["accepted"].mean())),
        _judge_refresh(float(stats["refresh_accept"].mean())),
    ]
    still: dict[str, np.ndarray] = {}
    ess: dict[str, float] = {}
    effective = effective_draws(draws)
    for name, of in draws.items():
        values = of.transpose("chain", "draw", ...).to_numpy().reshape(of.sizes["chain"], of.sizes["draw"], -1)
        never = (values == values[:, :1]).all(axis=1).any(axis=0)
        if never.any():
            still[str(name)] = np.flatnonzero(never)
        smallest = np.nan_to_num(np.ravel(effective[name].to_numpy()), nan=0.0)
        ess |= {f"{name}[{i}]" if smallest.size > 1 else str(name): value for i, value in enumerate(smallest)}
    found.append(_judge_still(still))
    found.append(_judge_slowest(ess, draws.sizes["chain"]))
    return found


def _judge_refresh(rate: float) -> Finding:
    reason = f"Of the groups that were refreshed {rate:.1%} moved."
    remedy = "Effects go at a slower pace than they are refreshed: sample longer, or raise refreshed=."
    slow = not rate >= _REFRESH_RATE
    return Finding("refresh", CARE if slow else TRUST, rate, reason, remedy if slow else "")


def _judge_still(still: dict[str, np.ndarray]) -> Finding:
    n = sum(len(of) for of in still.values())
    if not n:
        return Finding("groups", TRUST, 0.0, "Every parameter moved in every chain.", "")
    named = ", ".join(f"{name}[{i}]" for name, of in still.items() for i in of[:_NAMED])
    return Finding(
        "groups",
        DO_NOT_TRUST,
        float(n),
        f"In a chain or more, {n:,} parameters stayed where they began, such as {named}.",
        "Sample longer, or raise refreshed=, until every group had its turn several times.",
    )


def _judge_slowest(ess: dict[str, float], n_chains: int) -> Finding:
    slowest = sorted(ess, key=lambda name: ess[name])[:_NAMED]
    few = ess[slowest[0]] < ESS_PER_CHAIN * n_chains
    return Finding(
        "slowest",
        CARE if few else TRUST,
        ess[slowest[0]],
        "Fewest effective draws: " + ", ".join(f"{name} {ess[name]:,.0f}" for name in slowest) + ".",
        "Where these are effects, raise refreshed=; where they are shared, tune longer; or sample longer."
        if few
        else "",
    )
