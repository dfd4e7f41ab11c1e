"""PyMC step methods whose acceptance test reads a few hundred rows of a large data set instead of all."""

from importlib.metadata import version

from pymc_austerity.acceptance import Exact
from pymc_austerity.barker import ExactBarker
from pymc_austerity.batching import NotRowWiseError
from pymc_austerity.proposals import AdaptiveMetropolis, RandomWalk
from pymc_austerity.steps import ApproxMH, ExactMH, MinibatchBarker, MinibatchMH
from pymc_austerity.temperature import Annealing, TemperatureDrop

__version__ = version("pymc-austerity")

__all__ = [
    "AdaptiveMetropolis",
    "Annealing",
    "ApproxMH",
    "Exact",
    "ExactBarker",
    "ExactMH",
    "MinibatchBarker",
    "MinibatchMH",
    "NotRowWiseError",
    "RandomWalk",
    "TemperatureDrop",
    "__version__",
]
