"""What all moves on the surrogate have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from pymc_austerity.surrogate import SurrogateState


@dataclass(frozen=True)
class BoundMove:
    """A move together with the surrogate that it moves on: what a step takes as its proposal."""

    propose: Callable[..., Any]
    adapt: Callable[..., Any]
    prototype: SurrogateState

    def state(self, theta: np.ndarray, discrete: np.ndarray, n_rows: int) -> SurrogateState:
        """Return the state at the start of a chain."""
        return self.prototype.fresh()


@njit
def adapt_nothing(state: SurrogateState, theta: np.ndarray, accepted: bool) -> None:
    """Leave a move alone that was tuned on the surrogate."""
