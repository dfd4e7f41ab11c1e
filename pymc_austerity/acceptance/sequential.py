"""The sequential t-test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from pymc_austerity.acceptance.acceptance_test import AcceptanceTest, Looks, check_batch_size


@dataclass(frozen=True)
class SequentialT(AcceptanceTest):
    """The sequential t-test of Korattikara, Chen and Welling (2014, Algorithm 1).

    After n rows, drawn without replacement, the standard error of the mean of l_i is s = sd/√n · √(1 − (n−1)/(N−1)).
    The test stops when P(t_{n−1} > |mean − μ0|/s) < ε.
    """

    epsilon: float  # error allowed at each look, in [0, 0.5].  0 reads all rows, 0.5 decides on the first batch
    batch_size: int  # rows a look, at least 2
    #: Whether rows are drawn with replacement, which leaves out the finite-population correction.
    replacement: bool = False
    #: Shape of the boundary, in [0.5, 1] (appendix D, after Wang and Tsiatis 1987): with a share π of the rows read the
    #: test stops beyond G0·π^{0.5−α} standard errors, G0 = Φ⁻¹(1 − ε).  0.5 is Pocock's boundary, the same at every
    #: look; 1 is O'Brien and Fleming's, which hardly ever stops early.
    alpha: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon <= 0.5:
            raise ValueError(
                f"epsilon={self.epsilon} is not a probability of a wrong decision between 0 and 0.5. Above 0.5 the "
                "test would stop when it knows least. Use a small value such as 0.01; 0 reads every row."
            )
        if not 0.5 <= self.alpha <= 1:
            raise ValueError(
                f"alpha={self.alpha} is not between 0.5 (the same bound at every look) and 1 (a bound that falls with "
                "the square root of the rows read). Below 0.5 the test would be the bolder the less it knows."
            )
        check_batch_size(self.batch_size, "The test needs a batch mean that is nearly normal; 500 is a sensible start.")

    def normal_bounds(self, n: np.ndarray, n_rows: int) -> np.ndarray:
        """Return G_j = Φ⁻¹(1 − ε)·(n_j/N)^{0.5−α}, the bounds on |z| after n_j rows if the sd of l_i were known."""
        return -special.ndtri(self.epsilon) * (n / n_rows) ** (0.5 - self.alpha)

    @property
    def error(self) -> str:
        """What a decision takes for granted, or how often it errs."""
        return f"each look errs with probability {self.epsilon:g}" if self.epsilon else ""

    def looks(self, n_rows: int) -> Looks:
        """Return a look after every batch; bounds are critical values of t with the finite-population correction."""
        sizes = np.append(np.arange(self.batch_size, n_rows, self.batch_size), n_rows)
        n = sizes[:-1]
        # The quantile of t that has the tail of the normal bound beyond it.
        tail = np.full(n.size, self.epsilon) if self.alpha == 0.5 else special.ndtr(-self.normal_bounds(n, n_rows))
        critical = np.full(n.size, np.inf)
        critical[tail > 0] = -special.stdtrit(n[tail > 0] - 1, tail[tail > 0])
        correction = np.ones(n.size) if self.replacement else np.sqrt(1 - (n - 1) / (n_rows - 1))
        return Looks(sizes, np.append(critical * correction / np.sqrt(n), 0.0))

    def with_replacement(self) -> SequentialT:
        """Return the test without the finite-population correction."""
        return replace(self, replacement=True)

    def as_recorded(self, settings: Mapping[str, float]) -> SequentialT:
        """Return the test that was designed when tuning ended, where one was."""
        if not {"epsilon", "batch_size", "alpha"} <= set(settings):
            return self
        epsilon, alpha = float(settings["epsilon"]), float(settings["alpha"])
        return replace(self, epsilon=epsilon, batch_size=int(settings["batch_size"]), alpha=alpha)

    def remedy(self) -> str:
        """Return a smaller epsilon to use."""
        smaller = f"epsilon={self.epsilon / 10:g}" if self.epsilon > 0 else "epsilon=0"
        return f"Decide more carefully ({smaller} in place of {self.epsilon:g})."
