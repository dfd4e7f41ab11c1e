"""One batch of rows for all rows: the baseline that is biased."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_austerity.acceptance.acceptance_test import AcceptanceTest, Looks
from pymc_austerity.acceptance.decision import ACCEPT, REJECT
from pymc_austerity.acceptance.looks import check_batch_size
from pymc_austerity.acceptance.metropolis import draw_log_uniform, log_uniform_threshold, metropolis_probability
from pymc_austerity.acceptance.moments import Moments
from pymc_austerity.compile.lean_njit import njit


@njit
def decide_at_once(looks: Looks, look: int, moments: Moments, offset: float, scale: float, noise: float) -> int:
    """Take the mean of the batch for the mean of all rows."""
    return ACCEPT if scale * moments.mean + offset > noise else REJECT


@dataclass(frozen=True)
class FixedBatch(AcceptanceTest):
    """Gao's mini-batch rule: the rows of one batch stand for all rows, and nothing corrects for it.

    The batch likelihood is raised to the power N/n (Gao, section 2).  The noise of the batch makes the chain
    over-dispersed, the more the smaller the batch; there is no error bound.  For baselines and negative controls.

    Parameters
    ----------
    batch_size : int
        Rows a decision, n in the paper; all rows decide exactly.

    Raises
    ------
    ValueError
        For fewer than two rows.
    """

    batch_size: int

    probability = staticmethod(metropolis_probability)
    draw_noise = staticmethod(draw_log_uniform)
    threshold = staticmethod(log_uniform_threshold)
    decide = staticmethod(decide_at_once)

    def __post_init__(self) -> None:
        check_batch_size(self.batch_size, "The chain is the more over-dispersed the fewer rows it reads.")

    def looks(self, n_rows: int) -> Looks:
        """Look once, at one batch."""
        return Looks(np.array([min(self.batch_size, n_rows)]), np.zeros(1))

    def remedy(self) -> str:
        """Say that there is none."""
        return "A fixed batch has no remedy but more rows: use ApproxMH, MinibatchBarker or PenaltyMH."
