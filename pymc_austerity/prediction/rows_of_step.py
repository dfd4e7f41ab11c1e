"""What a step has read of its model and of its rows, so that a run of it is examined without reading them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymc.model import Model

from pymc_austerity.blocks import Blocks, BlockTable, GrownTable, table_read_anew
from pymc_austerity.diagnostics.same_data import check_step_of
from pymc_austerity.likelihood import ModelData
from pymc_austerity.steps import RowStep
from pymc_austerity.user_input import shown

#: The model as a step reads it, None where its rows were merged; its table of ``data=``; the digest of these rows.
RowsOfStep = tuple[ModelData | None, BlockTable | None, int]


def rows_of_step(step: Any, model: Model, data: Blocks | None, observed: str | Sequence[str] | None) -> RowsOfStep:
    """Return what a step knows; refuse one of another model, or of other data, and arguments that say it again."""
    if not isinstance(step, RowStep):
        raise TypeError(f"loo: step={shown(step)} must be a step of pymc_austerity that accepts or rejects by rows.")
    if data is not None:
        raise ValueError("loo: step= and data= both say where the rows are. Leave data= out.")
    check_step_of(step, model)
    step.follow_data()
    known = step.known_data
    names = None if observed is None else {observed} if isinstance(observed, str) else set(observed)
    if known is not None and names is not None and names != {term.name for term in known.terms.all}:
        raise ValueError(
            f"loo: observed={shown(observed)}, and step= reads the rows of {[term.name for term in known.terms.all]}. "
            "Leave one of the two out."
        )
    own = None if known is None or known.likelihood.counts is not None else known
    table = step.table
    if isinstance(table, GrownTable):  # of which it does not know all rows by their numbers
        if table.passes.files.added() is not None:
            raise ValueError(
                "loo: files were added since step= read them. Call its read_added_files, and sample again."
            )
        table = table_read_anew(table)
    return own, table, step.model_key.data
