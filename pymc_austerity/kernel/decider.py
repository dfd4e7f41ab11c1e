"""The `Decider`: everything that a decision needs, compiled, as `assemble` makes it."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numba import NumbaPerformanceWarning

from pymc_austerity.acceptance import AcceptanceTest
from pymc_austerity.blocks import BlockTable
from pymc_austerity.bounds import Bound, EvaluateBound
from pymc_austerity.compile.addresses import Addresses
from pymc_austerity.compile.cache import cached
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.kernel.parts import Compiled, Parts
from pymc_austerity.kernel.repeated import RepeatedTransition
from pymc_austerity.kernel.transition import (
    OffsetOf,
    Transition,
    TransitionArguments,
    build_offset,
    build_transition,
    pack_generators,
)
from pymc_austerity.likelihood import Density, LinkedDensity, Links, Place, RowLikelihood, Surroundings, numba_options
from pymc_austerity.likelihood.density import interpret_rows
from pymc_austerity.progress import Phases
from pymc_austerity.proposals import AdaptiveMetropolis, CrankNicolson, Move, Proposal, RandomWalk, SurrogateHMC, Target
from pymc_austerity.proxy import Prepared
from pymc_austerity.proxy.preparation import Kept, NoProxyError, ToLearn
from pymc_austerity.rows import BoundTable, Rows, RowSource, Table, number_in_table
from pymc_austerity.rows.grown import GrownRows, Known, NotKnownError
from pymc_austerity.rows.weighted import AliasTable

_log = logging.getLogger("pymc_austerity")

#: Rows of the transition that compiles everything before sampling starts.
_WARM_UP_ROWS = 64
#: By how much compiled sums may differ from those of NumPy.
_RELATIVE_ERROR = 1e-6
#: Up to so many rows they are checked before they are compiled.
_FEW_ROWS = 200_000
#: Above this many parameters a dense proposal covariance costs more than it gains by default.
_MAX_DENSE = 200
#: A surrogate that accepts this share of independent draws from its normal approximation is as good as normal.
_NORMAL_ENOUGH = 0.9
#: Frames from the warning that there is no proxy to the constructor that the user calls.
_STACKLEVEL = 8


class Proposed(NamedTuple):
    """A proposal: θ′, θ, the variables of other steps, and log q(θ|θ′) − log q(θ′|θ)."""

    theta_new: np.ndarray
    theta: np.ndarray
    others: np.ndarray
    log_q_ratio: float


@dataclass(frozen=True, eq=False)
class Decider:
    """A test, a proposal and a way to draw rows, compiled for one model and its data.

    Pickled by its parts; another process compiles for itself.
    """

    parts: Parts
    test: AcceptanceTest  # for rows as they are drawn
    move: Move
    row_source: RowSource
    density: Density  # as the test sees it: remainders where there is a proxy and the test reads a part of the rows
    linked: LinkedDensity  # the same, as compiled code asks for it
    bound: Bound  # on what the test sees
    bound_constants: tuple[Any, ...]
    evaluate_bound: EvaluateBound
    offset_of: OffsetOf
    transition: Transition
    compiled: Compiled
    proposal: Proposal  # that of the parts, or the one that was chosen for them

    @cached_property
    def repeated(self) -> RepeatedTransition:
        """The compiled loop over draws and transitions."""
        return RepeatedTransition(self.transition)

    @property
    def n_rows(self) -> int:
        """N, the rows of a sum over all rows, whether or not they are all stored."""
        return self.row_source.n_rows(len(self.parts.stored))

    @property
    def n_table(self) -> int:
        """Rows of the user's data: of the table behind a pool, and each of those that were merged into one."""
        return self.parts.stored.n_table if self.row_source.complete else self.n_rows

    @property
    def setup_passes(self) -> float:
        """Passes over all rows before the first draw."""
        return 0.0 if self.parts.prepared is None else self.parts.prepared.passes

    def number_in_table(self, row: int) -> int:
        """Return the number in the user's table of a row that chains read."""
        return number_in_table(self.parts.stored, row)

    @property
    def row_called(self) -> str:
        """What a row that chains read is called in messages."""
        return self.row_source.called

    @property
    def broken_bound(self) -> str:
        """What it means that a row changed by more than its bound."""
        return self.test.broken_bound

    @cached_property
    def data_at(self) -> tuple[Addresses, Addresses]:
        """Addresses of the data that are not indexed by row, and of the rows."""
        return self.parts.likelihood.fixed_at(self.parts.fixed), self.parts.likelihood.rows_at(self.parts.stored.arrays)

    @property
    def expansion(self) -> Any:
        """The expansion of the proxy; nothing without one."""
        return () if self.parts.prepared is None else self.parts.prepared.expansion

    @cached_property
    def links(self) -> Links:
        """Addresses of the model's functions in this process."""
        links = self.linked.links._replace(**{name: r.address for name, r in self.move.reached.items()})
        if self.parts.prepared is None:
            return links
        return links._replace(prior_slope=self.compiled.surrogate.links.prior_slope)

    def surroundings(self, others: np.ndarray) -> Surroundings:
        """Return what the density depends on beside θ, at the temperature of the draws."""
        temperature = float(self.parts.temperature.final)
        return Surroundings(others, *self.data_at, temperature, self.expansion, self.links)

    def place(self, theta_new: np.ndarray, theta: np.ndarray, others: np.ndarray) -> Place:
        """Return a proposal, and what its rows are evaluated with."""
        centre = np.empty(0) if self.parts.prepared is None else self.parts.prepared.expansion.centre
        return Place(self.links, theta_new, theta, others, centre, *self.data_at)

    def new_state(self) -> Any:
        """Return the state of the proposal at the start of a chain."""
        return self.move.make_state(self.parts.theta0, is_discrete(self.parts.likelihood), self.n_table)

    def propose(self, theta: np.ndarray, others: np.ndarray, state: Any, rng: np.random.Generator) -> Proposed:
        """Propose from θ with a state of the proposal."""
        around = self.surroundings(others)
        theta_new, log_q_ratio, _ = uninterrupted(self.move.propose, rng, theta, state, around)
        return Proposed(theta_new, theta, others, float(log_q_ratio))

    def __reduce__(self) -> Any:
        return _assemble_again, (self.parts, self.test, self.bound_constants)


def assemble(parts: Parts, check: Callable[[Density], None], phases: Phases) -> Decider:
    """Compile the model, learn from all rows what the proxy needs, and put the parts together.

    `check` is called with the density before anything is learnt from it, and raises where the rows are not independent.
    Raises ValueError for parts that do not go together, or a proxy that was asked for and cannot be built.
    """
    compiled, plan = Compiled(parts), parts.plan.with_bound(parts.bound)
    # Where a proxy decides, rows themselves are evaluated now and perhaps once more.
    by_proxy = (
        plan.proxy is not None and not plan.by_statistics and parts.test.reads.a_part and len(parts.rows) <= _FEW_ROWS
    )
    with phases("Compiling the likelihood"):
        density = compiled.interpreted if by_proxy else compiled.density
        check(density)
    if compiled.selected is not None:
        at = density, parts.rows, parts.fixed, parts.theta0, parts.others0
        plan = plan.for_selected(compiled.selected, parts.bound, *at)
        bound = parts.bound.of_selected(compiled.selected.likelihood)
        parts = parts if bound is None else replace(parts, bound=bound)
    if plan is not parts.plan:
        parts = replace(parts, plan=plan)
        compiled = compiled.with_parts(parts)
    with phases("Learning from all rows", has_bars=True):
        table, parts = parts.rows, _learn(parts, compiled)
    if by_proxy and parts.prepared is not None:
        _check_sums(compiled, table, parts.fixed, parts.prepared.expansion.centre)
    elif by_proxy:
        check(compiled.density)
    with phases("Finding bounds") if parts.bound.is_asked_for else nullcontext():
        found = _find_bounds(parts)
    with phases("Compiling the transition"):
        return _complete(*found, compiled)


def with_data(decider: Decider, rows: Rows, fixed: Sequence[np.ndarray]) -> Decider:
    """Return a decider for other data of the same types; with a proxy that is learnt from them anew.

    Where rows were added to those that the decider has, only these are looked at, while the posterior stays near.
    Raises ValueError where the rows are those of a pool, for which the data of the model are an example.
    """
    if not decider.row_source.complete:
        raise ValueError(
            "pm.set_data changed the model after a step was built with data=. Its pool was drawn for the data as "
            "they were. Build the step again."
        )
    parts = replace(decider.parts, rows=rows, fixed=tuple(fixed))
    if parts.plan.proxy is not None:
        return _with_rows_added(decider, parts) or _complete(
            *_find_bounds(_learn(parts, decider.compiled)), decider.compiled
        )
    return replace(decider, parts=parts, bound_constants=decider.bound.constants(None, rows, parts.fixed))


def _with_rows_added(decider: Decider, parts: Parts) -> Decider | None:
    """Return a decider that keeps what is known of its rows; None where others are not just added, or change much."""
    rows, before, prepared = parts.stored, decider.parts.stored.arrays, decider.parts.prepared
    n, n_all = len(decider.parts.stored), len(rows)
    if prepared is None or decider.compiled.selected is not None or n_all <= n:
        return None
    same = all(map(np.array_equal, parts.fixed, decider.parts.fixed))
    known = prepared.sums_known(decider.parts.fixed)
    if known is None or not (same and all(np.array_equal(a[:n], b) for a, b in zip(rows.arrays, before, strict=True))):
        return None
    weights = prepared.table if isinstance(prepared.table, AliasTable) else None
    bounds = [c for c in decider.bound_constants if isinstance(c, BoundTable)]
    first_bounds = bounds[0] if bounds else None
    grown = GrownRows(rows.arrays, rows.first, known=Known(n, *known), weights=weights, bounds=first_bounds)
    found = _learnt_further(decider, parts, grown)
    return None if found is None else replace(found, parts=replace(found.parts, rows=rows))


def _learnt_further(decider: Decider, parts: Parts, rows: Table) -> Decider | None:
    """Return a decider that has learnt from the rows behind those that are known; None where it has to begin anew."""
    added = f"{len(rows) - rows.n_known:,} rows were added to {rows.n_known:,}"
    assert decider.parts.prepared is not None
    try:
        learnt = _learn(replace(parts, rows=rows), decider.compiled, decider.parts.prepared.kept)
    except (NoProxyError, NotKnownError) as error:
        _log.info(f"{added}: {error}, so all are learnt from anew.")
        return None
    _log.info(f"{added}, of which everything is kept; only the new ones are learnt from.")
    return _complete(*_find_bounds(learnt), decider.compiled)


def with_added_files(decider: Decider, table: BlockTable) -> tuple[Decider, BlockTable] | None:
    """Return a decider and its table with the files that were added to a folder; None where there are none.

    Only these are looked at, while the posterior stays near; otherwise all are learnt from anew.
    """
    parts, compiled = decider.parts, decider.compiled
    assert parts.prepared is not None
    known = parts.prepared.sums_known(parts.fixed)
    grown = table.with_added_files(*(known or ((), None)))
    if grown is None:
        return None
    if known is not None and (found := _learnt_further(decider, parts, grown)) is not None:
        return found, grown
    anew = table.read_anew()
    return _learnt_anew(replace(parts, rows=anew), compiled), anew


def _learnt_anew(parts: Parts, compiled: Compiled) -> Decider:
    return _complete(*_find_bounds(_learn(parts, compiled)), compiled)


def _assemble_again(parts: Parts, test: AcceptanceTest, bound_constants: tuple[Any, ...]) -> Decider:
    """Assemble a decider in another process, from what has been learnt already."""
    return replace(_complete(parts, bound_constants, Compiled(parts)), test=test)


def is_discrete(likelihood: RowLikelihood) -> np.ndarray:
    """Return which entries of θ are whole numbers."""
    discrete = np.zeros(likelihood.theta_size, dtype=bool)
    for block in likelihood.blocks:
        discrete[block.start : block.stop] = np.dtype(block.dtype).kind in "iub"
    return discrete


def _learn(parts: Parts, compiled: Compiled, kept: Kept | None = None) -> Parts:
    """Return the parts with what was learnt from all rows."""
    plan = parts.plan
    if plan.proxy is None:
        return parts
    theta0 = parts.theta0 if compiled.selected is None else compiled.selected.of(parts.theta0)
    with _quiet_compilation():
        given = ToLearn(
            compiled.read, lambda: compiled.derivatives, compiled.remainders, compiled.surrogate, parts.rows,
            parts.fixed, np.concatenate([theta0, parts.others0]), float(parts.temperature.final),
            parts.compile_kwargs, parts.progressbar, compiled.may_bend, kept,
        )  # fmt: skip
        prepared = plan.prepare(given, stacklevel=_STACKLEVEL)
    if prepared is None or prepared.table is None:
        return replace(parts, prepared=prepared)
    return replace(parts, prepared=prepared, rows=prepared.table.to_read(parts.rows))


def _check_sums(compiled: Compiled, table: Table, fixed: Sequence[np.ndarray], psi: np.ndarray) -> None:
    """Compare the compiled sum over some rows with NumPy's."""
    psi = psi[: compiled.read.psi_blocks[-1].stop]  # without the powers of bent coordinates
    d, batch = compiled.read.theta_size, tuple(np.array(a, order="C") for a in table.some(_WARM_UP_ROWS))
    rows = uninterrupted(interpret_rows(compiled.read), psi[:d], psi[:d], psi[d:], *fixed, *batch)[0]
    found = compiled.derivatives[0](psi, (*fixed, *batch), np.zeros(0, np.int64))[0]
    if not np.isclose(found, rows.sum(), rtol=_RELATIVE_ERROR, atol=_RELATIVE_ERROR * np.abs(rows).sum()):
        raise RuntimeError(
            f"The log-likelihood of {len(rows)} rows is {found:.9g} as it was compiled and {rows.sum():.9g} as NumPy "
            "evaluates it: this PyTensor compiles the model wrongly. Try proxy=None, or another version, and report it."
        )


def _find_bounds(parts: Parts) -> tuple[Parts, tuple[Any, ...] | None]:
    """Return the parts with the rows that are drawn from, and the constants of the bound on what the proxy leaves."""
    if parts.prepared is None:
        return parts, None
    region = parts.prepared.region(parts.fixed, parts.rows)
    constants, rows = _bound_of_remainder(parts.bound, parts.prepared).learn(region, parts.rows)
    return replace(parts, rows=rows), constants


def _bound_of_remainder(bound: Bound, prepared: Prepared) -> Bound:
    found = bound.of_remainder(prepared.order)
    assert found is not None
    return found


def _complete(parts: Parts, bound_constants: tuple[Any, ...] | None, compiled: Compiled) -> Decider:
    """Choose what goes with the proxy, or with none, and compile the transition."""
    test, prepared = parts.test, parts.prepared
    bound, row_source, density, surrogate = parts.bound, test.rows, None, None
    if prepared is not None:
        bound, surrogate = _bound_of_remainder(bound, prepared), compiled.surrogate
        if prepared.table is not None:
            test, row_source = test.with_replacement(), prepared.table.source()
        if test.reads.a_part:
            remainders = compiled.remainders(prepared.bent)
            density = remainders if compiled.selected is None else compiled.selected.at_theta(remainders)
    density = density or compiled.density
    proposal = parts.proposal or _default_proposal(parts.theta0.size, prepared)
    options = numba_options(parts.compile_kwargs)
    with _quiet_compilation():
        move = proposal.for_model(
            Target(parts.likelihood, prepared, test.probability(0.0), options, surrogate, parts.fixed)
        )
        if move.reads_rows and not row_source.complete:
            raise ValueError(f"data= does not go with proposal={proposal!r}, which reads rows of its own.")
        bound_constants = bound_constants or bound.constants(None, parts.stored, parts.fixed)
        evaluate_bound = bound.build(bound_constants)
        if compiled.selected is not None and bound.reads_theta:
            evaluate_bound = compiled.selected.bound_at_theta(evaluate_bound)
        row_source = bound.row_source(bound_constants) or row_source
        row_source = row_source.for_points(parts.theta0.size + parts.others0.size)
        linked = density.linked(parts.likelihood)
        transition = build_transition(linked, move.propose, test, row_source, evaluate_bound)
        # Python calls them only where a chain is watched and a run is judged.
        move = replace(move, propose=cached(move.propose))
        decider = Decider(
            parts, test, move, row_source, density, linked, bound, bound_constants, cached(evaluate_bound),
            cached(build_offset(linked.log_prior, linked.known_sum)), transition, compiled, proposal,
        )  # fmt: skip
        _warm_up(decider)
    return decider


def _default_proposal(dimension: int, prepared: Prepared | None) -> Proposal:
    """Return a walk without a proxy, and with one the cheaper move where the surrogate is as good as normal."""
    if prepared is None:
        return AdaptiveMetropolis() if dimension <= _MAX_DENSE else RandomWalk()
    return CrankNicolson() if prepared.normality >= _NORMAL_ENOUGH else SurrogateHMC()


def _warm_up(decider: Decider) -> None:
    """Compile by running a transition once on a few rows, so that forked chains inherit the code."""
    parts, state = decider.parts, decider.new_state()
    arrays = parts.stored.some(_WARM_UP_ROWS)
    n_rows = len(arrays[0])
    around = decider.surroundings(parts.others0)._replace(arrays=parts.likelihood.rows_at(arrays))
    given = TransitionArguments(
        around, decider.row_source.state(n_rows), state, decider.test.looks(n_rows), decider.bound_constants
    )
    generators = pack_generators(*np.random.default_rng(0).spawn(3))
    uninterrupted(decider.repeated, 1, 1, parts.theta0, generators, given)
    decider.move.adapt(state, parts.theta0, False)


@contextmanager
def _quiet_compilation() -> Iterator[None]:
    """Silence what compilation says of PyTensor's derivatives, which no user can change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumbaPerformanceWarning)  # transposed products
        # Derivatives of log-gamma functions, for which PyTensor calls SciPy: slower, not wrong.
        warnings.filterwarnings("ignore", "Numba will use object mode", UserWarning)
        yield
