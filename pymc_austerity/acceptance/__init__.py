"""When the rows read so far decide: the acceptance tests."""

from pymc_austerity.acceptance.acceptance_test import AcceptanceTest, Looks, NeedsDistinctRowsError, Reads
from pymc_austerity.acceptance.all_rows import Exact
from pymc_austerity.acceptance.barker import Barker, ExactBarker
from pymc_austerity.acceptance.concentration import ConcentrationBound
from pymc_austerity.acceptance.decision import (
    ACCEPT,
    BAD_BOUND,
    BAD_PRIOR,
    BAD_ROW,
    DECIDED,
    REJECT,
    UNDECIDED,
    Conclude,
    Question,
    RowReader,
    Terms,
)
from pymc_austerity.acceptance.moments import Moments
from pymc_austerity.acceptance.penalty import NoisePenalty
from pymc_austerity.acceptance.scalable_subsampling import ScalableSubsampling
from pymc_austerity.acceptance.sequential import SequentialT
from pymc_austerity.acceptance.uncorrected import FixedBatch
