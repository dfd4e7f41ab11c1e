"""PyMC step methods whose acceptance test reads a few hundred rows of a large data set instead of all."""

from importlib.metadata import version

from pymc_austerity.acceptance.barker import ExactBarker
from pymc_austerity.acceptance.concentration import (
    empirical_bernstein,
    empirical_bernstein_serfling,
    hoeffding_serfling,
)
from pymc_austerity.acceptance.decision_error import acceptance_error, total_variation_bound
from pymc_austerity.acceptance.metropolis import Exact
from pymc_austerity.acceptance.operating_characteristic import OperatingCharacteristic, analyse_test
from pymc_austerity.diagnostics.amari import amari_distance
from pymc_austerity.diagnostics.design import Design, design_test, evaluate_test
from pymc_austerity.diagnostics.plots import plot_comparison, plot_data_usage
from pymc_austerity.diagnostics.plots_decisions import plot_decisions, plot_error, plot_spot_check
from pymc_austerity.diagnostics.reliability import Reliability, reliability
from pymc_austerity.diagnostics.risk import plot_risk, risk_over_time
from pymc_austerity.diagnostics.tables import compare, data_usage
from pymc_austerity.diagnostics.trial import Trial, run_trial
from pymc_austerity.distributions import UniformStiefel
from pymc_austerity.kernel.temperature import Annealing, TemperatureDrop
from pymc_austerity.likelihood.rebuild import NotRowWiseError
from pymc_austerity.paths import (
    NutpieNUTS,
    PartialPosteriorPaths,
    PyMCNUTS,
    ReplicationError,
    debias,
    debias_stream,
)
from pymc_austerity.proposals.crank_nicolson import CrankNicolson
from pymc_austerity.proposals.jumps.reversible_jump import ReversibleJump
from pymc_austerity.proposals.langevin import Langevin
from pymc_austerity.proposals.random_walk import AdaptiveMetropolis, RandomWalk
from pymc_austerity.proposals.stiefel import StiefelWalk
from pymc_austerity.proposals.surrogate_hmc import SurrogateHMC
from pymc_austerity.proxy.expansion import Taylor
from pymc_austerity.rows.sources import Uniform
from pymc_austerity.rows.weighted import Weighted
from pymc_austerity.steps.gibbs import ApproxGibbs
from pymc_austerity.steps.methods import ApproxMH, ExactMH, MHSubLhd, MinibatchBarker, MinibatchMH, PenaltyMH
from pymc_austerity.steps.sgld import SGLD

__version__ = version("pymc-austerity")

__all__ = [
    "SGLD",
    "AdaptiveMetropolis",
    "Annealing",
    "ApproxGibbs",
    "ApproxMH",
    "CrankNicolson",
    "Design",
    "Exact",
    "ExactBarker",
    "ExactMH",
    "Langevin",
    "MHSubLhd",
    "MinibatchBarker",
    "MinibatchMH",
    "NotRowWiseError",
    "NutpieNUTS",
    "OperatingCharacteristic",
    "PartialPosteriorPaths",
    "PenaltyMH",
    "PyMCNUTS",
    "RandomWalk",
    "Reliability",
    "ReplicationError",
    "ReversibleJump",
    "StiefelWalk",
    "SurrogateHMC",
    "Taylor",
    "TemperatureDrop",
    "Trial",
    "Uniform",
    "UniformStiefel",
    "Weighted",
    "__version__",
    "acceptance_error",
    "amari_distance",
    "analyse_test",
    "compare",
    "data_usage",
    "debias",
    "debias_stream",
    "design_test",
    "empirical_bernstein",
    "empirical_bernstein_serfling",
    "evaluate_test",
    "hoeffding_serfling",
    "plot_comparison",
    "plot_data_usage",
    "plot_decisions",
    "plot_error",
    "plot_risk",
    "plot_spot_check",
    "reliability",
    "risk_over_time",
    "run_trial",
    "total_variation_bound",
]
