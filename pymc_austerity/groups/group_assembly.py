"""From a model with groups to its `GroupDecider`, and again for other data."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from pymc_austerity.acceptance import AcceptanceTest, Exact, NeedsDistinctRowsError, Reads, ScalableSubsampling
from pymc_austerity.groups.group_costs import choose_carried_rows, rest_of_draw, share_refreshed
from pymc_austerity.groups.group_decider import GroupDecider
from pymc_austerity.groups.group_density import check_groups
from pymc_austerity.groups.group_model import GroupModel
from pymc_austerity.groups.group_preparation import prepare_groups, weigh_groups
from pymc_austerity.groups.group_search import GroupSearch
from pymc_austerity.groups.grouping import Groups
from pymc_austerity.groups.prepared_groups import PreparedGroups
from pymc_austerity.kernel import pack_generators
from pymc_austerity.likelihood import Density, ModelData
from pymc_austerity.progress import Phases
from pymc_austerity.proxy import with_kinks_rounded
from pymc_austerity.rows import Weighted

#: A group with so many rows, or fewer, decides on all of them: more than that a test may save.
_FEW_ROWS = 600
#: How far kinks of rows are rounded, in standard deviations of what has the kink: a scale that all rows share tells
#: them from their rounded form.
_OF_KINKS = 0.5

#: From the decider before, learns from other data of the same types.
LearnAnew = Callable[[GroupDecider, ModelData], GroupDecider]


def assemble_groups(
    test: AcceptanceTest | None,
    share: float | None,
    compile_kwargs: dict[str, Any] | None,
    phases: Phases,
    check: Callable[[ModelData, Density], None],
    data: ModelData,
    groups: Groups,
) -> tuple[GroupDecider, LearnAnew]:
    """Compile a model, learn from all rows, and put the moves together; return what learns anew from other data, too.

    Without a `test` the carried move is decided as `choose_carried_rows` finds best; one that reads by bounds decides
    on all rows where none are known.  `share` is that of the groups that are refreshed a draw, None for what pays;
    `check` is called with the compiled rows of the model.
    """
    with phases("Compiling the likelihood"):
        start = np.concatenate([data.theta0, data.others0])
        likelihood = with_kinks_rounded(data.likelihood, data.rows, data.fixed, start, _OF_KINKS)
        model = GroupModel(likelihood, groups, test is None or test.reads.a_part, compile_kwargs)
        check(data, model.density)
        check_groups(data, groups, model.density, model.prior)
    with phases("Learning from all rows", has_bars=True):
        learnt = _learn(data, model, test, phases.shown)

    def complete(learnt: tuple[PreparedGroups, AcceptanceTest], fixed: tuple[np.ndarray, ...]) -> GroupDecider:
        found, chosen = learnt
        few = max(_FEW_ROWS, 0 if chosen.reads.a_part else len(found.rows))
        n_refreshed = _groups_refreshed(found, chosen, few, share)
        decider = GroupDecider(model, chosen, few, n_refreshed, data.theta0, data.others0, fixed, found)
        _warm_up(decider)
        return decider

    with phases("Compiling the moves"):
        decider = complete(learnt, data.fixed)
    # The moves are compiled once, as which rows there are to draw, and how often, is not in them.
    return decider, lambda _, changed: complete(_learn(changed, model, test, phases.shown), changed.fixed)


def _learn(
    data: ModelData, model: GroupModel, test: AcceptanceTest | None, progressbar: bool
) -> tuple[PreparedGroups, AcceptanceTest]:
    """Learn from all rows, and say how the carried move is decided."""
    search = GroupSearch.of(data, model)
    found = prepare_groups(search)
    if found.nothing_left:
        return found, ScalableSubsampling() if test is None else test
    if test is not None and test.reads is Reads.BY_BOUNDS and found.bounds is None:
        test = Exact()
    if found.costs is not None:
        cheapest, widening = choose_carried_rows(found.costs, rest_of_draw(found.expansion), len(found.rows))
        test = cheapest if test is None else test
        if found.bounds is not None:
            found = found._replace(bounds=found.bounds._replace(widening=widening))
    assert test is not None
    if test.reads.a_part and test.reads is not Reads.BY_BOUNDS:
        with suppress(NeedsDistinctRowsError):  # of a test that reads each row once
            test.with_replacement()
            found = weigh_groups(found, search, Weighted().floor, progressbar)
    return found, test


def _groups_refreshed(found: PreparedGroups, test: AcceptanceTest, few: int, share: float | None) -> np.ndarray:
    """Return how many groups of each turn a draw refreshes: a share of them, or as many as pay."""
    if share is None:
        carried = rest_of_draw(found.expansion) + (0 if test.reads.a_part else len(found.rows))
        share = share_refreshed(found.rows_refreshed(test, few), carried)
    return np.maximum(1, np.round(share * np.diff(found.turns.start)).astype(np.int64))


def _warm_up(decider: GroupDecider) -> None:
    """Compile by making all moves once, so that forked chains inherit the code."""
    rng = np.random.default_rng(0)
    start, generators = decider.start(rng), pack_generators(*rng.spawn(3))
    decider.move(start, decider.data(), decider.new_state(), decider.looks_of_large(), generators)
