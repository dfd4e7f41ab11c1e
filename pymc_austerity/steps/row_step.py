"""PyMC's contract for all steps that read rows: a chain of a `Decider`, a draw at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from pymc.blocking import PointType, StatsType
from pymc.model import Model
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import RandomGenerator, get_random_generator
from pytensor.graph.basic import Variable

from pymc_austerity.acceptance import DECIDED, AcceptanceTest
from pymc_austerity.argument_kinds import is_whole
from pymc_austerity.blocks import Blocks, BlockTable
from pymc_austerity.bounds import Bound, Unbounded, find_bound
from pymc_austerity.diagnostics import Watch, remember
from pymc_austerity.kernel import (
    TRANSITIONS,
    Ahead,
    Chain,
    ChainState,
    Decider,
    Parts,
    Schedule,
    TunedState,
    as_schedule,
    assemble,
    with_data,
)
from pymc_austerity.likelihood import Density, ModelData, ModelKey, check_rows, flatten, read_model, with_blocks
from pymc_austerity.log import follows_progressbar
from pymc_austerity.progress import Phases
from pymc_austerity.proposals import Proposal
from pymc_austerity.rows import Uniform, Weighted, number_in_table
from pymc_austerity.steps.checked_step import CheckedStep
from pymc_austerity.steps.data_of_step import FollowsData
from pymc_austerity.steps.defaults import ProxyChoice, plan_pool, plan_proxy
from pymc_austerity.steps.draw_progress import RunningRates, progress_columns, progress_fields
from pymc_austerity.steps.draw_statistics import OF_A_DRAW, OF_MERGED_ROWS, OF_SEVERAL, statistics_of
from pymc_austerity.steps.first_look import look_ahead
from pymc_austerity.steps.many_groups import groups_worth_a_step
from pymc_austerity.steps.pooled import SharesTaken, check_bound, describe_pool, open_table
from pymc_austerity.steps.process import end_with_parent, revive, stop_at
from pymc_austerity.unsupported_model import UnsupportedModelError
from pymc_austerity.user_input import model_of, variables_of

_log = logging.getLogger("pymc_austerity")


@dataclass_state
class RowStepState(StepMethodState):
    """What a chain needs to go on where it stopped."""

    tune: bool
    chain: ChainState
    model_key: ModelKey = field(metadata={"frozen": True})
    test: Any = field(metadata={"frozen": True})
    temperature: Any = field(metadata={"frozen": True})


class RowStep(CheckedStep):
    """A step method whose acceptance test reads rows of the data.

    Not meant to be used itself: `ApproxMH` and its siblings choose the test.

    Parameters
    ----------
    test : AcceptanceTest
    variables : sequence of Variable or None
        Free variables to move; all by default.
    proposal : Proposal or None
    proxy : Taylor, "auto" or None
    rows : Uniform, Weighted or None
    observed : str, sequence of str, or None
    merge_rows : bool
    temperature : float or Schedule
    thin : int
    tune : bool
    model, rng, initial_point, compile_kwargs, blocked, progressbar
        Described in `StepOptions`.
    bound : {"lipschitz", "scan"}, callable or None
        How a test that needs |l_i| ≤ C for all rows comes by C.
    data : Blocks or None
        Rows in place of those in the model.

    Attributes
    ----------
    decider : Decider
        Test, proposal, rows and density, compiled.
    chain : Chain
        The chain that runs, or ran last.
    setup_seconds : dict
        Wall seconds of each phase of building the step.
    """

    name = "row_step"
    _state_class = RowStepState
    _find_bound: ClassVar[Callable[..., Bound]] = staticmethod(find_bound)
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = OF_A_DRAW

    @follows_progressbar
    def __init__(
        self,
        test: AcceptanceTest,
        variables: Sequence[Variable] | None = None,
        *,
        proposal: Proposal | None = None,
        proxy: ProxyChoice = "auto",
        rows: Uniform | Weighted | None = None,
        data: Blocks | None = None,
        observed: str | Sequence[str] | None = None,
        merge_rows: bool = True,
        temperature: float | Schedule = 1.0,
        thin: int = 1,
        tune: bool = True,
        model: Model | None = None,
        rng: RandomGenerator = None,
        initial_point: PointType | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
        progressbar: bool = True,
        bound: str | Callable[..., Any] | None = None,
    ):
        phases = Phases(progressbar and logging.getLogger("pymc").level <= logging.INFO)
        model = model_of(model, type(self).__name__)
        plan = plan_proxy(test, proposal, proxy, rows, bound)
        if data is not None:
            plan = plan_pool(plan, test, proposal, type(self).__name__)
        named = model.value_vars if variables is None else variables
        self.vars = variables_of(named, model, type(self).__name__)
        self.temperature, self.thin = as_schedule(temperature), _transitions_of_a_draw(thin)
        self.blocked = blocked
        self.tune = tune
        with phases("Reading the model"):
            # Rows that come from elsewhere are those of one table, and each is one.
            own = data is None
            example = read_model(model, self.vars, observed, initial_point, merge=merge_rows and own, several=own)
        table = example.rows if data is None else open_table(data, model, example, phases.shown)
        known_bound = Unbounded() if bound is None else self._find_bound(bound, model, example)
        if data is not None:
            check_bound(known_bound, type(self).__name__)
        parts = Parts(
            example.likelihood, table, example.fixed, example.theta0, example.others0, test, proposal, plan,
            known_bound, self.temperature, tune, compile_kwargs, phases.shown, type(self).__name__,
        )  # fmt: skip
        try:
            self.decider = self._assemble(parts, partial(check_rows, model, example), phases)
        except UnsupportedModelError:
            if isinstance(table, BlockTable):  # of rows in memory this is known already
                example.require_finite_pieces(table.pieces(), table.place)
            raise
        self.setup_seconds = phases.seconds
        _log.info(f"{type(self).__name__} set up in {phases}.")
        if variables is None and data is None and (hint := groups_worth_a_step(model)):
            _log.info(hint)
        self.watch_data(example)
        if isinstance(table, BlockTable):  # the rows in the model are an example
            self.model_key = self.model_key._replace(data=table.digest)
        self._tuned, self._shares = TunedState(self.decider), SharesTaken()
        if not self.decider.row_source.complete:
            _log.info(describe_pool(self.decider))
        look_ahead(self.decider, type(self).__name__)
        self._declare_stats(self._tuned.stats_dtypes_shapes)
        self._declare_stats({} if example.likelihood.counts is None else OF_MERGED_ROWS)
        self._declare_stats(OF_SEVERAL if self.thin > 1 else {})
        self.start_chain(get_random_generator(rng))
        self.__dict__.pop("_BlockedStep__newargs", None)  # PyMC's, with the model in it, which would never be freed
        remember(model, self)

    def _assemble(self, parts: Parts, check: Callable[[Density], None], phases: Phases) -> Decider:
        return assemble(parts, check, phases)

    def start_chain(self, rng: np.random.Generator) -> None:
        """Forget the previous chain: same generator, same draws, whatever ran before in this process."""
        end_with_parent()
        self.take_thread()
        self._shares.check(self.decider.row_source.shares, rng)
        self.follow_data()
        self.tune = self.decider.parts.tune  # PyMC's parallel sampler takes it for granted
        self.rng = rng
        self.chain = Chain(self.decider, rng)
        self._ahead = Ahead(self.chain, alone=not self.decider.likelihood.other_blocks)
        self._tuned = TunedState(self.decider)
        self._of_setup: dict[str, Any] = {
            "total_rows": self.decider.n_table,
            "setup_passes": self.decider.parts.setup_passes,
            "setup_seconds": sum(self.setup_seconds.values()),
            **self.of_its_data,
        }
        if self.decider.rows.counts is not None:
            self._of_setup["distinct_rows"] = len(self.decider.rows)
        self._rates, self._n_rows = RunningRates(), self.decider.n_rows
        self._watch = Watch(self.chain_length, self.name, self.thin)

    def learn(self, data: ModelData) -> None:
        """Learn from other data of the same model."""
        self.decider = with_data(self.decider, data.rows, data.fixed)

    @property
    def test(self) -> AcceptanceTest:
        """The test of the step, for rows as they are drawn."""
        return self.decider.test

    @property
    def sampling_state(self) -> StepMethodState:
        """What a chain needs to go on where it stopped."""
        self._ahead.settle()
        return super().sampling_state

    @sampling_state.setter
    def sampling_state(self, state: StepMethodState) -> None:
        self._ahead.forget()
        FollowsData.sampling_state.fset(self, state)  # type: ignore[attr-defined]

    def reset_tuning(self) -> None:
        """Take back all adaptation."""
        self.chain.reset_tuning()

    def step(self, point: PointType) -> tuple[PointType, StatsType]:
        """Make a draw from `point`: one transition while tuning, and `thin` of them afterwards."""
        self.check_thread()
        chain, ahead, tune, likelihood = self.chain, self._ahead, self.tune, self.decider.likelihood
        theta, others = flatten(point, likelihood.blocks), flatten(point, likelihood.other_blocks)
        if chain.n_steps == 0 and chain.start is not None and np.array_equal(theta, self.decider.parts.theta0):
            theta = chain.start
            point = with_blocks(point, theta, likelihood.blocks)
        schedule = self.temperature
        if tune:
            ahead.settle()
            n, outcome = 1, chain.transition(theta, others, float(schedule.at(chain.n_steps)))
        else:
            n, (outcome, log_scale) = self.thin, ahead.draw(self.thin, theta, others, float(schedule.final))
        if outcome.status != DECIDED:
            point = with_blocks(point, outcome.theta, likelihood.blocks)
            outcome = outcome._replace(row=number_in_table(self.decider.rows, outcome.row))
            called = chain.decider.row_source.called
            told = self.test.broken_bound, called
            return point, [stop_at(point, outcome, chain.n_steps, tune, *told)]
        if tune:
            if self.decider.parts.tune:
                chain.adapt(outcome)
            log_scale = chain.state.log_scale[0]
        chain.n_steps += 1
        stats = statistics_of(outcome, log_scale, chain.decider.test)
        stats["warning"] = None if tune else self._watch.after(chain, outcome, others)
        stats.update(self._of_setup, **self._tuned.stats(chain, tune))
        if self.thin > 1:
            stats[TRANSITIONS] = n
        self._rates.update(stats, outcome.accepted, outcome.n_rows / (n * self._n_rows), tune)
        if not outcome.accepted:
            return point, [stats]
        return with_blocks(point, outcome.theta, likelihood.blocks), [stats]

    def _declare_stats(self, more: dict[str, Any]) -> None:
        """Add statistics that not every step has."""
        self.stats_dtypes_shapes = {**self.stats_dtypes_shapes, **more}  # type: ignore[misc]
        self.stats_dtypes = [{name: dtype for name, (dtype, _) in self.stats_dtypes_shapes.items()}]

    def _progressbar_config(self, n_chains: int = 1) -> Any:
        return progress_columns(n_chains)

    def _make_progressbar_update_functions(self) -> Any:
        return (progress_fields,)

    def __getstate__(self) -> dict[str, Any]:
        self.follow_data()
        self._ahead.settle()
        # Another process gets the data, not the model that they came from.
        return {**self.__dict__, **dict.fromkeys(("_data", "_BlockedStep__newargs"))}

    def __reduce__(self) -> Any:
        return revive, (type(self), self.__getstate__())


def _transitions_of_a_draw(thin: Any) -> int:
    """Return how many transitions make a draw.

    Raises
    ------
    ValueError, TypeError
        Where it is no whole number ≥ 1.
    """
    if not is_whole(thin, -np.inf):
        raise TypeError(f"thin={thin!r} must be a whole number: the transitions that make a draw, 1 by default.")
    if thin < 1:
        raise ValueError(f"thin={thin!r} must be 1 or more: the transitions that make a draw.")
    return int(thin)
