"""No test at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pymc_austerity.acceptance.acceptance_test import AcceptanceTest, Looks
from pymc_austerity.acceptance.decision import ACCEPT
from pymc_austerity.acceptance.moment_signatures import Decide, DrawNoise
from pymc_austerity.acceptance.moments import Moments
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.rows import InOrder


@njit
def _no_noise(rng: np.random.Generator) -> float:
    return 0.0


@njit
def _accept(looks: Looks, look: int, moments: Moments, offset: float, scale: float, noise: float) -> int:
    return ACCEPT


@dataclass(frozen=True)
class AlwaysAccept(AcceptanceTest):
    """Accept without reading a row.  Only a proposal without a density is turned down."""

    uses_proxy: ClassVar[bool] = False
    needs_all_rows: ClassVar[str] = "its proposals read rows at every draw and no test corrects them"
    draw_noise: ClassVar[DrawNoise] = staticmethod(_no_noise)
    decide: ClassVar[Decide] = staticmethod(_accept)
    rows = InOrder()

    def looks(self, n_rows: int) -> Looks:
        """Look once, at nothing."""
        return Looks(np.zeros(1, np.int64), np.zeros(1))

    def probability(self, log_ratio: float) -> float:
        """Return 1."""
        return 1.0
