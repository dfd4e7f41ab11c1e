"""The part that all step methods share: from a model to a compiled transition, and from its outcome to a draw."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numba import NumbaPerformanceWarning
from pymc.blocking import PointType, StatsType
from pymc.model import Model, modelcontext
from pymc.stats.convergence import SamplerWarning
from pymc.step_methods.compound import BlockedStep, StepMethodState
from pymc.step_methods.state import RandomGeneratorState, dataclass_state
from pymc.util import RandomGenerator, get_random_generator, get_value_vars_from_user_vars
from pytensor.graph.basic import Variable

from pymc_austerity.acceptance import AcceptanceTest
from pymc_austerity.bounds import Bound, Unbounded, find_bound
from pymc_austerity.built_steps import remember_step
from pymc_austerity.compat import ChainSetup
from pymc_austerity.defaults import ProxyChoice, plan_proxy
from pymc_austerity.generators import pack_generators, take_packed
from pymc_austerity.impossible import stop_at
from pymc_austerity.kernel import (
    DECIDED,
    Density,
    Outcome,
    build_transition,
    compile_density,
)
from pymc_austerity.likelihood import Block, DataSource, RowLikelihood, flatten, row_likelihood
from pymc_austerity.model_moves import ModelProposal
from pymc_austerity.preparation import Prepared
from pymc_austerity.progress import DrawStats, RunningRates, progress_columns, progress_fields
from pymc_austerity.proposals import Proposal, Surroundings
from pymc_austerity.row_check import check_rows
from pymc_austerity.rows import Rows, Uniform
from pymc_austerity.step_proxy import StepProxy
from pymc_austerity.surrogate import SurrogateState
from pymc_austerity.temperature import Schedule, as_schedule
from pymc_austerity.watch import Watch
from pymc_austerity.weights import Weighted

#: Rows of the transition that compiles everything before sampling starts.
_WARM_UP_ROWS = 64


@dataclass_state
class RowStepState(StepMethodState):
    """What a chain needs to go on where it stopped."""

    tune: bool
    rng_propose: RandomGeneratorState
    rng_decide: RandomGeneratorState
    rng_rows: RandomGeneratorState
    walk: Any
    n_steps: int
    test: Any = field(metadata={"frozen": True})
    temperature: Any = field(metadata={"frozen": True})


class RowStep(ChainSetup, BlockedStep):
    """A step method whose acceptance test reads rows of the data.

    Not meant to be used itself: `ApproxMH` and its siblings choose the test.

    Parameters
    ----------
    test : AcceptanceTest
    variables : sequence of Variable or None
        Free variables to move; all by default.
    proposal : Proposal, ModelProposal or None
    proxy : Taylor, "auto" or None
    rows : Uniform, Weighted or None
    observed : str, sequence of str, or None
    temperature : float or Schedule
    tune : bool
    model, rng, initial_point, compile_kwargs, blocked
        As in every PyMC step method.
    bound : {"lipschitz", "scan"}, callable or None
        How a test that needs |l_i| ≤ C for all rows comes by C.
    """

    name = "row_step"
    default_blocked = True
    _state_class = RowStepState
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {
        "accepted": (bool, []),
        "accept": (np.float64, []),
        "n_rows": (np.int64, []),
        "n_stages": (np.int64, []),
        "full_data": (bool, []),
        "log_ratio": (np.float64, []),
        "log_ratio_sd": (np.float64, []),
        "scaling": (np.float64, []),
        "threshold": (np.float64, []),
        "setup_passes": (np.float64, []),
        "warning": (SamplerWarning, None),
    }

    def __init__(
        self,
        test: AcceptanceTest,
        variables: Sequence[Variable] | None = None,
        *,
        proposal: Proposal | ModelProposal | None = None,
        proxy: ProxyChoice = "auto",
        rows: Uniform | Weighted | None = None,
        observed: str | Sequence[str] | None = None,
        temperature: float | Schedule = 1.0,
        tune: bool = True,
        model: Model | None = None,
        rng: RandomGenerator = None,
        initial_point: PointType | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
        bound: str | Callable[..., Any] | None = None,
    ):
        model = modelcontext(model)
        plan = plan_proxy(test, proposal, proxy, rows, bound)
        point = model.initial_point() if initial_point is None else initial_point
        self.vars = model.value_vars if variables is None else get_value_vars_from_user_vars(variables, model)
        self.temperature = as_schedule(temperature)
        self.blocked = blocked
        self.tune = tune
        self._adapts = tune
        self._compile_kwargs = compile_kwargs
        likelihood, source, terms = row_likelihood(model, self.vars, observed, point)
        self._likelihood: RowLikelihood = likelihood
        self._given_test = test
        self._given_bound: Bound = Unbounded() if bound is None else find_bound(bound, model, terms, likelihood)
        self._source: DataSource | None = source
        self._rows = Rows(source.row_arrays())
        self._seen = source.current()
        self._fixed = source.fixed_arrays()
        self._theta0 = flatten(point, likelihood.blocks)
        self._others0 = flatten(point, likelihood.other_blocks)
        self._proxy = StepProxy(plan, likelihood, proposal, compile_kwargs, excluded=proxy is None)
        density = compile_density(likelihood, compile_kwargs)
        check_rows(model, terms, likelihood, density, self._rows, self._fixed, point)
        self._proxy.settle(self._given_bound, density, self._rows, self._fixed, self._theta0, self._others0)
        self._build(density)
        self.start_chain(get_random_generator(rng))
        remember_step(model, self)

    def start_chain(self, rng: np.random.Generator) -> None:
        """Forget the previous chain: same generator, same draws, whatever ran before in this process."""
        self._read_data()
        self.tune = self._adapts  # PyMC's parallel sampler takes it for granted
        self.rng = rng
        self.rng_propose, self.rng_decide, self.rng_rows, rng_start = rng.spawn(4)
        self._packed: tuple[tuple[np.random.Generator, ...], Any] | None = None
        self.walk = self.new_walk()
        self.n_steps = 0
        around = (self._others0, *self.data, float(self.temperature.final), self.expansion)
        self._start = self._proxy.start(rng_start, self.proposal, self.new_walk(), self._theta0, Surroundings(*around))
        self._rates = RunningRates()
        self._watch = Watch(self.chain_length)

    def reset_tuning(self) -> None:
        """Take back all adaptation."""
        self.walk = self.new_walk()

    def step(self, point: PointType) -> tuple[PointType, StatsType]:
        """Make one transition from `point`."""
        likelihood = self._likelihood
        theta = flatten(point, likelihood.blocks)
        if self.n_steps == 0 and self._start is not None and np.array_equal(theta, self._theta0):
            theta = self._start
            point = _with_blocks(point, theta, likelihood.blocks)
        outcome = self.transition(theta, flatten(point, likelihood.other_blocks))
        if outcome.status != DECIDED:
            stop_at(point, outcome, self.n_steps)
        if self.tune and self._adapts:
            self.proposal.adapt(self.walk, outcome.theta, outcome.accepted)
        self.n_steps += 1
        stats = DrawStats(
            accepted=outcome.accepted,
            accept=self.test.probability(outcome.log_ratio) if outcome.full_data else np.nan,
            n_rows=outcome.n_rows,
            n_stages=outcome.n_stages,
            full_data=outcome.full_data,
            log_ratio=outcome.log_ratio,
            log_ratio_sd=outcome.log_ratio_sd,
            scaling=np.exp(self.walk.log_scale[0]),
            threshold=outcome.threshold,
            setup_passes=self.setup_passes,
            warning=None if self.tune else self._watch.after(self, outcome, flatten(point, likelihood.other_blocks)),
        )
        self._rates.update(stats, outcome.accepted, outcome.n_rows / len(self._rows))
        if not outcome.accepted:
            return point, [stats]
        return _with_blocks(point, outcome.theta, likelihood.blocks), [stats]

    def transition(self, theta: np.ndarray, others: np.ndarray) -> Outcome:
        """Propose and decide from flat vectors of this step's variables and of all others."""
        temperature = float(self.temperature.at(self.n_steps) if self.tune else self.temperature.final)
        if isinstance(self.walk, SurrogateState):
            self.walk.others[:] = others
            self.walk.temperature[0] = temperature
        return Outcome(
            *self._transition(
                theta,
                others,
                self._fixed,
                self._rows.arrays,
                self._row_state,
                self.walk,
                self._stages,
                temperature,
                self._generators(),
                self._bound_constants,
                self.expansion,
            )
        )

    def _generators(self) -> Any:
        streams = (self.rng_propose, self.rng_decide, self.rng_rows)
        if self._packed is None or any(new is not old for new, old in zip(streams, self._packed[0], strict=True)):
            self._packed = streams, pack_generators(*streams)
        return self._packed[1]

    def _compile(self, density: Density) -> Callable[..., Any]:
        """Compile the transition by running it once on a few rows, so that forked chains inherit the code."""
        arrays = tuple(a[:_WARM_UP_ROWS] for a in self._rows.arrays)
        self.proposal = self._proxy.proposal(self.test, self._theta0.size)
        self.row_source = self._proxy.row_source(self.test)
        density = self._proxy.density(density, self.row_source)
        ndims = tuple(a.ndim for a in arrays)
        self.density, self._evaluate_bound = density, self._bound.build(density, ndims)
        transition = take_packed(
            build_transition(density, ndims, self.proposal, self.test, self.row_source, self._evaluate_bound)
        )
        walk = self.new_walk()
        n_rows = len(arrays[0])
        transition(
            self._theta0,
            self._others0,
            self._fixed,
            arrays,
            self.row_source.state(n_rows),
            walk,
            self.test.stages(n_rows),
            float(self.temperature.final),
            pack_generators(*np.random.default_rng(0).spawn(3)),
            self._bound_constants,
            self.expansion,
        )
        self.proposal.adapt(walk, self._theta0, False)
        return transition

    def _build(self, density: Density) -> None:
        """Learn from all rows what a proxy needs, and compile the transition that goes with it."""
        with warnings.catch_warnings():
            # Said of the transposed products in PyTensor's derivatives, about which nobody here can do anything.
            warnings.simplefilter("ignore", NumbaPerformanceWarning)
            # Nor about the derivatives of log-gamma functions, for which PyTensor calls SciPy: slower, not wrong.
            warnings.filterwarnings("ignore", "Numba will use object mode", UserWarning)
            temperature = float(self.temperature.final)
            self._proxy.prepare(density, self._rows, self._fixed, self._theta0, self._others0, temperature)
            self.test = self._proxy.test(self._given_test)
            self._bound: Bound = self._proxy.bound(self._given_bound)
            self._bound_constants = self._bound.constants()
            self._transition: Callable[..., Any] = self._compile(density)

    @property
    def expansion(self) -> Any:
        """The expansion of the proxy; nothing without one."""
        return self._proxy.expansion

    @property
    def prepared(self) -> Prepared | None:
        """What was learnt from all rows before sampling, where there is a proxy."""
        return self._proxy.prepared

    @property
    def has_proxy(self) -> bool:
        """Whether the test sees remainders in place of the row log-likelihoods."""
        return self.density.expands

    @property
    def could_have_proxy(self) -> bool:
        """Whether ``proxy=None`` excluded a proxy for which there is no obstacle in the variables or the proposal."""
        return self._proxy.could_be

    @property
    def setup_passes(self) -> float:
        """Passes over all rows before the first draw."""
        return 0.0 if self.prepared is None else self.prepared.passes

    @property
    def data(self) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
        """Data that are not indexed by row, and those that are."""
        return tuple(self._fixed), self._rows.arrays

    @property
    def likelihood(self) -> RowLikelihood:
        """The graphs of the log prior and of the rows."""
        return self._likelihood

    @property
    def is_bounded(self) -> bool:
        """Whether the test asks for a bound on the change of a row."""
        return not isinstance(self._bound, Unbounded)

    def bound_at(self, theta_new: np.ndarray, theta: np.ndarray, others: np.ndarray) -> float:
        """Return a number that no row's change of log-likelihood exceeds; infinite where none is asked for."""
        centre = () if self.prepared is None else (self.prepared.expansion.centre,)
        args = (self._bound_constants, theta_new, theta, others, (*centre, *self._fixed), self._rows.arrays)
        return float(self._evaluate_bound(*args)[0])

    def describe(self) -> str:
        """Return the settings that decide what the step does, in a line."""
        names = ", ".join(b.name for b in self._likelihood.blocks)
        return (
            f"{type(self).__name__} on {names} with {self.test}, {self._proxy.describe()}, "
            f"temperature={self.temperature}"
        )

    def new_walk(self) -> Any:
        """Return the state of the proposal at the start of a chain."""
        discrete = np.zeros(self._theta0.size, dtype=bool)
        for block in self._likelihood.blocks:
            discrete[block.start : block.stop] = np.dtype(block.dtype).kind in "iub"
        return self.proposal.state(self._theta0, discrete, len(self._rows))

    def _read_data(self) -> None:
        """Take up what ``pm.set_data`` changed since the last chain."""
        if self._source is not None:
            fixed, current = self._source.fixed_arrays(), self._source.current()
            new_rows = any(new is not old for new, old in zip(current, self._seen, strict=True))
            changed = new_rows or not all(map(np.array_equal, fixed, self._fixed))
            self._fixed = fixed
            if new_rows:
                self._rows, self._seen = Rows(self._source.row_arrays()), current
            if changed and self._proxy.plan.proxy is not None:
                self._build(compile_density(self._likelihood, self._compile_kwargs))
            elif changed:
                self._bound_constants = self._bound.constants()
        self._row_state = self.row_source.state(len(self._rows))
        self._stages = self.test.stages(len(self._rows))

    def _progressbar_config(self, n_chains: int = 1) -> Any:
        return progress_columns(n_chains)

    def _make_progressbar_update_functions(self) -> Any:
        return (progress_fields,)

    def __getstate__(self) -> dict[str, Any]:
        # Another process compiles for itself; it gets the data, not the model that they came from.
        dropped = (
            "_transition", "proposal", "density", "_evaluate_bound", "row_source", "_source", "_row_state", "_packed",
            "_BlockedStep__newargs",
        )  # fmt: skip
        return {**self.__dict__, **dict.fromkeys(dropped), "_seen": ()}

    def __reduce__(self) -> Any:
        return _revive, (type(self), self.__getstate__())


def _revive(cls: type[RowStep], state: dict[str, Any]) -> RowStep:
    step: RowStep = object.__new__(cls)
    step.__dict__.update(state)
    step._transition = step._compile(compile_density(step._likelihood, step._compile_kwargs))
    step._read_data()
    return step


def _with_blocks(point: PointType, theta: np.ndarray, blocks: Sequence[Block]) -> PointType:
    """Return `point` with the variables of the step replaced."""
    moved: Mapping[str, np.ndarray] = {b.name: theta[b.start : b.stop].reshape(b.shape).astype(b.dtype) for b in blocks}
    return {**point, **moved}
