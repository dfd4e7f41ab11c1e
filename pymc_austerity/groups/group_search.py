"""A model with groups and its data: the rows in the order of their groups, and what the model says of them at a θ.

And its surrogate: what an expansion of the rows and the prior say of φ and of the groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from pymc.util import is_transformed_name

from pymc_austerity.compile.by_reference import by_reference
from pymc_austerity.groups.group_conditional import Conditional, OnSurrogate, compile_condition, compile_surrogate
from pymc_austerity.groups.group_expansion import GroupExpansion, with_known_scale
from pymc_austerity.groups.group_model import GroupModel
from pymc_austerity.groups.group_pass import chunks
from pymc_austerity.groups.membership import Membership, membership
from pymc_austerity.groups.row_multiples import Multiples, find_multiples, no_multiples
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import ModelData
from pymc_austerity.rows import Rows

#: Distance of two points at which slopes of rows are compared, in the coordinates that are sampled.
_SPREAD = 0.3


@dataclass(frozen=True, eq=False)
class GroupSurrogate:
    """Evaluates the surrogate of a model from Python; `e` is the expansion of the rows throughout."""

    model: GroupModel
    others: np.ndarray  # values of the variables of other steps
    fixed: tuple[np.ndarray, ...]

    def condition(self, theta: np.ndarray, e: GroupExpansion) -> Conditional:
        """Return the normal approximation of all groups given the φ in θ."""
        links, fixed = self.model.links, self.model.likelihood.fixed_at(self.fixed)
        at = links.prior, theta, self.others, fixed, by_reference(e)
        return Conditional(*uninterrupted(compile_condition(links, e), *at))

    def at(self, phi: np.ndarray, z: np.ndarray, e: GroupExpansion) -> OnSurrogate:
        """Return the point at φ and the z of all groups."""
        links, fixed = self.model.links, self.model.likelihood.fixed_at(self.fixed)
        at = phi, z, links, self.others, fixed, by_reference(e)
        return OnSurrogate(*uninterrupted(compile_surrogate(links, e), *at))

    def theta(self, phi: np.ndarray, z: np.ndarray, e: GroupExpansion) -> np.ndarray:
        """Return θ for φ and the z of all groups."""
        return self.at(phi, z, e).theta

    def marginal(self, phi: np.ndarray, e: GroupExpansion) -> tuple[float, np.ndarray]:
        """Return the log of the surrogate's marginal at φ, up to a constant, and θ with all groups at their means."""
        there = self.at(phi, np.zeros(e.own.shape), e)
        return (there.value if np.isfinite(there.value) else -np.inf), there.theta


@dataclass(frozen=True, eq=False)
class GroupSearch:
    """A model with its rows, expanded around one point after the other."""

    data: ModelData
    model: GroupModel
    rows: Rows  # a copy of those of the data, sorted by the groups of the first factor
    order: np.ndarray  # uint32 or int64 (N,): what these rows are numbered in the data
    member: Membership  # of these rows

    @classmethod
    def of(cls, data: ModelData, model: GroupModel) -> GroupSearch:
        """Sort the rows by their groups."""
        of_rows = model.groups.of_rows(data.rows.arrays)
        order = np.argsort(of_rows[0], kind="stable")
        member = membership(of_rows[:, order], len(model.groups.own))
        return cls(data, model, data.rows.take(order), order.astype(whole_numbers(len(order))), member)

    @cached_property
    def multiples(self) -> Multiples:
        """Which derivatives of the rows are multiples of each other; where a few expansions do, none is looked for."""
        group_pass, rng, theta0 = self.model.group_pass, np.random.default_rng(2026), self.data.theta0
        moves, at = group_pass.moves()[1], (self.data.others0, *self.data.fixed)
        if self.model.row_scale is not None:
            return no_multiples(moves)
        points = [theta0 + _SPREAD * rng.standard_normal(theta0.size) for _ in range(2)]
        for block in filter(lambda b: is_transformed_name(b.name), self.model.likelihood.blocks):
            points[1][block.start : block.stop] = 0.0  # where the map of a positive variable bends

        def slopes() -> Iterator[tuple[list[np.ndarray], list[np.ndarray]]]:
            for batch in chunks(self.rows):
                here, there = ([group_pass.derivatives(m, m, p, *at, *batch)[0] for m in moves] for p in points)
                yield here, there

        return find_multiples(moves, slopes, len(self.rows))

    def expand(self, theta: np.ndarray, in_full: bool = False) -> GroupExpansion:
        """Return the expansion of the rows of all groups around θ.

        `in_full` takes every derivative by itself, as for decisions, which must not rest on what was seen elsewhere.
        """
        at = theta, self.data.others0, self.data.fixed, self.rows, self.member
        return self.model.group_pass(*at) if in_full else self.model.group_pass(*at, self.multiples)

    def expand_at_any_scale(self, theta: np.ndarray) -> GroupExpansion:
        """Return the same, so that it holds at every scale of the rows where they are normal."""
        expansion, row_scale = self.expand(theta), self.model.row_scale
        return expansion if row_scale is None else with_known_scale(expansion, row_scale, self.rows.n_table)

    def terms(self, theta: np.ndarray) -> Iterator[np.ndarray]:
        """Yield ℓ_i(θ) in order, for some rows at a time."""
        return self.model.group_pass.rows(theta, self.data.others0, self.data.fixed, self.rows)

    def total(self, theta: np.ndarray) -> float:
        """Return Σ ℓ_i(θ)."""
        return float(sum(terms.sum() for terms in self.terms(theta)))

    def both_sides(
        self, theta_new: np.ndarray, theta: np.ndarray, arrays: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return ℓ_i(θ′) and ℓ_i(θ) of the rows in some arrays."""
        at = self.data.others0, *self.data.fixed, *arrays
        new, old = uninterrupted(self.model.density.both_sides, theta_new, theta, *at)
        return new, old

    def remainders(
        self, theta_new: np.ndarray, theta: np.ndarray, centre: np.ndarray, arrays: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return what an expansion around the centre leaves of the rows in some arrays, at θ′ and at θ."""
        at = self.data.others0, centre, *self.data.fixed, *arrays
        new, old = uninterrupted(self.model.seen.both_sides, theta_new, theta, *at)
        return new, old

    def left_of_rows(self, theta_new: np.ndarray, theta: np.ndarray, centre: np.ndarray) -> float:
        """Return what an expansion around the centre leaves of the sum over all rows, at θ′ less that at θ."""
        both = (self.remainders(theta_new, theta, centre, batch) for batch in chunks(self.rows))
        return float(sum((new - old).sum() for new, old in both))

    def log_prior(self, theta: np.ndarray) -> float:
        """Return the log prior of everything."""
        return float(uninterrupted(self.model.density.log_prior, theta, self.data.others0, *self.data.fixed)[0])

    @property
    def surrogate(self) -> GroupSurrogate:
        """What an expansion and the prior say."""
        return GroupSurrogate(self.model, self.data.others0, self.data.fixed)

    def objective(self, expansion: GroupExpansion) -> float:
        """Return the log posterior at the centre of an expansion, with Laplace's factor for its groups."""
        at = expansion.centre
        return self.log_prior(at) + self.total(at) + self.surrogate.condition(at, expansion).log_det


def whole_numbers(n_rows: int) -> type:
    """Return a type that holds the numbers of so many rows."""
    return np.uint32 if n_rows < 2**32 else np.int64
