"""Signatures of the functions that a model is compiled to, and the links by which code for all models reaches them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from pymc_austerity.compile.addresses import Addresses


class LogPrior(Protocol):
    """The log prior, compiled."""

    def __call__(self, theta: np.ndarray, others: np.ndarray, *fixed: np.ndarray) -> tuple[np.ndarray]:
        """Return log ρ(θ) as an array of no dimension."""
        ...


class PriorSlope(Protocol):
    """The log prior and its gradient, compiled."""

    def __call__(self, theta: np.ndarray, others: np.ndarray, *fixed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log ρ(θ) as an array of no dimension, and its gradient by θ."""
        ...


class BothSides(Protocol):
    """The row terms at both ends of a move, compiled."""

    def __call__(
        self, theta_new: np.ndarray, theta: np.ndarray, others: np.ndarray, *data: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return ℓ_i(θ′) and ℓ_i(θ) for the rows of a batch; `data` are the fixed arrays and then the batch."""
        ...


class OneSide(Protocol):
    """The row terms at one point, compiled."""

    def __call__(self, theta: np.ndarray, others: np.ndarray, *data: np.ndarray) -> tuple[np.ndarray]:
        """Return ℓ_i(θ) for the rows of a batch; `data` are the fixed arrays and then the batch."""
        ...


class Links(NamedTuple):
    """Addresses of the functions of one model in this process; 0 for one that nobody calls.

    Attributes
    ----------
    log_prior : int
    both_sides : int
        The row terms at both ends of a move.
    reading : int
        Reads rows for them.
    one_side, one_side_reading : int
        The row terms at one point, for a test that remembers those at the other end, and what reads rows for these.
    prior_slope : int
        The log prior and its gradient.
    prior_gradient, row_gradient : int
        The gradient of the log prior, and that of the sum of row terms, for a proposal that moves along it.
    gradient_reading : int
        Reads rows for the latter.
    excluded_law : int
        The law of coefficients that are left out, for a proposal that draws them.
    """

    log_prior: int = 0
    both_sides: int = 0
    reading: int = 0
    one_side: int = 0
    one_side_reading: int = 0
    prior_slope: int = 0
    prior_gradient: int = 0
    row_gradient: int = 0
    gradient_reading: int = 0
    excluded_law: int = 0


class LinkedLogPrior(Protocol):
    """The log prior of whichever model the links lead to, compiled."""

    def __call__(self, links: Links, theta: np.ndarray, others: np.ndarray, fixed: Addresses) -> float:
        """Return log ρ(θ)."""
        ...


class LinkedPriorSlope(Protocol):
    """The log prior of whichever model the links lead to and its gradient, compiled."""

    def __call__(
        self, links: Links, theta: np.ndarray, others: np.ndarray, fixed: Addresses
    ) -> tuple[float, np.ndarray]:
        """Return log ρ(θ) and its gradient by θ."""
        ...


class LinkedBothSides(Protocol):
    """The row terms of whichever model the links lead to, compiled."""

    def __call__(
        self,
        links: Links,
        theta_new: np.ndarray,
        theta: np.ndarray,
        others: np.ndarray,
        centre: np.ndarray,
        fixed: Addresses,
        arrays: Addresses,
        numbers: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return ℓ_i(θ′) and ℓ_i(θ) for the rows with these numbers.

        With a proxy they are remainders from an expansion with that centre, which nobody reads without one.
        """
        ...


class LinkedOneSide(Protocol):
    """The row terms at one point of whichever model the links lead to, compiled."""

    def __call__(
        self,
        links: Links,
        theta: np.ndarray,
        others: np.ndarray,
        fixed: Addresses,
        arrays: Addresses,
        numbers: np.ndarray,
    ) -> np.ndarray:
        """Return ℓ_i(θ) for the rows with these numbers."""
        ...
