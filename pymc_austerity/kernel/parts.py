"""What a decider is assembled from: its parts, and the functions of the model, compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pymc_austerity.acceptance import AcceptanceTest, Reads
from pymc_austerity.bounds import Bound, Unbounded
from pymc_austerity.kernel.temperature import Schedule
from pymc_austerity.likelihood import Coordinates, Density, RowLikelihood, compile_density, numba_options
from pymc_austerity.likelihood.density import compile_log_prior, compile_one_side, compile_rows, interpret_rows
from pymc_austerity.likelihood.linked_functions import LogPrior
from pymc_austerity.proposals import CrankNicolson, Proposal, SurrogateHMC
from pymc_austerity.proxy import (
    Prepared,
    PriorCurvature,
    ProxyPlan,
    RowSums,
    SelectedCoefficients,
    Surrogate,
    compile_remainder_density,
    compile_resolved_density,
    compile_statistics_density,
    compile_sums,
    compile_surrogate,
    with_kinks_rounded,
)
from pymc_austerity.rows import Rows, Table
from pymc_austerity.tried_setup import once


@dataclass(frozen=True, eq=False)
class Parts:
    """The settings and data that a decider is assembled from, picklable."""

    likelihood: RowLikelihood
    rows: Table  # those that a sum over all rows has; once learnt from, those that chains read
    fixed: tuple[np.ndarray, ...]  # values of the shared variables that are not indexed by row
    #: The model's initial point, flat: the variables of the step, and all others.
    theta0: np.ndarray
    others0: np.ndarray
    test: AcceptanceTest  # for rows of equal weight
    proposal: Proposal | None  # as it was given
    plan: ProxyPlan
    bound: Bound  # on the rows themselves
    temperature: Schedule
    tune: bool  # whether the proposal adapts while a chain tunes
    compile_kwargs: dict[str, Any] | None
    progressbar: bool  # whether passes over all rows before sampling show a bar
    made_by: str  # name of the class of the step
    coordinates: Coordinates  # how a point of the user's model lies in θ
    prepared: Prepared | None = None  # what was learnt from all rows; None before that, and where there is no proxy

    @property
    def stored(self) -> Rows:
        """The rows that chains read, once everything has been learnt from all rows."""
        (rows,) = self.rows.pieces()
        return rows

    @property
    def bound_of_seen(self) -> Bound:
        """The bound on what the test sees of the rows: on what the proxy leaves of them, where there is one."""
        found = self.bound if self.prepared is None else self.bound.of_remainder(self.prepared.order)
        assert found is not None
        return found

    @property
    def could_have_proxy(self) -> bool:
        """Whether a proxy could be built that ``proxy=None`` excluded."""
        if not self.plan.excluded or (self.proposal is not None and self.proposal.no_proxy_because):
            return False
        continuous = all(np.dtype(b.dtype).kind == "f" for b in self.likelihood.blocks)
        return continuous or (self.proposal is not None and self.proposal.selects_coefficients)

    def describe(self) -> str:
        """Return the settings that decide what a step does, in a line."""
        names = ", ".join(b.name for b in self.likelihood.blocks)
        floor, proxy = (None, None) if self.prepared is None else (self.plan.floor, self.plan.proxy)
        rows = "Uniform()" if floor is None else f"Weighted(floor={floor})"
        return (
            f"{self.made_by} on {names} with {self.test}, {self.proposal or 'the default proposal'}, proxy={proxy}, "
            f"rows={rows}, temperature={self.temperature}"
        )


class Compiled:
    """The functions of one model, each compiled when it is first asked for."""

    def __init__(self, parts: Parts):
        self._likelihood, self._proposal, self._plan = parts.likelihood, parts.proposal, parts.plan
        self.resolved, self._options = parts.test.reads is Reads.BY_BOUNDS, numba_options(parts.compile_kwargs)
        self._unbounded = isinstance(parts.bound, Unbounded)
        self._remainders: dict[tuple[bool, int], Density] = {}  # by whether some coordinates are bent, and the order
        # A bound that is found by a scan reads both ends.
        self._remembers = parts.test.reads is Reads.ALL and not parts.bound.is_asked_for

    def with_parts(self, parts: Parts) -> Compiled:
        """Return the functions for other parts of the same model, without compiling the density again."""
        other = Compiled(parts)
        kept = ("log_prior", "density", "interpreted")
        vars(other).update({name: vars(self)[name] for name in kept if name in vars(self)})
        return other

    @cached_property
    def log_prior(self) -> LogPrior:
        """Everything that is not row-wise."""
        return once("log prior", (self._likelihood,), lambda: compile_log_prior(self._likelihood, self._options))

    @cached_property
    def density(self) -> Density:
        """Log prior and rows."""
        if self._remembers:
            return compile_one_side(self._likelihood, self.log_prior, self._options)
        return Density(self.log_prior, compile_rows(self._likelihood, self._options))

    @cached_property
    def interpreted(self) -> Density:
        """The same with rows evaluated by NumPy, which for a few evaluations takes less time than to compile."""
        rows = once("interpreted", (self._likelihood,), lambda: interpret_rows(self._likelihood))
        return Density(self.log_prior, rows)

    @cached_property
    def selected(self) -> SelectedCoefficients | None:
        """The products of coefficients and indicators that the rows read, for a proposal that selects coefficients."""
        if self._proposal is None or not self._proposal.selects_coefficients or self._plan.proxy is None:
            return None
        return self._proposal.selected(self._likelihood)

    @cached_property
    def surrogate(self) -> Surrogate:
        """Exact prior times proxy."""
        return once("surrogate", (self.read,), lambda: compile_surrogate(self.read, self._options))

    @cached_property
    def derivatives(self) -> tuple[RowSums, PriorCurvature]:
        """Of the sum over rows and of the log prior."""
        sums = once("sums", (self.read,), lambda: compile_sums(self.read, self._options))
        return sums, once("prior", (self.read,), lambda: PriorCurvature(self.read, self._options))

    @property
    def may_bend(self) -> bool:
        """Whether rows may be expanded in powers of parameters, by no proposal that reads their slopes.

        Where there is a bound on a row, only the moves of a test that draws by bounds may be.
        """
        plain = self._proposal is None or isinstance(self._proposal, CrankNicolson | SurrogateHMC)
        return plain and (self._unbounded or self.resolved) and not self._plan.by_statistics

    def remainders(self, bent: bool, order: int) -> Density:
        """Return log prior and what the proxy leaves of the rows, in terms of what the rows read."""
        if (bent, order) in self._remainders:
            return self._remainders[bent, order]
        if self._plan.by_statistics:
            of_rows = self.density if self.selected is None else compile_density(self.read, self._options)
            found = compile_statistics_density(of_rows)
        elif self.resolved:
            found = compile_resolved_density(self.interpreted, self.read, order, **self._options)
        else:
            found = compile_remainder_density(self.interpreted, self.read, order, bent, **self._options)
        self._remainders[bent, order] = found
        return found

    @cached_property
    def read(self) -> RowLikelihood:
        """The model in terms of what the rows read."""
        return self._likelihood if self.selected is None else self.selected.likelihood

    def round_kinks(self, table: Table, fixed: Sequence[np.ndarray], start: np.ndarray) -> None:
        """Expand rows with kinks by what stands in for them; not where a bound holds for what the rows leave."""
        if self._unbounded and not (self.resolved or self._plan.by_statistics or self._plan.proxy is None):
            self.read = with_kinks_rounded(self.read, table, fixed, start)
