"""A regression sampled by a step of this package and by NUTS: ``python -m pymc_austerity.demo``."""

from pymc_austerity.demo.demo_data import rand_health_insurance, rows_from_file, synthetic
from pymc_austerity.demo.regression import regression

__all__ = ["rand_health_insurance", "regression", "rows_from_file", "synthetic"]
