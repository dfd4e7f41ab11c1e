"""Arguments that `debias` and `debias_stream` share, checked before φ is called."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import ArrayLike

from pymc_austerity.paths.truncation import Truncation
from pymc_austerity.user_input import shown

Seed = int | Sequence[int] | SeedSequence | np.random.Generator | None


@dataclass(frozen=True)
class Stopping:
    """When a run ends: at a number of replications, a standard error, or seconds from now, whichever comes first."""

    replications: int | None
    tolerance: ArrayLike | None
    max_seconds: float | None
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        replications, tolerance, max_seconds = self.replications, self.tolerance, self.max_seconds
        if replications is not None and not (isinstance(replications, int | np.integer) and replications >= 1):
            raise ValueError(f"replications must be a whole number of at least 1, found {replications}.")
        if tolerance is not None and not (np.asarray(tolerance) > 0).all():
            raise ValueError(
                f"tolerance is a standard error in the unit of phi and must be positive, found {tolerance}."
            )
        if max_seconds is not None and not max_seconds > 0:
            raise ValueError(f"max_seconds must be positive, found {max_seconds}.")

    @property
    def never(self) -> bool:
        """Whether nothing ends the run."""
        return self.replications is None and self.tolerance is None and self.max_seconds is None

    @property
    def deadline(self) -> float:
        """Value of `time.monotonic` after which no replication begins."""
        return float("inf") if self.max_seconds is None else self.began + self.max_seconds

    def complete(self, finished: int) -> bool:
        """Whether `finished` replications are those asked for."""
        return self.replications is not None and finished >= self.replications


def as_seed(seed: Seed) -> SeedSequence:
    """Turn any accepted seed into a `SeedSequence` of its own."""
    if isinstance(seed, SeedSequence):
        return seed
    if isinstance(seed, np.random.Generator):
        return SeedSequence([int(word) for word in seed.integers(2**32, size=4)])
    try:
        return SeedSequence(seed)
    except (TypeError, ValueError):
        raise TypeError(
            f"random_seed= wants whole numbers from 0 on, a SeedSequence or a Generator, and got {shown(seed)}."
        ) from None


def check_phi(phi: Callable[..., Any], of: str) -> None:
    """Refuse a φ that is no function of what it will be handed."""
    if not callable(phi):
        raise TypeError(f"phi must be a function of {of}, found {type(phi).__name__}.")


def check_alpha(alpha: float | Literal["auto"], sizes: tuple[int, ...], ratio: float) -> None:
    """Refuse an α for which these batches have no law of truncation."""
    if alpha != "auto":
        Truncation(sizes, alpha, ratio)
