"""Rows that do not fit in memory: where they come from, and the passes in which they are read.

May import `rows`.  A source is a class that answers `Source`.
"""

from pymc_austerity.blocks.blocks import Blocks
from pymc_austerity.blocks.columns import Container
from pymc_austerity.blocks.grown_table import GrownTable, grown_table, table_read_anew
from pymc_austerity.blocks.source import BadRowError
from pymc_austerity.blocks.table import BlockTable
