"""Approximate Gibbs sweeps in models of many factors."""

from pymc_austerity.gibbs.factor_table import check_incidence, incidence_of, looks_of
from pymc_austerity.gibbs.gibbs_sweep import Factors, Incidence, SweepOutcome, build_sweep
