"""How far the log-likelihood of a row can change: Lipschitz and Taylor bounds, and sufficient statistics."""

from pymc_austerity.bounds.chosen_bound import find_bound, find_remainder_bound
from pymc_austerity.bounds.remainder_bounds import RemainderBounds
from pymc_austerity.bounds.row_bound import Bound, EvaluateBound, Region, Unbounded, no_bound
from pymc_austerity.bounds.row_graph import NoRemainderBoundError
from pymc_austerity.bounds.row_scale import RowScale, find_row_scale
from pymc_austerity.bounds.sums_of_squares import is_quadratic_in_data, moment_rows
from pymc_austerity.bounds.whitened_bound import UnknownBoundError, WhitenedBound
