"""What to change when a check fails, in terms of the arguments of the step at hand."""

from __future__ import annotations

from pymc_austerity.acceptance import Reads
from pymc_austerity.kernel import Decider


def decision_remedy(decider: Decider) -> str:
    """Say how the test of a step can be made to decide better."""
    proxy = " Or leave out proxy=None." if decider.parts.could_have_proxy else ""
    return f"{decider.test.remedy()}{proxy}"


def batch_remedy(decider: Decider) -> str:
    """Say how the mean of a batch can be made closer to normal."""
    if decider.row_source.weighted:
        return "Raise batch_size, or let Weighted draw more rows uniformly with a larger floor."
    advice = "Raise batch_size"
    if decider.density.expands:
        advice += ", draw rows with rows=pymc_austerity.Weighted()"
    elif decider.parts.could_have_proxy:
        advice += ", leave out proxy=None, so that rows are drawn by what a proxy leaves of them"
    return f"{advice}, use a likelihood with lighter tails, or decide on all rows with ExactMH."


def balance_remedy(decider: Decider) -> str:
    """Say how a move and its reverse can be brought into balance."""
    by_batch = decider.test.corrects_noise and decider.test.reads is Reads.BATCHES
    return batch_remedy(decider) if by_batch else decision_remedy(decider)
