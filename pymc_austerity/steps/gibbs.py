"""Gibbs sampling of discrete variables that reads some of the factors that contain them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike
from pymc.blocking import PointType, StatsType
from pymc.exceptions import SamplingError
from pymc.model import Model
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import RandomGeneratorState, dataclass_state
from pymc.util import RandomGenerator, get_random_generator
from pytensor.graph.basic import Variable

from pymc_austerity.acceptance import SequentialT
from pymc_austerity.gibbs import Factors, Incidence, SweepOutcome, build_sweep, check_incidence, incidence_of, looks_of
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import (
    Density,
    ModelData,
    Surroundings,
    check_rows,
    compile_density,
    flatten,
    read_model,
    with_blocks,
)
from pymc_austerity.likelihood.model_arrays import ModelKey
from pymc_austerity.progress import setup_settings
from pymc_austerity.steps.checked_step import CheckedStep
from pymc_austerity.steps.description import describe_step
from pymc_austerity.steps.draw_statistics import OF_ITS_ORIGIN, DrawStats, RunningRates
from pymc_austerity.steps.options import describes_options
from pymc_austerity.user_input import model_of, variables_of


@dataclass_state
class ApproxGibbsState(StepMethodState):
    """What a chain needs to go on where it stopped."""

    rng_order: RandomGeneratorState
    rng_decide: RandomGeneratorState
    rng_rows: RandomGeneratorState
    members: np.ndarray
    model_key: ModelKey = field(metadata={"frozen": True})
    test: Any = field(metadata={"frozen": True})


@describes_options
class ApproxGibbs(CheckedStep):
    """Gibbs sampling of binary and categorical variables in a model that is a sum of many factors.

    A draw visits all variables in random order.  Each takes a new value from its conditional law, which a sequential
    t-test settles from a part of the factors that contain the variable; the other factors cancel and are not read.

    Parameters
    ----------
    vars : sequence of Variable
        Variables to draw: ``pm.Bernoulli``, or ``pm.Categorical``, which take the values 0, …, K − 1.
    factors : array_like of int, shape (F,) or (F, r), or dict from name to such an array
        For every factor the positions of the entries of the variable that it contains, filled up with −1 where there
        are fewer than r.  A dict has one table for each of several variables.
    epsilon : float, default 0.05
        Error allowed at each look, in [0, 0.5]; 0 reads all factors of a variable and draws exactly.
    batch_size : int, default 500
        Factors a look.
    observed : str or sequence of str, optional
        Name of the potential or observed variable whose entries are the factors; the one with most entries by default.
        The other terms of the model are evaluated in full.
    **options
        As of every step.

    Raises
    ------
    NotRowWiseError
        The factors do not come as a vector with one entry for each.
    ValueError
        A table that does not fit, or that leaves out a variable of a factor; a variable that is neither binary nor
        categorical; an argument out of range.

    Notes
    -----
    With S_k the sum of the log factors at value k and G_k standard Gumbel numbers, argmax_k (S_k + G_k) is a draw from
    the conditional law.  Values that are clearly behind the leader drop out, each pair being judged at `epsilon` a
    look.  With two values that is the rule: take 1 if the log odds exceed logit(u).  (Equation 43 of the paper prints
    a ratio of logarithms, which is not the same.)

    References
    ----------
    A. Korattikara, Y. Chen and M. Welling, Austerity in MCMC land: cutting the Metropolis–Hastings budget, ICML 2014,
    appendix F.

    Examples
    --------
    A field of 30 binary variables with a factor for every pair.  ``own`` picks each factor's own table:

    >>> import numpy as np, pymc as pm, pytensor.tensor as pt, pymc_austerity as pma
    >>> pairs = np.array([(i, j) for i in range(30) for j in range(i)])
    >>> values = np.random.default_rng(0).normal(0, 0.1, size=(len(pairs), 2, 2))
    >>> with pm.Model():
    ...     x = pm.Bernoulli("x", 0.5, shape=30)
    ...     table, index = pm.Data("table", values), pm.Data("index", pairs)
    ...     own = pt.arange(table.shape[0])
    ...     log_factor = pm.Potential("log_factor", table[own, x[index[:, 0]], x[index[:, 1]]])
    ...     step = pma.ApproxGibbs([x], factors=pairs, batch_size=10)
    >>> step.name
    'approx_gibbs'
    """

    name = "approx_gibbs"
    _state_class = ApproxGibbsState
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {
        "changed": (np.float64, []),
        "n_rows": (np.int64, []),
        "n_stages": (np.int64, []),
        "n_full": (np.int64, []),
        **OF_ITS_ORIGIN,
    }

    @setup_settings()
    def __init__(
        self,
        vars: Sequence[Variable],
        *,
        factors: ArrayLike | Mapping[str, ArrayLike],
        epsilon: float = 0.05,
        batch_size: int = 500,
        observed: str | Sequence[str] | None = None,
        model: Model | None = None,
        rng: RandomGenerator = None,
        initial_point: PointType | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
    ):
        model = model_of(model, type(self).__name__)
        point = model.initial_point() if initial_point is None else initial_point
        self.test = SequentialT(epsilon, batch_size)
        self.vars = variables_of(vars, model, type(self).__name__)
        self.blocked = blocked
        self._compile_kwargs = compile_kwargs
        values = [_number_of_values(model, value, point) for value in self.vars]
        data = read_model(model, self.vars, observed, point, several=False)
        self._likelihood = likelihood = data.likelihood
        self._rows, self._fixed = data.rows, data.fixed
        self._theta0, self._others0 = data.theta0, data.others0
        self._n_values = np.repeat(values, [b.stop - b.start for b in likelihood.blocks]).astype(np.int64)
        self._incidence = incidence_of(factors, likelihood.blocks, likelihood.n_rows)
        self._looks = looks_of(self._incidence, self.test.looks)
        density = compile_density(likelihood, compile_kwargs)
        check_rows(model, data, density)
        self._check_factors(density, data)
        self._compile(density)
        self.watch_data(data)
        self.start_chain(get_random_generator(rng))

    def __repr__(self) -> str:
        """Say what the step is, how it errs and what it reads."""
        n_rows, batch = self._likelihood.n_rows, self.test.batch_size
        rows = f"{n_rows:,} factors, {batch:,} or more at each look at a variable"
        return describe_step("ApproxGibbs", self.vars, self.test.error, rows)

    def start_chain(self, rng: np.random.Generator) -> None:
        """Forget the previous chain."""
        super().start_chain(rng)
        self.tune, self._rates = True, RunningRates()  # until PyMC says that tuning ends
        self.rng_order, self.rng_decide, self.rng_rows = rng.spawn(3)
        self.members = self._incidence.members.copy()

    def learn(self, data: ModelData) -> None:
        """Take up other data of the same model; raise a ValueError for other factors than the step was given."""
        self._check_factors(compile_density(self._likelihood, self._compile_kwargs), data)
        self._rows, self._fixed = data.rows, data.fixed
        self._find_data()

    def _check_factors(self, density: Density, data: ModelData) -> None:
        if len(data.rows) != self._likelihood.n_rows:
            raise ValueError(
                f"The data now have {len(data.rows)} factors, and the table that ApproxGibbs was given as factors= has "
                f"{self._likelihood.n_rows}. Which variables the factors contain is not in the data. Build the step "
                "again with a table of as many rows."
            )
        check_incidence(self._incidence, self._n_values, density, data, self._theta0, self._others0)

    def step(self, point: PointType) -> tuple[PointType, StatsType]:
        """Draw every variable once."""
        self.check_thread()
        theta = flatten(point, self._likelihood.blocks)
        outcome = self.sweep(theta, flatten(point, self._likelihood.other_blocks))
        if outcome.bad >= 0:
            raise SamplingError(
                f"No value of variable {outcome.bad} (counted through {[v.name for v in self.vars]}) has a finite "
                f"density at {dict(point)}: the model gives probability zero to all of them, or a factor is not a "
                "number. Look at the factors that contain the variable."
            )
        changed = outcome.changed / theta.size
        read = {"n_rows": outcome.n_rows, "n_stages": outcome.n_stages, "n_full": outcome.n_full}
        stats = DrawStats(changed=changed, **read, **self.of_its_origin)
        self._rates.update(stats, changed, outcome.n_rows / max(1, self.members.size), self.tune)
        return with_blocks(point, outcome.theta, self._likelihood.blocks), [stats]

    def sweep(self, theta: np.ndarray, others: np.ndarray, variables: np.ndarray | None = None) -> SweepOutcome:
        """Draw some or all variables from flat vectors of this step's variables and of all others."""
        chosen = np.arange(theta.size) if variables is None else variables
        return self._call(theta, others, self.members, chosen, (self.rng_order, self.rng_decide, self.rng_rows))

    def _call(
        self, theta: np.ndarray, others: np.ndarray, members: np.ndarray, chosen: np.ndarray, rngs: Any
    ) -> SweepOutcome:
        around = Surroundings(others, *self._data_at, 1.0, (), self._linked.links)
        factors = Factors(Incidence(self._incidence.start, members), self._looks, self._n_values)
        return SweepOutcome(*uninterrupted(self._sweep, theta, around, factors, chosen, *rngs))

    def _compile(self, density: Density) -> None:
        """Compile by drawing one variable, so that forked chains inherit the code."""
        self._linked = density.linked(self._likelihood)
        self._sweep = build_sweep(self._linked.log_prior, self._linked.both_sides)
        self._find_data()
        members, rngs = self._incidence.members.copy(), np.random.default_rng(0).spawn(3)
        self._call(self._theta0, self._others0, members, np.arange(1), rngs)

    def _find_data(self) -> None:
        """Learn where the data lie."""
        self._data_at = self._likelihood.fixed_at(self._fixed), self._likelihood.rows_at(self._rows.arrays)

    def __getstate__(self) -> dict[str, Any]:
        self.follow_data()
        # Another process compiles for itself; it gets the data, not the model that they came from.
        gone = ("_sweep", "_linked", "_data_at", "known_data", "_BlockedStep__newargs")
        return {**self.__dict__, **dict.fromkeys(gone)}

    def __reduce__(self) -> Any:
        return _revive, (type(self), self.__getstate__())


@setup_settings()
def _revive(cls: type[ApproxGibbs], state: dict[str, Any]) -> ApproxGibbs:
    step: ApproxGibbs = object.__new__(cls)
    step.__dict__.update(state)
    step._compile(compile_density(step._likelihood, step._compile_kwargs))
    return step


def _number_of_values(model: Model, value: Variable, point: PointType) -> int:
    """Return K for a variable with the values 0, …, K − 1."""
    rv = model.values_to_rvs[value]
    kind = type(rv.owner.op) if rv.owner is not None else None
    if kind is pm.Bernoulli.rv_type:
        return 2
    if kind is pm.Categorical.rv_type:
        (size,) = model.replace_rvs_by_values([rv.owner.op.dist_params(rv.owner)[0].shape[-1]])
        return int(model.compile_fn(size, inputs=model.value_vars, on_unused_input="ignore")(point))
    raise ValueError(
        f"ApproxGibbs draws pm.Bernoulli and pm.Categorical variables; {rv.name!r} is neither. Leave it out of vars= "
        "and give it to another step."
    )
