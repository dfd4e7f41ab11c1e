"""From a PyMC model to a log prior and row terms, and what can be proved about them.

May import `rows`.
"""

from pymc_austerity.likelihood.affine import keeps_affine, require_affine, row_predictor
from pymc_austerity.likelihood.axis import NotRowWiseError, RowAxis
from pymc_austerity.likelihood.by_address import (
    ONE_VECTOR,
    TOTAL_AND_SLOPE,
    VALUE_AND_SLOPE,
    VECTOR,
    WITHOUT_ROWS,
    Reached,
    both_sides_at,
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
from pymc_austerity.likelihood.layout import Block, flatten, flatten_onto, split, with_blocks
from pymc_austerity.likelihood.links import (
    BothSides,
    LinkedBothSides,
    LinkedLogPrior,
    LinkedOneSide,
    LinkedPriorSlope,
    Links,
    LogPrior,
)
from pymc_austerity.likelihood.model_arrays import ModelKey, arrays_of_model
from pymc_austerity.likelihood.model_data import ModelData, read_model
from pymc_austerity.likelihood.model_graph import array_of, entries_taken, is_array_leaf, leaf_identity, plain_indices
from pymc_austerity.likelihood.precision import in_double, left_in_single
from pymc_austerity.likelihood.prior_laws import LAPLACE, NORMAL, Law
from pymc_austerity.likelihood.rebuild import BatchRebuild
from pymc_austerity.likelihood.row_axis import prove_row_axis
from pymc_austerity.likelihood.row_check import check_rows
from pymc_austerity.likelihood.row_entries import RowEntries, find_row_entries, reads_few_entries
from pymc_austerity.likelihood.row_likelihood import RowLikelihood, likelihood_key
from pymc_austerity.likelihood.row_terms import RowTerms

__all__ = [
    "LAPLACE",
    "NORMAL",
    "ONE_VECTOR",
    "TOTAL_AND_SLOPE",
    "VALUE_AND_SLOPE",
    "VECTOR",
    "WITHOUT_ROWS",
    "BatchRebuild",
    "Block",
    "BothSides",
    "Density",
    "KnownSum",
    "Law",
    "LinkedBothSides",
    "LinkedDensity",
    "LinkedLogPrior",
    "LinkedOneSide",
    "LinkedPriorSlope",
    "Links",
    "LogPrior",
    "ModelData",
    "ModelKey",
    "NotRowWiseError",
    "Place",
    "Reached",
    "RowAxis",
    "RowEntries",
    "RowLikelihood",
    "RowTerms",
    "Surroundings",
    "array_of",
    "arrays_of_model",
    "both_sides_at",
    "build_call",
    "build_reading",
    "call_at",
    "check_rows",
    "compile_density",
    "compile_log_prior",
    "compile_one_side",
    "compile_rows",
    "entries_taken",
    "find_row_entries",
    "flatten",
    "flatten_onto",
    "in_double",
    "interpret_rows",
    "is_array_leaf",
    "keeps_affine",
    "leaf_identity",
    "left_in_single",
    "likelihood_key",
    "log_prior_at",
    "numba_options",
    "plain_indices",
    "prior_slope_at",
    "prove_row_axis",
    "reach",
    "reach_graph",
    "reach_prior_slope",
    "reach_reading",
    "read_model",
    "reads_few_entries",
    "require_affine",
    "row_predictor",
    "split",
    "with_blocks",
]
