"""What a standard error does not hold: truncations that never occurred, and moments that may not exist."""

from __future__ import annotations

import warnings

import numpy as np

from pymc_austerity.paths.convergence_rate import MAX_BETA, MIN_BETA, Choice, squared_errors
from pymc_austerity.paths.truncation import Truncation

#: Share of the variance that may be missing from a standard error.
_MOST = 0.5


def unseen_variance(law: Truncation, choice: Choice, deepest: int) -> float:
    """Share of the variance that comes from truncations deeper than `deepest`.

    A standard error cannot know about jumps that have not occurred yet; where α is near β every batch size
    adds about as much variance as the one before, however rare it is.
    """
    errors = squared_errors(law.sizes, float(np.clip(_rate(choice), MIN_BETA, MAX_BETA)))
    by_level = law.variance_by_level(errors)
    return float(by_level[deepest - 1 :].sum() / by_level.sum()) if by_level.sum() > 0 else 0.0


def doubts(law: Truncation, choice: Choice, deepest: int, count: int) -> str:
    """Return sentences on why the standard error of a run may be too small; none where there is no reason.

    `deepest` is the largest truncation that occurred in `count` replications.
    """
    unseen, beta, found = unseen_variance(law, choice, deepest), _rate(choice), []
    if unseen > _MOST:
        found.append(
            f"{unseen:.0%} of the variance comes from batches of more than {law.sizes[deepest - 1]:,} rows, which none "
            f"of {count} replications reached, if β = {beta:.2g}. The standard error does not hold it, and intervals "
            "cover too rarely. Choose a smaller alpha, or more replications."
        )
    if choice.beta <= choice.beta_error:
        found.append(
            f"The fitted convergence rate is not clearly positive (β = {choice.beta:.2f} ± {choice.beta_error:.2f}): "
            "on the pilot paths φ does not come closer to its value on all rows as batches grow, and its variance may "
            "not exist. Draw more inside φ, raise min_batch, or read all rows."
        )
    elif law.alpha >= beta and unseen > 0:
        found.append(
            f"alpha = {law.alpha:.3g} is not below the convergence rate β = {beta:.2g} "
            f"({'fitted' if np.isfinite(choice.beta) else 'the largest of random subsets'}), so that the variance of a "
            "replication grows without bound with the rows. Choose a smaller alpha."
        )
    return " ".join(found)


def warn(sentences: str) -> None:
    """Warn of the doubts about a result, if there are any."""
    if sentences:
        warnings.warn(f"The standard error may say too little. {sentences}", UserWarning, stacklevel=3)


def _rate(choice: Choice) -> float:
    """Return β as fitted, or the largest that it can be."""
    return min(choice.beta, MAX_BETA) if np.isfinite(choice.beta) else MAX_BETA
