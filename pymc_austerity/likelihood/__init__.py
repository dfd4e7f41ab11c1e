"""What a PyMC model says of its rows: its log density as a log prior and a sum of row terms, with proof."""

from pymc_austerity.likelihood.affine import keeps_affine, row_predictor
from pymc_austerity.likelihood.axis import NotRowWiseError
from pymc_austerity.likelihood.density import (
    Density,
    KnownSum,
    LinkedDensity,
    Place,
    Surroundings,
    compile_density,
    numba_options,
)
from pymc_austerity.likelihood.layout import Block, Coordinates, flatten, with_blocks
from pymc_austerity.likelihood.linked_functions import VECTOR, BothSides, LinkedBothSides, LinkedLogPrior, Links
from pymc_austerity.likelihood.model_data import ModelData, read_model
from pymc_austerity.likelihood.row_check import check_rows
from pymc_austerity.likelihood.row_likelihood import RowLikelihood
from pymc_austerity.likelihood.united_rows import united_rows
