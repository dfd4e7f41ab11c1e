"""From the arguments of a step to what a chain runs: the model read, all rows learnt from, the moves compiled."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from pymc.blocking import PointType
from pymc.model import Model
from pytensor.graph.basic import Variable

from pymc_austerity.acceptance import AcceptanceTest, Reads
from pymc_austerity.blocks import Blocks, BlockTable
from pymc_austerity.bounds import Bound, Unbounded, find_bound
from pymc_austerity.groups import GroupChain, ModelWithGroups, as_rows_read
from pymc_austerity.groups.group_decider import described, expected_rows
from pymc_austerity.kernel import Chain, Decider, Parts, Schedule, TunedState, as_schedule, assemble, with_data
from pymc_austerity.kernel.chain import AnyChain
from pymc_austerity.likelihood import Density, ModelData, check_rows, read_model
from pymc_austerity.likelihood.jumps import require_seen_jumps
from pymc_austerity.progress import Phases
from pymc_austerity.proposals import Proposal
from pymc_austerity.proxy import ProxyPlan
from pymc_austerity.rows import Uniform, Weighted
from pymc_austerity.steps.defaults import ProxyChoice, plan_pool, plan_proxy
from pymc_austerity.steps.description import (
    mention_row_deterministics,
    warn_of_estimated_matrices,
    warn_of_indicators,
    warn_of_local_scales,
)
from pymc_austerity.steps.draw_statistics import OF_A_DRAW, OF_GROUPS, OF_MERGED_ROWS
from pymc_austerity.steps.first_look import look_ahead
from pymc_austerity.steps.groups_of_step import (
    GroupPlan,
    describe_groups,
    hint_at_groups,
    say_one_decision,
    warn_of_few_draws,
)
from pymc_austerity.steps.pooled import check_bound, describe_pool, open_table
from pymc_austerity.tried_setup import once
from pymc_austerity.unsupported_model import UnsupportedModelError

_log = logging.getLogger("pymc_austerity")

#: Draws in which a chain on the surrogate is tuned: `docs/which_step.md` has the table.
_TUNING_DRAWS = 300


class Given(NamedTuple):
    """The arguments of a step that decide what it samples and how, see `RowStep`."""

    made_by: str  # name of the class of the step
    test: AcceptanceTest
    variables: Sequence[Variable]
    proposal: Proposal | None
    proxy: ProxyChoice
    rows: Uniform | Weighted | None
    data: Blocks | None
    observed: str | Sequence[str] | None
    merge_rows: bool
    temperature: Schedule
    tune: bool
    initial_point: PointType | None
    compile_kwargs: dict[str, Any] | None
    bound: str | Callable[..., Any] | None
    by_groups: GroupPlan | None

    def chosen_for_one_decision(self, model: Model) -> list[str]:
        """Return the arguments that do not go with moves of groups; a proposal says how all is moved."""
        defaults = {
            "vars=": len(self.variables) == len(model.value_vars),
            "proxy=": isinstance(self.proxy, str),
            "rows=": self.rows is None,
            "data=": self.data is None,
            "merge_rows=": self.merge_rows,
            "temperature=": self.temperature == as_schedule(1.0),
            "bound=": not callable(self.bound),
        }
        return [argument for argument, is_default in defaults.items() if not is_default]


class Built(NamedTuple):
    """What the chains of a step run, and what is known of it."""

    decider: Any  # a `Decider` or a `GroupDecider`
    data: ModelData  # learnt from
    chain: type[AnyChain]
    learn_anew: Callable[[Any, ModelData], Any]  # from the decider before and other data of the model
    stats: dict[str, Any]  # type and shape of each statistic of a draw
    tuning_draws: int | None  # that PyMC takes where ``tune=`` is not given; None for its own number
    expected: tuple[float, bool]  # rows that a draw reads, and whether that is the least
    table: BlockTable | None = None  # of rows in blocks, in whose place the model has an example


class OneDecision:
    """How a decision over all variables is built and what it will read; `MHSS` has a way of its own."""

    def find_bound(self, bound: str | Callable[..., Any], data: ModelData) -> Bound:
        """Return the bound on rows that the argument ``bound=`` asks for."""
        return find_bound(bound, data)

    def assemble(self, parts: Parts, check: Callable[[Density], None], phases: Phases) -> Decider:
        """Compile the decision."""
        return assemble(parts, check, phases)

    def expected_rows(self, decider: Decider, tried: float | None) -> tuple[float, bool]:
        """Return the rows that a draw reads, those `tried` or of the first look, and whether that is the least."""
        if tried is not None:
            return tried, False
        return float(decider.test.looks(decider.n_rows).sizes[0]), decider.test.reads is Reads.BATCHES


def build(model: Model, given: Given, one: OneDecision, phases: Phases) -> Built:
    """Read a model, learn from all rows, and compile the moves of its groups or one decision over all variables."""
    plan = plan_proxy(given.test, given.proposal, given.proxy, given.rows, given.bound)
    if given.data is not None:
        plan = plan_pool(plan, given.test, given.proposal, given.made_by)
    chosen, by_groups = given.chosen_for_one_decision(model), given.by_groups
    to_groups = by_groups is not None and given.proposal is None and not chosen
    # Rows that come from elsewhere are those of one table, and each is one.
    found = None
    with phases("Reading the model"):
        at = given.variables, given.observed, given.initial_point
        example = read_model(model, *at, several=given.data is None, number_rows=to_groups, join=given.data is None)
        if by_groups is not None and to_groups:
            found = by_groups.find(model, example, given.observed, given.initial_point, given.made_by)
    built = None if found is None else _groups(found, given, example, phases)
    if built is None:
        whole = given.data is None and given.proposal is None and len(given.variables) == len(model.value_vars)
        if whole and found is None:
            because = f", as {' and '.join(chosen)} asks for it" if chosen else ""
            hint_at_groups(model, example, given.made_by, because)
        read, example = _read_by_rows(model, example, given) if to_groups else (example.derived or model, example)
        if given.proposal is None:
            warn_of_indicators(model, given.variables, given.made_by)
        if plan.proxy is not None:
            warn_of_local_scales(read, given.made_by)
            warn_of_estimated_matrices(model, given.made_by)
        built = _one_decision(read, example, given, plan, one, phases)
    mention_row_deterministics(model, built.decider.reported.n_table)
    return built


def _groups(found: ModelWithGroups, given: Given, example: ModelData, phases: Phases) -> Built | None:
    """Compile the moves of groups; None, with the reason in the log, where they cannot be moved by themselves."""
    by_groups = given.by_groups
    assert by_groups is not None
    try:
        decider, learn_anew = by_groups.assemble(found, given.compile_kwargs, phases)
    except UnsupportedModelError as error:
        if by_groups.required or example.one_entry_a_row is not None:
            raise
        say_one_decision(given.made_by, error)
        return None
    groups = describe_groups(found.groups)
    _log.info(f"{given.made_by} finds {groups}; set up in {phases}. {described(decider)}")
    if by_groups.test is not None and by_groups.test.reads is Reads.BY_BOUNDS and not decider.test.reads.a_part:
        _log.warning(
            f"{given.made_by} reads all {decider.n_rows:,} rows at every draw, to be exact, where PenaltyMH() reads "
            f"a part: {decider.prepared.without_bounds.rstrip('.')}."
        )
    warn_of_few_draws(decider, given.made_by, found.data.coordinates.replaced)
    tuning_draws = _tuning_draws(given.temperature, on_surrogate=not decider.prepared.rough)
    expected = expected_rows(decider)
    return Built(decider, found.data, GroupChain, learn_anew, OF_GROUPS, tuning_draws, expected)


def _read_by_rows(model: Model, example: ModelData, given: Given) -> tuple[Model, ModelData]:
    """Return a model in terms of what its rows read: of ``tau * z`` that is multiplied by a matrix, in place of z."""
    found = once("as rows read", (example,), lambda: as_rows_read(model, example, given.observed))
    if found is None:
        return example.derived or model, example
    names = ", ".join(found[1].coordinates.replaced)
    _log.info(f"{given.made_by} moves what the rows read in place of {names}, as its scale is estimated too.")
    return found


def _one_decision(
    model: Model, example: ModelData, given: Given, plan: ProxyPlan, one: OneDecision, phases: Phases
) -> Built:
    """Compile a decision over all variables, and try a few transitions of it."""
    own = given.data is None
    example = once("merged", (example,), example.merged) if given.merge_rows and own else example
    table = example.rows if given.data is None else open_table(given.data, model, example, phases.shown)
    try:
        bound = Unbounded() if given.bound is None else one.find_bound(given.bound, example)
        if not own:
            check_bound(bound, given.made_by)
        parts = Parts(
            example.likelihood, table, example.fixed, example.theta0, example.others0, given.test, given.proposal,
            plan, bound, given.temperature, given.tune, given.compile_kwargs, phases.shown, given.made_by,
            example.coordinates,
        )  # fmt: skip
        decider = one.assemble(parts, partial(check_rows, model, example), phases)
    except UnsupportedModelError:
        if isinstance(table, BlockTable):  # of rows in memory this is known already
            example.require_finite_pieces(table.pieces(), table.passes.place)
        if given.bound is not None:  # a step without bounds would not do either
            at = example.theta0, example.others0
            require_seen_jumps(example.likelihood, table, example.fixed, *at, None, given.made_by)
        raise
    _require_seen_jumps(decider, given)
    _log.info(f"{given.made_by} set up in {phases}.")
    if not decider.row_source.complete:
        _log.info(describe_pool(decider))
    merged = {} if example.likelihood.counts is None else OF_MERGED_ROWS
    stats = {**OF_A_DRAW, **TunedState(decider).stats_dtypes_shapes, **merged}
    expected = one.expected_rows(decider, look_ahead(decider, given.made_by))
    tuning_draws = _tuning_draws(given.temperature, on_surrogate=decider.parts.prepared is not None)
    blocks = table if isinstance(table, BlockTable) else None  # the rows in the model are an example
    return Built(decider, example, Chain, with_data, stats, tuning_draws, expected, blocks)


def _require_seen_jumps(decider: Decider, given: Given) -> None:
    """Refuse rows that jump where a test takes the noise of a batch from the batch."""
    parts, test = decider.parts, decider.test
    by_noise = test.reads is Reads.BATCHES and not test.broken_bound
    if by_noise and test.looks(decider.n_rows).sizes[0] < decider.n_rows:
        pairs = None if parts.prepared is None else parts.prepared.kept.pairs
        at = parts.theta0, parts.others0
        require_seen_jumps(parts.likelihood, parts.rows, parts.fixed, *at, pairs, given.made_by)


def _tuning_draws(temperature: Schedule, *, on_surrogate: bool) -> int | None:
    """Return the tuning draws that suffice: moves on a surrogate begin in the posterior, with its width."""
    return _TUNING_DRAWS if on_surrogate and getattr(temperature, "steps", None) is None else None
