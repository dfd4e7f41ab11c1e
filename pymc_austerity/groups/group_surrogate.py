"""The surrogate of a model with groups: what an expansion of the rows and the prior say of φ and of the groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_austerity.compile.by_reference import by_reference
from pymc_austerity.groups.group_conditional import Conditional, OnSurrogate, compile_condition, compile_surrogate
from pymc_austerity.groups.group_expansion import GroupExpansion
from pymc_austerity.groups.group_model import GroupModel
from pymc_austerity.interrupts import uninterrupted


@dataclass(frozen=True, eq=False)
class GroupSurrogate:
    """Evaluates the surrogate of a model from Python, for its data that are not indexed by row.

    `e` is the expansion of the rows throughout.
    """

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
