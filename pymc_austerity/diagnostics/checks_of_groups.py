"""What the record of a run of `GroupMH` shows: both its moves, groups that stayed where they were, and what is slowest.

Decisions of single groups are not looked at again: those of all but large groups without bounds are exact.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from pymc.model import Model

from pymc_austerity.diagnostics.convergence import Mixing, chains_of, entries_of_theta
from pymc_austerity.diagnostics.density_on_rows import DensityOnRows, density_of
from pymc_austerity.diagnostics.drawn_states import drawn_states
from pymc_austerity.diagnostics.place_of_draws import judge_place, states_of_place
from pymc_austerity.diagnostics.reliability_report import Reliability, report_of
from pymc_austerity.diagnostics.results import SamplingResult, group
from pymc_austerity.diagnostics.time_allowance import Allowance
from pymc_austerity.diagnostics.verdicts import (
    CARE,
    DO_NOT_TRUST,
    ESS_PER_CHAIN,
    NOT_KNOWN,
    TRUST,
    Finding,
    finding,
    judge_acceptance,
)
from pymc_austerity.likelihood import read_model

#: Share of refreshed groups that moved; below, effects follow their law at a slower pace than they are refreshed.
_REFRESH_RATE = 0.3
#: Parameters that are named.
_NAMED = 3


def made_by_groups(idata: SamplingResult) -> bool:
    """Whether a run refreshed groups."""
    return "refresh_accept" in group(idata, "sample_stats")


def report_of_groups(
    idata: SamplingResult, model: Model, allowance: Allowance, rng: np.random.Generator
) -> Reliability:
    """Judge a run that moved groups by themselves."""
    mixing = Mixing(idata, model)
    density: list[DensityOnRows] = []

    def place() -> list[Finding]:
        data = read_model(model, model.value_vars, None, None, several=False, number_rows=True, join=True)
        n_states = states_of_place(len(data.rows), data.theta0.size)
        states = drawn_states(idata, model, data, n_states)
        found = density_of(data, 1.0, states, rng)
        if found is None:
            return []
        density.append(found)
        return judge_place(found, states, entries_of_theta(mixing, model, data)[1], None)

    findings = allowance.check(["chains"], lambda: [chains_of(mixing)])
    names = ["acceptance", "refresh", "groups", "slowest"]
    findings += allowance.check(names, lambda: _of_record(idata, mixing))
    findings += allowance.check(["location", "scale"], place)
    return report_of(findings, sum(d.passes for d in density), pd.DataFrame())


def _of_record(idata: SamplingResult, mixing: Mixing) -> list[Finding]:
    """Judge the moves of shared parameters and of groups, from what a run recorded."""
    stats, slowest = group(idata, "sample_stats"), np.nan_to_num(mixing.bulk, nan=0.0)
    return [
        judge_acceptance(float(stats["accepted"].mean())),
        _judge_refresh(float(stats["refresh_accept"].mean())),
        _judge_still([mixing.labels[k] for k in mixing.never_moved]),
        _judge_slowest({mixing.labels[k]: ess for k, ess in zip(mixing.slowest, slowest)}, mixing.values.shape[0]),
    ]


def _judge_refresh(rate: float) -> Finding:
    reason = f"Of the groups that were refreshed {rate:.1%} moved."
    remedy = "Effects go at a slower pace than they are refreshed: sample longer, or raise refreshed=."
    return finding("refresh", TRUST if rate >= _REFRESH_RATE else CARE, rate, reason, remedy)


def _judge_still(still: list[str]) -> Finding:
    if not still:
        return finding("groups", TRUST, 0.0, "Every parameter moved in every chain.", "")
    such = ", ".join(still[:_NAMED])
    reason = f"In a chain or more, {len(still):,} parameters stayed where they began, such as {such}."
    remedy = "Sample longer, or raise refreshed=, until every group had its turn several times."
    return finding("groups", DO_NOT_TRUST, len(still), reason, remedy)


def _judge_slowest(ess: dict[str, float], n_chains: int) -> Finding:
    slowest = sorted(ess, key=lambda name: ess[name])[:_NAMED]
    few = ess[slowest[0]] < ESS_PER_CHAIN * n_chains
    reason = "Fewest effective draws: " + ", ".join(f"{name} {ess[name]:,.0f}" for name in slowest) + "."
    remedy = "Where these are effects, raise refreshed=; where they are shared, tune longer; or sample longer."
    return finding("slowest", NOT_KNOWN if few else TRUST, ess[slowest[0]], reason, remedy)
