"""What a chain of one decision records beside its draws: its tuned state, and at its end what is wrong with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_austerity.diagnostics import Watch
from pymc_austerity.kernel import Chain, Outcome, TunedState


class Recorder:
    """Adds statistics to the draws of one chain.

    `length`: draws after tuning, each of `thin` transitions, or None where that is not known; `name`: that of the step,
    for the warning; `tuned_as`: dtype of the statistic `TUNED`, as PyMC was told it.
    """

    def __init__(self, chain: Chain, length: int | None, name: str, thin: int, tuned_as: np.dtype):
        self._watch = Watch(length, name, thin)
        self._tuned = TunedState(chain.decider, tuned_as)

    def stats(self, chain: Chain, outcome: Outcome, others: np.ndarray, tuning: bool) -> dict[str, Any]:
        """Return the statistics of a draw."""
        warning = None if tuning else self._watch.after(chain, outcome, others)
        return {"warning": warning, **self._tuned.stats(chain, tuning)}
