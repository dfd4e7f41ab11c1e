"""What the rule of an operation may ask of the enclosures around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from pytensor.graph.basic import Variable

from pymc_austerity.bounds.interval_series import Series


class Enclosure(Protocol):
    """Enclosures of the derivatives of every variable of a graph over one box."""

    moving: frozenset[Variable]  # variables that depend on θ
    known: Mapping[Variable, np.ndarray]  # values of the others that the graph reads

    def __call__(self, var: Variable) -> Series:
        """Return the enclosure of one variable."""
        ...

    def of_known(self, value: Any) -> Series:
        """Return the series of known numbers."""
        ...

    def log_of(self, var: Variable) -> Series | None:
        """Return the enclosure of the logarithm, where the form of the graph gives it."""
        ...

    def logit_of(self, var: Variable) -> Series | None:
        """Return the enclosure of log p/(1 − p), where the form of the graph gives it."""
        ...

    def truth(self, var: Variable) -> tuple[np.ndarray, np.ndarray]:
        """Return where a condition may hold and where it may fail."""
        ...

    def agree(self, a: Variable, b: Variable, where: np.ndarray) -> bool:
        """Return whether two variables are the same function of the predictors in the boxes asked for."""
        ...
