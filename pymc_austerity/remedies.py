"""What to change when a check fails, in terms of the arguments of the step at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymc_austerity.acceptance import AcceptanceTest, FixedBatch, SequentialT
from pymc_austerity.concentration import ConcentrationBound

if TYPE_CHECKING:
    from pymc_austerity.row_step import RowStep


def decision_remedy(test: AcceptanceTest) -> str:
    """Say how a test can be made to decide better."""
    if isinstance(test, SequentialT):
        smaller = f"epsilon={test.epsilon / 10:g}" if test.epsilon > 0 else "epsilon=0"
        return f"Decide more carefully ({smaller} in place of {test.epsilon:g}), or add proxy=pymc_austerity.Taylor()."
    if isinstance(test, FixedBatch):
        return "A fixed batch has no remedy but more rows: use ApproxMH, MinibatchBarker or PenaltyMH."
    if isinstance(test, ConcentrationBound):
        return f"Use a smaller delta than {test.delta:g}."
    return "Let the test read more rows, or add proxy=pymc_austerity.Taylor()."


def batch_remedy(step: RowStep) -> str:
    """Say how the mean of a batch can be made closer to normal."""
    if step.row_source.weighted:
        return "Raise batch_size, or let Weighted draw more rows uniformly with a larger floor."
    advice = "Raise batch_size"
    if not step.has_proxy:
        advice += ", add proxy=pymc_austerity.Taylor() with rows=pymc_austerity.Weighted()"
    else:
        advice += ", draw rows with rows=pymc_austerity.Weighted()"
    return f"{advice}, use a likelihood with lighter tails, or decide on all rows with ExactMH."
