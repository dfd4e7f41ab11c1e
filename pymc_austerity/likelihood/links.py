"""Signatures of the functions that a model is compiled to, and the links by which code for all models reaches them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

#: ``log_prior(theta, others, *fixed)``: log ρ(θ) as an array of no dimension, in a tuple.
LogPrior = Callable[..., tuple[np.ndarray]]
#: ``prior_slope(theta, others, *fixed)``: log ρ(θ) as an array of no dimension, and its gradient by θ.
PriorSlope = Callable[..., tuple[np.ndarray, np.ndarray]]
#: ``both_sides(theta_new, theta, others, *fixed, *batch)``: ℓ_i(θ′) and ℓ_i(θ) for the rows of a batch.
BothSides = Callable[..., tuple[np.ndarray, np.ndarray]]
#: ``one_side(theta, others, *fixed, *batch)``: ℓ_i(θ) for the rows of a batch, in a tuple.
OneSide = Callable[..., tuple[np.ndarray]]


class Links(NamedTuple):
    """Addresses of the functions of one model in this process; 0 for one that nobody calls."""

    log_prior: int = 0
    both_sides: int = 0  # the row terms at both ends of a move
    reading: int = 0  # reads rows for them
    one_side: int = 0  # the row terms at one point, for a test that remembers those at the other end
    one_side_reading: int = 0  # reads rows for them
    prior_slope: int = 0  # the log prior and its gradient
    prior_gradient: int = 0  # the gradient of the log prior, for a proposal that moves along it
    row_gradient: int = 0  # that of the sum of row terms
    gradient_reading: int = 0  # reads rows for it
    excluded_law: int = 0  # the law of coefficients that are left out, for a proposal that draws them


# The same for whichever model the links lead to; `fixed` and `arrays` are `Addresses`.
#: ``log_prior(links, theta, others, fixed)``: log ρ(θ).
LinkedLogPrior = Callable[..., float]
#: ``prior_slope(links, theta, others, fixed)``: log ρ(θ) and its gradient by θ.
LinkedPriorSlope = Callable[..., tuple[float, np.ndarray]]
#: ``both_sides(links, theta_new, theta, others, centre, fixed, arrays, numbers)``: ℓ_i(θ′) and ℓ_i(θ) for the rows with
#: these numbers; with a proxy remainders from an expansion with that centre, which nobody reads without one.
LinkedBothSides = Callable[..., tuple[np.ndarray, np.ndarray]]
#: ``one_side(links, theta, others, fixed, arrays, numbers)``: ℓ_i(θ) for the rows with these numbers.
LinkedOneSide = Callable[..., np.ndarray]
