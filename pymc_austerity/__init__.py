"""PyMC step methods whose acceptance test reads a few hundred rows of a large data set instead of all."""

from importlib.metadata import version

from pymc_austerity.acceptance import Exact, ExactBarker
from pymc_austerity.acceptance.concentration import (
    empirical_bernstein,
    empirical_bernstein_serfling,
    hoeffding_serfling,
)
from pymc_austerity.acceptance.decision_error import acceptance_error, total_variation_bound
from pymc_austerity.acceptance.operating_characteristic import OperatingCharacteristic, analyse_test
from pymc_austerity.blocks import Blocks
from pymc_austerity.diagnostics import (
    Comparison,
    Design,
    Reliability,
    Trial,
    amari_distance,
    compare,
    data_usage,
    design_test,
    evaluate_test,
    plot_comparison,
    plot_data_usage,
    plot_decisions,
    plot_error,
    plot_risk,
    plot_spot_check,
    reliability,
    risk_over_time,
    run_trial,
)
from pymc_austerity.distributions import UniformStiefel
from pymc_austerity.groups import GroupsNotFoundError
from pymc_austerity.kernel import Annealing, TemperatureDrop
from pymc_austerity.likelihood import NotRowWiseError
from pymc_austerity.log import show_log
from pymc_austerity.paths import NutpieNUTS, PartialPosteriorPaths, PyMCNUTS, ReplicationError, debias, debias_stream
from pymc_austerity.prediction import log_likelihood, loo, posterior_predictive
from pymc_austerity.proposals import (
    AdaptiveMetropolis,
    CrankNicolson,
    Langevin,
    RandomWalk,
    ReversibleJump,
    StiefelWalk,
    SurrogateHMC,
)
from pymc_austerity.proxy import Taylor
from pymc_austerity.rows import Uniform, Weighted
from pymc_austerity.steps import (
    MHSS,
    SGLD,
    ApproxGibbs,
    ApproxMH,
    ExactMH,
    GroupMH,
    MHSubLhd,
    MinibatchBarker,
    MinibatchMH,
    PenaltyMH,
    Recommendation,
    RunningSummaries,
    citation,
    recommend,
    resume,
    step,
    stop_at,
)
from pymc_austerity.unsupported_model import UnsupportedModelError

__version__ = version("pymc-austerity")

show_log()

__all__ = [
    "MHSS",
    "SGLD",
    "AdaptiveMetropolis",
    "Annealing",
    "ApproxGibbs",
    "ApproxMH",
    "Blocks",
    "Comparison",
    "CrankNicolson",
    "Design",
    "Exact",
    "ExactBarker",
    "ExactMH",
    "GroupMH",
    "GroupsNotFoundError",
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
    "Recommendation",
    "Reliability",
    "ReplicationError",
    "ReversibleJump",
    "RunningSummaries",
    "StiefelWalk",
    "SurrogateHMC",
    "Taylor",
    "TemperatureDrop",
    "Trial",
    "Uniform",
    "UniformStiefel",
    "UnsupportedModelError",
    "Weighted",
    "__version__",
    "acceptance_error",
    "amari_distance",
    "analyse_test",
    "citation",
    "compare",
    "data_usage",
    "debias",
    "debias_stream",
    "design_test",
    "empirical_bernstein",
    "empirical_bernstein_serfling",
    "evaluate_test",
    "hoeffding_serfling",
    "log_likelihood",
    "loo",
    "plot_comparison",
    "plot_data_usage",
    "plot_decisions",
    "plot_error",
    "plot_risk",
    "plot_spot_check",
    "posterior_predictive",
    "recommend",
    "reliability",
    "resume",
    "risk_over_time",
    "run_trial",
    "step",
    "stop_at",
    "total_variation_bound",
]
