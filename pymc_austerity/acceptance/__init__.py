"""When the rows read so far decide.

May import `rows`.  A test is one class in one file that inherits from `AcceptanceTest`.
"""

from pymc_austerity.acceptance.acceptance_test import AcceptanceTest, Looks, NeedsDistinctRowsError
from pymc_austerity.acceptance.always import AlwaysAccept
from pymc_austerity.acceptance.barker import Barker, ExactBarker
from pymc_austerity.acceptance.by_looks import WITH_REPLACEMENT
from pymc_austerity.acceptance.concentration import (
    ConcentrationBound,
    Inequality,
    empirical_bernstein,
    empirical_bernstein_serfling,
    hoeffding_serfling,
)
from pymc_austerity.acceptance.decision import (
    ACCEPT,
    BAD_BOUND,
    BAD_PRIOR,
    BAD_ROW,
    DECIDED,
    OUT_OF_REACH,
    REJECT,
    ROWS_SPENT,
    UNDECIDED,
    Conclude,
    Decision,
    RowReader,
    Terms,
    TermsAt,
)
from pymc_austerity.acceptance.decision_error import acceptance_error, total_variation_bound
from pymc_austerity.acceptance.fixed_batch import FixedBatch
from pymc_austerity.acceptance.looks import check_batch_size, growing_sizes
from pymc_austerity.acceptance.metropolis import Exact, draw_log_uniform, log_uniform_threshold, metropolis_probability
from pymc_austerity.acceptance.moment_signatures import DrawNoise
from pymc_austerity.acceptance.moments import NO_SHAPE, Moments, Shape, add_shape, standard_error
from pymc_austerity.acceptance.operating_characteristic import OperatingCharacteristic, analyse_test
from pymc_austerity.acceptance.penalty import NoisePenalty
from pymc_austerity.acceptance.scalable_subsampling import ScalableSubsampling, thin
from pymc_austerity.acceptance.sequential import SequentialT

__all__ = [
    "ACCEPT",
    "BAD_BOUND",
    "BAD_PRIOR",
    "BAD_ROW",
    "DECIDED",
    "NO_SHAPE",
    "OUT_OF_REACH",
    "REJECT",
    "ROWS_SPENT",
    "UNDECIDED",
    "WITH_REPLACEMENT",
    "AcceptanceTest",
    "AlwaysAccept",
    "Barker",
    "ConcentrationBound",
    "Conclude",
    "Decision",
    "DrawNoise",
    "Exact",
    "ExactBarker",
    "FixedBatch",
    "Inequality",
    "Looks",
    "Moments",
    "NeedsDistinctRowsError",
    "NoisePenalty",
    "OperatingCharacteristic",
    "RowReader",
    "ScalableSubsampling",
    "SequentialT",
    "Shape",
    "Terms",
    "TermsAt",
    "acceptance_error",
    "add_shape",
    "analyse_test",
    "check_batch_size",
    "draw_log_uniform",
    "empirical_bernstein",
    "empirical_bernstein_serfling",
    "growing_sizes",
    "hoeffding_serfling",
    "log_uniform_threshold",
    "metropolis_probability",
    "standard_error",
    "thin",
    "total_variation_bound",
]
