"""What to change when a check fails, in terms of the arguments of the step at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymc_austerity.acceptance import FixedBatch, SequentialT
from pymc_austerity.concentration import ConcentrationBound

if TYPE_CHECKING:
    from pymc_austerity.row_step import RowStep


def decision_remedy(step: RowStep) -> str:
    """Say how the test of a step can be made to decide better."""
    test = step.test
    if isinstance(test, FixedBatch):
        return "A fixed batch has no remedy but more rows: use ApproxMH, MinibatchBarker or PenaltyMH."
    if isinstance(test, ConcentrationBound):
        return f"Use a smaller delta than {test.delta:g}."
    proxy = ", or leave out proxy=None" if step.could_have_proxy else ""
    if isinstance(test, SequentialT):
        smaller = f"epsilon={test.epsilon / 10:g}" if test.epsilon > 0 else "epsilon=0"
        return f"Decide more carefully ({smaller} in place of {test.epsilon:g}){proxy}."
    return f"Let the test read more rows{proxy}."


def batch_remedy(step: RowStep) -> str:
    """Say how the mean of a batch can be made closer to normal."""
    if step.row_source.weighted:
        return "Raise batch_size, or let Weighted draw more rows uniformly with a larger floor."
    advice = "Raise batch_size"
    if step.has_proxy:
        advice += ", draw rows with rows=pymc_austerity.Weighted()"
    elif step.could_have_proxy:
        advice += ", leave out proxy=None, so that rows are drawn by what a proxy leaves of them"
    return f"{advice}, use a likelihood with lighter tails, or decide on all rows with ExactMH."
