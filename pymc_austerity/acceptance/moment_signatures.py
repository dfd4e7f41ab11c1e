"""Signatures of the compiled functions of a test."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pymc_austerity.acceptance.moments import Moments


class Decide(Protocol):
    """A compiled decision."""

    def __call__(self, looks: Any, look: int, moments: Moments, offset: float, scale: float, noise: Any) -> int:
        """Return ACCEPT, REJECT or UNDECIDED after look number `look`."""
        ...


class DrawNoise(Protocol):
    """The random numbers of a test, compiled."""

    def __call__(self, rng: np.random.Generator) -> Any:
        """Return them: always as many, drawn before any row is read."""
        ...


class Threshold(Protocol):
    """What a decision was compared with, compiled."""

    def __call__(self, looks: Any, look: int, moments: Moments, scale: float, noise: Any) -> float:
        """Return what the estimated log ratio had to exceed; NaN where the test does not tell."""
        ...
