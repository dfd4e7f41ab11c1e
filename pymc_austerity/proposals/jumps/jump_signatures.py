"""Signatures of the compiled parts that jumps between models are made of."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pymc_austerity.likelihood import Surroundings
from pymc_austerity.proposals.jumps.sub_models import SurrogateJumpState


class Include(Protocol):
    """A coefficient comes into the model."""

    def __call__(
        self,
        rng: np.random.Generator,
        theta: np.ndarray,
        included: np.ndarray,
        tableau: np.ndarray,
        state: SurrogateJumpState,
        p: int,
    ) -> float:
        """Draw coefficient p and shift the others; return the log density of the draw."""
        ...


class Exclude(Protocol):
    """A coefficient leaves the model."""

    def __call__(
        self, theta: np.ndarray, included: np.ndarray, tableau: np.ndarray, state: SurrogateJumpState, p: int
    ) -> float:
        """Take the shift back; return the log density of a draw that would lead here."""
        ...


class LeaveOut(Protocol):
    """A draw of an excluded coefficient."""

    def __call__(
        self,
        rng: np.random.Generator,
        theta: np.ndarray,
        p: int,
        state: SurrogateJumpState,
        surroundings: Surroundings,
    ) -> float:
        """Draw the value of coefficient p; return its log density."""
        ...


class LogLeftOut(Protocol):
    """The density of an excluded coefficient."""

    def __call__(self, theta: np.ndarray, p: int, state: SurrogateJumpState, surroundings: Surroundings) -> float:
        """Return the log density of the value that coefficient p has."""
        ...


class ChangeModel(Protocol):
    """A move to another model, or to the same."""

    def __call__(
        self,
        rng: np.random.Generator,
        theta: np.ndarray,
        included: np.ndarray,
        tableau: np.ndarray,
        state: SurrogateJumpState,
        surroundings: Surroundings,
    ) -> tuple[float, int, int]:
        """Return log q(θ|θ′) − log q(θ′|θ), and up to two coefficients that came or went, −1 for none."""
        ...


class UpdateModel(Protocol):
    """A move of all included parameters."""

    def __call__(
        self,
        rng: np.random.Generator,
        theta: np.ndarray,
        included: np.ndarray,
        tableau: np.ndarray,
        precision: np.ndarray,
        state: SurrogateJumpState,
        surroundings: Surroundings,
    ) -> float:
        """Return log q(θ|θ′) − log q(θ′|θ)."""
        ...


class LogSurrogate(Protocol):
    """The log density of the surrogate, up to a constant."""

    def __call__(
        self, theta: np.ndarray, linear: np.ndarray, state: SurrogateJumpState, surroundings: Surroundings
    ) -> float:
        """Return it, given the linear term of the summed proxy."""
        ...
