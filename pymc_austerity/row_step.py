"""The part that all step methods share: from a model to a compiled transition, and from its outcome to a draw."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from multiprocessing import parent_process
from typing import Any, ClassVar

import numpy as np
from pymc.blocking import PointType, StatsType
from pymc.exceptions import SamplingError
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
from pymc_austerity.kernel import (
    BAD_BOUND,
    BAD_PRIOR,
    DECIDED,
    Density,
    Outcome,
    build_transition,
    compile_density,
    compile_remainder_density,
    numba_options,
)
from pymc_austerity.likelihood import Block, DataSource, RowLikelihood, flatten, row_likelihood
from pymc_austerity.model_moves import ModelProposal, Setting
from pymc_austerity.preparation import NoProxyError, Prepared, prepare
from pymc_austerity.progress import DrawStats, RunningRates, progress_columns, progress_fields
from pymc_austerity.proposals import AdaptiveMetropolis, Proposal, RandomWalk
from pymc_austerity.proxy import Taylor
from pymc_austerity.row_check import check_rows
from pymc_austerity.rows import Rows, RowSource, Uniform
from pymc_austerity.surrogate import SurrogateState, compile_surrogate
from pymc_austerity.surrogate_moves import CrankNicolson, SurrogateHMC
from pymc_austerity.temperature import Schedule, as_schedule
from pymc_austerity.watch import Watch
from pymc_austerity.weights import Weighted, WeightedRows, for_weighted_rows

SurrogateMove = SurrogateHMC | CrankNicolson

_log = logging.getLogger("pymc_austerity")

#: Above this many parameters a dense proposal covariance costs more than it gains by default.
_MAX_DENSE = 200
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
    proposal : Proposal or None
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
        proposal: Proposal | SurrogateMove | ModelProposal | None = None,
        proxy: Taylor | None = None,
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
        _require_proposal(proposal, proxy)
        _require_rows(rows, proxy)
        if bound is not None and (proxy is not None or isinstance(rows, Weighted)):
            raise ValueError(
                "A concentration bound needs rows drawn uniformly and a limit on |log p(row | θ′) − log p(row | θ)| "
                "itself; a proxy leaves a remainder without a known limit, and weighted rows change the mean that "
                "is bounded. Leave out proxy= and rows=, or use MinibatchBarker or PenaltyMH."
            )
        point = model.initial_point() if initial_point is None else initial_point
        self.vars = model.value_vars if variables is None else get_value_vars_from_user_vars(variables, model)
        weighted = isinstance(rows, Weighted)
        self.test = for_weighted_rows(test) if weighted else test
        self.temperature = as_schedule(temperature)
        self.blocked = blocked
        self.tune = tune
        self._adapts = tune
        self._compile_kwargs = compile_kwargs
        likelihood, source, terms = row_likelihood(model, self.vars, observed, point)
        self._likelihood: RowLikelihood = likelihood
        self._bound: Bound = Unbounded() if bound is None else find_bound(bound, model, terms, likelihood)
        self._source: DataSource | None = source
        self._rows = Rows(source.row_arrays())
        self._seen = source.current()
        self._bound_constants = self._bound.constants()
        self._fixed = source.fixed_arrays()
        self._theta0 = flatten(point, likelihood.blocks)
        self._others0 = flatten(point, likelihood.other_blocks)
        self._given_proposal = proposal
        self._proxy, self._floor = proxy, rows.floor if isinstance(rows, Weighted) else None
        density = compile_density(likelihood, compile_kwargs)
        check_rows(model, terms, likelihood, density, self._rows, self._fixed, point)
        self._prepared = self._prepare(density)
        self._transition: Callable[..., Any] = self._compile(density)
        self.start_chain(get_random_generator(rng))
        remember_step(model, self)

    def start_chain(self, rng: np.random.Generator) -> None:
        """Forget the previous chain: same generator, same draws, whatever ran before in this process."""
        self._read_data()
        self.tune = self._adapts  # PyMC's parallel sampler takes it for granted
        self.rng = rng
        self.rng_propose, self.rng_decide, self.rng_rows = rng.spawn(3)
        self.walk = self.new_walk()
        self.n_steps = 0
        self._start = self._overdispersed_start()
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
            self._stop_at(point, outcome)
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
                self.rng_propose,
                self.rng_decide,
                self.rng_rows,
                self._bound_constants,
                self.expansion,
            )
        )

    def _compile(self, density: Density) -> Callable[..., Any]:
        """Compile the transition by running it once on a few rows, so that forked chains inherit the code."""
        arrays = tuple(a[:_WARM_UP_ROWS] for a in self._rows.arrays)
        self.proposal = self._bind_proposal()
        self.row_source = self._row_source()
        if self._prepared is not None:
            options = numba_options(self._compile_kwargs)
            density = compile_remainder_density(density, self._likelihood, self._prepared.order, **options)
        ndims = tuple(a.ndim for a in arrays)
        self.density, self._evaluate_bound = density, self._bound.build(density, ndims)
        transition = build_transition(density, ndims, self.proposal, self.test, self.row_source, self._evaluate_bound)
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
            *np.random.default_rng(0).spawn(3),
            self._bound_constants,
            self.expansion,
        )
        self.proposal.adapt(walk, self._theta0, False)
        return transition

    def _prepare(self, density: Density) -> Prepared | None:
        """Learn what the proxy needs from all rows; without a proxy, nothing."""
        if self._proxy is None:
            return None
        try:
            return prepare(
                self._likelihood,
                density,
                self._proxy,
                self._rows,
                self._fixed,
                np.concatenate([self._theta0, self._others0]),
                float(self.temperature.final),
                self._floor,
                self._compile_kwargs,
                True,
            )
        except NoProxyError as error:
            raise ValueError(
                f"proxy={self._proxy} cannot be built for this model: {error}. Sample with proxy=None, or NUTS."
            ) from error

    @property
    def expansion(self) -> Any:
        """The expansion of the proxy; nothing without one."""
        return () if self._prepared is None else self._prepared.expansion

    @property
    def has_proxy(self) -> bool:
        """Whether the test sees remainders in place of the row log-likelihoods."""
        return self._prepared is not None

    @property
    def setup_passes(self) -> float:
        """Passes over all rows before the first draw."""
        return 0.0 if self._prepared is None else self._prepared.passes

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
        args = (self._bound_constants, theta_new, theta, others, *self.data)
        return float(self._evaluate_bound(*args)[0])

    def describe(self) -> str:
        """Return the settings that decide what the step does, in a line."""
        names = ", ".join(b.name for b in self._likelihood.blocks)
        source = "Uniform()" if self._floor is None else f"Weighted(floor={self._floor})"
        return (
            f"{type(self).__name__} on {names} with {self.test}, {self._given_proposal or 'the default proposal'}, "
            f"proxy={self._proxy}, rows={source}, temperature={self.temperature}"
        )

    def _bind_proposal(self) -> Proposal:
        given = self._given_proposal
        options = numba_options(self._compile_kwargs)
        if isinstance(given, ModelProposal):
            return given.for_model(Setting(self._likelihood, self._prepared, self.test.probability(0.0), options))
        if self._prepared is not None and (given is None or isinstance(given, SurrogateMove)):
            surrogate = compile_surrogate(self._likelihood, options)
            move = given or SurrogateHMC()
            return move.bind(surrogate, self._prepared.move, self._prepared.normal, self.test.probability(0.0))
        assert not isinstance(given, SurrogateMove)
        return given or _default_proposal(self._theta0.size)

    def _row_source(self) -> RowSource:
        if self._prepared is not None and self._prepared.table is not None:
            return WeightedRows(self._prepared.table)
        return self.test.rows

    def _overdispersed_start(self) -> np.ndarray | None:
        """Draw a start twice as far from the centre as a draw would be, so that R-hat can tell chains apart."""
        if self._prepared is None:
            return None
        draws = self._prepared.draws
        mean = draws.mean(axis=0)
        return mean + 2 * (draws[self.rng_propose.integers(len(draws))] - mean)

    def new_walk(self) -> Any:
        """Return the state of the proposal at the start of a chain."""
        discrete = np.zeros(self._theta0.size, dtype=bool)
        for block in self._likelihood.blocks:
            discrete[block.start : block.stop] = np.dtype(block.dtype).kind in "iub"
        return self.proposal.state(self._theta0, discrete, len(self._rows))

    def _read_data(self) -> None:
        """Take up what ``pm.set_data`` changed since the last chain."""
        if self._source is not None:
            self._fixed = self._source.fixed_arrays()
            current = self._source.current()
            if any(new is not old for new, old in zip(current, self._seen, strict=True)):
                self._rows, self._seen = Rows(self._source.row_arrays()), current
                self._bound_constants = self._bound.constants()
                if self._proxy is not None:
                    density = compile_density(self._likelihood, self._compile_kwargs)
                    self._prepared = self._prepare(density)
                    self._transition = self._compile(density)
        self._row_state = self._row_source().state(len(self._rows))
        self._stages = self.test.stages(len(self._rows))

    def _stop_at(self, point: PointType, outcome: Outcome) -> None:
        """Stop at a point without a finite density, keeping what was drawn before."""
        if outcome.status == BAD_BOUND:
            raise SamplingError(
                f"Row {outcome.row} of the data changes its log-likelihood by more than the bound= of the step allows, "
                f"at the point {dict(point)} (values in the unconstrained space). The error of every decision so far "
                "is then not bounded by delta. Correct the bound, or use bound='scan'."
            )
        what = (
            "The log prior is not finite"
            if outcome.status == BAD_PRIOR
            else f"The log-likelihood of row {outcome.row} is not finite"
        )
        message = (
            f"{what} at the current point {dict(point)} (values in the unconstrained space). "
            "Either the chain starts where the model has no density (see initvals= of pm.sample), or the point was "
            "accepted by batches without that row: the model gives some rows probability zero near its posterior. "
            "Widen the likelihood (a heavier tail, a bounded link function) or remove the row."
        )
        if self.n_steps == 0:
            raise SamplingError(message)
        # PyMC discards all draws when a step raises, but keeps them when sampling is interrupted.
        _log.error(f"{message} Sampling stops here; the draws so far are returned.")
        sampler = parent_process()
        if sampler is not None and sampler.pid is not None:
            os.kill(sampler.pid, signal.SIGINT)
        raise KeyboardInterrupt(message)

    def _progressbar_config(self, n_chains: int = 1) -> Any:
        return progress_columns(n_chains)

    def _make_progressbar_update_functions(self) -> Any:
        return (progress_fields,)

    def __getstate__(self) -> dict[str, Any]:
        # Another process compiles for itself; it gets the data, not the model that they came from.
        dropped = (
            "_transition", "proposal", "density", "_evaluate_bound", "row_source", "_source", "_row_state",
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


def _require_rows(rows: object, proxy: Taylor | None) -> None:
    if rows is not None and not isinstance(rows, Uniform | Weighted):
        raise TypeError(f"rows={rows!r} must be pymc_austerity.Uniform() or pymc_austerity.Weighted().")
    if isinstance(rows, Weighted) and proxy is None:
        raise ValueError(
            "rows=Weighted() weighs rows by what a proxy leaves of them, and there is no proxy. "
            "Add proxy=pymc_austerity.Taylor(), or use rows=pymc_austerity.Uniform()."
        )


def _require_proposal(proposal: object, proxy: Taylor | None) -> None:
    if isinstance(proposal, SurrogateMove):
        if proxy is None:
            raise ValueError(
                f"proposal={proposal!r} moves on a surrogate that a proxy defines, and there is none. "
                "Add proxy=pymc_austerity.Taylor(), or use pymc_austerity.AdaptiveMetropolis()."
            )
        return
    if proposal is not None and not isinstance(proposal, Proposal | ModelProposal):
        raise TypeError(
            f"proposal={proposal!r} is not a proposal. Pass an object such as pymc_austerity.RandomWalk(scale=0.1) "
            "or pymc_austerity.AdaptiveMetropolis()."
        )


def _default_proposal(dimension: int) -> Proposal:
    return AdaptiveMetropolis() if dimension <= _MAX_DENSE else RandomWalk()


def _with_blocks(point: PointType, theta: np.ndarray, blocks: Sequence[Block]) -> PointType:
    """Return `point` with the variables of the step replaced."""
    moved: Mapping[str, np.ndarray] = {b.name: theta[b.start : b.stop].reshape(b.shape).astype(b.dtype) for b in blocks}
    return {**point, **moved}
