"""Judges a `Decider` or a finished run.

May import `kernel` and what lies below it; never a step.
"""

from pymc_austerity.diagnostics.built_steps import not_remembered, remember
from pymc_austerity.diagnostics.comparison import compare
from pymc_austerity.diagnostics.comparison_table import Comparison
from pymc_austerity.diagnostics.convergence import effective_draws
from pymc_austerity.diagnostics.data_usage_table import data_usage
from pymc_austerity.diagnostics.design import Design, design_test, evaluate_test
from pymc_austerity.diagnostics.plots import plot_comparison, plot_data_usage
from pymc_austerity.diagnostics.plots_decisions import plot_decisions, plot_error, plot_spot_check
from pymc_austerity.diagnostics.reliability import reliability
from pymc_austerity.diagnostics.reliability_report import Reliability
from pymc_austerity.diagnostics.results import SamplingResult
from pymc_austerity.diagnostics.risk import amari_distance, plot_risk, risk_over_time
from pymc_austerity.diagnostics.trial import Trial, collect, run_trial
from pymc_austerity.diagnostics.watch import Watch
