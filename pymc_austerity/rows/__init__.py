"""Where rows live, and how a batch of them is drawn.

Imports nothing of the other rooms.
"""

from pymc_austerity.rows.sources import InOrder, RowSource, Uniform, draw_in_order, draw_subset
from pymc_austerity.rows.storage import Rows, build_gather
from pymc_austerity.rows.weighted import AliasTable, Weighted, WeightedRows, row_table

__all__ = [
    "AliasTable",
    "InOrder",
    "RowSource",
    "Rows",
    "Uniform",
    "Weighted",
    "WeightedRows",
    "build_gather",
    "draw_in_order",
    "draw_subset",
    "row_table",
]
