"""What a step does beside, where its rows were drawn from blocks before sampling."""

from __future__ import annotations

import numpy as np
from pymc.model import Model

from pymc_austerity.acceptance import DECIDED
from pymc_austerity.blocks import Blocks, BlockTable, Container
from pymc_austerity.bounds import Bound
from pymc_austerity.kernel import Chain, Decider
from pymc_austerity.likelihood import ModelData
from pymc_austerity.steps.surrogate_draws import draws_of_surrogate
from pymc_austerity.unsupported_model import UnsupportedModelError
from pymc_austerity.user_input import shown

#: Draws that are tried to see how long a pool lasts.
_TRIED = 50


def open_table(blocks: Blocks, model: Model, example: ModelData, progressbar: bool) -> BlockTable:
    """Return the rows that take the place of those in the model.

    Raises TypeError for `blocks` that are none, and ValueError for a model whose rows cannot be replaced, or read
    variables that other steps move.
    """
    if not isinstance(blocks, Blocks):
        raise TypeError(f"data= must be pymc_austerity.Blocks(...), and is {shown(blocks)}.")
    of_others = sorted({b.name for b in example.likelihood.other_blocks} & example.likelihood.read)
    if of_others:
        raise ValueError(
            f"data= needs a step that moves all variables that the rows read, and {of_others} are left to others. They "
            "would see the rows in the model, which are a sample. Leave out vars=, or add these."
        )
    containers = [Container(*c) for c in example.containers()]
    names = ", ".join(b.name for b in example.likelihood.blocks)
    key = f"model of {names} (digest {example.key.model}, {example.key.data})"
    return blocks.table(containers, model.coords, example.row_check(model), progressbar, key)


def check_bound(bound: Bound, name: str) -> None:
    """Refuse a step, of that name, whose bound needs sums over rows in memory."""
    if bound.known_by_sums:
        raise UnsupportedModelError(
            f"data= does not go with {name} for this model: sums over the data determine its likelihood, and are "
            "taken of rows in memory. Use PenaltyMH."
        )


def describe_pool(decider: Decider) -> str:
    """Say for how many draws a pool is good, from some that are tried."""
    chain, tried = Chain(decider, np.random.default_rng(0)), 0
    for theta in draws_of_surrogate(decider)[:_TRIED]:
        outcome = chain.transition(theta, decider.parts.others0, float(decider.parts.temperature.final))
        if outcome.status != DECIDED:
            break
        tried += 1
    shares, stored = decider.row_source.shares or 1, len(decider.parts.stored)
    drawn = f"A pool of {stored:,} rows was drawn from {decider.n_rows:,}: shared by {shares} chains it is "
    if not tried:
        return f"{drawn}too small for a draw."
    if not chain.rows_used:
        return f"{drawn}good for more than {stored / shares * tried:,.0f} draws each, of which {tried} read no row."
    rows = chain.rows_used / tried
    return (
        f"{drawn}good for about {stored / shares / rows:,.0f} draws each, tuning included, at {rows:.3g} rows a draw."
    )
