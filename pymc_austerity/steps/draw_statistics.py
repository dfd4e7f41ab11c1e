"""The statistics of a draw of steps that read rows: what they are, and how a decision fills them."""

from __future__ import annotations

from typing import Any

import numpy as np
from pymc.stats.convergence import SamplerWarning

from pymc_austerity.acceptance import AcceptanceTest
from pymc_austerity.kernel import TRANSITIONS, Outcome
from pymc_austerity.steps.data_of_step import OF_ITS_DATA
from pymc_austerity.steps.draw_progress import DrawStats

#: Types and shapes of the statistics of a decision, and of what went before the first draw.
OF_A_DECISION: dict[str, Any] = {
    "accepted": (np.float64, []),  # as PyMC's Metropolis declares it, which may stand beside
    "n_rows": (np.int64, []),
    "n_stages": (np.int64, []),
    "full_data": (bool, []),
    "log_ratio": (np.float64, []),
    "log_ratio_sd": (np.float64, []),
    "scaling": (np.float64, []),
    "threshold": (np.float64, []),
    "setup_passes": (np.float64, []),
    "setup_seconds": (np.float64, []),
    **OF_ITS_DATA,
}
#: Of a draw that is one decision.
OF_A_DRAW: dict[str, Any] = {
    **OF_A_DECISION,
    "accept": (np.float64, []),
    "total_rows": (np.int64, []),
    "warning": (SamplerWarning, None),
}
#: Of one that is decisions on the shared parameters and on groups.
OF_GROUPS: dict[str, Any] = {
    **OF_A_DECISION,
    "walked": (bool, []),
    "n_rows_carried": (np.int64, []),
    "n_rows_refreshed": (np.int64, []),
    "n_refreshed": (np.int64, []),
    "refresh_accept": (np.float64, []),
    "shift_accept": (np.float64, []),
}
#: And where rows of the table were merged.
OF_MERGED_ROWS: dict[str, Any] = {"distinct_rows": (np.int64, [])}
#: And where a draw is more than one transition.
OF_SEVERAL: dict[str, Any] = {TRANSITIONS: (np.int64, [])}


def statistics_of(outcome: Outcome, log_scale: float, test: AcceptanceTest) -> DrawStats:
    """Return what the decision of a draw says.

    Parameters
    ----------
    outcome : Outcome
    log_scale : float
        Of the proposal that was decided on.
    test : AcceptanceTest
        By which.
    """
    return DrawStats(
        accepted=outcome.accepted,
        accept=test.probability(outcome.log_ratio) if outcome.full_data else np.nan,
        n_rows=outcome.n_rows,
        n_stages=outcome.n_stages,
        full_data=outcome.full_data,
        log_ratio=outcome.log_ratio,
        log_ratio_sd=outcome.log_ratio_sd,
        scaling=np.exp(log_scale),
        threshold=outcome.threshold,
    )
