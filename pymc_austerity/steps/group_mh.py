"""A step for models with many groups: what they share moves with all of them, and each of them by itself."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from pymc.blocking import PointType, StatsType
from pymc.model import Model
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import RandomGeneratorState, dataclass_state
from pymc.util import RandomGenerator, get_random_generator
from pytensor.graph.basic import Variable

from pymc_austerity.acceptance import DECIDED, AcceptanceTest, Reads
from pymc_austerity.argument_kinds import is_number
from pymc_austerity.cholesky import NoFactorError
from pymc_austerity.groups import (
    GroupAssembly,
    GroupModeError,
    Groups,
    GroupsNotFoundError,
    adapt_shared,
    learn_shared,
    read_groups,
)
from pymc_austerity.kernel import pack_generators
from pymc_austerity.likelihood import ModelData, ModelKey, check_rows
from pymc_austerity.log import follows_progressbar
from pymc_austerity.progress import Phases
from pymc_austerity.steps.checked_step import CheckedStep
from pymc_austerity.steps.draw_progress import DrawStats, RunningRates, progress_columns, progress_fields
from pymc_austerity.steps.draw_statistics import OF_GROUPS
from pymc_austerity.steps.options import describes_options
from pymc_austerity.steps.process import end_with_parent, revive, stop_at
from pymc_austerity.unsupported_model import UnsupportedModelError
from pymc_austerity.user_input import model_of, shown, variables_of

_log = logging.getLogger("pymc_austerity")

#: What it means that a row changed by more than the bound that was read from the model.
_BROKEN_BOUND = "No draw so far is then exact: sample with GroupMH(test=pma.Exact()), and report the model."
#: Above so many shared parameters their covariance is learnt too slowly, and the numbers of each group are too many.
MOST_SHARED = 200


@dataclass_state
class GroupMHState(StepMethodState):
    """What a chain needs to go on where it stopped."""

    rng_propose: RandomGeneratorState
    rng_decide: RandomGeneratorState
    rng_rows: RandomGeneratorState
    state: Any
    n_steps: int
    tune: bool
    model_key: ModelKey = field(metadata={"frozen": True})
    test: Any = field(metadata={"frozen": True})


@describes_options
class GroupMH(CheckedStep):
    """Metropolis–Hastings for models with many groups (random effects), a move for each part of their structure.

    Groups are found in the graph of the model: a variable with an entry for each group that the rows read through an
    index, ``u[g]``, whose prior is a sum over groups given everything else.  Centred or not, one or several numbers a
    group, any such prior.  A draw moves what the groups share, with all groups carried along, and then a part of the
    groups, each of which decides for itself on its own rows.

    Parameters
    ----------
    vars : sequence of Variable, optional
        Has to name all free variables of the model, as it does by default.
    test : AcceptanceTest, optional
        How the move of what is shared is decided.  By default on a Poisson number of rows, exactly, where bounds on
        what the expansion leaves of a row are known and ask for few (as in `MHSS`); otherwise by a penalty for the
        noise of a batch (as in `PenaltyMH`), of as many rows as make an accepted move cheapest.  With ``pma.Exact()``
        everything is decided on all rows.
    refreshed : float or "auto", default "auto"
        Share of the groups that move by themselves in a draw, in (0, 1].  By default between 0.2 and 0.7: as large as
        costs at most half as much again as the carried move.
    data : None
        Refused, with what to do: groups are moved on their own rows, which blocks do not keep together.
    observed, tune, model, rng, initial_point, compile_kwargs, blocked, progressbar
        As of every step.

    Raises
    ------
    GroupsNotFoundError
        No groups are found; the message says what stands in the way of each candidate.
    NotRowWiseError, ValueError
        As in `ApproxMH`; discrete variables, an argument out of range, no centre to expand the rows around.

    Notes
    -----
    With φ all that is no group's own and u_g the parameters of a group, the log-likelihood of every group is expanded
    to second order, so that given φ the u_g are about N(m_g(φ), Σ_g(φ)).  The carried move proposes φ′ and keeps every
    z_g = Σ_g(φ)^{-1/2}(u_g − m_g(φ)); its ratio has the Jacobian Π (det Σ_g(φ′) / det Σ_g(φ))^{1/2}.  The refresh draws
    new z_g.  Shifts that no row sees (an intercept up and all effects down, one factor up and another down), and moves
    of means and scales of effects given the effects, are decided by the prior.

    Where errors are normal (``pm.Normal``, ``pm.LogNormal`` with one ``sigma`` or ``tau``, or a known one, effects
    centred) no row is read, whatever the test: the expansion, multiplied by e^{k(s − ŝ)} for a scale with logarithm s,
    is the log-likelihood, which is shown from the graph and compared with all rows.

    Elsewhere, where the remainders of rows have bounds, every group decides exactly, and most of them read no row at
    all: a row changes by at most c_i M_g, M_g the sum of the cubes of the distances of the group from its centre at
    both ends of the move, and rows are drawn and thinned as in `MHSS`.  Without bounds groups of up to 600 rows decide
    on all of them, without error, and larger ones by `test`.  The log says which of these it is.

    The centre of φ is found before sampling, by a quadrature over each group; it and the spread are learnt on while
    tuning, and kept from then on.

    Memory is a copy of the data sorted by group and O(G (K² + K R)) numbers for G groups of K parameters and R shared
    parameters that the rows read.  With several factors (crossed or nested) the groups of all are carried at once, and
    each factor is refreshed given the others; that takes an index of the rows for each further factor, and K² numbers
    for each two groups with rows in common.  Of shared parameters there may be 200; a second factor of 30 groups or
    fewer is among them, unless its rows do not hold its effects apart.

    References
    ----------
    O. Papaspiliopoulos, T. Stumpf-Fétizon and G. Zanella, Scalable Bayesian computation for crossed and nested
    hierarchical models, Electronic Journal of Statistics 17, 2023.
    Y. Yu and X.-L. Meng, To center or not to center: that is not the question, Journal of Computational and Graphical
    Statistics 20, 2011.
    E. Prado, C. Nemeth and C. Sherlock, Metropolis–Hastings with scalable subsampling, arXiv 2407.19602, 2024.
    D. M. Ceperley and M. Dewing, The penalty method for random walks with uncertain energies, Journal of Chemical
    Physics 110, 1999.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> rng = np.random.default_rng(0)
    >>> g = rng.integers(0, 50, size=5_000)
    >>> with pm.Model():
    ...     scale = pm.HalfNormal("scale")
    ...     effect = pm.Normal("effect", 0, scale, shape=50)
    ...     y = pm.Normal("y", effect[g], 1, observed=rng.normal(size=50)[g] + rng.normal(size=5_000))
    ...     idata = pm.sample(
    ...         step=pma.GroupMH(), tune=200, draws=100, chains=2, cores=1,
    ...         random_seed=1, progressbar=False, compute_convergence_checks=False,
    ...     )
    >>> bool((idata.sample_stats["n_refreshed"] == 35).all())
    True
    >>> bool(idata.sample_stats["n_rows"].mean() < 50)  # of 5,000
    True
    """

    name = "group_mh"
    _state_class = GroupMHState
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = OF_GROUPS

    @follows_progressbar
    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        test: AcceptanceTest | None = None,
        refreshed: float | str = "auto",
        data: Any = None,
        observed: str | Sequence[str] | None = None,
        tune: bool = True,
        model: Model | None = None,
        rng: RandomGenerator = None,
        initial_point: PointType | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
        progressbar: bool = True,
    ):
        phases = Phases(progressbar and logging.getLogger("pymc").level <= logging.INFO)
        if data is not None:
            raise ValueError(
                "data= does not go with GroupMH, which moves each group on its own rows and wants them together. Sort "
                "the table by group once (set_index of Dask sorts on disk), and hold it in a memory map, which "
                "GroupMH takes like any array. For few groups use PenaltyMH(data=...), with the group as an index."
            )
        model = model_of(model, type(self).__name__)
        self.vars = variables_of(model.value_vars if vars is None else vars, model, type(self).__name__)
        self.tune, self.blocked = tune, blocked
        _check_arguments(test, refreshed, self.vars, model)
        with phases("Reading the model"):
            read = read_groups(model, observed, initial_point)
            data, groups, self.coordinates = read.data, read.groups, read.coordinates
        if groups.shared.size > MOST_SHARED:
            raise GroupsNotFoundError(
                f"{groups.shared.size} parameters are not those of the {len(groups.own):,} groups of {groups.names}, "
                f"and at most {MOST_SHARED} can be moved together. Sample with pm.NUTS, or PenaltyMH where there "
                "are few groups."
            )
        if groups.shared.size == 0:
            raise GroupsNotFoundError(
                f"All parameters of the model are those of the groups of {groups.names}: there is nothing to move them "
                "with. Give their prior a mean or a scale that is estimated, or use PenaltyMH."
            )
        try:
            share = None if isinstance(refreshed, str) else refreshed
            assemble = GroupAssembly(test, share, compile_kwargs, phases, partial(check_rows, read.model))
            self.decider, self._relearn = assemble(data, groups)
        except (GroupModeError, NoFactorError) as error:
            raise UnsupportedModelError(
                f"GroupMH cannot expand the rows of this model: {str(error).rstrip('.')}. Standardise covariates, give "
                "another initial_point=, or sample with pm.NUTS."
            ) from error
        self.test = self.decider.test
        self.setup_seconds = phases.seconds
        _log.info(f"GroupMH found {_described(self.decider.groups)}; set up in {phases}. {self.decider.described}")
        self.watch_data(data)
        self._tunes = tune
        self.start_chain(get_random_generator(rng))

    def start_chain(self, rng: np.random.Generator) -> None:
        """Forget the previous chain: same generator, same draws, whatever ran before in this process."""
        end_with_parent()
        self.take_thread()
        self.follow_data()
        self.tune = self._tunes
        self.rng = rng
        self.rng_propose, self.rng_decide, self.rng_rows, rng_start = rng.spawn(4)
        self.n_steps = 0
        self.state = self.decider.new_state()
        self._start = self.decider.start(rng_start)
        self._read: Any = None
        self._packed: Any = None
        self._at: tuple[Any, Any] = None, None
        self._rates = RunningRates()

    def learn(self, data: ModelData) -> None:
        """Learn from other data of the same model."""
        self.decider = self._relearn(data)
        self.test = self.decider.test

    def reset_tuning(self) -> None:
        """Take back all adaptation."""
        self.state = self.decider.new_state()

    def stop_tuning(self) -> None:
        """Learn from the draws of the window that tuning ends in, and freeze all adaptation."""
        learn_shared(self.state.shared)
        super().stop_tuning()

    def step(self, point: PointType) -> tuple[PointType, StatsType]:
        """Move what is shared with the groups carried along, and then some of the groups."""
        self.check_thread()
        likelihood = self.decider.likelihood
        theta = self._theta_at(point)
        if self.n_steps == 0 and np.array_equal(theta, self.decider.theta0):
            theta = self._start
        if self._read is None:
            self._read = self.decider.data(), self.decider.looks_of_large()
        read, looks_of_large = self._read
        carried, refresh, walked = self.decider.move(theta, read, self.state, looks_of_large, self._generators())
        if carried.status != DECIDED or refresh.status != DECIDED:
            failed = carried
            if carried.status == DECIDED:
                failed = failed._replace(status=refresh.status, row=refresh.row)
            if failed.row >= 0:
                failed = failed._replace(row=int(self.decider.prepared.order[failed.row]))
            at = self.coordinates.point(point, theta)
            return point, [stop_at(at, failed, self.n_steps, self.tune, _BROKEN_BOUND)]
        if self.tune and self._tunes:
            shared = carried.theta[self.decider.groups.shared]
            adapt_shared(shared, bool(carried.accepted), walked, self.state.shared)
        self.n_steps += 1
        n_shifts = self.decider.n_shifts
        n_rows = carried.n_rows + refresh.n_rows
        stats = DrawStats(
            accepted=float(carried.accepted),
            walked=walked,
            n_rows=n_rows,
            n_rows_carried=carried.n_rows,
            n_rows_refreshed=refresh.n_rows,
            n_refreshed=refresh.n_groups,
            refresh_accept=refresh.n_accepted / refresh.n_groups,
            shift_accept=refresh.n_shifted / n_shifts if n_shifts else np.nan,
            n_stages=carried.n_stages + refresh.n_stages,
            full_data=carried.full_data,
            log_ratio=carried.log_ratio,
            log_ratio_sd=carried.log_ratio_sd,
            scaling=np.exp(self.state.shared.log_angle[0]),
            threshold=carried.threshold,
            setup_passes=self.decider.prepared.passes,
            setup_seconds=sum(self.setup_seconds.values()),
            **self.of_its_data,
        )
        self._rates.update(stats, carried.accepted, n_rows / likelihood.n_rows, self.tune)
        self._at = self.coordinates.point(point, refresh.theta), refresh.theta
        return self._at[0], [stats]

    def _theta_at(self, point: PointType) -> np.ndarray:
        """Return θ at a point: the one that the last draw ended with, where the point is that draw."""
        last, theta = self._at
        names = [block.name for block in self.coordinates.blocks]
        if last is not None and all(np.array_equal(point[name], last[name]) for name in names):
            return theta
        return self.coordinates.theta(point)

    def _generators(self) -> Any:
        streams = (self.rng_propose, self.rng_decide, self.rng_rows)
        if self._packed is None or self._packed[0] != streams:  # generators are equal where they are the same
            self._packed = streams, pack_generators(*streams)
        return self._packed[1]

    def _progressbar_config(self, n_chains: int = 1) -> Any:
        return progress_columns(n_chains)

    def _make_progressbar_update_functions(self) -> Any:
        return (progress_fields,)

    def __getstate__(self) -> dict[str, Any]:
        self.follow_data()
        # Another process gets the data, not the model that they came from.
        left = ("_data", "_relearn", "_read", "_packed", "_BlockedStep__newargs")
        return {**self.__dict__, **dict.fromkeys(left)}

    def __reduce__(self) -> Any:
        return revive, (type(self), self.__getstate__())


def _described(groups: Groups) -> str:
    """Return how many groups there are by each factor, and what is shared."""
    factors = [
        f"{last - first:,} groups with {size} parameter{'s' if size > 1 else ''} each"
        for first, last, size in zip(groups.first[:-1], groups.first[1:], groups.size[groups.first[:-1]], strict=True)
    ]
    left = f", among them {', '.join(groups.left)}, of few groups" if groups.left else ""
    return f"{', '.join(factors)} ({', '.join(groups.names)}) and {groups.shared.size} shared parameters{left}"


def _check_arguments(
    test: AcceptanceTest | None, refreshed: float | str, variables: Sequence[Variable], model: Model
) -> None:
    if refreshed != "auto" and not (is_number(refreshed) and 0 < float(refreshed) <= 1):
        raise ValueError(
            f"refreshed={refreshed!r} must lie in (0, 1]: it is the share of the groups that move by themselves in a "
            'draw, and a group that never does keeps its z. Use 0.2, or "auto".'
        )
    if test is not None and (isinstance(test, type) or not hasattr(test, "reads")):
        raise TypeError(f"GroupMH: test= wants a test such as pma.Exact(), and got {shown(test)}.")
    if test is not None and test.reads is Reads.BY_BOUNDS:
        raise ValueError(
            f"test={test} needs a bound on what the rows do, and none is known for moves of groups. Use the default, "
            "or pma.Exact(), which reads all rows."
        )
    left = [v.name for v in model.value_vars if v not in variables]
    if left:
        raise ValueError(
            f"GroupMH moves all variables of a model together, and vars= leaves out {left}: groups are independent "
            "only given everything else that moves. Leave vars= out, or use PenaltyMH."
        )
    discrete = [v.name for v in variables if np.dtype(v.type.dtype).kind != "f"]
    if discrete:
        raise UnsupportedModelError(
            f"{discrete} is discrete, and GroupMH expands the rows in all variables. Sum discrete variables out "
            "(pm.Mixture), or use ExactMH."
        )
