"""A step in the process that a chain runs in: how it gets there, how it ends, and how it is stopped."""

from __future__ import annotations

import logging
from multiprocessing import current_process
from typing import Any

from pymc.blocking import PointType
from pymc.exceptions import SamplingError

from pymc_austerity.acceptance import BAD_BOUND, BAD_PRIOR
from pymc_austerity.acceptance.decision import OUT_OF_REACH, ROWS_SPENT
from pymc_austerity.kernel import Outcome
from pymc_austerity.kernel.reported import Reported
from pymc_austerity.steps.draw_statistics import DrawStats, run_has_draws

_log = logging.getLogger("pymc_austerity")

#: How PyMC names the processes in which it runs chains.
WORKER = "worker_chain_"


def in_worker() -> bool:
    """Whether this is a process in which PyMC runs a chain."""
    return current_process().name.startswith(WORKER)


def chain_of_worker() -> int | None:
    """Return the number of the chain that runs in this process, if it is one of PyMC's own."""
    return int(current_process().name.removeprefix(WORKER)) if in_worker() else None


def revive(cls: type[Any], state: dict[str, Any]) -> Any:
    """Return a step as it was pickled; its constructor would ask for the model."""
    step = object.__new__(cls)
    step.__dict__.update(state)
    return step


class ChainStopped(DrawStats):
    """Statistics of a draw that a chain in a process of PyMC's own could not make, and `why`.

    PyMC discards the draws of all chains when a step raises, and keeps them when sampling is interrupted: who records
    these is interrupted where there are draws.  To pickle and to copy them is harmless.
    """

    why: str = ""

    def items(self) -> Any:
        """Return all statistics, to the chain; interrupt the program, which asks when it records the draw."""
        self._interrupt()
        return super().items()

    def get(self, key: str, default: Any = None) -> Any:
        """Return one of the statistics, to the chain; interrupt the program, which asks whether there is a warning."""
        self._interrupt()
        return super().get(key, default)

    def __reduce__(self) -> Any:  # pickle itself would ask for the items
        return type(self), (dict(self),), self.__dict__

    def _interrupt(self) -> None:
        if in_worker():
            return
        if not run_has_draws():  # PyMC would say "Not enough samples to build a trace"
            raise SamplingError(self.why)
        raise KeyboardInterrupt


def stopped_chain(point: PointType, outcome: Outcome, n_steps: int, tuning: bool, reported: Reported) -> ChainStopped:
    """Stop a chain at `point`, after `n_steps` draws: by KeyboardInterrupt, or SamplingError where none can be kept.

    In a process of PyMC's own it returns statistics that do so.
    """
    number = reported.number_in_table(outcome.row)
    if outcome.status == BAD_BOUND:
        raise SamplingError(
            f"Row {number} of the data changes its log-likelihood by more than the bound of the step allows, "
            f"at the point {dict(point)} (values in the unconstrained space). {reported.broken_bound}"
        )
    if outcome.status == ROWS_SPENT:
        message = (
            f"The rows of the pool for this chain are spent after {n_steps:,} draws, tuning included. Each is read "
            "once, or decisions would depend on each other. For more draws build the step with a larger pool: "
            "Blocks(..., pool=)."
        )
    elif outcome.status == OUT_OF_REACH:
        message = (
            f"After {n_steps:,} draws the chain proposed a point so far out that the bounds on the rows do not hold. "
            "All rows together would decide there, and data= does not keep them. It happens about once in 10⁹ draws "
            "where the posterior is near normal; where it is not, use PenaltyMH, which needs no bound."
        )
    else:
        of_row = f"The log-likelihood of {reported.row_called} {number} is not finite"
        what = "The log prior is not finite" if outcome.status == BAD_PRIOR else of_row
        message = (
            f"{what} at the current point {dict(point)} (values in the unconstrained space). Either the chain starts "
            "where the model has no density (see initvals= of pm.sample), or the point was accepted by batches without "
            "that row: the model gives some rows probability zero near its posterior. Widen the likelihood (a heavier "
            "tail, a bounded link function) or sample with pm.NUTS, which reads every row."
        )
    if n_steps == 0 or not (run_has_draws() or in_worker()):  # as in ChainStopped
        raise SamplingError(message)
    if tuning:
        kept = "while this chain was tuning: only chains that had finished tuning have draws to return"
    else:
        kept = "and the draws so far are returned"
    _log.error(f"{message} Sampling stops here, {kept}.")
    if in_worker():
        stopped = ChainStopped()
        stopped.why = message
        return stopped
    raise KeyboardInterrupt(message)
