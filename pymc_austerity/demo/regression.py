"""The regression that fits an outcome, and the step that is recommended for it."""

import numpy as np
import pandas as pd
import pymc as pm

from pymc_austerity.steps import MHSS, PenaltyMH

FAMILIES = {"yes/no": "logistic", "count": "negative binomial", "measurement": "linear"}
#: What `recommend` names for each family at 100,000 rows and more.
STEPS = {"yes/no": MHSS, "count": PenaltyMH, "measurement": MHSS}


def kind_of(y: np.ndarray) -> str:
    """Say whether an outcome is a yes/no, a count or a measurement."""
    if np.isin(y, (0, 1)).all():
        return "yes/no"
    return "count" if (y >= 0).all() and (y == np.round(y)).all() else "measurement"


def regression(X: pd.DataFrame, y: np.ndarray) -> pm.Model:
    """Return a regression of ``y`` on the standardised columns of ``X`` that vary.

    Logistic for 0/1, negative binomial for counts, linear with normal errors otherwise.
    """
    varying = X.loc[:, X.max() > X.min()]
    # Here and not in the model: a mean over rows inside the graph would tie every row to all others.
    Z = ((varying - varying.mean()) / varying.std()).to_numpy()
    kind = kind_of(y)
    with pm.Model(coords={"covariate": list(varying.columns)}) as model:
        intercept = pm.Normal("intercept", 0, 2.5)
        beta = pm.Normal("beta", 0, 1, dims="covariate")
        linear = intercept + Z @ beta
        if kind == "yes/no":
            pm.Bernoulli("y", logit_p=linear, observed=y)
        elif kind == "count":
            # Real counts vary more than a Poisson variable does; alpha takes that up.
            alpha = pm.Exponential("alpha", 1)
            pm.NegativeBinomial("y", mu=pm.math.exp(linear), alpha=alpha, observed=y)
        else:
            sigma = pm.HalfNormal("sigma", 1)
            pm.Normal("y", linear, sigma, observed=(y - y.mean()) / y.std())
    return model
