"""PyMC's contract for all steps that read rows: a chain of a `Decider`, a draw at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from copy import deepcopy
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

from pymc_austerity.acceptance import DECIDED, AcceptanceTest, Reads
from pymc_austerity.argument_kinds import is_whole
from pymc_austerity.blocks import Blocks, BlockTable
from pymc_austerity.bounds import Bound, Unbounded, find_bound
from pymc_austerity.diagnostics import Watch, remember
from pymc_austerity.groups import Coordinates, GroupChain, GroupDecider, LearnAnew
from pymc_austerity.kernel import (
    TRANSITIONS,
    Ahead,
    Chain,
    Decider,
    Parts,
    Schedule,
    TunedState,
    as_schedule,
    assemble,
    with_data,
)
from pymc_austerity.likelihood import Density, ModelData, check_rows, flatten, read_model
from pymc_austerity.likelihood.model_arrays import ModelKey
from pymc_austerity.log import follows_progressbar
from pymc_austerity.progress import Phases
from pymc_austerity.proposals import Proposal
from pymc_austerity.rows import Uniform, Weighted
from pymc_austerity.steps.checked_step import CheckedStep
from pymc_austerity.steps.defaults import ProxyChoice, plan_pool, plan_proxy
from pymc_austerity.steps.description import describe_rows, describe_step
from pymc_austerity.steps.draw_statistics import (
    GROUPS,
    OF_A_DRAW,
    OF_GROUPS,
    OF_MERGED_ROWS,
    OF_SEVERAL,
    RunningRates,
    statistics_of,
)
from pymc_austerity.steps.first_look import look_ahead
from pymc_austerity.steps.groups_of_step import GroupPlan, describe_groups, hint_at_groups, say_one_decision
from pymc_austerity.steps.local_scales import warn_of_local_scales
from pymc_austerity.steps.pooled import SharesTaken, check_bound, describe_pool, open_table
from pymc_austerity.steps.process import end_with_parent, revive, stopped_chain
from pymc_austerity.steps.row_deterministics import mention_row_deterministics
from pymc_austerity.tried_setup import once
from pymc_austerity.unsupported_model import UnsupportedModelError
from pymc_austerity.user_input import model_of, variables_of

_log = logging.getLogger("pymc_austerity")

#: Draws in which a chain on the surrogate is tuned: `docs/which_step.md` has the table.
_TUNING_DRAWS = 300


@dataclass_state
class RowStepState(StepMethodState):
    """What a chain needs to go on where it stopped."""

    tune: bool
    chain: Any
    model_key: ModelKey = field(metadata={"frozen": True})
    test: Any = field(metadata={"frozen": True})
    temperature: Any = field(metadata={"frozen": True})


class RowStep(CheckedStep):
    """A step method whose acceptance test reads rows of the data.

    Not meant to be used itself: `ApproxMH` and its siblings choose the test.  The step makes one decision over all its
    variables, or moves the groups of a model by themselves.

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
    by_groups : GroupPlan or None
        How groups are moved by themselves; None for one decision.

    Attributes
    ----------
    decider : Decider or GroupDecider
        Test, proposal, rows and density, compiled.
    chain : Chain or GroupChain
        The chain that runs, or ran last.
    setup_seconds : dict
        Wall seconds of each phase of building the step.
    tuned_before : NamedTuple or None
        The state of the proposal that chains begin with, as an earlier chain had tuned it.
    """

    name = "row_step"
    _state_class = RowStepState
    decider: Any
    chain: Any
    tuned_before: Any = None
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
        by_groups: GroupPlan | None = None,
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
        self.tune = self._tunes = tune
        name, required = type(self).__name__, by_groups is not None and by_groups.required
        # What does not go with moves of groups; a proposal says how all is moved.
        defaults = {
            "vars=": len(self.vars) == len(model.value_vars),
            "proxy=": isinstance(proxy, str),
            "rows=": rows is None,
            "data=": data is None,
            "merge_rows=": merge_rows,
            "temperature=": isinstance(temperature, int | float) and temperature == 1,
            "bound=": not callable(bound),
        }
        chosen = [argument for argument, is_default in defaults.items() if not is_default]
        found, table, tried = None, None, None
        with phases("Reading the model"):
            # Rows that come from elsewhere are those of one table, and each is one.
            own = data is None
            several = own and not required
            to_groups = by_groups is not None and proposal is None and not chosen
            example = once(
                "model",
                (model, *self.vars, observed, initial_point, several, to_groups),
                lambda: read_model(model, self.vars, observed, initial_point, several=several, number_rows=to_groups),
            )
            if by_groups is not None and to_groups:
                found = by_groups.find(model, example, observed, initial_point, name)
        self._learn_groups: LearnAnew | None = None
        if by_groups is not None and found is not None:
            try:
                self.decider, self._learn_groups = by_groups.assemble(found, compile_kwargs, phases)
                example, self.coordinates = found.data, found.coordinates
            except UnsupportedModelError as error:
                if required or example.one_entry_a_row is not None or found.groups.multiplied:
                    raise
                say_one_decision(name, error)
        self.setup_seconds = phases.seconds
        if self._learn_groups is not None:
            of_groups = f"{describe_groups(self.decider.groups)}; set up in {phases}. {self.decider.described}"
            _log.info(f"{name} finds {of_groups}")
            self.stats_dtypes_shapes = {}  # type: ignore[misc]
            self._declare_stats(OF_GROUPS)
        else:
            if own and proposal is None and len(self.vars) == len(model.value_vars):
                hint_at_groups(model, example, name, f", as {' and '.join(chosen)} asks for it" if chosen else "")
            if plan.proxy is not None:
                warn_of_local_scales(model, name)
            example = once("merged", (example,), example.merged) if merge_rows and own else example
            self.coordinates = Coordinates(example.likelihood.blocks)
            table = example.rows if data is None else open_table(data, model, example, phases.shown)
            known_bound = Unbounded() if bound is None else self._find_bound(bound, model, example)
            if data is not None:
                check_bound(known_bound, name)
            parts = Parts(
                example.likelihood, table, example.fixed, example.theta0, example.others0, test, proposal, plan,
                known_bound, self.temperature, tune, compile_kwargs, phases.shown, name,
            )  # fmt: skip
            tried = self._set_up_one_decision(parts, model, example, phases)
        self._declare_stats(OF_SEVERAL if self.thin > 1 else {})
        mention_row_deterministics(model, self.decider.n_table)
        self.watch_data(example)
        if isinstance(table, BlockTable):  # the rows in the model are an example
            self.model_key = self.model_key._replace(data=table.digest)
        self._expected = self._expect_rows(tried)
        _log.info(" ".join(f"{self!r}.".split()))
        self.default_tune_steps = self._tuning_that_suffices()
        self._shares = SharesTaken()
        self.start_chain(get_random_generator(rng))
        self.__dict__.pop("_BlockedStep__newargs", None)  # PyMC's, with the model in it, which would never be freed
        if not self.moves_groups:
            remember(model, self)

    def _set_up_one_decision(self, parts: Parts, model: Model, example: ModelData, phases: Phases) -> float | None:
        """Compile the decision over all variables, and return what a few transitions of it read."""
        table = parts.rows
        try:
            self.decider = self._assemble(parts, partial(check_rows, model, example), phases)
        except UnsupportedModelError:
            if isinstance(table, BlockTable):  # of rows in memory this is known already
                example.require_finite_pieces(table.pieces(), table.place)
            raise
        _log.info(f"{type(self).__name__} set up in {phases}.")
        if not self.decider.row_source.complete:
            _log.info(describe_pool(self.decider))
        self._declare_stats(TunedState(self.decider).stats_dtypes_shapes)
        self._declare_stats({} if example.likelihood.counts is None else OF_MERGED_ROWS)
        return look_ahead(self.decider, type(self).__name__)

    def _tuning_that_suffices(self) -> int | None:
        """Return the tuning draws that PyMC takes where ``tune=`` is not given; None for its own number.

        Moves on a surrogate begin in the posterior, with its width.
        """
        ends = getattr(self.temperature, "steps", None) is None
        return _TUNING_DRAWS if ends and (self.moves_groups or self.decider.prepared is not None) else None

    def __repr__(self) -> str:
        """Say what the step is, how it errs and what it reads."""
        decider = self.decider
        if self.test.reads is Reads.NONE:
            rows = f"{decider.n_rows:,} rows"
        else:
            merged = "distinct " if decider.n_rows < decider.n_table else ""
            rows = describe_rows(self.thin * self._expected[0], decider.n_rows, self._expected[1], merged)
        return describe_step(type(self).__name__, self.vars, self.error, rows)

    @property
    def error(self) -> str:
        """How the chain errs, in a few words; empty where it leaves the posterior as it is."""
        return str(self.decider.error if self.moves_groups else self.test.error)

    def _expect_rows(self, tried: float | None) -> tuple[float, bool]:
        """Return the rows that a draw reads, and whether that is the least: those of the first look.

        Parameters
        ----------
        tried : float or None
            What a few transitions read.
        """
        if self.moves_groups:
            return self.decider.expected_rows, False
        if tried is not None:
            return tried, False
        return float(self.test.looks(self.decider.n_rows).sizes[0]), self.test.reads is Reads.BATCHES

    @property
    def moves_groups(self) -> bool:
        """Whether groups are moved by themselves."""
        return isinstance(self.decider, GroupDecider)

    @property
    def method(self) -> str:
        """The names of the step and of its proposal."""
        return f"{super().method} {GROUPS if self.moves_groups else type(self.decider.proposal).__name__}"

    def _assemble(self, parts: Parts, check: Callable[[Density], None], phases: Phases) -> Decider:
        return assemble(parts, check, phases)

    def start_chain(self, rng: np.random.Generator) -> None:
        """Forget the previous chain: same generator, same draws, whatever ran before in this process."""
        end_with_parent()
        self.take_thread()
        if not self.moves_groups:
            self._shares.check(self.decider.row_source.shares, rng)
        self.follow_data()
        self.tune = self._tunes  # PyMC's parallel sampler takes it for granted
        self.rng = rng
        self.chain = GroupChain(self.decider, rng) if self.moves_groups else Chain(self.decider, rng)
        self.reset_tuning()
        alone = not self.moves_groups and not self.decider.likelihood.other_blocks
        self._ahead = Ahead(self.chain, alone=alone)
        self._tuned = None if self.moves_groups else TunedState(self.decider)
        self._of_setup: dict[str, Any] = {
            "total_rows": self.decider.n_table,
            "setup_passes": self.decider.setup_passes,
            "setup_seconds": sum(self.setup_seconds.values()),
            **self.of_its_origin,
        }
        if self.decider.likelihood.counts is not None:
            self._of_setup["distinct_rows"] = len(self.decider.rows)
        self._rates, self._n_rows = RunningRates(), self.decider.n_rows
        self._last: tuple[PointType, np.ndarray] | None = None
        self._watch = None if self.moves_groups else Watch(self.chain_length, type(self).__name__, self.thin)

    def learn(self, data: ModelData) -> None:
        """Learn from other data of the same model."""
        if self._learn_groups is None:
            self.decider = with_data(self.decider, data.rows, data.fixed)
        else:
            self.decider = self._learn_groups(data)

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
        CheckedStep.sampling_state.fset(self, state)  # type: ignore[attr-defined]

    def reset_tuning(self) -> None:
        """Take back all adaptation."""
        self.chain.reset_tuning()
        if self.tuned_before is not None:
            self.chain.state = deepcopy(self.tuned_before)

    def stop_tuning(self) -> None:
        """Freeze all adaptation."""
        self.chain.stop_tuning()
        super().stop_tuning()

    def step(self, point: PointType) -> tuple[PointType, StatsType]:
        """Make a draw from `point`: one transition while tuning, and `thin` of them afterwards."""
        self.check_thread()
        chain, ahead, tune, decider = self.chain, self._ahead, self.tune, self.decider
        theta, others = self._theta_at(point), flatten(point, decider.likelihood.other_blocks)
        if chain.n_steps == 0 and chain.start is not None and np.array_equal(theta, decider.theta0):
            theta = chain.start
            point = self.coordinates.point(point, theta)
        schedule, n = self.temperature, 1 if tune else self.thin
        if tune:
            ahead.settle()
            draw = chain.tuning_draw(theta, others, float(schedule.at(chain.n_steps)), self._tunes)
        else:
            draw = ahead.draw(n, theta, others, float(schedule.final))
        outcome = draw.outcome
        if outcome.status != DECIDED:
            point = self.coordinates.point(point, outcome.theta)
            outcome = outcome._replace(row=decider.number_in_table(outcome.row))
            told = decider.broken_bound, decider.row_called
            return point, [stopped_chain(point, outcome, chain.n_steps, tune, *told)]
        chain.n_steps += 1
        stats = statistics_of(draw, chain.decider.test)
        if self._watch is not None and self._tuned is not None:
            stats["warning"] = None if tune else self._watch.after(chain, outcome, others)
            stats.update(self._tuned.stats(chain, tune))
        stats.update(self._of_setup)
        if self.thin > 1:
            stats[TRANSITIONS] = n
        self._rates.update(stats, outcome.accepted, outcome.n_rows / (n * self._n_rows), tune)
        if not (outcome.accepted or self.moves_groups):
            return point, [stats]
        point = self.coordinates.point(point, outcome.theta)
        self._last = point, outcome.theta
        return point, [stats]

    def _theta_at(self, point: PointType) -> np.ndarray:
        """Return θ at a point; where variables are replaced, that of the last draw if the point is that draw."""
        if self.coordinates.replaced and self._last is not None:
            last, theta = self._last
            if all(np.array_equal(point[block.name], last[block.name]) for block in self.coordinates.blocks):
                return theta
        return self.coordinates.theta(point)

    def _declare_stats(self, more: dict[str, Any]) -> None:
        """Add statistics that not every step has."""
        self.stats_dtypes_shapes = {**self.stats_dtypes_shapes, **more}  # type: ignore[misc]
        self.stats_dtypes = [{name: dtype for name, (dtype, _) in self.stats_dtypes_shapes.items()}]

    def __getstate__(self) -> dict[str, Any]:
        self.follow_data()
        self._ahead.settle()
        # Another process gets the data, not the model that they came from.
        return {**self.__dict__, **dict.fromkeys(("_data", "_learn_groups", "_last", "_BlockedStep__newargs"))}

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
