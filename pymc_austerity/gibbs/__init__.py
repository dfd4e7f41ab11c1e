"""Approximate Gibbs sweeps in models of many factors.

May import `likelihood`, `rows` and `compile`.
"""

from pymc_austerity.gibbs.factor_table import check_incidence, incidence_of, looks_of
from pymc_austerity.gibbs.gibbs_sweep import Incidence, SweepOutcome, build_sweep

__all__ = [
    "Incidence",
    "SweepOutcome",
    "build_sweep",
    "check_incidence",
    "incidence_of",
    "looks_of",
]
