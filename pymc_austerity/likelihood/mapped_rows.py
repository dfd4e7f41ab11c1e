"""A scan that computes each row from that row alone, written as one operation on all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.scan.op import Scan

from pymc_austerity.compat import inner_graph

#: What a scan may have that carries nothing from one step to the next.
_OF_A_MAP = {"n_seqs", "n_nit_sot", "n_non_seqs"}


def apply_map(op: Scan, inputs: Sequence[Variable]) -> list[Variable] | None:
    """Return the outputs of a scan over sequences whose steps do not depend on each other.

    Parameters
    ----------
    op : Scan
    inputs : sequence of Variable
        Its inputs; the sequences are cut to the number of steps already.

    Returns
    -------
    list of Variable or None
        None for a scan that carries a state, or may end early.
    """
    if any(getattr(op.info, f.name) for f in fields(op.info) if f.name not in _OF_A_MAP):
        return None
    inner, outputs = inner_graph(op)
    sequences, rest = op.outer_seqs(inputs), op.outer_non_seqs(inputs)
    outer = dict(zip(inner, [*sequences, *rest], strict=True))
    return list(vectorize_graph(outputs, replace=outer))
