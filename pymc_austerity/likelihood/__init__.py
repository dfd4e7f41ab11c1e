"""What a PyMC model says of its rows: its log density as a log prior and a sum of row terms, with proof."""

from pymc_austerity.likelihood.affine import keeps_affine, row_predictor
from pymc_austerity.likelihood.axis import NotRowWiseError, RowAxis
from pymc_austerity.likelihood.density import (
    Density,
    KnownSum,
    LinkedDensity,
    Place,
    Surroundings,
    compile_density,
    numba_options,
)
from pymc_austerity.likelihood.layout import Block, flatten, flatten_onto, split, with_blocks
from pymc_austerity.likelihood.linked_functions import (
    ONE_VECTOR,
    TOTAL_AND_SLOPE,
    VALUE_AND_SLOPE,
    VECTOR,
    WITHOUT_ROWS,
    both_sides_at,
    build_reading,
    log_prior_at,
    prior_slope_at,
    reach_graph,
    reach_prior_slope,
    reach_reading,
)
from pymc_austerity.likelihood.links import (
    BothSides,
    LinkedBothSides,
    LinkedLogPrior,
    LinkedOneSide,
    LinkedPriorSlope,
    Links,
    LogPrior,
)
from pymc_austerity.likelihood.model_arrays import ModelKey
from pymc_austerity.likelihood.model_data import ModelData, read_model
from pymc_austerity.likelihood.model_graph import entries_taken
from pymc_austerity.likelihood.precision import in_double
from pymc_austerity.likelihood.prior_laws import LAPLACE, NORMAL, Law
from pymc_austerity.likelihood.row_axis import prove_row_axis
from pymc_austerity.likelihood.row_check import check_rows
from pymc_austerity.likelihood.row_entries import RowEntries, find_row_entries
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
    "RowAxis",
    "RowEntries",
    "RowLikelihood",
    "RowTerms",
    "Surroundings",
    "both_sides_at",
    "build_reading",
    "check_rows",
    "compile_density",
    "entries_taken",
    "find_row_entries",
    "flatten",
    "flatten_onto",
    "in_double",
    "keeps_affine",
    "likelihood_key",
    "log_prior_at",
    "numba_options",
    "prior_slope_at",
    "prove_row_axis",
    "reach_graph",
    "reach_prior_slope",
    "reach_reading",
    "read_model",
    "row_predictor",
    "split",
    "with_blocks",
]
