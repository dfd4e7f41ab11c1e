"""The functions of one model, compiled."""

from __future__ import annotations

from functools import cached_property

from pymc_austerity.kernel.parts import Parts
from pymc_austerity.likelihood import (
    Density,
    LogPrior,
    RowLikelihood,
    compile_density,
    compile_log_prior,
    compile_one_side,
    compile_rows,
    interpret_rows,
    numba_options,
)
from pymc_austerity.proxy import (
    Effects,
    PriorCurvature,
    RowSums,
    Surrogate,
    compile_known_density,
    compile_remainder_density,
    compile_resolved_density,
    compile_sums,
    compile_surrogate,
)


class Compiled:
    """The functions of one model, each compiled when it is first asked for."""

    def __init__(self, parts: Parts):
        self._likelihood, self._proposal, self._plan = parts.likelihood, parts.proposal, parts.plan
        self._resolved, self._options = parts.test.resolves_remainders, numba_options(parts.compile_kwargs)
        # A bound that is found by a scan reads both ends.
        self._remembers = parts.test.remembers and not parts.bound.is_asked_for

    def with_parts(self, parts: Parts) -> Compiled:
        """Return the functions for other parts of the same model, without compiling the density again."""
        other = Compiled(parts)
        kept = ("log_prior", "density", "interpreted")
        vars(other).update({name: vars(self)[name] for name in kept if name in vars(self)})
        return other

    @cached_property
    def log_prior(self) -> LogPrior:
        """Everything that is not row-wise."""
        return compile_log_prior(self._likelihood, self._options)

    @cached_property
    def density(self) -> Density:
        """Log prior and rows."""
        if self._remembers:
            return compile_one_side(self._likelihood, self.log_prior, self._options)
        return Density(self.log_prior, compile_rows(self._likelihood, self._options))

    @cached_property
    def interpreted(self) -> Density:
        """The same, rows by NumPy: of some graphs that takes less time than to compile them, for a few evaluations."""
        return Density(self.log_prior, interpret_rows(self._likelihood))

    @cached_property
    def effects(self) -> Effects | None:
        """What the rows read of θ, where the proposal knows it to be less than θ."""
        if self._proposal is None or not self._proposal.expands_effects or self._plan.proxy is None:
            return None
        return self._proposal.effects(self._likelihood)

    @cached_property
    def surrogate(self) -> Surrogate:
        """Exact prior times proxy."""
        return compile_surrogate(self.read, self._options)

    @cached_property
    def derivatives(self) -> tuple[RowSums, PriorCurvature]:
        """Of the sum over rows and of the log prior."""
        return compile_sums(self.read, self._options), PriorCurvature(self.read, self._options)

    @cached_property
    def remainders(self) -> Density:
        """Log prior and what the proxy leaves of the rows, in terms of what the rows read."""
        assert self._plan.proxy is not None
        if self._plan.by_sums:
            of_rows = self.density if self.effects is None else compile_density(self.read, self._options)
            return compile_known_density(of_rows)
        of_density = compile_resolved_density if self._resolved else compile_remainder_density
        return of_density(self.interpreted, self.read, self._plan.proxy.order, **self._options)

    @property
    def read(self) -> RowLikelihood:
        """The model in terms of what the rows read."""
        return self._likelihood if self.effects is None else self.effects.likelihood
