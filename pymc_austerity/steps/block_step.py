"""A step whose rows may come from ``data=``: it learns from files that are added, and its chains share a pool."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_austerity.blocks import BlockTable
from pymc_austerity.kernel.assembly import with_added_files
from pymc_austerity.steps.checked_step import CheckedStep
from pymc_austerity.steps.process import chain_of_worker


class BlockStep(CheckedStep):
    """A step method whose rows are those of its model, or of a table that is read from blocks."""

    decider: Any  # test, proposal, rows and density, compiled
    table: BlockTable | None  # that of data=, as it was read
    _shares: SharesTaken

    def watch_table(self, table: BlockTable | None) -> None:
        """Note which table of ``data=`` the step has learnt from; None where its rows are those of the model."""
        self.table, self._shares = table, SharesTaken(None if table is None else table.shares)
        if table is not None:
            self.model_key = self.model_key._replace(data=table.digest)

    def start_chain(self, rng: np.random.Generator) -> None:
        """Forget the previous chain; raise a ValueError for more chains than share the pool."""
        super().start_chain(rng)
        self._shares.check(rng)

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


class SharesTaken:
    """Which share of a pool each chain of a run has, so that no two have the same."""

    def __init__(self, shares: int | None) -> None:
        self._n: int | None = shares  # None where there is no pool
        self._taken: dict[tuple[str, int], tuple[int, ...]] = {}

    def check(self, rng: np.random.Generator) -> None:
        """Note which chain begins; raise a ValueError for more chains than the pool was made for."""
        shares = self._n
        if shares is None:
            return
        seed = rng.bit_generator.seed_seq
        key = tuple(getattr(seed, "spawn_key", ()))
        of_run = str(getattr(seed, "entropy", None)), sum(key) % shares
        number = chain_of_worker()
        if (number is not None and number >= shares) or self._taken.setdefault(of_run, key) != key:
            raise ValueError(
                f"chains: the pool is shared by {shares} chains, and there are more of them; two would read the same "
                f"rows. Sample with chains={shares}, or build the step with Blocks(..., chains=) as many."
            )
