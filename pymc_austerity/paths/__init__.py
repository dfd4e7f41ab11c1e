"""Unbiased expectations from partial posteriors: an annex beside the steps, which it neither uses nor serves.

Imports `likelihood` and `rows`, and of the top level `compat`, `progress` and `distributions`.
"""

from pymc_austerity.paths.debias import debias
from pymc_austerity.paths.inner_samplers import NutpieNUTS, PyMCNUTS
from pymc_austerity.paths.partial_posterior import PartialPosteriorPaths
from pymc_austerity.paths.replication import ReplicationError
from pymc_austerity.paths.stream import debias_stream
