"""PyMC's contract for all steps that read rows: a chain of a `Decider`, a draw at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from pymc.blocking import PointType, StatsType
from pymc.model import Model
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import RandomGenerator, get_random_generator
from pytensor.graph.basic import Variable

from pymc_austerity.acceptance import DECIDED, AcceptanceTest, Reads
from pymc_austerity.blocks import Blocks
from pymc_austerity.diagnostics import remember
from pymc_austerity.groups import GroupDecider
from pymc_austerity.kernel import Ahead, Schedule, as_schedule
from pymc_austerity.likelihood import Coordinates, ModelData, flatten
from pymc_austerity.likelihood.model_arrays import ModelKey
from pymc_austerity.log import follows_progressbar
from pymc_austerity.progress import Phases
from pymc_austerity.proposals import Proposal
from pymc_austerity.rows import Uniform, Weighted
from pymc_austerity.steps.defaults import ProxyChoice
from pymc_austerity.steps.description import describe_rows, describe_step
from pymc_austerity.steps.draw_statistics import OF_A_DRAW, OF_SEVERAL, Recorder
from pymc_austerity.steps.far_start import require_near
from pymc_austerity.steps.groups_of_step import GroupPlan
from pymc_austerity.steps.pooled import BlockStep
from pymc_austerity.steps.process import revive, stopped_chain
from pymc_austerity.steps.step_building import Given, OneDecision, build
from pymc_austerity.user_input import model_of, variables_of

_log = logging.getLogger("pymc_austerity")


@dataclass_state
class RowStepState(StepMethodState):
    """What a chain needs to go on where it stopped."""

    tune: bool
    chain: Any
    model_key: ModelKey = field(metadata={"frozen": True})
    test: Any = field(metadata={"frozen": True})
    temperature: Any = field(metadata={"frozen": True})


class RowStep(BlockStep):
    """A step method whose acceptance test reads rows of the data.

    Not meant to be used itself: `ApproxMH` and its siblings choose the `test`. The step makes one decision over all its
    variables, or moves the groups of a model by themselves, as `by_groups` has it. `bound` is how a test that needs
    |l_i| ≤ C for all rows comes by C, `one_decision` how one decision is built where that is done in a way of its own;
    the other arguments are described in `StepOptions`.
    """

    name = "row_step"
    _state_class = RowStepState
    decider: Any  # a `Decider` or a `GroupDecider`: test, proposal, rows and density, compiled
    chain: Any  # a `Chain` or a `GroupChain` of it: that which runs, or ran last
    setup_seconds: dict[str, float]  # wall seconds of each phase of building the step
    tuned_before: Any = None  # the state of the proposal that chains begin with, as an earlier chain had tuned it
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
        one_decision: OneDecision | None = None,
    ):
        name = type(self).__name__
        phases = Phases(progressbar and logging.getLogger("pymc").level <= logging.INFO)
        model = model_of(model, name)
        self.vars = variables_of(model.value_vars if variables is None else variables, model, name)
        if thin < 1:
            raise ValueError(f"thin={thin!r} must be 1 or more: the transitions that make a draw.")
        self.temperature, self.thin = as_schedule(temperature), int(thin)
        self.blocked = blocked
        self.tune = self._tunes = tune
        given = Given(
            name, test, self.vars, proposal, proxy, rows, data, observed, merge_rows, self.temperature, tune,
            initial_point, compile_kwargs, bound, by_groups,
        )  # fmt: skip
        built = build(model, given, one_decision or OneDecision(), phases)
        self.decider, self.coordinates, self._learn_anew = built.decider, built.data.coordinates, built.learn_anew
        self._make_chain = built.chain
        self.likelihood = built.data.likelihood
        # Where PyMC begins, unless it is told where to: a chain that comes from there may start elsewhere.
        begins = [] if initial_point is None else [self.coordinates.theta(model.initial_point())]
        self._begins = [built.data.theta0, *begins]
        self.setup_seconds = phases.seconds
        self.stats_dtypes_shapes = {**built.stats, **(OF_SEVERAL if self.thin > 1 else {}), **self.own_stats}  # type: ignore[misc]
        self.stats_dtypes = [{name: dtype for name, (dtype, _) in self.stats_dtypes_shapes.items()}]
        self.watch_data(built.data)
        self.watch_table(built.table)
        self._expected = built.expected
        _log.info(" ".join(f"{self!r}.".split()))
        self.default_tune_steps = built.tuning_draws
        self.start_chain(get_random_generator(rng))
        self.__dict__.pop("_BlockedStep__newargs", None)  # PyMC's, with the model in it, which would never be freed
        remember(model, self)

    def __repr__(self) -> str:
        """Say what the step is, how it errs and what it reads."""
        decider = self.decider
        if self.test.reads is Reads.NONE:
            rows = f"{decider.n_rows:,} rows"
        else:
            merged = "distinct " if decider.n_rows < decider.reported.n_table else ""
            expected, at_least = self._expected
            expected = np.inf if self.test.reads is Reads.ALL else self.thin * expected
            rows = describe_rows(expected, decider.n_rows, at_least, merged)
        return describe_step(type(self).__name__, self.vars, self.error, rows)

    @property
    def error(self) -> str:
        """How the chain errs, in a few words; empty where it leaves the posterior as it is."""
        return str(self.decider.reported.error)

    @property
    def moves_groups(self) -> bool:
        """Whether groups are moved by themselves."""
        return isinstance(self.decider, GroupDecider)

    @property
    def own_stats(self) -> dict[str, Any]:
        """Type and shape of statistics that are those of this step alone."""
        return {}

    @property
    def method(self) -> str:
        """The names of the step and of its proposal."""
        return f"{super().method} {self.decider.reported.moves}"

    def start_chain(self, rng: np.random.Generator) -> None:
        """Forget the previous chain."""
        super().start_chain(rng)
        self.tune = self._tunes  # PyMC's parallel sampler takes it for granted
        self.chain = self._make_chain(self.decider, rng)
        self.reset_tuning()
        self._ahead = Ahead(self.chain, alone=self.chain.runs_ahead and not self.likelihood.other_blocks)
        of_run = {"setup_seconds": sum(self.setup_seconds.values()), **self.of_its_origin}
        name, declared = type(self).__name__, self.stats_dtypes_shapes
        self._recorder = Recorder(self.chain, declared, of_run, name=name, thin=self.thin, length=self.chain_length)
        self._last: tuple[PointType, np.ndarray] | None = None

    def learn(self, data: ModelData) -> None:
        """Learn from other data of the same model."""
        self.decider = self._learn_anew(self.decider, data)

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
        BlockStep.sampling_state.fset(self, state)  # type: ignore[attr-defined]

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
        theta, others = _theta_at(point, self.coordinates, self._last), flatten(point, self.likelihood.other_blocks)
        if chain.n_steps == 0:
            if not any(np.array_equal(theta, begins) for begins in self._begins):
                require_near(decider, theta, others, self._begins[0], self.coordinates)
            elif chain.start is not None:
                theta = chain.start
                point = self.coordinates.point(point, theta)
        schedule = self.temperature
        if tune:
            ahead.settle()
            draw = chain.tuning_draw(theta, others, float(schedule.at(chain.n_steps)), self._tunes)
        else:
            draw = ahead.draw(self.thin, theta, others, float(schedule.final))
        outcome = draw.outcome
        if outcome.status != DECIDED:
            point = self.coordinates.point(point, outcome.theta)
            return point, [stopped_chain(point, outcome, chain.n_steps, tune, decider.reported)]
        chain.n_steps += 1
        stats = self._recorder.stats(draw, others, tune)
        if np.array_equal(outcome.theta, theta):
            return point, [stats]
        point = self.coordinates.point(point, outcome.theta)
        self._last = point, outcome.theta
        return point, [stats]

    def __getstate__(self) -> dict[str, Any]:
        self.follow_data()
        self._ahead.settle()
        # Another process gets the data, not the model that they came from.
        gone = ("known_data", "table", "_learn_anew", "_last", "_BlockedStep__newargs")
        return {**self.__dict__, **dict.fromkeys(gone)}

    def __reduce__(self) -> Any:
        return revive, (type(self), self.__getstate__())


def _theta_at(point: PointType, coordinates: Coordinates, last: tuple[PointType, np.ndarray] | None) -> np.ndarray:
    """Return θ at a point; where variables are replaced, that of the last draw if the point is that draw."""
    if last is None or coordinates.to_effects is None:
        return coordinates.theta(point)
    is_last = all(np.array_equal(point[name], last[0][name]) for name in coordinates.names)
    return last[1] if is_last else coordinates.theta(point)
