"""Rules without a correction: one batch for all rows (biased), and acceptance of everything."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pymc_austerity.acceptance.acceptance_test import AcceptanceTest, Looks, Reads, check_batch_size
from pymc_austerity.acceptance.decision import ACCEPT, REJECT
from pymc_austerity.acceptance.moments import Decide, DrawNoise, Moments, Threshold
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.rows import InOrder


@njit
def decide_at_once(looks: Looks, look: int, moments: Moments, offset: float, scale: float, noise: float) -> int:
    """Decide as if the mean of the batch were that of all rows."""
    return ACCEPT if scale * moments.mean + offset > noise else REJECT


@dataclass(frozen=True)
class FixedBatch(AcceptanceTest):
    """Gao's mini-batch rule: the rows of one batch stand for all rows, and nothing corrects for it.

    The batch likelihood is raised to the power N/n (Gao, section 2).  The noise of the batch makes the chain
    over-dispersed, the more the smaller the batch; there is no error bound.  For baselines and negative controls.
    """

    batch_size: int  # rows a decision, n in the paper; all rows decide exactly

    error = "biased: the noise of a batch is not corrected"
    decide = staticmethod(decide_at_once)

    def __post_init__(self) -> None:
        check_batch_size(self.batch_size, "The chain is the more over-dispersed the fewer rows it reads.")

    def looks(self, n_rows: int) -> Looks:
        """Return one look at one batch."""
        return Looks(np.array([min(self.batch_size, n_rows)]), np.zeros(1))

    def remedy(self) -> str:
        """Return which steps to use instead."""
        return "A fixed batch has no remedy but more rows: use ApproxMH, MinibatchBarker or PenaltyMH."


@njit
def _no_noise(rng: np.random.Generator) -> float:
    return 0.0


@njit
def _accept(looks: Looks, look: int, moments: Moments, offset: float, scale: float, noise: float) -> int:
    return ACCEPT


@njit
def _no_threshold(looks: Looks, look: int, moments: Moments, scale: float, noise: float) -> float:
    return np.nan


@dataclass(frozen=True)
class AlwaysAccept(AcceptanceTest):
    """Accept without reading a row.  Only a proposal without a density is turned down."""

    reads: ClassVar[Reads] = Reads.NONE
    needs_all_rows: ClassVar[str] = "its proposals read rows at every draw and no test corrects them"
    draw_noise: ClassVar[DrawNoise] = staticmethod(_no_noise)
    decide: ClassVar[Decide] = staticmethod(_accept)
    threshold: ClassVar[Threshold] = staticmethod(_no_threshold)
    rows = InOrder()
    error = "biased: every proposal is taken"

    def looks(self, n_rows: int) -> Looks:
        """Return one look at no rows."""
        return Looks(np.zeros(1, np.int64), np.zeros(1))

    @staticmethod
    def probability(log_ratio: float) -> float:
        """Return 1."""
        return 1.0
