"""Where rows are stored, and how a batch of them is drawn."""

from pymc_austerity.rows.by_bounds import OUTWARDS, BoundedSource, BoundTable
from pymc_austerity.rows.mapped import require_whole
from pymc_austerity.rows.merged import largest_count, number_in_table
from pymc_austerity.rows.pool import Pool
from pymc_austerity.rows.reservoir import Reservoir, Slots
from pymc_austerity.rows.sources import CHUNK, InOrder, RestoreRows, RowsLeft, RowSource, Share, Uniform, draw_in_order
from pymc_austerity.rows.storage import Rows, Table, Work, build_gather, no_op
from pymc_austerity.rows.weighted import Weighted
