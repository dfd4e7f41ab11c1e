"""A point without a finite density: stop there with an error that shows it, and keep what was drawn before."""

from __future__ import annotations

import logging
from typing import Any, NoReturn

from pymc.blocking import PointType
from pymc.exceptions import SamplingError

from pymc_austerity.acceptance import BAD_BOUND, BAD_PRIOR, OUT_OF_REACH, ROWS_SPENT
from pymc_austerity.kernel import Outcome
from pymc_austerity.steps.orphans import in_worker

_log = logging.getLogger("pymc_austerity")


class _Interrupt:
    """Interrupts the process that unpickles it.

    PyMC keeps the draws of all chains when sampling is interrupted, and discards them when a step raises; and it
    listens to the process of a chain through one pipe, which carries the statistics of each draw.
    """

    def __reduce__(self) -> Any:
        return _interrupt, ()


def _interrupt() -> NoReturn:
    raise KeyboardInterrupt


def stop_at(
    point: PointType, outcome: Outcome, n_steps: int, tuning: bool, broken_bound: str, row: str = "row"
) -> dict[str, Any]:
    """Stop a chain at `point`, after `n_steps` draws.

    Parameters
    ----------
    broken_bound : str
        What that means of the test.
    row : str
        What a row is called.

    Returns
    -------
    dict
        In a process of PyMC's own: statistics of a draw that PyMC never takes up, because it is interrupted when it
        reads them.

    Raises
    ------
    pymc.exceptions.SamplingError
        At the first draw, or where a row broke the bound of the test.
    KeyboardInterrupt
        Later, in the process that samples.
    """
    if outcome.status == BAD_BOUND:
        raise SamplingError(
            f"Row {outcome.row} of the data changes its log-likelihood by more than the bound of the step allows, "
            f"at the point {dict(point)} (values in the unconstrained space). {broken_bound}"
        )
    if outcome.status == ROWS_SPENT:
        return _end(
            f"The rows of the pool for this chain are spent after {n_steps:,} draws, tuning included. Each is read "
            "once, or decisions would depend on each other. For more draws build the step with a larger pool: "
            "Blocks(..., pool=).",
            n_steps,
            tuning,
        )
    if outcome.status == OUT_OF_REACH:
        return _end(
            f"After {n_steps:,} draws the chain proposed a point so far out that the bounds on the rows do not hold. "
            "All rows together would decide there, and data= does not keep them. It happens about once in 10⁹ draws "
            "where the posterior is near normal; where it is not, use PenaltyMH, which needs no bound.",
            n_steps,
            tuning,
        )
    what = (
        "The log prior is not finite"
        if outcome.status == BAD_PRIOR
        else f"The log-likelihood of {row} {outcome.row} is not finite"
    )
    message = (
        f"{what} at the current point {dict(point)} (values in the unconstrained space). "
        "Either the chain starts where the model has no density (see initvals= of pm.sample), or the point was "
        "accepted by batches without that row: the model gives some rows probability zero near its posterior. "
        "Widen the likelihood (a heavier tail, a bounded link function) or remove the row."
    )
    return _end(message, n_steps, tuning)


def _end(message: str, n_steps: int, tuning: bool) -> dict[str, Any]:
    """Stop with a message, and keep what was drawn before."""
    if n_steps == 0:
        raise SamplingError(message)
    if tuning:
        kept = "while this chain was tuning: only chains that had finished tuning have draws to return"
    else:
        kept = "and the draws so far are returned"
    _log.error(f"{message} Sampling stops here, {kept}.")
    if in_worker():
        return {"warning": _Interrupt()}
    raise KeyboardInterrupt(message)
