"""A point without a finite density: stop there with an error that shows it, and keep what was drawn before."""

from __future__ import annotations

import logging
import os
import signal
from multiprocessing import parent_process
from typing import NoReturn

from pymc.blocking import PointType
from pymc.exceptions import SamplingError

from pymc_austerity.kernel import BAD_BOUND, BAD_PRIOR, Outcome

_log = logging.getLogger("pymc_austerity")


def stop_at(point: PointType, outcome: Outcome, n_steps: int) -> NoReturn:
    """Stop a chain at `point`, after `n_steps` draws.

    Raises
    ------
    pymc.exceptions.SamplingError
        At the first draw, or where a row broke the bound of the test.
    KeyboardInterrupt
        Later: PyMC discards all draws when a step raises, but keeps them when sampling is interrupted.
    """
    if outcome.status == BAD_BOUND:
        raise SamplingError(
            f"Row {outcome.row} of the data changes its log-likelihood by more than the bound= of the step allows, "
            f"at the point {dict(point)} (values in the unconstrained space). The error of every decision so far "
            "is then not bounded by delta. Correct the bound, or use bound='scan'."
        )
    what = (
        "The log prior is not finite"
        if outcome.status == BAD_PRIOR
        else f"The log-likelihood of row {outcome.row} is not finite"
    )
    message = (
        f"{what} at the current point {dict(point)} (values in the unconstrained space). "
        "Either the chain starts where the model has no density (see initvals= of pm.sample), or the point was "
        "accepted by batches without that row: the model gives some rows probability zero near its posterior. "
        "Widen the likelihood (a heavier tail, a bounded link function) or remove the row."
    )
    if n_steps == 0:
        raise SamplingError(message)
    _log.error(f"{message} Sampling stops here; the draws so far are returned.")
    sampler = parent_process()
    if sampler is not None and sampler.pid is not None:
        os.kill(sampler.pid, signal.SIGINT)
    raise KeyboardInterrupt(message)
