"""A model with groups, compiled: the functions that are its own, and the code for all models that calls them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from pytensor.gradient import grad

from pymc_austerity.bounds import RowScale, find_row_scale
from pymc_austerity.compile.addresses import tuple_of
from pymc_austerity.compile.by_address import Reached
from pymc_austerity.compile.graph_compiler import compile_part, interpret_log_density
from pymc_austerity.groups.group_density import GroupPrior, GroupPriorLinks, compile_group_prior, parts_of_theta
from pymc_austerity.groups.group_expansion import grouped_sum, nothing_of_linked_rows, nothing_of_rows
from pymc_austerity.groups.group_pass import GroupPass
from pymc_austerity.groups.grouping import Groups
from pymc_austerity.likelihood import Density, LinkedDensity, Links, RowLikelihood, compile_density, numba_options
from pymc_austerity.likelihood.linked_functions import reach_prior_slope
from pymc_austerity.proxy import compile_remainder_density


class GroupLinks(NamedTuple):
    """Addresses of the functions of one model in this process."""

    #: Of the rows as they are, and as the test sees them.
    rows: Links
    seen: Links
    prior: GroupPriorLinks


@dataclass(frozen=True, eq=False)
class GroupModel:
    """The functions of a model with groups; each is compiled when it is first asked for."""

    likelihood: RowLikelihood
    groups: Groups
    expands: bool  # whether the test sees what the expansion leaves of the rows
    compile_kwargs: dict[str, Any] | None

    @cached_property
    def density(self) -> Density:
        """The rows as they are, and the prior of everything."""
        return compile_density(self.likelihood, self.compile_kwargs)

    @cached_property
    def smooth(self) -> GroupModel:
        """The model of what is expanded: of rows with kinks, what stands in for them."""
        return self if self.likelihood.rounded is None else replace(self, likelihood=self.likelihood.of_expanded())

    @cached_property
    def row_scale(self) -> RowScale | None:
        """How the rows read their scale, where an expansion that holds at every scale leaves nothing of them."""
        return find_row_scale(self.likelihood, self.groups.read.tolist())

    @property
    def leaves_nothing(self) -> bool:
        """Whether the test sees nothing of any row."""
        return self.expands and self.row_scale is not None

    @cached_property
    def seen(self) -> Density:
        """The rows as the test sees them: remainders, with their known sum, or as they are."""
        if not self.expands:
            return self.density
        if self.leaves_nothing:
            return replace(self.density, both_sides=nothing_of_rows, known_sum=grouped_sum)
        options = numba_options(self.compile_kwargs)
        return replace(compile_remainder_density(self.density, self.likelihood, 2, **options), known_sum=grouped_sum)

    @cached_property
    def prior(self) -> GroupPrior:
        """The prior of the groups."""
        return compile_group_prior(self.likelihood, self.groups, numba_options(self.compile_kwargs))

    @cached_property
    def group_pass(self) -> GroupPass:
        """Sums over the rows of each group."""
        return GroupPass(self.smooth.likelihood, self.groups, numba_options(self.compile_kwargs))

    @cached_property
    def linked(self) -> LinkedDensity:
        """The `density` for code that is compiled for all models."""
        return self.density.linked(self.likelihood)

    @cached_property
    def linked_seen(self) -> LinkedDensity:
        """What is `seen`, for code that is compiled for all models."""
        if self.leaves_nothing:
            return replace(self.linked, both_sides=nothing_of_linked_rows, known_sum=grouped_sum)
        return self.seen.linked(self.likelihood) if self.expands else self.linked

    @cached_property
    def reached_prior(self) -> tuple[Reached, Reached]:
        """The `prior` for code that is compiled for all models."""
        return self.prior.reached(self.likelihood)

    @cached_property
    def whole_slope(self) -> Callable[..., list[np.ndarray]]:
        """The gradient of the log prior by everything, for a few evaluations."""
        likelihood = self.likelihood
        slope = grad(likelihood.log_prior, likelihood.theta, disconnected_inputs="ignore")
        return interpret_log_density([likelihood.theta, likelihood.others, *likelihood.fixed], [slope])

    def prior_slope(self, normal: np.ndarray) -> Reached:
        """Compile the log prior and its gradient by the effects and by these of what is shared."""
        likelihood, left_out = self.likelihood, np.delete(self.groups.shared, normal)
        constant = parts_of_theta(likelihood, likelihood.log_prior, left_out)
        by_theta = {"consider_constant": constant, "disconnected_inputs": "ignore"}
        outputs = [likelihood.log_prior, grad(likelihood.log_prior, likelihood.theta, **by_theta)]
        inputs = [likelihood.theta, likelihood.others, *likelihood.fixed]
        compiled = compile_part(inputs, outputs, **numba_options(self.compile_kwargs))
        return reach_prior_slope(compiled, tuple_of(likelihood.fixed))

    @cached_property
    def links(self) -> GroupLinks:
        """Where the functions lie in this process."""
        of_prior = GroupPriorLinks(*(of.address for of in self.reached_prior))
        return GroupLinks(self.linked.links, self.linked_seen.links, of_prior)

    def __reduce__(self) -> Any:
        # Another process compiles for itself; the graphs of the prior are among the groups.
        return GroupModel, (self.likelihood, self.groups, self.expands, self.compile_kwargs)
