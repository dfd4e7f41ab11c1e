"""What the rule of an operation may ask of the enclosures around it, which `RowSeries` has."""

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

    def __call__(self, var: Variable) -> Series: ...  # noqa: D102
    def of_known(self, value: Any) -> Series: ...  # noqa: D102
    def log_of(self, var: Variable) -> Series | None: ...  # noqa: D102
    def logit_of(self, var: Variable) -> Series | None: ...  # noqa: D102
    def truth(self, var: Variable) -> tuple[np.ndarray, np.ndarray]: ...  # noqa: D102
    def agree(self, a: Variable, b: Variable, where: np.ndarray) -> bool: ...  # noqa: D102
