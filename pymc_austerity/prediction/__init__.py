"""After a run: leave-one-out cross-validation, log-likelihoods and predictions of chosen rows.

May import `steps`, `paths`, and what lies below them.
"""

from pymc_austerity.prediction.log_likelihood import log_likelihood
from pymc_austerity.prediction.loo import loo
from pymc_austerity.prediction.posterior_predictive import posterior_predictive
