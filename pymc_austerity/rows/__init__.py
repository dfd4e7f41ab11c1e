"""Where rows live, and how a batch of them is drawn.

Imports nothing of the other rooms.
"""

from pymc_austerity.rows.by_bounds import (
    OUTWARDS,
    BoundedSource,
    BoundPool,
    BoundTable,
    PooledByBounds,
    RowsByBounds,
    bound_table,
    rows_to_read,
)
from pymc_austerity.rows.by_cones import BoundCones, RowsByCones, cone_table
from pymc_austerity.rows.in_order import InOrder, LastPass, is_at, move_to
from pymc_austerity.rows.mapped import MappedFile, received, require_whole, sent
from pymc_austerity.rows.merged import largest_count, merge_rows, number_in_table, with_counts
from pymc_austerity.rows.pool import Pool, PooledRows
from pymc_austerity.rows.reservoir import Offer, Reservoir, Slots
from pymc_austerity.rows.sources import (
    DrawRows,
    RestoreRows,
    RowsLeft,
    RowSource,
    Share,
    TotalRows,
    Uniform,
    WeighRows,
    draw_in_order,
    draw_subset,
)
from pymc_austerity.rows.storage import CHUNK, DrawnRows, Gather, Rows, Table, Work, build_gather, nobody
from pymc_austerity.rows.weighted import AliasTable, Weighted, WeightedRows, row_table

__all__ = [
    "CHUNK",
    "OUTWARDS",
    "AliasTable",
    "BoundCones",
    "BoundPool",
    "BoundTable",
    "BoundedSource",
    "DrawRows",
    "DrawnRows",
    "Gather",
    "InOrder",
    "LastPass",
    "MappedFile",
    "Offer",
    "Pool",
    "PooledByBounds",
    "PooledRows",
    "Reservoir",
    "RestoreRows",
    "RowSource",
    "Rows",
    "RowsByBounds",
    "RowsByCones",
    "RowsLeft",
    "Share",
    "Slots",
    "Table",
    "TotalRows",
    "Uniform",
    "WeighRows",
    "Weighted",
    "WeightedRows",
    "Work",
    "bound_table",
    "build_gather",
    "cone_table",
    "draw_in_order",
    "draw_subset",
    "is_at",
    "largest_count",
    "merge_rows",
    "move_to",
    "nobody",
    "number_in_table",
    "received",
    "require_whole",
    "row_table",
    "rows_to_read",
    "sent",
    "with_counts",
]
