"""A regression sampled by a step of this package and by NUTS: ``python -m pymc_austerity.demo``."""

from pymc_austerity.demo.regression import rand_health_insurance, regression, rows_from_file, synthetic
