"""What a step reports of the rows that its chains read, and of how they err."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

#: What moves the parameters of a model whose groups move by themselves.
GROUPS = "groups"


class Reported(NamedTuple):
    """What a step says in its description, its statistics and its messages, whatever decides."""

    n_table: int  # rows of the user's data
    setup_passes: float  # passes over all rows before the first draw
    error: str  # how a chain errs, in a few words; empty where it leaves the posterior as it is
    row_called: str  # what a row that chains read is called
    number_in_table: Callable[[int], int]  # from the number of such a row to that in the user's data
    moves: str  # what moves the parameters: the name of the proposal, or GROUPS
    broken_bound: str  # what it means that a row changed by more than its bound
