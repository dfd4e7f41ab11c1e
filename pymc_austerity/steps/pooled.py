"""What a step does beside, where its rows come from ``data=``: they are drawn from blocks before sampling."""

from __future__ import annotations

from typing import Any

import numpy as np
from pymc.model import Model

from pymc_austerity.acceptance import DECIDED
from pymc_austerity.blocks import Blocks, BlockTable, Container
from pymc_austerity.bounds import Bound
from pymc_austerity.kernel import Chain, Decider
from pymc_austerity.kernel.assembly import with_added_files
from pymc_austerity.likelihood import ModelData
from pymc_austerity.steps.checked_step import CheckedStep
from pymc_austerity.steps.process import chain_of_worker
from pymc_austerity.unsupported_model import UnsupportedModelError
from pymc_austerity.user_input import shown

#: Draws that are tried to see how long a pool lasts.
_TRIED = 50


def open_table(blocks: Blocks, model: Model, example: ModelData, progressbar: bool) -> BlockTable:
    """Return the rows that take the place of those in the model; refuse a model whose rows cannot be replaced."""
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
    for theta in decider.draws_of_surrogate()[:_TRIED]:
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


class BlockStep(CheckedStep):
    """A step method whose rows are those of its model, or of a table that is read from blocks."""

    decider: Any  # test, proposal, rows and density, compiled
    table: BlockTable | None  # that of data=, as it was read
    _shares: int | None  # chains that share the pool of the table
    _taken: dict[tuple[str, int], tuple[int, ...]]  # which chain of a run has which share

    def watch_table(self, table: BlockTable | None) -> None:
        """Note which table of ``data=`` the step has learnt from; None where its rows are those of the model."""
        self.table, self._shares, self._taken = table, None if table is None else table.shares, {}
        if table is not None:
            self.model_key = self.model_key._replace(data=table.digest)

    def start_chain(self, rng: np.random.Generator) -> None:
        """Forget the previous chain; raise a ValueError for more chains than share the pool."""
        super().start_chain(rng)
        if self._shares is None:
            return
        seed = rng.bit_generator.seed_seq
        key = tuple(getattr(seed, "spawn_key", ()))
        of_run = str(getattr(seed, "entropy", None)), sum(key) % self._shares
        number = chain_of_worker()
        if (number is not None and number >= self._shares) or self._taken.setdefault(of_run, key) != key:
            raise ValueError(
                f"chains: the pool is shared by {self._shares} chains, and there are more of them; two would read the "
                f"same rows. Sample with chains={self._shares}, or build the step with Blocks(..., chains=) as many."
            )

    def read_added_files(self) -> int:
        """Learn from the files that were added to the folder of ``data=``.

        What is known of the other files stays: the sums of their expansion, and the pool, into which new rows are let
        as if the pass had gone on. Where the posterior has moved far, all rows are learnt from anew, and the log says
        so. Chains that begin afterwards are of all rows.

        Returns
        -------
        int
            How many rows the new files have; 0 where there are none.

        Raises
        ------
        ValueError
            For a step without ``data=``, a source that is no folder, and files that were changed or removed.
        """
        if self.table is None:
            raise ValueError(f"{type(self).__name__} was built without data=, and follows pm.set_data by itself.")
        found = with_added_files(self.decider, self.table)
        if found is None:
            return 0
        before, (self.decider, table) = len(self.table), found
        self.watch_table(table)
        return len(table) - before
