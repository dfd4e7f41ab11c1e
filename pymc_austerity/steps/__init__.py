"""PyMC's contract: arguments, draws, statistics, progress, warnings."""

from pymc_austerity.steps.approx_mh import ApproxMH
from pymc_austerity.steps.baselines import SGLD, ExactMH, MinibatchMH
from pymc_austerity.steps.citation import citation
from pymc_austerity.steps.gibbs import ApproxGibbs
from pymc_austerity.steps.group_mh import GroupMH
from pymc_austerity.steps.methods import MHSubLhd, MinibatchBarker, PenaltyMH
from pymc_austerity.steps.mhss import MHSS
from pymc_austerity.steps.recommend import recommend, step
from pymc_austerity.steps.recommendation import Recommendation
from pymc_austerity.steps.resume import resume
from pymc_austerity.steps.row_step import RowStep
from pymc_austerity.steps.running_summaries import RunningSummaries
from pymc_austerity.steps.stop_at import stop_at
