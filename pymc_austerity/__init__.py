"""PyMC step methods whose acceptance test reads a few hundred rows of a large data set instead of all."""

from importlib.metadata import version

from pymc_austerity.batching import NotRowWiseError
from pymc_austerity.proposals import AdaptiveMetropolis, RandomWalk
from pymc_austerity.steps import ApproxMH, ExactMH

__version__ = version("pymc-austerity")

__all__ = ["AdaptiveMetropolis", "ApproxMH", "ExactMH", "NotRowWiseError", "RandomWalk", "__version__"]
