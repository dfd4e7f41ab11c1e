"""From a PyMC model to a log prior and row terms, and what can be proved about them.

May import `rows`.
"""

from pymc_austerity.likelihood.addresses import (
    ADDRESSES,
    NOWHERE,
    Addresses,
    addresses,
    arrays_at,
    n_rows_at,
    tuple_of,
)
from pymc_austerity.likelihood.affine import keeps_affine, row_predictor
from pymc_austerity.likelihood.bounds import Bound, EvaluateBound, Region, Unbounded, find_bound, no_bound
from pymc_austerity.likelihood.by_address import (
    ONE_VECTOR,
    TOTAL_AND_SLOPE,
    VALUE_AND_SLOPE,
    VECTOR,
    WITHOUT_ROWS,
    Reached,
    build_call,
    build_reading,
    call_at,
    log_prior_at,
    prior_slope_at,
    reach,
    reach_graph,
    reach_prior_slope,
    reach_reading,
)
from pymc_austerity.likelihood.density import (
    Density,
    KnownSum,
    LinkedDensity,
    Place,
    Surroundings,
    compile_density,
    compile_log_prior,
    compile_one_side,
    compile_rows,
    interpret_rows,
    numba_options,
)
from pymc_austerity.likelihood.group_density import (
    GroupPrior,
    GroupPriorLinks,
    LinkedGroupDerivatives,
    LinkedGroupPrior,
    LinkedGroupTerms,
    check_groups,
    compile_group_prior,
)
from pymc_austerity.likelihood.groups import Groups, GroupsNotFoundError, NoGroupsError, find_groups
from pymc_austerity.likelihood.known_scale import RowScale, find_row_scale
from pymc_austerity.likelihood.layout import Block, flatten, flatten_onto, with_blocks
from pymc_austerity.likelihood.model_arrays import ModelKey, arrays_of_model
from pymc_austerity.likelihood.model_data import ModelData, read_model
from pymc_austerity.likelihood.prior_laws import LAPLACE, NORMAL, Law
from pymc_austerity.likelihood.rebuild import BatchRebuild, NotRowWiseError
from pymc_austerity.likelihood.remainder_bounds import RemainderBounds
from pymc_austerity.likelihood.row_check import check_rows
from pymc_austerity.likelihood.row_entries import RowEntries, find_row_entries, reads_few_entries
from pymc_austerity.likelihood.row_graph import NoRemainderBoundError
from pymc_austerity.likelihood.row_leaves import array_of, is_array_leaf, leaf_identity
from pymc_austerity.likelihood.row_likelihood import RowLikelihood, likelihood_key
from pymc_austerity.likelihood.signatures import (
    BothSides,
    LinkedBothSides,
    LinkedLogPrior,
    LinkedOneSide,
    LinkedPriorSlope,
    Links,
    LogPrior,
)
from pymc_austerity.likelihood.sums_of_squares import is_quadratic_in_data, moment_rows
from pymc_austerity.likelihood.whitened_bound import find_remainder_bound

__all__ = [
    "ADDRESSES",
    "LAPLACE",
    "NORMAL",
    "NOWHERE",
    "ONE_VECTOR",
    "TOTAL_AND_SLOPE",
    "VALUE_AND_SLOPE",
    "VECTOR",
    "WITHOUT_ROWS",
    "Addresses",
    "BatchRebuild",
    "Block",
    "BothSides",
    "Bound",
    "Density",
    "EvaluateBound",
    "GroupPrior",
    "GroupPriorLinks",
    "Groups",
    "GroupsNotFoundError",
    "KnownSum",
    "Law",
    "LinkedBothSides",
    "LinkedDensity",
    "LinkedGroupDerivatives",
    "LinkedGroupPrior",
    "LinkedGroupTerms",
    "LinkedLogPrior",
    "LinkedOneSide",
    "LinkedPriorSlope",
    "Links",
    "LogPrior",
    "ModelData",
    "ModelKey",
    "NoGroupsError",
    "NoRemainderBoundError",
    "NotRowWiseError",
    "Place",
    "Reached",
    "Region",
    "RemainderBounds",
    "RowEntries",
    "RowLikelihood",
    "RowScale",
    "Surroundings",
    "Unbounded",
    "addresses",
    "array_of",
    "arrays_at",
    "arrays_of_model",
    "build_call",
    "build_reading",
    "call_at",
    "check_groups",
    "check_rows",
    "compile_density",
    "compile_group_prior",
    "compile_log_prior",
    "compile_one_side",
    "compile_rows",
    "find_bound",
    "find_groups",
    "find_remainder_bound",
    "find_row_entries",
    "find_row_scale",
    "flatten",
    "flatten_onto",
    "interpret_rows",
    "is_array_leaf",
    "is_quadratic_in_data",
    "keeps_affine",
    "leaf_identity",
    "likelihood_key",
    "log_prior_at",
    "moment_rows",
    "n_rows_at",
    "no_bound",
    "numba_options",
    "prior_slope_at",
    "reach",
    "reach_graph",
    "reach_prior_slope",
    "reach_reading",
    "read_model",
    "reads_few_entries",
    "row_predictor",
    "tuple_of",
    "with_blocks",
]
